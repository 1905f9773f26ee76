//! `overhead`: measures the throughput that a server loses while it profiles.
//!
//! ```text
//!   round            1          2          3
//!   profiling    off | on   on | off   off | on  ...
//! ```
//!
//! Two engines have the same contents, and only one of the engines is profiled. In each round both engines serve the
//! same requests, one engine after the other, so other load on the machine affects both engines. The result is the
//! median over the rounds of the throughput loss. All times are processor times of the thread. A single thread serves
//! and profiles, so the loss includes the work that a server does in a second thread.

use super::kind::{Experiment, Job};
use crate::result::{Outcome, format_number, measures};
use crate::trial::error::ExperimentError;
use crate::trial::execute::profiling_options;
use crate::trial::run::Requests;
use crate::trial::setup::{CacheSetup, WorkloadSetup, scaled};
use crate::vtime::{Cache, median, thread_cpu_nanos};
use serde::Deserialize;
use slabwise_base::Clock;
use slabwise_engine::Engine;
use slabwise_policy::PagePolicy;
use slabwise_tuner::{MoveBudget, Profiling, Tuner, TunerStatus};
use std::sync::Arc;

measures! {
    THROUGHPUT: "throughput", "requests per second of processor time", "requests/s", Fixed;
    LOSS: "throughput_loss", "throughput loss, median of the rounds", "%", Fixed;
    RATE: "sample_rate", "sampling rate", "%", Fixed;
    RECORDED: "accesses", "accesses recorded per thousand requests", "accesses", Fixed;
    DROPPED: "accesses_dropped", "accesses dropped", "accesses", Fixed;
}

/// Number of requests that are generated before they are served.
const BLOCK_REQUESTS: usize = 4_096;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OverheadSetup {
    pub rounds: usize,
    pub requests_per_round: u64,
    /// The requests. The requests of the first phase fill the cache.
    pub workload: WorkloadSetup,
    pub cache: CacheSetup,
}

impl Experiment for OverheadSetup {
    fn fill(&self, job: &Job<'_>, outcome: &mut Outcome) -> Result<(), ExperimentError> {
        let (scale, seed) = job.size();
        let clock = Arc::new(Clock::real());
        let config = self.cache.engine_config(scale, seed);
        let engines = [Engine::new(config.clone())?, Engine::new(config.clone())?];
        let instance = |engine| -> Result<Instance<'_>, ExperimentError> {
            let (cache, budget) =
                (Cache::new(engine), MoveBudget::for_pages_of(config.page_size_bytes));
            let requests = Requests::new(&self.workload, job.size(), &config)?;
            let tuner = Tuner::new(PagePolicy::none(), budget, seed);
            Ok(Instance { engine, cache, requests, tuner, clock: &clock })
        };
        let (mut off, mut on) = (instance(&engines[0])?, instance(&engines[1])?);
        let options = profiling_options(config.memory_limit_bytes);
        let profiling = Profiling::start(on.engine, options, Arc::clone(&clock), clock.now());
        on.tuner = on.tuner.with_profiling(profiling).with_status(Arc::new(TunerStatus::default()));
        let fill = scaled(self.workload.first_phase_requests, scale);
        let round = scaled(self.requests_per_round, scale);
        let bar = job.progress.bar("rounds");
        bar.set_length(fill + self.rounds as u64 * round);
        off.serve(fill)?;
        on.serve(fill)?;
        let recorded_before = on.accesses();
        // Processor time of each round, without profiling and with profiling.
        let mut nanos: Vec<[f64; 2]> = Vec::with_capacity(self.rounds);
        for number in 0..self.rounds {
            bar.set_position(fill + number as u64 * round);
            nanos.push(if number % 2 == 0 {
                let first = off.serve(round)?;
                [first, on.serve(round)?]
            } else {
                let first = on.serve(round)?;
                [off.serve(round)?, first]
            });
        }
        bar.finish_and_clear();
        let served = self.rounds as f64 * round as f64;
        outcome.add_setup("workload", &self.workload.name);
        outcome.add_setup(
            "rounds",
            format!("{} of {} requests each", self.rounds, format_number(round as f64)),
        );
        outcome.add_setup(
            "warm-up",
            format!("{} requests that fill the cache", format_number(fill as f64)),
        );
        let throughput = |engine: usize| {
            round as f64 / median(nanos.iter().map(|round| round[engine]).collect()) * 1e9
        };
        outcome.add(THROUGHPUT, "without profiling", Ok(throughput(0)));
        outcome.add(THROUGHPUT, "profiling", Ok(throughput(1)));
        let loss = median(nanos.iter().map(|[off, on]| (1.0 - off / on) * 100.0).collect());
        outcome.add(LOSS, "profiling", Ok(loss));
        if let Some(stats) = on.tuner.profiling().map(Profiling::stats) {
            outcome.add(RATE, "profiling", Ok(stats.rate * 100.0));
            let recorded = (on.accesses() - recorded_before) as f64;
            outcome.add(RECORDED, "profiling", Ok(recorded / served * 1e3));
            outcome.add(DROPPED, "profiling", Ok(stats.accesses_dropped as f64));
        }
        Ok(())
    }
}

/// An engine with its client and its tuner. The tuner has a profiler only in the engine that is profiled.
struct Instance<'e> {
    engine: &'e Engine,
    cache: Cache<'e>,
    requests: Requests,
    tuner: Tuner,
    clock: &'e Clock,
}

impl Instance<'_> {
    /// Serves `count` requests. Returns the processor time of serving and profiling, in nanoseconds.
    fn serve(&mut self, count: u64) -> Result<f64, ExperimentError> {
        let (mut left, mut nanos) = (count, 0.0);
        let mut observed_at = self.clock.now().ticks;
        let mut block = Vec::with_capacity(BLOCK_REQUESTS);
        while left > 0 {
            // Requests are generated in advance, because the time to generate them does not count.
            block.clear();
            while left > 0 && block.len() < BLOCK_REQUESTS {
                let batch = self.requests.next(left)?;
                left -= batch.len() as u64;
                block.extend_from_slice(batch);
            }
            let started = thread_cpu_nanos();
            for batch in block.chunks(Cache::BATCH_MAX) {
                let now = self.clock.now();
                self.cache.prefetch(batch);
                for request in batch {
                    self.cache.request(request, now);
                }
                if now.ticks != observed_at {
                    observed_at = now.ticks;
                    self.tuner.observe(self.engine, now);
                }
            }
            if left == 0 {
                // The profiler processes the samples that are still in the queue, because they belong to this round.
                self.tuner.observe(self.engine, self.clock.now());
            }
            nanos += thread_cpu_nanos() - started;
        }
        Ok(nanos)
    }

    /// Returns the number of accesses that the profiler has recorded.
    fn accesses(&self) -> u64 {
        self.tuner.profiling().map_or(0, |profiling| profiling.stats().accesses)
    }
}
