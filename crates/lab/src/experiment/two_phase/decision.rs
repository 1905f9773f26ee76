//! The set-up of `two-phase`, and the best partition by exact curves of phase 2.

use crate::experiment::kind::Job;
use crate::trial::curves::{Partition, of_second_half};
use crate::trial::error::ExperimentError;
use crate::trial::setup::{CacheSetup, TimeSetup, WorkloadSetup, scaled};
use crate::vtime::MoverName;
use serde::Deserialize;
use slabwise_profile::Mrc;
use std::collections::BTreeMap;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TwoPhaseSetup {
    /// Choices where the publication gives no value: name and reason.
    pub chosen: BTreeMap<String, String>,
    /// The movers. There is one run per mover, with an oracle allocation.
    pub movers: Vec<MoverName>,
    pub lama: LamaSetup,
    /// Number of equal parts of a run, each of which has a point in the curves.
    pub windows: u64,
    /// Largest difference between the miss ratio of a steady window and the final miss ratio, in percentage points.
    pub steady_tolerance_points: f64,
    /// Number of requests of phase 2 from which the exact curves are computed. The first half warms up the stacks.
    pub profile_requests: u64,
    pub workload: WorkloadSetup,
    pub cache: CacheSetup,
    pub time: TimeSetup,
    pub live: LiveSetup,
}

/// The runs in which the page policy `lama` decides while clients are served.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LamaSetup {
    /// The movers. There is one run per mover.
    pub movers: Vec<MoverName>,
    /// Number of gets, at scale 1, between two decisions. Footprints cover the last one to two times as many gets.
    pub period_gets: u64,
}

/// The set-up of a run on real servers (`--live`).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LiveSetup {
    /// The scale of a run without `--scale`.
    pub scale: f64,
    /// Number of requests, at scale 1, between two readings of the allocation, which is the memory of each class.
    pub poll_requests: u64,
    /// The allocation is in place if it differs from its final state by at most this percentage of the memory.
    pub settled_percent: f64,
    /// Rate of the requests to each server. The set after a miss is part of the request that missed.
    pub requests_per_second: f64,
    /// Number of client threads for each server. Each sends an equal part of the requests.
    pub client_threads: u32,
    /// Number of connections of each client thread.
    pub connections: usize,
    /// Number of requests that are pipelined on each connection.
    pub batch: usize,
    pub servers: Vec<ServerSetup>,
}

/// A real server.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerSetup {
    /// Name of the server in rows.
    pub name: String,
    /// The program and its flags. The program `slabwise` is the program that runs the lab.
    pub command: Vec<String>,
    /// Options `NAME=N` in which N is a number of gets. A run multiplies N by its scale, and appends them to the last
    /// argument of the command, with a colon before each.
    #[serde(default)]
    scaled_options: BTreeMap<String, u64>,
    /// True if the lab switches off the page policy of the server and moves the pages itself.
    #[serde(default)]
    pub oracle_allocation: bool,
}

impl ServerSetup {
    /// Returns the command at this scale.
    pub fn command_at(&self, scale: f64) -> Vec<String> {
        let mut command = self.command.clone();
        if let Some(last) = command.last_mut() {
            for (name, &count) in &self.scaled_options {
                last.push_str(&format!(":{name}={}", scaled(count, scale)));
            }
        }
        command
    }
}

/// The exact curves of phase 2, which determine the target partition.
pub struct Decision {
    /// One curve per class.
    curves: Vec<Mrc>,
    /// Number of chunks on a page of each class.
    chunks_per_page: [u64; 2],
    /// Number of requests of phase 2 that were read. The second half was measured.
    pub profiled: u64,
}

/// Returns the fraction of the pages that the second class owns in the best partition.
pub fn second_share(setup: &TwoPhaseSetup, job: &Job<'_>) -> Result<f64, ExperimentError> {
    /// The best partition is computed for this number of imaginary pages. They are smaller than the pages of every
    /// server, so the fraction is precise enough for all page sizes.
    const PAGES: u64 = 10_000;
    let mut decision = decide(setup, job)?;
    let memory_bytes = scaled(setup.cache.memory_mib, job.scale) << 20;
    let page_bytes = memory_bytes as f64 / PAGES as f64;
    let chunks = |size: &u32| (page_bytes / f64::from(*size)).round() as u64;
    let config = setup.cache.engine_config(job.scale, job.seed);
    let chunks: Vec<u64> = config.classes.sizes().iter().map(chunks).collect();
    decision.chunks_per_page = [chunks[0], chunks[1]];
    Ok(decision.partition(PAGES).pages[1] as f64 / PAGES as f64)
}

/// Computes the exact curves of phase 2.
pub fn decide(setup: &TwoPhaseSetup, job: &Job<'_>) -> Result<Decision, ExperimentError> {
    let (scale, seed) = job.size();
    let spinner = job.progress.spinner("exact stack distances of phase 2");
    let config = setup.cache.engine_config(scale, seed);
    let first_phase = scaled(setup.workload.first_phase_requests, scale);
    let second_phase = scaled(setup.workload.requests, scale) - first_phase;
    let profiled = scaled(setup.profile_requests, scale).min(second_phase);
    let mut workload = setup.workload.open(scale, seed)?.skip(first_phase as usize);
    let requests = (0..profiled as usize).map(|_| {
        let request = workload.next();
        Ok(request.expect("the workload has as many requests as the set-up says")?)
    });
    let curves = of_second_half(requests, &config)?;
    let sizes = config.classes.sizes().iter();
    let chunks: Vec<u64> =
        sizes.map(|&size| config.page_size_bytes as u64 / u64::from(size)).collect();
    spinner.finish_and_clear();
    Ok(Decision { curves, chunks_per_page: [chunks[0], chunks[1]], profiled })
}

impl Decision {
    /// Returns the best partition of `pages` pages.
    pub fn partition(&self, pages: u64) -> Partition {
        Partition::best_of_two([&self.curves[0], &self.curves[1]], self.chunks_per_page, pages)
    }

    /// Returns the miss ratio that the curves predict for a partition.
    pub fn miss_ratio(&self, partition: &Partition) -> f64 {
        let classes = self.curves.iter().zip(&partition.pages).zip(self.chunks_per_page);
        let misses: f64 =
            classes.map(|((curve, pages), chunks)| curve.misses(pages * chunks)).sum();
        misses / self.curves.iter().map(Mrc::references).sum::<f64>()
    }
}
