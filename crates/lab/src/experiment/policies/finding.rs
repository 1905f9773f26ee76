//! What came of all trials.

use super::setup::{PoliciesSetup, Variant};
use crate::trial::class_curves::Bound;
use crate::trial::course::Course;
use std::collections::BTreeMap;

pub struct Finding<'s> {
    pub variant: &'s Variant,
    pub memory_mib: u64,
    pub course: Result<Course, String>,
}

/// What the bound's rows are called.
pub const BOUND: &str = "bound";

pub struct Findings<'s> {
    pub setup: &'s PoliciesSetup,
    pub scale: f64,
    /// By variant and memory limit.
    pub trials: Vec<Finding<'s>>,
    /// By memory limit in MiB.
    pub bounds: BTreeMap<u64, Bound>,
}

impl Findings<'_> {
    pub fn trial(&self, variant: &str, limit_mib: u64) -> Option<&Finding<'_>> {
        let is_it =
            |found: &&Finding<'_>| found.variant.name == variant && found.memory_mib == limit_mib;
        self.trials.iter().find(is_it)
    }

    pub fn course_of(&self, variant: &str, limit_mib: u64) -> Result<&Course, String> {
        let found = self.trial(variant, limit_mib);
        let found = found.ok_or_else(|| format!("no variant is called {variant}"))?;
        found.course.as_ref().map_err(String::clone)
    }

    /// What a variant comes to in the steady stretch under one memory limit: the miss ratio and the time of an
    /// answer.
    fn steady_of(&self, variant: &str, limit_mib: u64) -> Result<[f64; 2], String> {
        if variant == BOUND {
            let bound = self.bounds.get(&limit_mib);
            let bound = bound.ok_or_else(|| "the bound was not asked for".to_owned())?;
            return Ok([bound.miss_ratio, bound.answer_us]);
        }
        let course = self.course_of(variant, limit_mib)?;
        let (from, to) = self.setup.steady.at(self.scale);
        Ok([course.miss_ratio_between(from, to), course.answer_us_between(from, to)])
    }

    /// How much less a variant misses (place 0) or takes (place 1) than another in the steady stretch, in
    /// percent, under every memory limit.
    pub fn less(&self, [variant, other]: [&str; 2], place: usize) -> Result<Vec<f64>, String> {
        let less = self.setup.limits_mib().into_iter().map(|limit| {
            let ours = self.steady_of(variant, limit)?[place];
            match self.steady_of(other, limit)?[place] {
                others if others > 0.0 => Ok((1.0 - ours / others) * 100.0),
                _ => Err(format!("{other} has none")),
            }
        });
        less.collect()
    }
}
