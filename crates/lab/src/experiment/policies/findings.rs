//! The results of all trials, and the reduction of misses and response times of a variant compared with another.

use super::setup::{PoliciesSetup, Variant};
use crate::trial::curves::Bound;
use crate::trial::run_record::RunRecord;
use std::collections::BTreeMap;

/// The result of a trial.
pub struct Finding<'s> {
    pub variant: &'s Variant,
    /// Memory limit at scale 1.
    pub memory_mib: u64,
    /// The record of the run, or the reason why the variant could not be run.
    pub record: Result<RunRecord, String>,
}

/// Name of the theoretical upper bound in rows and comparisons.
pub const BOUND: &str = "bound";

/// The results of all trials.
pub struct Findings<'s> {
    pub setup: &'s PoliciesSetup,
    pub scale: f64,
    pub trials: Vec<Finding<'s>>,
    /// The bound for each memory limit in MiB. Empty if the set-up requests no bound.
    pub bounds: BTreeMap<u64, Bound>,
    /// The working-set size of each class, in items, by the exact curves of the first decision. Empty without curves.
    pub working_sets: Vec<u64>,
}

/// The results of a variant or of the bound in the steady stretch, with one memory limit.
#[derive(Clone, Copy, Debug)]
pub struct SteadyValues {
    pub miss_ratio: f64,
    /// Mean response time.
    pub response_us: f64,
}

impl SteadyValues {
    /// Returns the mean response time if each hit takes `added_us` longer.
    pub fn response_us_with(self, added_us: f64) -> f64 {
        self.response_us + (1.0 - self.miss_ratio) * added_us
    }
}

impl Findings<'_> {
    pub fn trial(&self, variant: &str, limit_mib: u64) -> Option<&Finding<'_>> {
        let is_match =
            |found: &&Finding<'_>| found.variant.name == variant && found.memory_mib == limit_mib;
        self.trials.iter().find(is_match)
    }

    pub fn record_of(&self, variant: &str, limit_mib: u64) -> Result<&RunRecord, String> {
        let found = self.trial(variant, limit_mib);
        let found = found.ok_or_else(|| format!("unknown variant {variant}"))?;
        found.record.as_ref().map_err(String::clone)
    }

    /// Returns the results of a variant or of the bound with one memory limit.
    pub fn steady_of(&self, variant: &str, limit_mib: u64) -> Result<SteadyValues, String> {
        if variant == BOUND {
            let bound = self.bounds.get(&limit_mib);
            let bound = bound.ok_or_else(|| "the bound was not computed".to_owned())?;
            let &Bound { miss_ratio, response_us } = bound;
            return Ok(SteadyValues { miss_ratio, response_us });
        }
        let record = self.record_of(variant, limit_mib)?;
        let (from, to) = self.setup.steady.at(self.scale);
        let miss_ratio = record.miss_ratio_between(from, to);
        Ok(SteadyValues { miss_ratio, response_us: record.response_us_between(from, to) })
    }

    /// Compares `value` of two variants. Returns by how many percent the first is below the second, for each memory
    /// limit.
    pub fn reduction(
        &self,
        [variant, other]: [&str; 2],
        value: impl Fn(SteadyValues) -> f64,
    ) -> Result<Vec<f64>, String> {
        let reductions = self.setup.limits_mib().into_iter().map(|limit| {
            let of_variant = value(self.steady_of(variant, limit)?);
            match value(self.steady_of(other, limit)?) {
                of_other if of_other > 0.0 => Ok((1.0 - of_variant / of_other) * 100.0),
                _ => Err(format!("{other} has no misses")),
            }
        });
        reductions.collect()
    }

    /// Returns the reduction of the misses.
    pub fn fewer_misses(&self, pair: [&str; 2]) -> Result<Vec<f64>, String> {
        self.reduction(pair, |steady| steady.miss_ratio)
    }
}
