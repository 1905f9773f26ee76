//! Carries a [`Run`] out: requests, and between them the steps that move pages.
//!
//! ```text
//!   what is stored before --> requests, window by window ----------------------> Course
//!              ^                 ^ between two of them: ActiveDivider (a tuner, or told splits)
//!              '- it looks on, while time stands still
//! ```
//!
//! Profiles are dated by a clock of their own, that of one client who waits for every answer: so they know how long answers
//! take, which nothing here waits for.
//!
//! Invariant: everything but the processor's time follows from the run's fields, where the cost of a visit is not measured.

use super::course::Course;
use super::curves::{Split, pages_by_class};
use super::error::ExperimentError;
use super::run::{AtTarget, Requests, Run, preloaded};
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

#[derive(Clone)]
pub enum Divider<'t> {
    Policy(Box<PagePolicy>),
    Told(Told<'t>),
}

/// Splits that are decided outside; pages move one at a time, as fast as the mover can.
#[derive(Clone, Copy)]
pub struct Told<'t> {
    pub at: &'t [u64],
    /// The split that is decided at that place in `at`, by the pages owned then.
    pub split: &'t (dyn Fn(usize, &[u64]) -> Split + Sync),
}

impl Divider<'_> {
    /// The request before which the first split is decided; 0 where none is.
    pub fn first_at(&self) -> u64 {
        match self {
            Divider::Policy(_) => 0,
            Divider::Told(told) => told.at.first().copied().unwrap_or(0),
        }
    }
}

pub enum ActiveDivider<'e, 't> {
    Tuned(Box<Tuned<'e>>),
    Told(TellingMover<'e, 't>),
}

pub struct TellingMover<'e, 't> {
    told: Told<'t>,
    mover: Mover<'e>,
    due: usize,
    /// What the last of them came to; none while it waits for all memory to be handed out.
    split: Option<Split>,
    /// Nanoseconds at which the first one was due.
    start_nanos: f64,
}

impl<'e, 't> ActiveDivider<'e, 't> {
    /// This divider at work on an engine of this run; `dates` are what a profile says of when answers came.
    pub fn new(
        engine: &'e Engine,
        run: &Run<'_>,
        divider: Divider<'t>,
        dates: &Arc<Clock>,
    ) -> ActiveDivider<'e, 't> {
        match divider {
            Divider::Policy(policy) => {
                let profiling = match run.full_profile_gets {
                    None => profiling_options(engine.config().memory_limit_bytes),
                    Some(gets) => full_profiling_options(gets),
                };
                let tuner = tuner(engine, *policy, profiling, dates, Some(run.answer.hit_us));
                ActiveDivider::Tuned(Box::new(Tuned::new(engine, tuner, run.cost)))
            }
            Divider::Told(told) => {
                let mover = Mover::new(engine, run.mover, run.cost, run.sleep);
                let (due, split, start_nanos) = (0, None, 0.0);
                ActiveDivider::Told(TellingMover { told, mover, due, split, start_nanos })
            }
        }
    }

    #[cfg(test)]
    pub fn tuner(&self) -> Option<&Tuner> {
        match self {
            ActiveDivider::Tuned(tuned) => Some(tuned.tuner()),
            ActiveDivider::Told(_) => None,
        }
    }

    pub fn observe(&mut self) {
        if let ActiveDivider::Tuned(tuned) = self {
            tuned.observe(Now::from_nanos(0));
        }
    }

    /// The request before which the next split is decided, if that lies behind `request`.
    pub fn next_decision(&self, request: u64) -> Option<u64> {
        let ActiveDivider::Told(telling) = self else { return None };
        telling.told.at[telling.due..].iter().copied().find(|&at| at > request)
    }

    pub fn decide(&mut self, course: &mut Course, rate: Rate) {
        let ActiveDivider::Told(telling) = self else { return };
        let at = &telling.told.at[telling.due..];
        if at.first().is_none_or(|&at| at > course.requests) {
            return;
        }
        if telling.due == 0 {
            telling.start_nanos = rate.nanos_at(course.operations);
            telling.mover.idle_until(telling.start_nanos);
        }
        telling.due += 1;
        telling.split = None;
        course.at_target = None;
    }

    /// Works until the next request comes.
    #[inline]
    pub fn work(&mut self, course: &mut Course, rate: Rate) {
        let nanos = rate.nanos_at(course.operations);
        match self {
            ActiveDivider::Tuned(tuned) => tuned.work_until(nanos),
            ActiveDivider::Told(telling) if course.at_target.is_none() => {
                telling.work_until(nanos, rate.now_at(course.operations), course);
            }
            ActiveDivider::Told(_) => {}
        }
    }

    pub fn time(&self) -> MoverTime {
        match self {
            ActiveDivider::Tuned(tuned) => tuned.time,
            ActiveDivider::Told(telling) => telling.mover.time,
        }
    }
}

/// The tuner of a server with this policy, which profiles only where the policy asks for it; `hit_us` is how long hits
/// take.
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

/// What a server with so much memory profiles within: a fiftieth, and a mebibyte.
pub fn profiling_options(memory_limit_bytes: u64) -> ProfilingOptions {
    let memory_bytes = memory_limit_bytes / 50 + (1 << 20);
    let options = ProfilingOptions::within(memory_bytes);
    options.unwrap_or_else(|| panic!("{memory_bytes} bytes are enough for a profile"))
}

/// Every key, and every access, as published policies are told of them. No experiment has more keys.
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

impl TellingMover<'_, '_> {
    fn work_until(&mut self, nanos: f64, now: Now, course: &mut Course) {
        let Some(decision) = self.due.checked_sub(1) else { return };
        let TellingMover { told, mover, split, start_nanos, .. } = self;
        let request = course.requests;
        let (arrivals, at_target) = (&mut course.arrivals, &mut course.at_target);
        let decided = &mut course.split;
        let next = |engine: &Engine| {
            // While the pool has pages, a class that needs one takes it there.
            if split.is_none() && !engine.page_stats().memory_full() {
                return None;
            }
            let split = split.get_or_insert_with(|| {
                let split = (told.split)(decision, &pages_by_class(engine, now));
                *decided = Some(split.clone());
                split
            });
            let next = split.next_move(engine, now);
            if next.is_none() {
                *at_target = Some(request);
            }
            next
        };
        mover.work_until(nanos, request, next, arrivals);
        course.moving_nanos = nanos - *start_nanos;
    }
}

/// The part that no workload has, of keys that are stored before the first request and never asked for.
const EARLIER_PART: usize = 255;

/// This run, its mover charged by what visits cost on an engine that is filled like this one's.
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

/// Runs it, with pages divided by `divider`.
pub fn execute(
    run: &Run<'_>,
    divider: Divider<'_>,
    progress: &ProgressBar,
) -> Result<Course, ExperimentError> {
    let began_nanos = thread_cpu_nanos();
    let engine = Engine::new(run.engine_config())?;
    let mut requests = run.requests(engine.config())?;
    let total = scaled(run.workload.requests, run.scale);
    let mut course = Course {
        changed_at: divider.first_at(),
        window_requests: total.div_ceil(run.windows),
        ..Course::default()
    };
    let mut cache = Cache::new(&engine);
    let dates = Arc::new(Clock::manual());
    let mut divider = ActiveDivider::new(&engine, run, divider, &dates);
    store_before(run, &engine, &requests, &mut cache, &mut divider);
    let mut maintainer = Maintainer::new(&engine);
    let (mut misses, mut answer_us) = (0, 0.0);
    progress.set_length(total);
    while course.requests < total {
        // A batch ends where something changes.
        let window_left = course.window_requests - course.requests % course.window_requests;
        let next = divider.next_decision(course.requests).unwrap_or(total);
        let batch = requests.next(window_left.min(next.min(total) - course.requests))?;
        cache.prefetch(batch);
        let now = run.rate.now_at(course.operations);
        maintainer.work_until(run.rate.nanos_at(course.operations));
        divider.decide(&mut course, run.rate);
        for request in batch {
            divider.work(&mut course, run.rate);
            let access = cache.look_up(request, now);
            let us = run.answer.us(access, request.value_len);
            dates.advance(Duration::from_nanos((us * 1e3) as u64));
            if access == Access::Miss {
                cache.bring_in(request, None, now);
                misses += 1;
            }
            answer_us += us;
            course.operations += access.operations();
            course.requests += 1;
        }
        if course.requests.is_multiple_of(course.window_requests) || course.requests == total {
            course.misses.push(std::mem::take(&mut misses));
            course.answer_us.push(std::mem::take(&mut answer_us));
            course.pages.push(pages_by_class(&engine, now));
            course.moved.push(engine.mover_counters().moved);
            progress.set_position(course.requests);
        }
        if course.at_target.is_some() && run.at_target == AtTarget::Stop {
            break;
        }
    }
    course.counts = engine.mover_counters();
    course.time = divider.time();
    course.classes = engine.class_stats(run.rate.now_at(course.operations));
    course.memory = engine.page_stats();
    course.processor_nanos = thread_cpu_nanos() - began_nanos;
    progress.finish_and_clear();
    Ok(course)
}

fn store_before(
    run: &Run<'_>,
    engine: &Engine,
    requests: &Requests,
    cache: &mut Cache<'_>,
    divider: &mut ActiveDivider<'_, '_>,
) {
    let mut store = |key, value_len| {
        cache.request(&Request { key, value_len, op: Op::Set, cost: None }, run.rate.now_at(0));
        divider.observe();
    };
    for key in preloaded(run.preload, run.scale) {
        store(key, requests.value_len(key));
    }
    let Some(EarlierSetup { value_factor }) = run.earlier else { return };
    let mut ranks = 0..;
    while !engine.page_stats().memory_full() {
        let rank = ranks.next().unwrap_or_else(|| panic!("memory is full before keys end"));
        let value_len = requests.longer_value_len(rank, value_factor);
        store(key_of(EARLIER_PART, rank), value_len);
    }
}

#[cfg(test)]
mod tests {
    use super::{ActiveDivider, Cache, Divider, EarlierSetup, Run, store_before};
    use crate::experiment::policies::PoliciesSetup;
    use crate::registry;
    use crate::vtime::MoverName;
    use slabwise_base::Clock;
    use slabwise_engine::Engine;
    use slabwise_policy::PagePolicy;
    use std::sync::Arc;

    #[test]
    fn what_is_stored_before_the_first_request_is_profiled_and_fills_the_memory() {
        let (_, setup) = registry::parsed::<PoliciesSetup>("multi-tenant");
        let size = (0.001, 7);
        let run = Run::new(&setup.workload, &setup.cache, &setup.time, MoverName::Warm, size);
        let preload = [2_000_000, 1_000_000];
        let stored = |earlier| {
            let run =
                Run { preload: &preload, earlier, full_profile_gets: Some(1_000), ..run.clone() };
            let engine = Engine::new(run.engine_config()).expect("an engine");
            let requests = run.requests(engine.config()).expect("requests");
            let policy = PagePolicy::named("lama").expect("it is there");
            let dates = Arc::new(Clock::manual());
            let divider = Divider::Policy(Box::new(policy));
            let mut divider = ActiveDivider::new(&engine, &run, divider, &dates);
            store_before(&run, &engine, &requests, &mut Cache::new(&engine), &mut divider);
            let profiling = divider.tuner().and_then(|tuner| tuner.profiling()).expect("profiles");
            (profiling.stats().accesses, engine.page_stats().memory_full())
        };
        assert_eq!(stored(None), (3_000, false));
        let (stores, is_full) = stored(Some(EarlierSetup { value_factor: 2.0 }));
        assert!(stores > 3_000 && is_full, "{stores} stores");
    }
}
