//! Executes a [`Run`]: its requests, and between the requests the steps that move pages.
//!
//! ```text
//!   preloaded keys --> requests, window by window ------------------------------> RunRecord
//!              ^                 ^ between two requests: RunningController (a tuner, or an oracle allocation)
//!              '- profiled at time 0
//! ```
//!
//! The profiler has its own clock, which advances by the response time of each request. With this clock the profiler
//! can measure the response times of misses, although virtual time does not wait for responses.
//!
//! Invariant: the fields of the run and the controller determine the whole record, except for processor times. The
//! cost of a visit to a chunk is a field of the run.

use super::curves::{Partition, pages_by_class};
use super::error::ExperimentError;
use super::run::{AtTarget, Requests, Run, preloaded};
use super::run_record::{RunRecord, tail_age_difference};
use super::setup::{EarlierSetup, scaled};
use crate::vtime::{
    Access, Cache, Maintainer, Mover, MoverTime, Rate, RunningTuner, thread_cpu_nanos,
};
use indicatif::ProgressBar;
use slabwise_base::{Clock, Now};
use slabwise_engine::Engine;
use slabwise_policy::PagePolicy;
use slabwise_profile::ProfilerOptions;
use slabwise_replay::workload::{Op, Request, key_of};
use slabwise_tuner::{MoveBudget, MoveShares, Profiling, ProfilingOptions, Tuner};
use std::sync::Arc;
use std::time::Duration;

/// Decides how the pages are partitioned among the classes.
#[derive(Clone)]
pub enum Controller<'t> {
    /// A page policy decides, in the server's tuner.
    Policy(Box<PagePolicy>),
    /// The experiment decides.
    Oracle(OracleAllocation<'t>),
}

/// Target partitions that the experiment computes. Pages move one at a time, as fast as the mover can.
#[derive(Clone, Copy)]
pub struct OracleAllocation<'t> {
    /// Numbers of the requests before which a new target partition is computed, in ascending order.
    pub at: &'t [u64],
    /// Returns a target partition. The arguments are the index in `at`, and the number of pages that each class owns.
    pub partition: &'t (dyn Fn(usize, &[u64]) -> Partition + Sync),
}

impl Controller<'_> {
    /// Returns the number of the request before which the first target partition is computed. Under a policy this is 0.
    pub fn first_at(&self) -> u64 {
        match self {
            Controller::Policy(_) => 0,
            Controller::Oracle(oracle) => oracle.at.first().copied().unwrap_or(0),
        }
    }
}

/// A controller at work on an engine.
pub enum RunningController<'e, 't> {
    Tuner(Box<RunningTuner<'e>>),
    Oracle(OracleMover<'e, 't>),
}

/// Moves pages to the target partitions of an oracle allocation.
pub struct OracleMover<'e, 't> {
    oracle: OracleAllocation<'t>,
    mover: Mover<'e>,
    /// Number of requests in `OracleAllocation::at` that the run has reached.
    decisions: usize,
    /// The target partition for the last of these requests. `None` while the page pool has pages: the mover computes
    /// the partition when the pool is empty.
    target: Option<Partition>,
    /// Virtual time of the first request in `OracleAllocation::at`.
    start_nanos: f64,
}

impl<'e, 't> RunningController<'e, 't> {
    /// Starts the controller of a run on an engine. The profiler reads the time from `response_clock`.
    pub fn new(
        engine: &'e Engine,
        run: &Run<'_>,
        controller: Controller<'t>,
        response_clock: &Arc<Clock>,
    ) -> RunningController<'e, 't> {
        match controller {
            Controller::Policy(policy) => {
                let profiling = match run.full_profile_gets {
                    None => profiling_options(engine.config().memory_limit_bytes),
                    Some(gets) => full_profiling_options(gets),
                };
                let hit_us = Some(run.response.hit_us);
                let mut budget = MoveBudget::default();
                if run.has_no_move_budget {
                    budget.shares = MoveShares::UNLIMITED;
                }
                let tuner = tuner_with(budget, engine, *policy, profiling, response_clock, hit_us);
                RunningController::Tuner(Box::new(RunningTuner::new(
                    engine, tuner, run.cost, run.rate,
                )))
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
            RunningController::Tuner(tuner) => Some(tuner.tuner()),
            RunningController::Oracle(_) => None,
        }
    }

    /// Passes the sampled accesses to the profiler, at time 0.
    pub fn observe(&mut self) {
        if let RunningController::Tuner(tuner) = self {
            tuner.observe(Now::from_nanos(0));
        }
    }

    /// Returns the smallest number in [`OracleAllocation::at`] above `request`. Returns `None` under a policy, or if
    /// there is no such number.
    pub fn next_decision(&self, request: u64) -> Option<u64> {
        let RunningController::Oracle(mover) = self else { return None };
        mover.oracle.at[mover.decisions..].iter().copied().find(|&at| at > request)
    }

    /// Discards the target partition if an oracle allocation has a new target partition before the next request. Does
    /// not compute the new target partition.
    pub fn decide(&mut self, record: &mut RunRecord, rate: Rate) {
        let RunningController::Oracle(mover) = self else { return };
        let at = &mover.oracle.at[mover.decisions..];
        if at.first().is_none_or(|&at| at > record.requests) {
            return;
        }
        let nanos = rate.nanos_at(record.operations);
        // The mover was idle since it reached the last target.
        mover.mover.idle_until(nanos);
        if mover.decisions == 0 {
            mover.start_nanos = nanos;
        }
        mover.decisions += 1;
        mover.target = None;
        record.at_target = None;
    }

    /// Runs the tuner or the mover until the virtual time of the next request.
    #[inline]
    pub fn work(&mut self, record: &mut RunRecord, rate: Rate) {
        let nanos = rate.nanos_at(record.operations);
        match self {
            RunningController::Tuner(tuner) => tuner.work_until(nanos),
            RunningController::Oracle(mover) if record.at_target.is_none() => {
                mover.work_until(nanos, rate.now_at(record.operations), record);
            }
            RunningController::Oracle(_) => {}
        }
    }

    pub fn time(&self) -> MoverTime {
        match self {
            RunningController::Tuner(tuner) => tuner.time,
            RunningController::Oracle(mover) => mover.mover.time,
        }
    }
}

/// Returns the tuner of a server with this policy. The tuner has a profiler only if the policy needs profiles. `hit_us`
/// is the response time of a hit in microseconds. If it is `None`, the profiler does not measure response times.
pub fn tuner(
    engine: &Engine,
    policy: PagePolicy,
    options: ProfilingOptions,
    response_clock: &Arc<Clock>,
    hit_us: Option<f64>,
) -> Tuner {
    tuner_with(MoveBudget::default(), engine, policy, options, response_clock, hit_us)
}

/// Returns a [`tuner`] with this move budget.
fn tuner_with(
    budget: MoveBudget,
    engine: &Engine,
    policy: PagePolicy,
    options: ProfilingOptions,
    response_clock: &Arc<Clock>,
    hit_us: Option<f64>,
) -> Tuner {
    let needs_profiles =
        policy.inputs().needs_profiles() || engine.config().eviction.info().counts_uses;
    let tuner = Tuner::new(policy, budget, engine.config().hash_seed);
    if !needs_profiles {
        return tuner;
    }
    let mut profiling =
        Profiling::start(engine, options, Arc::clone(response_clock), Now::from_nanos(0));
    if let Some(hit_us) = hit_us {
        profiling.set_hit_time_us(hit_us);
    }
    tuner.with_profiling(profiling)
}

/// Returns the profiling options that a server has by default with this memory limit.
pub fn default_profiling_options(memory_limit_bytes: u64) -> ProfilingOptions {
    profiling_within(ProfilingOptions::default_memory_bytes(memory_limit_bytes))
}

/// Returns the profiling options of a trial with this memory limit. The profiler may use a fiftieth of the limit plus
/// 1 MiB, twice as much for each byte of the limit as by default in a server.
pub fn profiling_options(memory_limit_bytes: u64) -> ProfilingOptions {
    profiling_within(memory_limit_bytes / 50 + (1 << 20))
}

fn profiling_within(memory_bytes: u64) -> ProfilingOptions {
    let options = ProfilingOptions::within(memory_bytes);
    options.unwrap_or_else(|| panic!("{memory_bytes} bytes are enough for a profiler"))
}

/// Returns options that profile every key and every access, as published policies do. The counts decay with the given
/// half-life.
pub fn full_profiling_options(half_life_gets: u64) -> ProfilingOptions {
    /// No experiment has more keys than this number.
    const KEYS_MAX: usize = 1 << 26;
    const QUEUE_LEN_MAX: usize = 1 << 16;
    ProfilingOptions {
        profiler: ProfilerOptions {
            keys_max: KEYS_MAX,
            rate_max: 1.0,
            half_life_references: half_life_gets,
        },
        queue_len_max: QUEUE_LEN_MAX,
        lowers_rate_if_full: false,
    }
}

impl OracleMover<'_, '_> {
    /// Works until the virtual time `nanos`, and computes the target partition if it is due. `now` is the same time for
    /// the engine.
    fn work_until(&mut self, nanos: f64, now: Now, record: &mut RunRecord) {
        let Some(decision) = self.decisions.checked_sub(1) else { return };
        let OracleMover { oracle, mover, target, start_nanos, .. } = self;
        let request = record.requests;
        let (page_moves, at_target) = (&mut record.page_moves, &mut record.at_target);
        let decided = &mut record.partition;
        let next = |engine: &Engine| {
            // While the page pool has pages, classes take pages from the pool, and no page needs to move.
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
        mover.work_until(nanos, request, next, page_moves);
        record.moving_nanos = nanos - *start_nanos;
    }
}

/// The first argument of [`key_of`] for the keys that fill the memory before the first request. No workload requests
/// keys of this part.
const EARLIER_PART: usize = 255;

/// Executes a run on a new engine.
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
    let response_clock = Arc::new(Clock::manual());
    let mut controller = RunningController::new(&engine, run, controller, &response_clock);
    preload(run, &engine, &requests, &mut cache, || controller.observe());
    let mut maintainer = Maintainer::new(&engine);
    let (mut misses, mut response_us) = (0, 0.0);
    progress.set_length(total);
    while record.requests < total {
        // A batch extends at most to the end of the window, and to the request before which a partition is computed.
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
            let us = run.response.response_us(access, request.value_len);
            response_clock.advance(Duration::from_nanos((us * 1e3) as u64));
            if access == Access::Miss {
                cache.store(request, None, now);
                misses += 1;
            }
            response_us += us;
            record.operations += access.operations();
            record.requests += 1;
        }
        if record.requests.is_multiple_of(record.window_requests) || record.requests == total {
            record.misses.push(std::mem::take(&mut misses));
            record.response_us.push(std::mem::take(&mut response_us));
            record.pages.push(pages_by_class(&engine, now));
            record.moved.push(engine.mover_counters().moved);
            progress.set_position(record.requests);
        }
        if record.at_target.is_some() && run.at_target == AtTarget::Stop {
            break;
        }
    }
    record.counts = engine.mover_counters().into();
    record.time = controller.time();
    if let RunningController::Tuner(tuner) = controller {
        record.page_moves = tuner.page_moves;
    }
    record.gets_of_moving_page = engine.gets_of_moving_page();
    record.classes = engine.class_stats(run.rate.now_at(record.operations));
    record.tail_age_difference = tail_age_difference(&record.classes);
    record.memory = engine.page_stats();
    record.processor_nanos = thread_cpu_nanos() - began_nanos;
    progress.finish_and_clear();
    Ok(record)
}

/// Stores the preloaded keys and the earlier contents of the run. Calls `after_store` after each store.
pub fn preload(
    run: &Run<'_>,
    engine: &Engine,
    requests: &Requests,
    cache: &mut Cache<'_>,
    mut after_store: impl FnMut(),
) {
    let mut store = |key, value_len| {
        cache.request(&Request { key, value_len, op: Op::Set, cost: None }, run.rate.now_at(0));
        after_store();
    };
    for key in preloaded(run.preload, run.scale) {
        store(key, requests.value_len(key));
    }
    let Some(EarlierSetup { value_factor, memory_share }) = run.earlier else { return };
    let mut ranks = 0..;
    let pages_max = engine.page_stats().limit_for_items as f64 * memory_share;
    while (engine.page_stats().held as f64) < pages_max {
        let rank = ranks.next().expect("the memory is full before all ranks are used");
        let value_len = requests.scaled_value_len(rank, value_factor);
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
    fn the_stores_of_preloaded_keys_are_profiled_and_earlier_keys_fill_the_memory() {
        let (_, setup) = registry::parsed::<PoliciesSetup>("multi-tenant");
        let size = (0.001, 7);
        let run = Run::new(&setup.workload, &setup.cache, &setup.time, MoverName::Warm, size);
        let keys = [2_000_000, 1_000_000];
        let stored = |earlier| {
            let run =
                Run { preload: &keys, earlier, full_profile_gets: Some(1_000), ..run.clone() };
            let engine = Engine::new(run.engine_config()).expect("the engine can be created");
            let requests = run.requests(engine.config()).expect("the workload can be opened");
            let policy = PagePolicy::named("lama").expect("lama is a page policy");
            let response_clock = Arc::new(Clock::manual());
            let controller = Controller::Policy(Box::new(policy));
            let mut controller = RunningController::new(&engine, &run, controller, &response_clock);
            preload(&run, &engine, &requests, &mut Cache::new(&engine), || controller.observe());
            let profiling = controller
                .tuner()
                .and_then(|tuner| tuner.profiling())
                .expect("lama has a profiler");
            (profiling.stats().accesses, engine.page_stats().memory_full())
        };
        assert_eq!(stored(None), (3_000, false));
        let (stores, is_full) = stored(Some(EarlierSetup { value_factor: 2.0, memory_share: 1.0 }));
        assert!(stores > 3_000 && is_full, "the memory is full after {stores} stores: {is_full}");
        let (fewer, is_full) = stored(Some(EarlierSetup { value_factor: 2.0, memory_share: 0.5 }));
        assert!(!is_full && fewer < stores, "{fewer} stores do not fill the memory");
    }
}
