//! The set-up of experiments that compare page policies, and the exact curves from which their oracle allocations are
//! computed.

use crate::trial::curves::{ClassCurves, ExactCurves, Phase};
use crate::trial::error::ExperimentError;
use crate::trial::run::{Run, preloaded};
use crate::trial::setup::{
    CacheSetup, EarlierSetup, ResponseSetup, Stretch, TimeSetup, WorkloadSetup, eviction,
    request_at, scaled,
};
use crate::vtime::MoverName;
use indicatif::ProgressBar;
use serde::{Deserialize, Deserializer};
use slabwise_engine::EvictionKind;
use slabwise_replay::workload::{Op, Request};
use std::collections::BTreeMap;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoliciesSetup {
    /// Choices that the source leaves open: pairs of a name and a text for the reader of the results.
    #[serde(default)]
    pub chosen: BTreeMap<String, String>,
    pub variants: Vec<Variant>,
    /// Memory limits at scale 1. Every variant runs with each limit. If empty, the limit is that of `cache`.
    #[serde(default)]
    pub memory_mib: Vec<u64>,
    /// True if the bound is computed: the best partition by exact curves of the steady stretch.
    #[serde(default)]
    pub bound: bool,
    /// Pairs of variants. The first variant is compared with the second.
    #[serde(default)]
    pub against: Vec<[String; 2]>,
    /// The variants that are ranked by misses.
    #[serde(default)]
    pub rank_among: Vec<String>,
    /// The rows of each variant.
    pub report: Vec<Report>,
    /// Number of equal parts of a run, each of which has a point in the curves.
    pub windows: u64,
    /// The part of a run whose misses count as steady.
    pub steady: Stretch,
    /// If given, every variant runs with each value of each of these parameters, and the rows compare the steady miss
    /// ratios of `against`. The other rows are left out.
    #[serde(default)]
    pub sweeps: Vec<Sweep>,
    /// Parts of a run that have rows of their own.
    #[serde(default)]
    pub stretches: Vec<Stretch>,
    /// Largest difference between the miss ratio of a steady window and the final miss ratio, in percentage points.
    #[serde(default)]
    pub steady_tolerance_points: f64,
    /// The times at which oracle allocations are computed. If `None`, they are computed once, at the start, from the
    /// requests of the steady stretch.
    pub divide: Option<DivideSetup>,
    /// One element per part of the workload's keys: the number of keys that are stored before the first request.
    #[serde(default)]
    pub preload: Vec<u64>,
    /// Names of the classes, in the order of their chunk sizes, for the rows with their working-set sizes. Empty: no such
    /// rows.
    #[serde(default)]
    pub class_names: Vec<String>,
    /// If given, keys that are never requested fill the memory before the first request.
    pub earlier: Option<EarlierSetup>,
    #[serde(default)]
    pub response: ResponseSetup,
    /// Other response times of a hit, in microseconds, for which the reduction of the response time is also computed,
    /// from the misses of the same runs.
    #[serde(default)]
    pub other_hit_us: Vec<f64>,
    /// Virtual time of a visit of the mover to a chunk, for experiments whose results hardly depend on it. `None`: the
    /// time is measured before the runs, or given by `--visit-ns`.
    pub visit_ns: Option<f64>,
    pub workload: WorkloadSetup,
    pub cache: CacheSetup,
    pub time: TimeSetup,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    pub name: String,
    /// Name of the page policy. `None` means an oracle allocation.
    pub policy: Option<String>,
    pub mover: MoverName,
    /// Eviction kind; `None` means that of the cache.
    #[serde(default, deserialize_with = "some_eviction")]
    pub eviction: Option<EvictionKind>,
    /// Options of the page policy.
    #[serde(default)]
    pub options: BTreeMap<String, String>,
    /// Options of the page policy that are counts. A run multiplies them by its scale.
    #[serde(default)]
    pub scaled_options: BTreeMap<String, u64>,
    /// If given, the tuner profiles every key, with this half-life in gets at scale 1. If `None`, the tuner samples
    /// keys as in a server.
    pub full_profile_gets: Option<u64>,
    /// True if no move budget limits the tuner, as in the published systems.
    #[serde(default)]
    pub has_no_move_budget: bool,
    /// True if the variant starts with an empty cache, without `preload` and `earlier`.
    #[serde(default)]
    pub from_empty: bool,
}

/// Parses the name of an eviction kind that replaces that of the cache.
fn some_eviction<'de, D: Deserializer<'de>>(name: D) -> Result<Option<EvictionKind>, D::Error> {
    eviction(name).map(Some)
}

/// A parameter with several values. The other parameters have the values of the file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sweep {
    pub parameter: Parameter,
    pub values: Vec<f64>,
}

/// A parameter of the requests or of the contents of the cache at the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Parameter {
    /// The exponent of the popularity: `skew` of the workload.
    Exponent,
    /// The length of the earlier values: `value_factor` of `earlier`.
    EarlierLength,
    /// The number of the earlier values: `memory_share` of `earlier`.
    EarlierShare,
}

impl Parameter {
    /// Returns the name for rows and figures.
    pub fn name(self) -> &'static str {
        match self {
            Parameter::Exponent => "exponent",
            Parameter::EarlierLength => "length of earlier values",
            Parameter::EarlierShare => "share of earlier values",
        }
    }

    /// Returns true if the parameter changes the result of a variant.
    pub fn concerns(self, variant: &Variant) -> bool {
        self == Parameter::Exponent || !variant.from_empty
    }
}

/// The times at which oracle allocations are computed, in requests at scale 1.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DivideSetup {
    /// Number of requests before the first computation.
    pub first: u64,
    /// Number of requests between two computations. 0 means that there is only one.
    #[serde(default)]
    pub every: u64,
    /// Number of requests, directly before each computation, from which the exact curves are computed.
    pub training_requests: u64,
}

/// A group of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Report {
    /// The number of hits.
    Hits,
    /// The miss ratios of the whole run and of the steady stretch.
    MissRatio,
    /// The request from which the miss ratio is steady.
    SteadySince,
    /// The mean response times of the whole run and of the steady stretch.
    ResponseTime,
    /// The numbers of pages that moved in the whole run and in the steady stretch.
    Pages,
    /// The time to the target partition, the requests per page move, and the counters of the mover.
    Moves,
}

impl PoliciesSetup {
    /// Returns the memory limits in MiB at scale 1.
    pub fn limits_mib(&self) -> Vec<u64> {
        if self.memory_mib.is_empty() {
            vec![self.cache.memory_mib]
        } else {
            self.memory_mib.clone()
        }
    }

    /// Returns the set-up with another value of a parameter, without the variants that the parameter does not concern.
    pub fn with(&self, parameter: Parameter, value: f64) -> PoliciesSetup {
        let mut setup = self.clone();
        match (parameter, &mut setup.earlier) {
            (Parameter::Exponent, _) => setup.workload.skew = Some(value),
            (Parameter::EarlierLength, Some(earlier)) => earlier.value_factor = value,
            (Parameter::EarlierShare, Some(earlier)) => earlier.memory_share = value,
            (Parameter::EarlierLength | Parameter::EarlierShare, None) => {
                panic!("a sweep of earlier values needs the table `earlier`")
            }
        }
        setup.variants.retain(|variant| parameter.concerns(variant));
        let names: Vec<String> = setup.variants.iter().map(|it| it.name.clone()).collect();
        setup.against.retain(|pair| pair.iter().all(|name| names.contains(name)));
        setup
    }
}

/// The exact curves from which oracle allocations are computed. Both vectors have one element per computation.
#[derive(Clone, Debug)]
pub struct OracleCurves {
    /// Number of the request before which the allocation is computed.
    pub at: Vec<u64>,
    /// The curves of all classes.
    pub curves: Vec<ClassCurves>,
}

impl OracleCurves {
    /// Computes the curves in one pass over the requests of `run`. The curves are valid for all runs with the same page
    /// size.
    pub fn of(
        setup: &PoliciesSetup,
        run: &Run<'_>,
        progress: &ProgressBar,
    ) -> Result<OracleCurves, ExperimentError> {
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
            curves.push(ClassCurves::new(exact.take(), &config, &setup.response));
        }
        progress.finish_and_clear();
        Ok(OracleCurves { at, curves })
    }
}

/// Returns the parts of the run whose exact curves are computed. Each element has the first request of the part, the
/// first request after the part, and the request before which an oracle allocation is computed from the part.
fn measured_stretches(setup: &PoliciesSetup, scale: f64, total: u64) -> Vec<(u64, u64, u64)> {
    let Some(divide) = &setup.divide else {
        let (from, to) = setup.steady.at(scale);
        return vec![(from, to.min(total), 0)];
    };
    let at_scale = |requests| request_at(requests, scale);
    let times = (0..).map(|round| divide.first + round * divide.every).map(at_scale);
    let times = times.take_while(|&at| at < total);
    let times = times.take(if divide.every == 0 { 1 } else { usize::MAX });
    times.map(|at| (at.saturating_sub(at_scale(divide.training_requests)), at, at)).collect()
}
