//! Executes a [`Run`]: its requests, and between them the steps that move pages.
//!
//! ```text
//!   preloaded keys --> requests, window by window ------------------------------> RunRecord
//!              ^                 ^ between two requests: RunningController (a tuner, or an oracle allocation)
//!              '- profiled at time 0
//! ```
//!
//! Profiles have a clock of their own, that of one client that waits for every response. So they know the response times,
//! although the run does not wait for responses.
//!
//! Invariant: with a fixed cost of a visit, everything except processor time is determined by the fields of the run.

use super::curves::{Partition, pages_by_class};
use super::error::ExperimentError;
use super::run::{AtTarget, Requests, Run, preloaded};
use super::run_record::RunRecord;
use super::setup::{EarlierSetup, scaled};
use crate::vtime::{
    Access, Cache, Maintainer, Mover, MoverTime, Rate, Tuned, VisitCost, thread_cpu_nanos,
};
use indicatif::ProgressBar;
use slabwise_base::{Clock, Now};
use slabwise_engine::Engine;
use slabwise_policy::PagePolicy;
use slabwise_profile::ProfilerOptions;
use slabwise_replay::workload::{Op, Request, key_of};
use slabwise_tuner::{MoveBudget, Profiling, ProfilingOptions, Tuner};
use std::sync::Arc;
use std::time::Duration;

/// Decides how the pages are partitioned among the classes.
#[derive(Clone)]
pub enum Controller<'t> {
    Policy(Box<PagePolicy>),
    Oracle(OracleAllocation<'t>),
}

/// Partitions that the experiment decides; pages move one at a time, as fast as the mover can.
#[derive(Clone, Copy)]
pub struct OracleAllocation<'t> {
    /// The requests before which partitions are decided.
    pub at: &'t [u64],
    /// Returns the partition of the decision with this index in `at`, given the pages that each class owns.
    pub partition: &'t (dyn Fn(usize, &[u64]) -> Partition + Sync),
}

impl Controller<'_> {
    /// The request before which the first oracle allocation is decided; 0 under a policy.
    pub fn first_at(&self) -> u64 {
        match self {
            Controller::Policy(_) => 0,
            Controller::Oracle(oracle) => oracle.at.first().copied().unwrap_or(0),
        }
    }
}

pub enum RunningController<'e, 't> {
    Tuned(Box<Tuned<'e>>),
    Oracle(OracleMover<'e, 't>),
}

pub struct OracleMover<'e, 't> {
    oracle: OracleAllocation<'t>,
    mover: Mover<'e>,
    decisions: usize,
    /// The target of the last decision; none until the page pool is empty.
    target: Option<Partition>,
    start_nanos: f64,
}

impl<'e, 't> RunningController<'e, 't> {
    /// Starts a controller on the engine of this run. Profiles take their time from `dates`.
    pub fn new(
        engine: &'e Engine,
        run: &Run<'_>,
        controller: Controller<'t>,
        dates: &Arc<Clock>,
    ) -> RunningController<'e, 't> {
        match controller {
            Controller::Policy(policy) => {
                let profiling = match run.full_profile_gets {
                    None => profiling_options(engine.config().memory_limit_bytes),
                    Some(gets) => full_profiling_options(gets),
                };
                let tuner = tuner(engine, *policy, profiling, dates, Some(run.answer.hit_us));
                RunningController::Tuned(Box::new(Tuned::new(engine, tuner, run.cost)))
            }
            Controller::Oracle(oracle) => {
                let mover = Mover::new(engine, run.mover, run.cost, run.sleep);
                let (decisions, target, start_nanos) = (0, None, 0.0);
                let mover = OracleMover { oracle, mover, decisions, target, start_nanos };
                RunningController::Oracle(mover)
            }
        }
    }

    #[cfg(test)]
    pub fn tuner(&self) -> Option<&Tuner> {
        match self {
            RunningController::Tuned(tuned) => Some(tuned.tuner()),
            RunningController::Oracle(_) => None,
        }
    }

    pub fn observe(&mut self) {
        if let RunningController::Tuned(tuned) = self {
            tuned.observe(Now::from_nanos(0));
        }
    }

    /// The request after `request` before which the next partition is decided, if any.
    pub fn next_decision(&self, request: u64) -> Option<u64> {
        let RunningController::Oracle(mover) = self else { return None };
        mover.oracle.at[mover.decisions..].iter().copied().find(|&at| at > request)
    }

    pub fn decide(&mut self, record: &mut RunRecord, rate: Rate) {
        let RunningController::Oracle(oracle) = self else { return };
        let at = &oracle.oracle.at[oracle.decisions..];
        if at.first().is_none_or(|&at| at > record.requests) {
            return;
        }
        if oracle.decisions == 0 {
            oracle.start_nanos = rate.nanos_at(record.operations);
            oracle.mover.idle_until(oracle.start_nanos);
        }
        oracle.decisions += 1;
        oracle.target = None;
        record.at_target = None;
    }

    /// Works until the time of the next request.
    #[inline]
    pub fn work(&mut self, record: &mut RunRecord, rate: Rate) {
        let nanos = rate.nanos_at(record.operations);
        match self {
            RunningController::Tuned(tuned) => tuned.work_until(nanos),
            RunningController::Oracle(mover) if record.at_target.is_none() => {
                mover.work_until(nanos, rate.now_at(record.operations), record);
            }
            RunningController::Oracle(_) => {}
        }
    }

    pub fn time(&self) -> MoverTime {
        match self {
            RunningController::Tuned(tuned) => tuned.time,
            RunningController::Oracle(oracle) => oracle.mover.time,
        }
    }
}

/// Returns the tuner of a server with this policy. It profiles only if the policy needs it; `hit_us` is the response time
/// of a hit.
pub fn tuner(
    engine: &Engine,
    policy: PagePolicy,
    options: ProfilingOptions,
    dates: &Arc<Clock>,
    hit_us: Option<f64>,
) -> Tuner {
    let budget = MoveBudget::for_pages_of(engine.config().page_size_bytes);
    let needs_profiles = policy.wants().needs_profiles();
    let tuner = Tuner::new(policy, budget, engine.config().hash_seed);
    if !needs_profiles {
        return tuner;
    }
    let mut profiling = Profiling::start(engine, options, Arc::clone(dates), Now::from_nanos(0));
    if let Some(hit_us) = hit_us {
        profiling.set_hit_time_us(hit_us);
    }
    tuner.with_profiling(profiling)
}

/// The profiling options of a server with this memory limit: profiles take a fiftieth of it plus 1 MiB.
pub fn profiling_options(memory_limit_bytes: u64) -> ProfilingOptions {
    let memory_bytes = memory_limit_bytes / 50 + (1 << 20);
    let options = ProfilingOptions::within(memory_bytes);
    options.unwrap_or_else(|| panic!("{memory_bytes} bytes are enough for a profile"))
}

/// Options that profile every key and every access, as published policies do. No experiment has more keys.
fn full_profiling_options(half_life_gets: u64) -> ProfilingOptions {
    const KEYS_MAX: usize = 1 << 26;
    const QUEUE_LEN_MAX: usize = 1 << 16;
    let window_references = half_life_gets;
    ProfilingOptions {
        profiler: ProfilerOptions { keys_max: KEYS_MAX, rate_max: 1.0, window_references },
        queue_len_max: QUEUE_LEN_MAX,
        accesses_per_second_max: u64::MAX,
    }
}

impl OracleMover<'_, '_> {
    fn work_until(&mut self, nanos: f64, now: Now, record: &mut RunRecord) {
        let Some(decision) = self.decisions.checked_sub(1) else { return };
        let OracleMover { oracle, mover, target, start_nanos, .. } = self;
        let request = record.requests;
        let (arrivals, at_target) = (&mut record.arrivals, &mut record.at_target);
        let decided = &mut record.partition;
        let next = |engine: &Engine| {
            // While the pool has pages, a class that needs a page takes one from there.
            if target.is_none() && !engine.page_stats().memory_full() {
                return None;
            }
            let target = target.get_or_insert_with(|| {
                let target = (oracle.partition)(decision, &pages_by_class(engine, now));
                *decided = Some(target.clone());
                target
            });
            let next = target.next_move(engine, now);
            if next.is_none() {
                *at_target = Some(request);
            }
            next
        };
        mover.work_until(nanos, request, next, arrivals);
        record.moving_nanos = nanos - *start_nanos;
    }
}

/// The part of the keys that fill the memory before the first request; no workload has it.
const EARLIER_PART: usize = 255;

/// Returns this run with the cost of a visit as measured on an engine that is filled in the same way.
pub fn measured(mut run: Run<'_>) -> Result<Run<'_>, ExperimentError> {
    let engine = Engine::new(run.engine_config())?;
    let first_phase = scaled(run.workload.first_phase_requests, run.scale);
    let mut requests = run.requests(engine.config())?;
    let mut cache = Cache::new(&engine);
    let mut done = 0;
    while done < first_phase {
        let now = run.rate.now_at(done);
        let batch = requests.next(first_phase - done)?;
        cache.prefetch(batch);
        for request in batch {
            cache.request(request, now);
        }
        done += batch.len() as u64;
    }
    let at = run.rate.moment_at(done);
    run.cost = VisitCost::measure(&engine, at)?;
    Ok(run)
}

pub fn execute(
    run: &Run<'_>,
    controller: Controller<'_>,
    progress: &ProgressBar,
) -> Result<RunRecord, ExperimentError> {
    let began_nanos = thread_cpu_nanos();
    let engine = Engine::new(run.engine_config())?;
    let mut requests = run.requests(engine.config())?;
    let total = scaled(run.workload.requests, run.scale);
    let mut record = RunRecord {
        changed_at: controller.first_at(),
        window_requests: total.div_ceil(run.windows),
        ..RunRecord::default()
    };
    let mut cache = Cache::new(&engine);
    let dates = Arc::new(Clock::manual());
    let mut controller = RunningController::new(&engine, run, controller, &dates);
    preload(run, &engine, &requests, &mut cache, &mut controller);
    let mut maintainer = Maintainer::new(&engine);
    let (mut misses, mut answer_us) = (0, 0.0);
    progress.set_length(total);
    while record.requests < total {
        // A batch ends at the end of a window or before a decision.
        let window_left = record.window_requests - record.requests % record.window_requests;
        let next = controller.next_decision(record.requests).unwrap_or(total);
        let batch = requests.next(window_left.min(next.min(total) - record.requests))?;
        cache.prefetch(batch);
        let now = run.rate.now_at(record.operations);
        maintainer.work_until(run.rate.nanos_at(record.operations));
        controller.decide(&mut record, run.rate);
        for request in batch {
            controller.work(&mut record, run.rate);
            let access = cache.look_up(request, now);
            let us = run.answer.us(access, request.value_len);
            dates.advance(Duration::from_nanos((us * 1e3) as u64));
            if access == Access::Miss {
                cache.store(request, None, now);
                misses += 1;
            }
            answer_us += us;
            record.operations += access.operations();
            record.requests += 1;
        }
        if record.requests.is_multiple_of(record.window_requests) || record.requests == total {
            record.misses.push(std::mem::take(&mut misses));
            record.answer_us.push(std::mem::take(&mut answer_us));
            record.pages.push(pages_by_class(&engine, now));
            record.moved.push(engine.mover_counters().moved);
            progress.set_position(record.requests);
        }
        if record.at_target.is_some() && run.at_target == AtTarget::Stop {
            break;
        }
    }
    record.counts = engine.mover_counters();
    record.time = controller.time();
    record.classes = engine.class_stats(run.rate.now_at(record.operations));
    record.memory = engine.page_stats();
    record.processor_nanos = thread_cpu_nanos() - began_nanos;
    progress.finish_and_clear();
    Ok(record)
}

fn preload(
    run: &Run<'_>,
    engine: &Engine,
    requests: &Requests,
    cache: &mut Cache<'_>,
    controller: &mut RunningController<'_, '_>,
) {
    let mut store = |key, value_len| {
        cache.request(&Request { key, value_len, op: Op::Set, cost: None }, run.rate.now_at(0));
        controller.observe();
    };
    for key in preloaded(run.preload, run.scale) {
        store(key, requests.value_len(key));
    }
    let Some(EarlierSetup { value_factor }) = run.earlier else { return };
    let mut ranks = 0..;
    while !engine.page_stats().memory_full() {
        let rank = ranks.next().unwrap_or_else(|| panic!("no keys left to fill the memory"));
        let value_len = requests.longer_value_len(rank, value_factor);
        store(key_of(EARLIER_PART, rank), value_len);
    }
}

#[cfg(test)]
mod tests {
    use super::{Cache, Controller, EarlierSetup, Run, RunningController, preload};
    use crate::experiment::policies::PoliciesSetup;
    use crate::registry;
    use crate::vtime::MoverName;
    use slabwise_base::Clock;
    use slabwise_engine::Engine;
    use slabwise_policy::PagePolicy;
    use std::sync::Arc;

    #[test]
    fn preloaded_keys_are_profiled_and_earlier_keys_fill_the_memory() {
        let (_, setup) = registry::parsed::<PoliciesSetup>("multi-tenant");
        let size = (0.001, 7);
        let run = Run::new(&setup.workload, &setup.cache, &setup.time, MoverName::Warm, size);
        let keys = [2_000_000, 1_000_000];
        let stored = |earlier| {
            let run =
                Run { preload: &keys, earlier, full_profile_gets: Some(1_000), ..run.clone() };
            let engine = Engine::new(run.engine_config()).expect("an engine");
            let requests = run.requests(engine.config()).expect("requests");
            let policy = PagePolicy::named("lama").expect("it is there");
            let dates = Arc::new(Clock::manual());
            let controller = Controller::Policy(Box::new(policy));
            let mut controller = RunningController::new(&engine, &run, controller, &dates);
            preload(&run, &engine, &requests, &mut Cache::new(&engine), &mut controller);
            let profiling =
                controller.tuner().and_then(|tuner| tuner.profiling()).expect("profiles");
            (profiling.stats().accesses, engine.page_stats().memory_full())
        };
        assert_eq!(stored(None), (3_000, false));
        let (stores, is_full) = stored(Some(EarlierSetup { value_factor: 2.0 }));
        assert!(stores > 3_000 && is_full, "{stores} stores");
    }
}
