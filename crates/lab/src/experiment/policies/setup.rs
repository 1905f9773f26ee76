//! The kind `page-policies`, as its files tell it.

use crate::trial::setup::{
    AnswerSetup, CacheSetup, EarlierSetup, Stretch, TimeSetup, WorkloadSetup,
};
use crate::vtime::MoverName;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Page policies on one workload, every one of them from the same start.
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
