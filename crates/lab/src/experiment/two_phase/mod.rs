//! `two-phase`: clients start to store items of a second size in a cache that is full of items of one size.
//!
//! ```text
//!   requests  |-- phase 1: first class --|------------- phase 2: 33 % first, 67 % second -------------|
//!   pages      all in the first class     one by one, to the best partition by exact curves
//! ```
//!
//! All movers get the same requests, the same target partition and the same time.

mod decision;
mod live;

pub use decision::TwoPhaseSetup;

use super::kind::{Experiment, Job};
use crate::result::{Outcome, measures, number};
use crate::trial::error::ExperimentError;
use crate::trial::execute::{Controller, OracleAllocation, execute, measured};
use crate::trial::run::Run;
use crate::trial::run_record::{
    MEAN, PAGES, RunRecord, STEADY, add_at_target, add_gets, add_mover_counts, add_series,
    add_steady, steady,
};
use crate::trial::setup::scaled;
use crate::vtime::MoverName;
use decision::{Decision, decide};
use rayon::iter::{IntoParallelRefIterator, ParallelIterator};

measures! {
    PREDICTED: "predicted_miss_ratio", "miss ratio that the curves predict", "%", Fixed;
    VISIT: "visit_cost", "a visit to a chunk, measured", "ns", Fixed;
    CPU: "mover_cpu_percent", "processor use of the mover while moving", "%", Fixed;
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
    let partition = |_: usize, pages: &[u64]| decision.partition(pages.iter().sum());
    let at = [scaled(setup.workload.first_phase_requests, job.scale)];
    let oracle = Controller::Oracle(OracleAllocation { at: &at, partition: &partition });
    let records: Result<Vec<_>, ExperimentError> = runs
        .par_iter()
        .map(|run| execute(run, oracle.clone(), &job.progress.bar(&run.mover.to_string())))
        .collect();
    let records = records?;
    describe(outcome, setup, job, &decision);
    for (run, record) in runs.iter().zip(&records) {
        add_record(outcome, setup, run, record);
    }
    if let Some(partition) = records.iter().find_map(|record| record.partition.as_ref()) {
        let shown = format!("{} and {} pages", partition.pages[0], partition.pages[1]);
        outcome.choose("target partition", shown);
        let predicted = decision.miss_ratio(partition) * 100.0;
        outcome.add(PREDICTED, "exact curves", Ok(predicted));
    }
    Ok(())
}

/// Measures the cost of a visit for each mover; sequentially, so that the measurements do not disturb each other.
fn measured_runs<'s>(
    setup: &'s TwoPhaseSetup,
    job: &Job<'_>,
) -> Result<Vec<Run<'s>>, ExperimentError> {
    let spinner = job.progress.spinner("measuring the cost of a visit to a chunk");
    let runs = setup.movers.iter().map(|&mover| {
        let run = Run::new(&setup.workload, &setup.cache, &setup.time, mover, job.size());
        let run = Run { windows: setup.windows, ..run };
        // The control moves no page, so it needs no cost.
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
    let text = format!("exact, of {half} requests of phase 2 after a warm-up of {half}");
    outcome.choose("curves", text);
}

fn add_record(outcome: &mut Outcome, setup: &TwoPhaseSetup, run: &Run<'_>, record: &RunRecord) {
    let page_size_bytes = setup.cache.engine_config(outcome.scale, outcome.seed).page_size_bytes;
    let name = run.mover.to_string();
    outcome.add(MEAN, &name, Ok(record.miss_ratio() * 100.0));
    let steady = steady(record, setup.steady_tolerance_points / 100.0);
    outcome.add(STEADY, &name, Ok(steady.final_ratio * 100.0));
    add_steady(outcome, &name, record, &steady);
    add_series(outcome, &name, record);
    if run.mover == MoverName::None {
        return;
    }
    add_at_target(outcome, &name, record);
    outcome.add(PAGES, &name, Ok(record.counts.moved as f64));
    if page_size_bytes < setup.cache.page_size_kib << 10 {
        outcome.note(
            "pages are smaller than published at this scale, so more pages move, and each moves faster",
        );
    }
    add_gets(outcome, &name, record);
    add_mover_counts(outcome, &name, &record.counts);
    outcome.add(VISIT, &name, Ok(run.cost.nanos()));
    let moving_nanos = record.moving_nanos.max(1.0);
    outcome.add(CPU, &name, Ok(record.time.work_nanos / moving_nanos * 100.0));
}
