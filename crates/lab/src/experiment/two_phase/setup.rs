//! What `two-phase` sets up.

use crate::trial::setup::{CacheSetup, TimeSetup, WorkloadSetup};
use crate::vtime::MoverName;
use serde::Deserialize;

/// The experiment `two-phase`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TwoPhaseSetup {
    pub movers: Vec<MoverName>,
    /// Stretches of equal length for which miss ratios are kept.
    pub windows: u64,
    /// How far a steady miss ratio may lie from the final one, in percentage points.
    pub steady_tolerance_points: f64,
    /// Requests of the second phase whose exact stack distances decide the split.
    pub profile_requests: u64,
    pub workload: WorkloadSetup,
    pub cache: CacheSetup,
    pub time: TimeSetup,
    pub live: LiveSetup,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LiveSetup {
    /// The scale where none is asked for.
    pub scale: f64,
    /// Requests, at scale 1, between two looks at the allocation.
    pub poll_requests: u64,
    /// The allocation is in place when it stays so near to its last state, in percent of the memory.
    pub settled_percent: f64,
    /// Requests a second; a miss's set is part of its request.
    pub requests_per_second: f64,
    pub connections: usize,
    pub batch: usize,
    pub servers: Vec<ServerSetup>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerSetup {
    pub name: String,
    /// The program and its flags; `slabwise` is the program that runs.
    pub command: Vec<String>,
    /// Whether its own policy is off and the lab tells it how to divide its pages, at the change of phase.
    #[serde(default)]
    pub told: bool,
}
