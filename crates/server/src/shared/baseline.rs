//! What `stats reset` does: no counter ever falls; a reset keeps what they have come to, and statistics show what was
//! counted since.

use super::counters::{ConnectionCounts, TrafficCounts};
use super::watch::WatchCounts;
use crate::tls::TlsCounts;
use slabwise_engine::{ClassStats, EngineStats};
use slabwise_profile::MissClockCounts;

/// What all counters had come to at a moment; at the start, nothing.
#[derive(Debug, Default)]
pub struct Baseline {
    /// The cache.
    pub engine: EngineStats,
    /// Its classes.
    pub classes: Vec<ClassStats>,
    /// Connections, commands and background work.
    pub connections: ConnectionCounts,
    /// Traffic of all workers.
    pub traffic: TrafficCounts,
    /// The log for watchers.
    pub watch: WatchCounts,
    /// Connections with TLS.
    pub tls: TlsCounts,
    /// Misses whose costs are measured.
    pub timed_misses: MissClockCounts,
}

impl Baseline {
    /// What a class counted since.
    pub fn since(&self, class: &ClassStats) -> ClassStats {
        let earlier = self.classes.iter().find(|earlier| earlier.class == class.class);
        earlier.map_or_else(|| class.clone(), |earlier| class.since(earlier))
    }
}
