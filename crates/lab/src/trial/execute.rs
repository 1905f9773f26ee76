//! Carries a [`Run`] out: requests, and between them the steps that move pages.
//!
//! ```text
//!   what is stored before --> requests, window by window ----------------------> Course
//!              ^                 ^ between two of them: ActiveDivider (a tuner, or told splits)
//!              '- it looks on, while time stands still
//! ```
//!
//! What is profiled is dated by a clock of its own, that of one client who waits for every answer: so profiles
//! tell how long answers take, which nothing here waits for.
//!
//! Invariant: everything but the processor's time follows from the run's fields, where the cost of a visit is not
//! measured.

use super::course::Course;
use super::divider::{ActiveDivider, Divider};
use super::error::ExperimentError;
use super::requests::Requests;
use super::run::{AtTarget, Run};
use super::setup::{EarlierSetup, FIRST_CLASS, SECOND_CLASS, scaled};
use super::split::pages_by_class;
use crate::vtime::{Access, Cache, Maintainer, VisitCost, thread_cpu_nanos};
use indicatif::ProgressBar;
use slabwise_base::Clock;
use slabwise_engine::Engine;
use slabwise_replay::workload::{Op, Request, key_of};
use std::sync::Arc;
use std::time::Duration;

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
    run.cost = VisitCost::measure(&engine, FIRST_CLASS, SECOND_CLASS, at)?;
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
        divider.decide(&mut course);
        for request in batch {
            divider.work(&mut course);
            let access = cache.look_up(request, now);
            let us = run.answer.us(access, request.value_len);
            dates.advance(Duration::from_nanos((us * 1e3) as u64));
            if access == Access::Miss {
                cache.bring_in(request, now);
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
    for (part, &keys) in run.preload.iter().enumerate() {
        for rank in (0..scaled(keys, run.scale)).rev() {
            let key = key_of(part, rank);
            store(key, requests.value_len(key));
        }
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
