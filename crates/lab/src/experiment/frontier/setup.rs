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
    pub operations_per_second: f64,
    pub visit_ns: f64,
    /// Engines set up as servers; the first is memcached, and what the gap is measured from.
    pub servers: Vec<ServerSetup>,
    pub streams: Vec<StreamSetup>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerSetup {
    pub name: String,
    #[serde(default)]
    pub is_memcached: bool,
    pub policy: String,
    #[serde(deserialize_with = "eviction")]
    pub eviction: EvictionKind,
    pub mover: MoverName,
    #[serde(default)]
    pub scale_min: f64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamSetup {
    pub name: String,
    pub workload: WorkloadSetup,
}

impl StreamSetup {
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
