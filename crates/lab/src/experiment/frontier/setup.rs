//! What `frontier` sets up.

use crate::trial::served::VALUE_LEN_MAX;
use crate::trial::setup::{WorkloadSetup, eviction};
use crate::vtime::MoverName;
use serde::Deserialize;
use slabwise_engine::EvictionKind;
use slabwise_replay::workload::{Workload, WorkloadError};

/// The experiment `frontier`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FrontierSetup {
    /// Memory limits, in percent of what all keys would take together.
    pub memory_percent: Vec<f64>,
    /// Bytes of an item beside key and value, in simulations.
    pub item_overhead_bytes: u32,
    /// The simulations, by name.
    pub simulations: Vec<String>,
    /// Gets and sets a second.
    pub operations_per_second: f64,
    /// What the mover is charged for a visit.
    pub visit_ns: f64,
    /// Engines set up as servers; the first is memcached, and what the gap is measured from.
    pub servers: Vec<ServerSetup>,
    /// The workloads.
    pub streams: Vec<StreamSetup>,
}

/// An engine as a server sets it up.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerSetup {
    /// What its rows are called.
    pub name: String,
    /// Whether it is set up as memcached is.
    #[serde(default)]
    pub is_memcached: bool,
    /// Who divides the pages.
    pub policy: String,
    /// Whom it evicts.
    #[serde(deserialize_with = "eviction")]
    pub eviction: EvictionKind,
    /// Who moves them.
    pub mover: MoverName,
    /// Below this scale it is left out.
    #[serde(default)]
    pub scale_min: f64,
}

/// A workload.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamSetup {
    /// What its rows are called.
    pub name: String,
    /// The requests.
    pub workload: WorkloadSetup,
}

impl StreamSetup {
    /// Its requests, as a server takes them.
    pub fn open(&self, scale: f64, seed: u64) -> Result<Workload, WorkloadError> {
        Ok(self.workload.open(scale, seed)?.with_value_len_max(VALUE_LEN_MAX))
    }
}

impl FrontierSetup {
    /// All that has a curve: servers first.
    pub fn names(&self) -> Vec<&str> {
        let servers = self.servers.iter().map(|server| server.name.as_str());
        servers.chain(self.simulations.iter().map(String::as_str)).collect()
    }
}
