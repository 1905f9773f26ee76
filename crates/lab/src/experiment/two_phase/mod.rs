//! `two-phase`: compares movers after clients have started to store items of a second size.
//!
//! ```text
//!   requests  |-- phase 1: first class --|---------- phase 2: 33 % first class, 67 % second class ----------|
//!   pages      all in the first class     one page at a time moves, until the target partition is reached
//! ```
//!
//! In phase 1 the cache is full of items of one size. The target partition is the best partition by exact curves of
//! phase 2. All movers get the same requests, the same rate of gets and sets, and the same target partition.

mod decision;
mod live;

pub use decision::TwoPhaseSetup;

use super::kind::{Experiment, Job};
use crate::result::{Outcome, format_number, measures};
use crate::trial::error::ExperimentError;
use crate::trial::execute::{Controller, OracleAllocation};
use crate::trial::run::Run;
use crate::trial::run_record::{
    MEAN, PAGES, RunRecord, STEADY, add_at_target, add_gets, add_mover_counts, add_series,
    add_steady, steady,
};
use crate::trial::setup::scaled;
use crate::trial::visits::add_visit;
use crate::vtime::MoverName;
use decision::{Decision, decide};
use rayon::iter::{IntoParallelRefIterator, ParallelIterator};

measures! {
    PREDICTED: "predicted_miss_ratio", "miss ratio that the curves predict", "%", Fixed;
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
        .map(|run| job.execute(&run.mover.to_string(), run, oracle.clone()))
        .collect();
    let records = records?;
    describe(outcome, setup, job, &decision);
    for (run, record) in runs.iter().zip(&records) {
        add_record(outcome, setup, run, record);
    }
    if let Some(partition) = records.iter().find_map(|record| record.partition.as_ref()) {
        let shown = format!("{} and {} pages", partition.pages[0], partition.pages[1]);
        outcome.add_setup("target partition", shown);
        let predicted = decision.miss_ratio(partition) * 100.0;
        outcome.add(PREDICTED, "exact curves", Ok(predicted));
    }
    Ok(())
}

/// Returns one run per mover, with the time of a visit by this mover. The measurements run one after
/// the other, because parallel measurements would affect each other.
fn measured_runs<'s>(
    setup: &'s TwoPhaseSetup,
    job: &Job<'_>,
) -> Result<Vec<Run<'s>>, ExperimentError> {
    let spinner = job.progress.spinner("measuring the cost of a visit to a chunk");
    let runs = setup.movers.iter().map(|&mover| {
        let run = Run::new(&setup.workload, &setup.cache, &setup.time, mover, job.size());
        let mut run = Run { windows: setup.windows, ..run };
        job.set_visit_cost(&mut run)?;
        Ok(run)
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
    let (requests, first) = (format_number(requests), format_number(first));
    outcome.add_setup("requests", format!("{requests}, of which {first} are in phase 1"));
    outcome
        .add_setup("memory", format!("{} bytes", format_number(config.memory_limit_bytes as f64)));
    outcome
        .add_setup("page size", format!("{} bytes", format_number(config.page_size_bytes as f64)));
    outcome.add_setup("chunk sizes", format!("{:?} bytes", config.classes.sizes()));
    outcome.add_setup("rate", setup.time.rate_text());
    outcome.add_setup("sleep", format!("{} us after a busy chunk", setup.time.sleep_us));
    let half = format_number(decision.profiled as f64 / 2.0);
    let text =
        format!("exact curves of {half} requests of phase 2, after {half} requests to warm up");
    outcome.add_setup("curves", text);
}

/// Adds the rows and series of a run.
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
        outcome.note_last_row(
            "at this scale pages are smaller than published, so more pages move, and each move takes less time",
        );
    }
    add_gets(outcome, &name, record);
    add_mover_counts(outcome, &name, &record.counts);
    add_visit(outcome, run.mover, run.cost);
    let moving_nanos = record.moving_nanos.max(1.0);
    outcome.add(CPU, &name, Ok(record.time.work_nanos / moving_nanos * 100.0));
}
