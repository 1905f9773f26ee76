//! What was observed of one server: plain data, from which the gains are computed.

use crate::chunk_sizes::cache::Program;
use crate::chunk_sizes::server::ServerState;
use crate::estimate::Estimate;
use slabwise_base::size_histogram::SizeHistogram;
use slabwise_observer::counters::ClassCounters;
use slabwise_observer::traffic::{ClassCurve, Cost, Recording};

/// The observation of a server.
#[derive(Clone, Debug)]
pub struct Observation {
    /// The address of the server.
    pub server: String,
    /// The settings, the class table and the limits for chunk sizes.
    pub state: ServerState,
    /// The memory limit (`-m`) in bytes.
    pub memory_limit_bytes: u64,
    /// The time between the first and the last reading of the counters, in seconds.
    pub seconds: f64,
    /// The gets in this time.
    pub gets: u64,
    /// The gets in this time that missed.
    pub misses: u64,
    /// True if the server creates no further pages.
    pub is_memory_full: bool,
    /// The classes that own pages, at the end.
    pub classes: Vec<ClassSeen>,
    /// The miss-ratio curves of the classes.
    pub curves: Vec<ClassCurve>,
    /// The curves without each group of keys.
    pub curves_without: Vec<Vec<ClassCurve>>,
    /// The miss ratios that a slabwise itself predicts (`stats profile`). If there are any, the server was not watched, and
    /// there are no curves.
    pub what_if: Vec<WhatIf>,
    /// The misses of keys that no store followed, as a share of all misses.
    pub unknown_miss_share: f64,
    /// The sizes of the items of the keys that were seen.
    pub item_sizes: SizeHistogram,
    /// The accesses to a sample of the keys.
    pub recording: Recording,
    /// What watching cost the server.
    pub cost: Cost,
    /// What the command could not see on this server, as sentences.
    pub notes: Vec<String>,
}

/// A miss ratio that a slabwise predicts for another memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WhatIf {
    /// The memory in percent of the present memory.
    pub memory_percent: u64,
    /// The predicted miss ratio, with the band of the server.
    pub miss_ratio: Estimate,
}

/// A class that owns pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassSeen {
    /// The counters at the end.
    pub counters: ClassCounters,
    /// The items that the class evicted during the observation.
    pub evicted: u64,
}

impl Observation {
    /// Returns true if the server is a slabwise.
    pub fn is_slabwise(&self) -> bool {
        self.state.cache.program == Program::Slabwise
    }

    /// Returns the misses as a share of the gets.
    pub fn miss_ratio(&self) -> f64 {
        (self.misses as f64 / (self.gets as f64).max(1.0)).min(1.0)
    }
}
