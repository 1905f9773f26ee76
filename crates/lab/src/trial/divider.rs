//! Who divides the pages during a run, and moves them between its requests.

use super::course::Course;
use super::run::Run;
use super::split::{Split, pages_by_class};
use crate::vtime::{Mover, MoverTime, Rate, Tuned};
use slabwise_base::{Clock, Now};
use slabwise_engine::Engine;
use slabwise_policy::PagePolicy;
use slabwise_profile::ProfilerOptions;
use slabwise_tuner::{MoveBudget, Profiling, ProfilingOptions, Tuner};
use std::sync::Arc;

#[derive(Clone, Debug)]
pub enum Divider<'t> {
    /// A page policy, by a tuner's steps.
    Policy(Box<PagePolicy>),
    Told(Told<'t>),
}

/// Splits that are decided outside; pages move one at a time, as fast as the mover can.
#[derive(Clone, Copy)]
pub struct Told<'t> {
    /// The requests before which a split is decided, ascending.
    pub at: &'t [u64],
    /// The split that is decided at that place in `at`, by the pages owned then.
    pub split: &'t (dyn Fn(usize, &[u64]) -> Split + Sync),
}

impl std::fmt::Debug for Told<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Told(at {:?})", self.at)
    }
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

pub struct ActiveDivider<'e, 't> {
    rate: Rate,
    kind: Kind<'e, 't>,
}

enum Kind<'e, 't> {
    Tuned(Box<Tuned<'e>>),
    Told(TellingMover<'e, 't>),
}

struct TellingMover<'e, 't> {
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
        let kind = match divider {
            Divider::Policy(policy) => {
                let profiling = match run.full_profile_gets {
                    None => profiling_options(engine.config().memory_limit_bytes),
                    Some(gets) => full_profiling_options(gets),
                };
                let mut tuner = tuner(engine, *policy, profiling, dates, run.seed);
                if let Some(profiling) = tuner.profiling_mut() {
                    profiling.set_hit_time_us(run.answer.hit_us);
                }
                Kind::Tuned(Box::new(Tuned::new(engine, tuner, run.cost)))
            }
            Divider::Told(told) => {
                let mover = Mover::new(engine, run.mover, run.cost, run.sleep, 0.0);
                Kind::Told(TellingMover { told, mover, due: 0, split: None, start_nanos: 0.0 })
            }
        };
        ActiveDivider { rate: run.rate, kind }
    }

    #[cfg(test)]
    pub fn tuner(&self) -> Option<&Tuner> {
        match &self.kind {
            Kind::Tuned(tuned) => Some(tuned.tuner()),
            Kind::Told(_) => None,
        }
    }

    pub fn observe(&mut self) {
        if let Kind::Tuned(tuned) = &mut self.kind {
            tuned.observe(self.rate.now_at(0));
        }
    }

    /// The request before which the next split is decided, if that lies behind `request`.
    pub fn next_decision(&self, request: u64) -> Option<u64> {
        let Kind::Told(telling) = &self.kind else { return None };
        telling.told.at[telling.due..].iter().copied().find(|&at| at > request)
    }

    pub fn decide(&mut self, course: &mut Course) {
        let Kind::Told(telling) = &mut self.kind else { return };
        let at = &telling.told.at[telling.due..];
        if at.first().is_none_or(|&at| at > course.requests) {
            return;
        }
        if telling.due == 0 {
            telling.start_nanos = self.rate.nanos_at(course.operations);
            telling.mover.idle_until(telling.start_nanos);
        }
        telling.due += 1;
        telling.split = None;
        course.at_target = None;
    }

    /// Works until the next request comes.
    #[inline]
    pub fn work(&mut self, course: &mut Course) {
        let nanos = self.rate.nanos_at(course.operations);
        match &mut self.kind {
            Kind::Tuned(tuned) => tuned.work_until(nanos),
            Kind::Told(telling) if course.at_target.is_none() => {
                telling.work_until(nanos, self.rate.now_at(course.operations), course);
            }
            Kind::Told(_) => {}
        }
    }

    pub fn time(&self) -> MoverTime {
        match &self.kind {
            Kind::Tuned(tuned) => tuned.time(),
            Kind::Told(telling) => telling.mover.time(),
        }
    }
}

/// The tuner of a server with this policy, which profiles only where the policy asks for it.
pub fn tuner(
    engine: &Engine,
    policy: PagePolicy,
    options: ProfilingOptions,
    dates: &Arc<Clock>,
    seed: u64,
) -> Tuner {
    let budget = MoveBudget::for_pages_of(engine.config().page_size_bytes);
    let needs_profiles = policy.wants().needs_profiles();
    let tuner = Tuner::new(policy, budget, seed);
    if !needs_profiles {
        return tuner;
    }
    tuner.with_profiling(Profiling::start(engine, options, Arc::clone(dates), Now::from_nanos(0)))
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
        mover.work_until(nanos, request, next, |arrival| arrivals.push(arrival));
        course.moving_nanos = nanos - *start_nanos;
    }
}
