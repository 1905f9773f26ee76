//! `two-phase`: a cache that is full of one size of items meets a second one.
//!
//! ```text
//!   requests  |-- phase 1: first class --|------------- phase 2: 33 % first, 67 % second -------------|
//!   pages      all in the first class     one by one to the split that exact curves call for
//! ```
//!
//! Every mover sees the same requests, the same split and the same time; only the mover differs.

mod decision;
mod live;

pub use decision::TwoPhaseSetup;

use super::kind::{Experiment, Job};
use crate::result::{Outcome, measures, number};
use crate::trial::course::{
    Course, MEAN, PAGES, STEADY, add_at_target, add_gets, add_met, add_series, add_steady, steady,
};
use crate::trial::error::ExperimentError;
use crate::trial::execute::{Divider, Told, execute, measured};
use crate::trial::run::Run;
use crate::trial::setup::scaled;
use crate::vtime::MoverName;
use decision::{Decision, decide};
use rayon::iter::{IntoParallelRefIterator, ParallelIterator};

measures! {
    PREDICTED: "predicted_miss_ratio", "miss ratio that the curves predict", "%", Fixed;
    VISIT: "visit_cost", "a visit to a chunk, measured", "ns", Fixed;
    CPU: "mover_cpu_percent", "the mover's processor while moving", "%", Fixed;
}

impl Experiment for TwoPhaseSetup {
    fn live_scale(&self) -> Option<f64> {
        Some(self.live.scale)
    }

    fn has_live(&self) -> bool {
        true
    }

    fn fill(&self, job: &Job<'_>, outcome: &mut Outcome) -> Result<(), ExperimentError> {
        if job.live { live::run(self, job, outcome) } else { run(self, job, outcome) }
    }
}

fn run(setup: &TwoPhaseSetup, job: &Job<'_>, outcome: &mut Outcome) -> Result<(), ExperimentError> {
    let runs = measured_runs(setup, job)?;
    let decision = decide(setup, job)?;
    let split = |_: usize, pages: &[u64]| decision.split(pages.iter().sum());
    let at = [scaled(setup.workload.first_phase_requests, job.scale)];
    let told = Divider::Told(Told { at: &at, split: &split });
    let courses: Result<Vec<_>, ExperimentError> = runs
        .par_iter()
        .map(|run| execute(run, told.clone(), &job.progress.bar(&run.mover.to_string())))
        .collect();
    let courses = courses?;
    describe(outcome, setup, job, &decision);
    for (run, course) in runs.iter().zip(&courses) {
        add_course(outcome, setup, run, course);
    }
    if let Some(split) = courses.iter().find_map(|course| course.split.as_ref()) {
        let shown = format!("{} and {} pages", split.pages[0], split.pages[1]);
        outcome.choose("target split", shown);
        let predicted = decision.miss_ratio(split) * 100.0;
        outcome.add(PREDICTED, "exact curves", Ok(predicted));
    }
    Ok(())
}

/// One run a mover, each charged by what was measured for it; one after the other, so that they do not
/// disturb each other.
fn measured_runs<'s>(
    setup: &'s TwoPhaseSetup,
    job: &Job<'_>,
) -> Result<Vec<Run<'s>>, ExperimentError> {
    let spinner = job.progress.spinner("measuring what a visit to a chunk costs");
    let runs = setup.movers.iter().map(|&mover| {
        let run = Run::new(&setup.workload, &setup.cache, &setup.time, mover, job.size());
        let run = Run { windows: setup.windows, ..run };
        // The control moves nothing: whatever it is charged, it is never charged.
        if mover == MoverName::None { Ok(run) } else { measured(run) }
    });
    let runs = runs.collect();
    spinner.finish_and_clear();
    runs
}

fn describe(outcome: &mut Outcome, setup: &TwoPhaseSetup, job: &Job<'_>, decision: &Decision) {
    let (scale, seed) = job.size();
    let config = setup.cache.engine_config(scale, seed);
    let requests = scaled(setup.workload.requests, scale) as f64;
    let first = scaled(setup.workload.first_phase_requests, scale) as f64;
    outcome.choose("requests", format!("{}, {} of them first", number(requests), number(first)));
    outcome.choose("memory", format!("{} bytes", number(config.memory_limit_bytes as f64)));
    outcome.choose("page size", format!("{} bytes", number(config.page_size_bytes as f64)));
    outcome.choose("chunk sizes", format!("{:?} bytes", config.classes.sizes()));
    outcome.choose("rate", setup.time.rate_text());
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
    outcome.add(PAGES, &name, Ok(course.counts.moved as f64));
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
