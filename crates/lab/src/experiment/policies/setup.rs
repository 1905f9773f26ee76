//! The set-up of `page-policies`, and the exact curves that decide its told splits.

use crate::trial::curves::{ClassCurves, Counts, ExactCurves};
use crate::trial::error::ExperimentError;
use crate::trial::run::{Run, preloaded};
use crate::trial::setup::{
    AnswerSetup, CacheSetup, EarlierSetup, Stretch, TimeSetup, WorkloadSetup, place_at, scaled,
};
use crate::vtime::MoverName;
use indicatif::ProgressBar;
use serde::Deserialize;
use slabwise_replay::workload::{Op, Request};
use std::collections::BTreeMap;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoliciesSetup {
    /// What is chosen where the paper leaves it open, by name.
    #[serde(default)]
    pub chosen: BTreeMap<String, String>,
    /// Who divides the pages, a row each.
    pub variants: Vec<Variant>,
    /// Memory limits in MiB, all variants under each; none for the cache's own.
    #[serde(default)]
    pub memory_mib: Vec<u64>,
    /// Whether the bound is told: the best of all splits by exact curves of the steady stretch.
    #[serde(default)]
    pub bound: bool,
    /// Pairs of variants: how much less the first misses, and takes, than the second.
    #[serde(default)]
    pub against: Vec<[String; 2]>,
    /// The variants that are ranked in each stretch.
    #[serde(default)]
    pub rank_among: Vec<String>,
    /// What is told of each variant.
    pub report: Vec<Report>,
    /// Stretches of equal length for which miss ratios are kept.
    pub windows: u64,
    pub steady: Stretch,
    #[serde(default)]
    pub stretches: Vec<Stretch>,
    /// How far a steady miss ratio may lie from the final one, in percentage points.
    #[serde(default)]
    pub steady_tolerance_points: f64,
    /// When told variants hear of a split; none for one split from the start, by the steady stretch.
    pub divide: Option<DivideSetup>,
    /// Of each part of the keys, how many are stored before the first request.
    #[serde(default)]
    pub preload: Vec<u64>,
    /// What the pages were handed out for before the first request; none for an empty cache.
    pub earlier: Option<EarlierSetup>,
    #[serde(default)]
    pub answer: AnswerSetup,
    /// What the mover is charged for a visit to a chunk, in nanoseconds: where pages go is compared here, and
    /// a fixed charge lets every run follow from its seed.
    pub visit_ns: f64,
    pub workload: WorkloadSetup,
    pub cache: CacheSetup,
    pub time: TimeSetup,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    pub name: String,
    /// The page policy's name; none where the lab tells the splits.
    pub policy: Option<String>,
    pub mover: MoverName,
    #[serde(default)]
    pub options: BTreeMap<String, String>,
    /// The same for counts of requests, at scale 1.
    #[serde(default)]
    pub scaled_options: BTreeMap<String, u64>,
    /// Gets of a half-life, at scale 1, of a profile of every key; none for a server's, of some.
    pub full_profile_gets: Option<u64>,
    /// Whether it begins with an empty cache, whatever the others do.
    #[serde(default)]
    pub from_empty: bool,
}

/// When splits are decided, in requests at scale 1.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DivideSetup {
    pub first: u64,
    /// From time to time behind that, to the end; 0 for once.
    #[serde(default)]
    pub every: u64,
    /// The requests before each time whose exact curves decide.
    pub training_requests: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Report {
    Hits,
    MissRatio,
    SteadySince,
    AnswerTime,
    Pages,
    Moves,
}

impl PoliciesSetup {
    /// The memory limits in MiB at scale 1, at least one.
    pub fn limits_mib(&self) -> Vec<u64> {
        if self.memory_mib.is_empty() {
            vec![self.cache.memory_mib]
        } else {
            self.memory_mib.clone()
        }
    }
}

/// Splits are decided before these requests, each by its curves.
#[derive(Clone, Debug)]
pub struct Decisions {
    pub at: Vec<u64>,
    /// The curves of every class, for each of them.
    pub curves: Vec<ClassCurves>,
}

impl Decisions {
    /// Passes once over the requests of `run`. All of its engines with pages of this size decide alike.
    pub fn of(
        setup: &PoliciesSetup,
        run: &Run<'_>,
        progress: &ProgressBar,
    ) -> Result<Decisions, ExperimentError> {
        let total = scaled(setup.workload.requests, run.scale);
        let stretches = counted(setup, run.scale, total);
        let config = run.engine_config();
        let mut exact = ExactCurves::new(&config);
        let mut requests = run.requests(&config)?;
        for key in preloaded(&setup.preload, run.scale) {
            let request =
                Request { key, value_len: requests.value_len(key), op: Op::Set, cost: None };
            exact.reference(&request, Counts::No);
        }
        let (mut at, mut curves) = (Vec::new(), Vec::new());
        progress.set_length(stretches.last().map_or(0, |&(_, to, _)| to));
        for (from, to, decided_at) in stretches {
            requests.show(&mut exact, (from, to), progress)?;
            at.push(decided_at);
            curves.push(ClassCurves::new(exact.take(), &config, &setup.answer));
        }
        progress.finish_and_clear();
        Ok(Decisions { at, curves })
    }
}

/// The stretches of requests that count, and the request before which each decides.
fn counted(setup: &PoliciesSetup, scale: f64, total: u64) -> Vec<(u64, u64, u64)> {
    let Some(divide) = &setup.divide else {
        let (from, to) = setup.steady.at(scale);
        return vec![(from, to.min(total), 0)];
    };
    let at_scale = |requests| place_at(requests, scale);
    let times = (0..).map(|round| divide.first + round * divide.every).map(at_scale);
    let times = times.take_while(|&at| at < total);
    let times = times.take(if divide.every == 0 { 1 } else { usize::MAX });
    times.map(|at| (at.saturating_sub(at_scale(divide.training_requests)), at, at)).collect()
}
