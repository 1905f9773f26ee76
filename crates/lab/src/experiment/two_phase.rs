//! `two-phase`: a cache that is full of one size of items meets a second one.
//!
//! ```text
//!   requests  |-- phase 1: first class --|------------- phase 2: 33 % first, 67 % second -------------|
//!   pages      all in the first class     one by one to the split that exact curves call for
//! ```
//!
//! Every mover sees the same requests, the same split and the same time; only the mover differs.

use super::course::Course;
use super::course_rows::{
    MEAN, PAGES, STEADY, add_at_target, add_gets, add_met, add_series, add_steady, measures,
};
use super::divider::{Divider, Told};
use super::error::ExperimentError;
use super::exact_curves;
use super::outcome::{Measure, Outcome, Scaling, number};
use super::progress::Progress;
use super::run::Run;
use super::spec::{Spec, TwoPhaseSetup, scaled};
use super::split::Split;
use super::steady::steady;
use crate::virtual_time::MoverName;
use rayon::iter::{IntoParallelRefIterator, ParallelIterator};
use slabwise_profile::Mrc;

measures! {
    PREDICTED: "predicted_miss_ratio", "miss ratio that the curves predict", "%", Fixed;
    VISIT: "visit_cost", "a visit to a chunk, measured", "ns", Fixed;
    CPU: "mover_cpu_percent", "the mover's processor while moving", "%", Fixed;
}

/// What the split was decided on.
struct Decision {
    curves: Vec<Mrc>,
    chunks_per_page: [u64; 2],
    profiled: u64,
}

/// Runs it in the process.
pub fn run(
    spec: &Spec,
    setup: &TwoPhaseSetup,
    scale: f64,
    seed: u64,
    progress: &Progress,
) -> Result<Outcome, ExperimentError> {
    let mut outcome = Outcome::new(spec, seed, scale, false);
    let runs = measured_runs(setup, scale, seed, progress)?;
    let decision = decide(setup, scale, seed, progress)?;
    let split = |_: usize, pages: &[u64]| decision.split(pages.iter().sum());
    let at = [scaled(setup.workload.first_phase_requests, scale)];
    let told = Divider::Told(Told { at: &at, split: &split });
    let courses: Result<Vec<_>, ExperimentError> = runs
        .par_iter()
        .map(|run| run.go(told.clone(), &progress.bar(&run.mover.to_string())))
        .collect();
    let courses = courses?;
    describe(&mut outcome, setup, scale, seed, &decision);
    for (run, course) in runs.iter().zip(&courses) {
        add_course(&mut outcome, setup, run, course);
    }
    if let Some(split) = courses.iter().find_map(|course| course.split.as_ref()) {
        let shown = format!("{} and {} pages", split.pages[0], split.pages[1]);
        outcome.choose("target split", shown);
        let predicted = decision.miss_ratio(split) * 100.0;
        outcome.add(PREDICTED, "exact curves", Ok(predicted));
    }
    outcome.complete();
    Ok(outcome)
}

/// One run a mover, each charged by what was measured for it; one after the other, so that they do not
/// disturb each other.
fn measured_runs<'s>(
    setup: &'s TwoPhaseSetup,
    scale: f64,
    seed: u64,
    progress: &Progress,
) -> Result<Vec<Run<'s>>, ExperimentError> {
    let spinner = progress.spinner("measuring what a visit to a chunk costs");
    let runs = setup.movers.iter().map(|&mover| {
        let size = (scale, seed);
        let run = Run::new(&setup.workload, &setup.cache, &setup.time, mover, size);
        let run = Run { windows: setup.windows, ..run };
        // The control moves nothing: whatever it is charged, it is never charged.
        if mover == MoverName::None { Ok(run) } else { run.measured() }
    });
    let runs = runs.collect();
    spinner.finish_and_clear();
    runs
}

/// The share of the pages that exact curves give to the second class.
pub(super) fn second_share(
    setup: &TwoPhaseSetup,
    scale: f64,
    seed: u64,
    progress: &Progress,
) -> Result<f64, ExperimentError> {
    /// Finer than any server's pages.
    const PAGES: u64 = 10_000;
    let mut decision = decide(setup, scale, seed, progress)?;
    let memory_bytes = scaled(setup.cache.memory_mib, scale) << 20;
    // In pages of that size, whatever the pages inside are.
    let page_bytes = memory_bytes as f64 / PAGES as f64;
    let chunks = |size: &u32| (page_bytes / f64::from(*size)).round() as u64;
    let config = setup.cache.engine_config(scale, seed);
    let chunks: Vec<u64> = config.classes.sizes().iter().map(chunks).collect();
    decision.chunks_per_page = [chunks[0], chunks[1]];
    Ok(decision.split(PAGES).pages[1] as f64 / PAGES as f64)
}

/// Exact curves of the first requests of the second phase.
fn decide(
    setup: &TwoPhaseSetup,
    scale: f64,
    seed: u64,
    progress: &Progress,
) -> Result<Decision, ExperimentError> {
    let spinner = progress.spinner("exact stack distances of phase 2");
    let config = setup.cache.engine_config(scale, seed);
    let first_phase = scaled(setup.workload.first_phase_requests, scale);
    let second_phase = scaled(setup.workload.requests, scale) - first_phase;
    let profiled = scaled(setup.profile_requests, scale).min(second_phase);
    let mut workload = setup.workload.open(scale, seed)?.skip(first_phase as usize);
    let requests = (0..profiled as usize).map(|_| {
        let request = workload.next();
        Ok(request.unwrap_or_else(|| panic!("a second phase has all its requests"))?)
    });
    let curves = exact_curves::of_second_half(requests, &config)?;
    let sizes = config.classes.sizes().iter();
    let chunks: Vec<u64> =
        sizes.map(|&size| config.page_size_bytes as u64 / u64::from(size)).collect();
    spinner.finish_and_clear();
    Ok(Decision { curves, chunks_per_page: [chunks[0], chunks[1]], profiled })
}

impl Decision {
    fn split(&self, pages: u64) -> Split {
        Split::best_of_two([&self.curves[0], &self.curves[1]], self.chunks_per_page, pages)
    }

    fn miss_ratio(&self, split: &Split) -> f64 {
        let classes = self.curves.iter().zip(&split.pages).zip(self.chunks_per_page);
        let misses: f64 =
            classes.map(|((curve, pages), chunks)| curve.misses(pages * chunks)).sum();
        misses / self.curves.iter().map(Mrc::references).sum::<f64>()
    }
}

fn describe(
    outcome: &mut Outcome,
    setup: &TwoPhaseSetup,
    scale: f64,
    seed: u64,
    decision: &Decision,
) {
    let config = setup.cache.engine_config(scale, seed);
    let requests = scaled(setup.workload.requests, scale) as f64;
    let first = scaled(setup.workload.first_phase_requests, scale) as f64;
    outcome.choose("requests", format!("{}, {} of them first", number(requests), number(first)));
    outcome.choose("memory", format!("{} bytes", number(config.memory_limit_bytes as f64)));
    outcome.choose("page size", format!("{} bytes", number(config.page_size_bytes as f64)));
    outcome.choose("chunk sizes", format!("{:?} bytes", config.classes.sizes()));
    outcome.choose(
        "rate",
        format!("{} gets and sets a second", number(setup.time.operations_per_second)),
    );
    outcome.choose("sleep", format!("{} us after a busy chunk", setup.time.sleep_us));
    let half = number(decision.profiled as f64 / 2.0);
    let text = format!("exact, {half} requests of phase 2 behind {half} that fill the stacks");
    outcome.choose("curves", text);
}

fn add_course(outcome: &mut Outcome, setup: &TwoPhaseSetup, run: &Run<'_>, course: &Course) {
    let page_size_bytes = setup.cache.engine_config(outcome.scale, outcome.seed).page_size_bytes;
    let name = run.mover.to_string();
    outcome.add(MEAN, &name, Ok(course.miss_ratio() * 100.0));
    let steady = steady(course, setup.steady_tolerance_points / 100.0);
    outcome.add(STEADY, &name, Ok(steady.final_ratio * 100.0));
    add_steady(outcome, &name, course, &steady);
    add_series(outcome, &name, course);
    if run.mover == MoverName::None {
        return;
    }
    add_at_target(outcome, &name, course);
    outcome.add(PAGES, &name, Ok(course.counts.pages as f64));
    if page_size_bytes < setup.cache.page_size_kib << 10 {
        outcome.note(
            "pages are smaller than published at this scale: there are more, and each is quicker",
        );
    }
    add_gets(outcome, &name, course);
    add_met(outcome, &name, &course.counts);
    outcome.add(VISIT, &name, Ok(run.cost.nanos()));
    let moving_nanos = course.moving_nanos.max(1.0);
    outcome.add(CPU, &name, Ok(course.time.work_nanos / moving_nanos * 100.0));
}
