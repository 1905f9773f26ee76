//! `overhead`: what profiling costs a cache that does nothing but serve.
//!
//! ```text
//!   two engines, filled alike:   off | on | on | off | off | on ...     a round each, the same requests
//! ```
//!
//! Rounds take turns, so that what disturbs one disturbs the other, and the median of the rounds' ratios
//! counts. Time is the thread's own processor time. One thread serves and profiles: what a server has a second
//! thread for is charged to the first, too.

use super::kind::{Experiment, Job};
use crate::result::{Outcome, measures, number};
use crate::trial::error::ExperimentError;
use crate::trial::execute::profiling_options;
use crate::trial::run::Requests;
use crate::trial::setup::{CacheSetup, WorkloadSetup, scaled};
use crate::vtime::{Cache, median, thread_cpu_nanos};
use serde::Deserialize;
use slabwise_base::Clock;
use slabwise_engine::Engine;
use slabwise_policy::PagePolicy;
use slabwise_tuner::{Board, MoveBudget, Profiling, Tuner};
use std::sync::Arc;

measures! {
    THROUGHPUT: "throughput", "requests a second of processor", "requests/s", Fixed;
    LOSS: "throughput_loss", "throughput lost, median of the rounds", "%", Fixed;
    RATE: "sample_rate", "keys in the sample", "%", Fixed;
    TAKEN: "accesses", "accesses taken in for a thousand requests", "accesses", Fixed;
    DROPPED: "accesses_dropped", "accesses dropped", "accesses", Fixed;
}

const BLOCK_REQUESTS: usize = 4_096;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OverheadSetup {
    pub rounds: usize,
    pub requests_a_round: u64,
    /// The requests; those of its first phase fill the cache.
    pub workload: WorkloadSetup,
    pub cache: CacheSetup,
}

impl Experiment for OverheadSetup {
    fn fill(&self, job: &Job<'_>, outcome: &mut Outcome) -> Result<(), ExperimentError> {
        let (scale, seed) = job.size();
        // It dates requests and what is profiled.
        let clock = Arc::new(Clock::real());
        let config = self.cache.engine_config(scale, seed);
        let engines = [Engine::new(config.clone())?, Engine::new(config.clone())?];
        let subject = |engine| -> Result<Subject<'_>, ExperimentError> {
            let (cache, budget) =
                (Cache::new(engine), MoveBudget::for_pages_of(config.page_size_bytes));
            let requests = Requests::new(&self.workload, job.size(), &config)?;
            let tuner = Tuner::new(PagePolicy::none(), budget, seed);
            Ok(Subject { engine, cache, requests, tuner, clock: &clock })
        };
        let (mut off, mut on) = (subject(&engines[0])?, subject(&engines[1])?);
        let options = profiling_options(config.memory_limit_bytes);
        let profiling = Profiling::start(on.engine, options, Arc::clone(&clock), clock.now());
        on.tuner = on.tuner.with_profiling(profiling).shown_on(Arc::new(Board::default()));
        let fill = scaled(self.workload.first_phase_requests, scale);
        let round = scaled(self.requests_a_round, scale);
        let bar = job.progress.bar("rounds");
        bar.set_length(fill + self.rounds as u64 * round);
        off.serve(fill)?;
        on.serve(fill)?;
        let taken_before = on.accesses();
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
        outcome.choose("workload", &self.workload.name);
        outcome
            .choose("rounds", format!("{} of {} requests each", self.rounds, number(round as f64)));
        outcome.choose("before", format!("{} requests that fill the cache", number(fill as f64)));
        let a_second = |which: usize| {
            round as f64 / median(nanos.iter().map(|round| round[which]).collect()) * 1e9
        };
        outcome.add(THROUGHPUT, "without profiling", Ok(a_second(0)));
        outcome.add(THROUGHPUT, "profiling", Ok(a_second(1)));
        let loss = median(nanos.iter().map(|[off, on]| (1.0 - off / on) * 100.0).collect());
        outcome.add(LOSS, "profiling", Ok(loss));
        if let Some(stats) = on.tuner.profiling().map(Profiling::stats) {
            outcome.add(RATE, "profiling", Ok(stats.rate * 100.0));
            let taken = (on.accesses() - taken_before) as f64;
            outcome.add(TAKEN, "profiling", Ok(taken / served * 1e3));
            outcome.add(DROPPED, "profiling", Ok(stats.accesses_dropped as f64));
        }
        Ok(())
    }
}

struct Subject<'e> {
    engine: &'e Engine,
    cache: Cache<'e>,
    requests: Requests,
    tuner: Tuner,
    clock: &'e Clock,
}

impl Subject<'_> {
    /// Serves so many requests; the processor time that took, in nanoseconds.
    fn serve(&mut self, count: u64) -> Result<f64, ExperimentError> {
        let (mut left, mut nanos) = (count, 0.0);
        let mut observed_at = self.clock.now().ticks;
        let mut block = Vec::with_capacity(BLOCK_REQUESTS);
        while left > 0 {
            // Making requests up is no part of serving them.
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
                // What still waits is this round's work.
                self.tuner.observe(self.engine, self.clock.now());
            }
            nanos += thread_cpu_nanos() - started;
        }
        Ok(nanos)
    }

    fn accesses(&self) -> u64 {
        self.tuner.profiling().map_or(0, |profiling| profiling.stats().accesses)
    }
}
