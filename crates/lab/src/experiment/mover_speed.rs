//! `mover-speed`: how many pages the mover moves in a second of its own processor time, by how long it
//! sleeps after a busy chunk.
//!
//! The set-up is that of `two-phase`; the first pages after the change of phase are moved. What visits cost
//! the processor, what sleeps cost it and how long they really are is measured; what requests do to the page
//! meanwhile is played on virtual time.

use super::course::Course;
use super::divider::{Divider, Told};
use super::error::ExperimentError;
use super::outcome::{Measure, Outcome, Scaling, number};
use super::progress::Progress;
use super::run::{AtTarget, Run};
use super::spec::{MoverSpeedSetup, Spec, scaled};
use super::split::Split;
use crate::virtual_time::{MoverName, SleepCost, SleepLength};
use rayon::iter::{IntoParallelRefIterator, ParallelIterator};
use slabwise_base::Clock;
use std::time::Duration;

const fn measure(name: &'static str, text: &'static str, unit: &'static str) -> Measure {
    Measure { name, text, unit, scaling: Scaling::Fixed }
}

const SPEED: Measure = measure("pages_a_second", "pages a second of mover processor", "pages/s");
const CPU: Measure = measure("cpu_percent", "the mover's processor while moving", "%");
const VISITS: Measure = measure("visits_a_page", "visits a page", "visits");
const SLEEPS: Measure = measure("sleeps_a_page", "sleeps a page", "sleeps");
const REALLOCATED: Measure = measure("reallocated_a_page", "re-allocated a page", "chunks");
const GETS: Measure = measure("gets_a_page", "GETs a page, mean", "requests");
const VISIT: Measure = measure("visit_cost", "a visit to a chunk, measured", "ns");
const SLEEP: Measure = measure("sleep_cost", "processor time of a sleep, measured", "ns");

/// A mover with what it sleeps.
struct Variant<'s> {
    name: String,
    run: Run<'s>,
    sleep: SleepCost,
}

/// Runs it.
pub fn run(
    spec: &Spec,
    setup: &MoverSpeedSetup,
    scale: f64,
    seed: u64,
    clock: &Clock,
    progress: &Progress,
) -> Result<Outcome, ExperimentError> {
    let mut outcome = Outcome::new(spec, seed, scale, false);
    let variants = variants(setup, scale, seed, clock, progress)?;
    let split = |_: usize, pages: &[u64]| Split {
        pages: vec![pages[0].saturating_sub(setup.pages), setup.pages + 1],
    };
    let at = [scaled(setup.workload.first_phase_requests, scale)];
    let told = Divider::Told(Told { at: &at, split: &split });
    let courses: Result<Vec<Course>, ExperimentError> = variants
        .par_iter()
        .map(|variant| variant.run.go(told.clone(), &progress.bar(&variant.name)))
        .collect();
    let config = setup.cache.engine_config(scale, seed);
    outcome.choose("pages moved in each run", setup.pages);
    outcome.choose("page size", format!("{} bytes", number(config.page_size_bytes as f64)));
    outcome.choose("chunk sizes", format!("{:?} bytes", config.classes.sizes()));
    outcome.choose(
        "rate",
        format!("{} gets and sets a second", number(setup.time.operations_per_second)),
    );
    for (variant, course) in variants.iter().zip(courses?) {
        add(&mut outcome, variant, &course);
    }
    outcome.complete();
    Ok(outcome)
}

fn variants<'s>(
    setup: &'s MoverSpeedSetup,
    scale: f64,
    seed: u64,
    clock: &Clock,
    progress: &Progress,
) -> Result<Vec<Variant<'s>>, ExperimentError> {
    let spinner = progress.spinner("measuring what visits and sleeps cost");
    let mut variants = Vec::new();
    for &mover in &setup.movers {
        let size = (scale, seed);
        let run = Run::new(&setup.workload, &setup.cache, &setup.time, mover, size);
        let run = Run { at_target: AtTarget::Stop, ..run };
        let run = run.measured()?;
        // What waits for nearly every chunk is tried with every sleep; the others hardly ever sleep.
        let sleeps = match mover {
            MoverName::Base => setup.sleeps_us.as_slice(),
            _ => &[setup.time.sleep_us],
        };
        for &sleep_us in sleeps {
            let name = match mover {
                MoverName::Base => format!("{mover}, {sleep_us} us"),
                _ => mover.to_string(),
            };
            let length = Duration::from_micros(sleep_us);
            let cost = SleepCost::measure(length, clock);
            let sleep = SleepLength::Measured { nanos: cost.wall_nanos };
            let run = Run { mover_rest: length, sleep, ..run.clone() };
            variants.push(Variant { name, run, sleep: cost });
        }
    }
    spinner.finish_and_clear();
    Ok(variants)
}

fn add(outcome: &mut Outcome, variant: &Variant<'_>, course: &Course) {
    let (name, time) = (variant.name.as_str(), &course.time);
    let pages = course.arrivals.iter().filter(|arrival| arrival.arrived).count() as f64;
    if pages == 0.0 {
        let why = || Err("no page arrived before the end of the run".to_owned());
        outcome.add(SPEED, name, why());
        outcome.add(CPU, name, why());
        return;
    }
    let cpu_nanos = time.work_nanos + time.sleeps as f64 * variant.sleep.cpu_nanos;
    let gets = course.arrivals.iter().map(|arrival| arrival.requests()).sum::<u64>() as f64;
    outcome.add(SPEED, name, Ok(pages / (cpu_nanos / 1e9)));
    // Falling asleep and waking are part of a sleep's length.
    outcome.add(CPU, name, Ok(cpu_nanos / (time.work_nanos + time.sleep_nanos) * 100.0));
    if time.sleeps > 0 {
        let wakes = variant.sleep.wall_nanos / 1e3;
        outcome.note(format!("timers fire late: here such a sleep takes {wakes:.0} us"));
    }
    for (measure, count) in [
        (VISITS, time.visits as f64),
        (SLEEPS, time.sleeps as f64),
        (REALLOCATED, course.counts.reallocated as f64),
        (GETS, gets),
    ] {
        outcome.add(measure, name, Ok(count / pages));
    }
    outcome.add(VISIT, name, Ok(variant.run.cost.nanos()));
    outcome.add(SLEEP, name, Ok(variant.sleep.cpu_nanos));
}
