//! `overhead`: measures the throughput that a server loses while it profiles.
//!
//! ```text
//!   round 1                       round 2                       round 3
//!   off | profiling | full        profiling | full | off        full | off | profiling    ...
//! ```
//!
//! Three engines have the same contents. One of them has no profile, one profiles a sample of the keys as a server
//! does, and one profiles every key as published. In each round all engines serve the same requests, one engine after
//! the other, so other load on the machine affects all engines. The result is the median over the rounds of the
//! throughput loss. All times are processor times of the thread. A single thread serves and profiles, so the loss
//! includes the work that a server does in a second thread.
//!
//! With `--live`, servers and clients with several threads are measured instead ([`live`]).

mod live;

use super::kind::{Experiment, Job};
use crate::result::{Outcome, format_number, measures};
use crate::trial::error::ExperimentError;
use crate::trial::execute::{full_profiling_options, profiling_options};
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
    pub live: live::LiveSetup,
}

impl Experiment for OverheadSetup {
    fn has_live(&self) -> bool {
        true
    }

    fn fill(&self, job: &Job<'_>, outcome: &mut Outcome) -> Result<(), ExperimentError> {
        if job.live {
            return live::run(&self.live, self.cache.memory_mib, job, outcome);
        }
        let (scale, seed) = job.size();
        let clock = Arc::new(Clock::real());
        let config = self.cache.engine_config(scale, seed);
        let engines = [
            Engine::new(config.clone())?,
            Engine::new(config.clone())?,
            Engine::new(config.clone())?,
        ];
        let instance = |engine| -> Result<Instance<'_>, ExperimentError> {
            let cache = Cache::new(engine);
            let requests = Requests::new(&self.workload, job.size(), &config)?;
            let tuner = Tuner::new(PagePolicy::none(), MoveBudget::default(), seed);
            Ok(Instance { engine, cache, requests, tuner, clock: &clock })
        };
        let mut instances: Vec<Instance<'_>> =
            engines.iter().map(instance).collect::<Result<_, _>>()?;
        let sampled = profiling_options(config.memory_limit_bytes);
        let full = full_profiling_options(sampled.profiler.half_life_references);
        for (instance, options) in instances[1..].iter_mut().zip([sampled, full]) {
            let now = clock.now();
            let profiling = Profiling::start(instance.engine, options, Arc::clone(&clock), now);
            let tuner = std::mem::replace(
                &mut instance.tuner,
                Tuner::new(PagePolicy::none(), MoveBudget::default(), seed),
            );
            let status = Arc::new(TunerStatus::default());
            instance.tuner = tuner.with_profiling(profiling).with_status(status);
        }
        let fill = scaled(self.workload.first_phase_requests, scale);
        let round = scaled(self.requests_per_round, scale);
        let bar = job.progress.bar("rounds");
        bar.set_length(fill + self.rounds as u64 * round);
        for instance in &mut instances {
            instance.serve(fill)?;
        }
        let recorded_before: Vec<u64> = instances.iter().map(Instance::accesses).collect();
        // The processor times of each engine, one element per round.
        let mut nanos: [Vec<f64>; 3] = Default::default();
        for number in 0..self.rounds {
            bar.set_position(fill + number as u64 * round);
            for place in 0..instances.len() {
                let index = (number + place) % instances.len();
                nanos[index].push(instances[index].serve(round)?);
            }
        }
        bar.finish_and_clear();
        let rounds = format!("{} of {} requests each", self.rounds, format_number(round as f64));
        outcome.add_setup("workload", &self.workload.name);
        outcome.add_setup("rounds", rounds);
        let fill = format!("{} requests that fill the cache", format_number(fill as f64));
        outcome.add_setup("warm-up", fill);
        for (index, instance) in instances.iter().enumerate() {
            let recorded = instance.accesses() - recorded_before[index];
            let per_request = recorded as f64 / (self.rounds as f64 * round as f64);
            add(outcome, round, index, &nanos, instance.tuner.profiling(), per_request);
        }
        live::add_unmeasured(outcome);
        Ok(())
    }
}

/// Adds the rows of the engine with this index in [`VARIANTS`]. `nanos` has the processor times of each engine, one
/// element per round of `requests` requests.
fn add(
    outcome: &mut Outcome,
    requests: u64,
    index: usize,
    nanos: &[Vec<f64>; 3],
    profiling: Option<&Profiling>,
    recorded_per_request: f64,
) {
    let name = VARIANTS[index];
    let throughput = requests as f64 / median(nanos[index].clone()) * 1e9;
    outcome.add(THROUGHPUT, name, Ok(throughput));
    let Some(stats) = profiling.map(Profiling::stats) else { return };
    let rounds = nanos[0].iter().zip(&nanos[index]);
    let loss = median(rounds.map(|(off, on)| (1.0 - off / on) * 100.0).collect());
    let dropped = stats.accesses_dropped as f64;
    outcome.add_all(name, [(LOSS, loss), (RATE, stats.rate * 100.0), (DROPPED, dropped)]);
    outcome.add(RECORDED, name, Ok(recorded_per_request * 1e3));
}

/// The names of the engines in rows, in the order of the engines.
const VARIANTS: [&str; 3] = ["without profiling", "profiling", "full profile"];

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
