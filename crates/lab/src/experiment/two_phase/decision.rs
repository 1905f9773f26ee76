//! The set-up of `two-phase`, and the best partition by exact curves of the second phase.

use crate::experiment::kind::Job;
use crate::trial::curves::{Partition, of_second_half};
use crate::trial::error::ExperimentError;
use crate::trial::setup::{CacheSetup, TimeSetup, WorkloadSetup, scaled};
use crate::vtime::MoverName;
use serde::Deserialize;
use slabwise_profile::Mrc;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TwoPhaseSetup {
    pub movers: Vec<MoverName>,
    /// The number of equal parts of the run whose miss ratios are recorded.
    pub windows: u64,
    /// The largest difference between a steady miss ratio and the final one, in percentage points.
    pub steady_tolerance_points: f64,
    /// Requests of the second phase whose exact stack distances decide the partition.
    pub profile_requests: u64,
    pub workload: WorkloadSetup,
    pub cache: CacheSetup,
    pub time: TimeSetup,
    pub live: LiveSetup,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LiveSetup {
    pub scale: f64,
    /// Requests, at scale 1, between two readings of the allocation.
    pub poll_requests: u64,
    /// The allocation is in place if it differs from its final state by at most this percentage of the memory.
    pub settled_percent: f64,
    /// Requests per second; the set after a miss is part of its request.
    pub requests_per_second: f64,
    pub connections: usize,
    pub batch: usize,
    pub servers: Vec<ServerSetup>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerSetup {
    pub name: String,
    /// The program and its flags; `slabwise` is the running program.
    pub command: Vec<String>,
    /// True for an oracle allocation: the lab turns the policy of the server off and moves its pages.
    #[serde(default)]
    pub oracle_allocation: bool,
}

pub struct Decision {
    curves: Vec<Mrc>,
    chunks_per_page: [u64; 2],
    pub profiled: u64,
}

/// The fraction of the pages that the second class has in the best partition.
pub fn second_share(setup: &TwoPhaseSetup, job: &Job<'_>) -> Result<f64, ExperimentError> {
    /// Finer than any server's pages.
    const PAGES: u64 = 10_000;
    let mut decision = decide(setup, job)?;
    let memory_bytes = scaled(setup.cache.memory_mib, job.scale) << 20;
    // The page size of the engine does not matter here.
    let page_bytes = memory_bytes as f64 / PAGES as f64;
    let chunks = |size: &u32| (page_bytes / f64::from(*size)).round() as u64;
    let config = setup.cache.engine_config(job.scale, job.seed);
    let chunks: Vec<u64> = config.classes.sizes().iter().map(chunks).collect();
    decision.chunks_per_page = [chunks[0], chunks[1]];
    Ok(decision.partition(PAGES).pages[1] as f64 / PAGES as f64)
}

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
        Ok(request.unwrap_or_else(|| panic!("the workload has fewer requests than its set-up"))?)
    });
    let curves = of_second_half(requests, &config)?;
    let sizes = config.classes.sizes().iter();
    let chunks: Vec<u64> =
        sizes.map(|&size| config.page_size_bytes as u64 / u64::from(size)).collect();
    spinner.finish_and_clear();
    Ok(Decision { curves, chunks_per_page: [chunks[0], chunks[1]], profiled })
}

impl Decision {
    pub fn partition(&self, pages: u64) -> Partition {
        Partition::best_of_two([&self.curves[0], &self.curves[1]], self.chunks_per_page, pages)
    }

    pub fn miss_ratio(&self, partition: &Partition) -> f64 {
        let classes = self.curves.iter().zip(&partition.pages).zip(self.chunks_per_page);
        let misses: f64 =
            classes.map(|((curve, pages), chunks)| curve.misses(pages * chunks)).sum();
        misses / self.curves.iter().map(Mrc::references).sum::<f64>()
    }
}
