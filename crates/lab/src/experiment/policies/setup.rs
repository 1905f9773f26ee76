//! The set-up of `page-policies`, and the exact curves that decide its oracle allocations.

use crate::trial::curves::{ClassCurves, ExactCurves, Phase};
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
    /// Choices that the paper leaves open, by name.
    #[serde(default)]
    pub chosen: BTreeMap<String, String>,
    pub variants: Vec<Variant>,
    /// Memory limits in MiB, each for all variants; none for the cache's own.
    #[serde(default)]
    pub memory_mib: Vec<u64>,
    /// True to compute the bound: the best partition by exact curves of the steady stretch.
    #[serde(default)]
    pub bound: bool,
    #[serde(default)]
    pub against: Vec<[String; 2]>,
    #[serde(default)]
    pub rank_among: Vec<String>,
    pub report: Vec<Report>,
    /// The number of equal parts of the run whose miss ratios are recorded.
    pub windows: u64,
    pub steady: Stretch,
    #[serde(default)]
    pub stretches: Vec<Stretch>,
    /// The largest difference between a steady miss ratio and the final one, in percentage points.
    #[serde(default)]
    pub steady_tolerance_points: f64,
    /// When oracle allocations are decided; none for one decision at the start, by the steady stretch.
    pub divide: Option<DivideSetup>,
    /// The number of keys that are stored before the first request, for each part of the keys.
    #[serde(default)]
    pub preload: Vec<u64>,
    /// The other keys that fill the memory before the first request.
    pub earlier: Option<EarlierSetup>,
    #[serde(default)]
    pub answer: AnswerSetup,
    /// The cost of the mover's visit to a chunk in nanoseconds. It is fixed, so that a run is determined by its seed.
    pub visit_ns: f64,
    pub workload: WorkloadSetup,
    pub cache: CacheSetup,
    pub time: TimeSetup,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    pub name: String,
    /// The name of the page policy; none for an oracle allocation.
    pub policy: Option<String>,
    pub mover: MoverName,
    #[serde(default)]
    pub options: BTreeMap<String, String>,
    /// Options that are numbers of requests at scale 1.
    #[serde(default)]
    pub scaled_options: BTreeMap<String, u64>,
    /// The half-life in gets, at scale 1, of a profile of every key; none for a sample, as in a server.
    pub full_profile_gets: Option<u64>,
    /// True to start with an empty cache, without `preload` and `earlier`.
    #[serde(default)]
    pub from_empty: bool,
}

/// When oracle allocations are decided, in requests at scale 1.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DivideSetup {
    pub first: u64,
    /// The number of requests between decisions; 0 for one decision.
    #[serde(default)]
    pub every: u64,
    /// The number of requests before each decision whose exact curves decide.
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
    pub fn limits_mib(&self) -> Vec<u64> {
        if self.memory_mib.is_empty() {
            vec![self.cache.memory_mib]
        } else {
            self.memory_mib.clone()
        }
    }
}

#[derive(Clone, Debug)]
pub struct Decisions {
    /// The requests before which partitions are decided.
    pub at: Vec<u64>,
    pub curves: Vec<ClassCurves>,
}

impl Decisions {
    /// Computes the decisions in one pass over the requests of `run`. They hold for all engines with this page size.
    pub fn of(
        setup: &PoliciesSetup,
        run: &Run<'_>,
        progress: &ProgressBar,
    ) -> Result<Decisions, ExperimentError> {
        let total = scaled(setup.workload.requests, run.scale);
        let stretches = measured_stretches(setup, run.scale, total);
        let config = run.engine_config();
        let mut exact = ExactCurves::new(&config);
        let mut requests = run.requests(&config)?;
        for key in preloaded(&setup.preload, run.scale) {
            let request =
                Request { key, value_len: requests.value_len(key), op: Op::Set, cost: None };
            exact.reference(&request, Phase::WarmUp);
        }
        let (mut at, mut curves) = (Vec::new(), Vec::new());
        progress.set_length(stretches.last().map_or(0, |&(_, to, _)| to));
        for (from, to, decided_at) in stretches {
            requests.add_to(&mut exact, (from, to), progress)?;
            at.push(decided_at);
            curves.push(ClassCurves::new(exact.take(), &config, &setup.answer));
        }
        progress.finish_and_clear();
        Ok(Decisions { at, curves })
    }
}

/// Returns the limits of each measured stretch of requests, and the request before which it decides.
fn measured_stretches(setup: &PoliciesSetup, scale: f64, total: u64) -> Vec<(u64, u64, u64)> {
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
