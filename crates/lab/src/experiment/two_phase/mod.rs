//! `two-phase`: compares movers after clients have started to store items of a second size.
//!
//! ```text
//!   requests  |-- phase 1: first class --|---------- phase 2: 33 % first class, 67 % second class ----------|
//!   pages      all in the first class     one page at a time moves, until the target partition is reached
//! ```
//!
//! In phase 1 the cache is full of items of one size. Two deciders set the target partition:
//!
//! - `lama` (variants `lama, MOVER`), as published: the page policy decides every M gets, from the footprints of the last
//!   gets.
//! - an oracle (variants `MOVER`): the best partition by exact curves of phase 2, which are data from the future.
//!
//! All variants get the same requests and the same rate of gets and sets.

mod decision;
mod live;

pub use decision::TwoPhaseSetup;

use super::kind::{Experiment, Job};
use crate::result::{Outcome, format_number, measures};
use crate::trial::error::ExperimentError;
use crate::trial::execute::{Controller, OracleAllocation};
use crate::trial::run::Run;
use crate::trial::run_record::{
    FEWER_MEAN, MEAN, PAGES, RunRecord, STEADY, add_allocation_steady, add_at_target,
    add_fewer_gets, add_gets, add_mover_counts, add_series, add_steady, steady,
};
use crate::trial::setup::scaled;
use crate::trial::visits::add_visit;
use crate::vtime::MoverName;
use decision::{Decision, decide};
use rayon::iter::{IntoParallelRefIterator, ParallelIterator};
use slabwise_policy::PagePolicy;
use std::collections::BTreeMap;

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

/// A run, and the decider of its partition.
struct Variant<'s> {
    name: String,
    run: Run<'s>,
    is_lama: bool,
}

fn run(setup: &TwoPhaseSetup, job: &Job<'_>, outcome: &mut Outcome) -> Result<(), ExperimentError> {
    outcome.page_share = setup.cache.page_share(job.scale);
    let variants = variants(setup, job)?;
    let decision = decide(setup, job)?;
    let partition = |_: usize, pages: &[u64]| decision.partition(pages.iter().sum());
    let at = [scaled(setup.workload.first_phase_requests, job.scale)];
    let oracle = Controller::Oracle(OracleAllocation { at: &at, partition: &partition });
    let records: Result<Vec<_>, ExperimentError> = variants
        .par_iter()
        .map(|variant| {
            let controller = if variant.is_lama { lama(setup, job.scale)? } else { oracle.clone() };
            job.execute(&variant.name, &variant.run, controller)
        })
        .collect();
    let records = records?;
    describe(outcome, setup, job, &decision);
    for (variant, record) in variants.iter().zip(&records) {
        add_record(outcome, setup, variant, record);
    }
    for name in ["fast", "lama, fast"] {
        add_against_base(outcome, name, &variants, &records);
    }
    for Variant { run, .. } in variants.iter().filter(|variant| !variant.is_lama) {
        add_visit(outcome, run.mover, run.cost);
    }
    if let Some(partition) = records.iter().find_map(|record| record.partition.as_ref()) {
        let shown = format!("{} and {} pages", partition.pages[0], partition.pages[1]);
        outcome.add_setup("target partition of the oracle", shown);
        let predicted = decision.miss_ratio(partition) * 100.0;
        outcome.add(PREDICTED, "exact curves", Ok(predicted));
    }
    Ok(())
}

/// Returns a controller in which the page policy `lama` decides.
fn lama(setup: &TwoPhaseSetup, scale: f64) -> Result<Controller<'static>, ExperimentError> {
    let period = scaled(setup.lama.period_gets, scale).to_string();
    let pages_max = u32::MAX.to_string();
    let options = [("period_gets", period.as_str()), ("moves_max", &pages_max)];
    let policy = PagePolicy::with_options("lama", &options);
    let policy = policy.map_err(|error| ExperimentError::Option(error.to_string()))?;
    Ok(Controller::Policy(Box::new(policy)))
}

/// Returns all variants, with the time of a visit by their mover. The measurements run one after the other, because
/// parallel measurements would affect each other.
fn variants<'s>(
    setup: &'s TwoPhaseSetup,
    job: &Job<'_>,
) -> Result<Vec<Variant<'s>>, ExperimentError> {
    let spinner = job.progress.spinner("measuring the cost of a visit to a chunk");
    let (mut variants, mut costs) = (Vec::new(), BTreeMap::new());
    let oracle = setup.movers.iter().map(|&mover| (mover, false));
    for (mover, is_lama) in oracle.chain(setup.lama.movers.iter().map(|&mover| (mover, true))) {
        let run = Run::new(&setup.workload, &setup.cache, &setup.time, mover, job.size());
        let mut run = Run { windows: setup.windows, ..run };
        match costs.get(&mover) {
            Some(&cost) => run.cost = cost,
            None => job.set_visit_cost(&mut run)?,
        }
        costs.insert(mover, run.cost);
        let mut name = mover.to_string();
        if is_lama {
            run.has_no_move_budget = true;
            run.full_profile_gets = Some(scaled(setup.lama.period_gets, job.scale));
            name = format!("lama, {mover}");
        }
        variants.push(Variant { name, run, is_lama });
    }
    spinner.finish_and_clear();
    Ok(variants)
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
    for (name, reason) in &setup.chosen {
        outcome.add_setup(name, reason);
    }
}

/// Adds the rows that compare a variant of `fast` with the variant of `base` that has the same decider.
fn add_against_base(
    outcome: &mut Outcome,
    name: &str,
    variants: &[Variant<'_>],
    records: &[RunRecord],
) {
    let record = |name: &str| {
        let place = variants.iter().position(|variant| variant.name == name);
        place.map(|place| &records[place])
    };
    let base = name.replace("fast", "base");
    let (Some(fast), Some(of_base)) = (record(name), record(&base)) else { return };
    let name = format!("{name} against {base}");
    let fewer = (1.0 - fast.miss_ratio() / of_base.miss_ratio()) * 100.0;
    outcome.add(FEWER_MEAN, &name, Ok(fewer));
    add_fewer_gets(outcome, &name, [fast, of_base]);
}

/// Adds the rows and series of a variant.
fn add_record(
    outcome: &mut Outcome,
    setup: &TwoPhaseSetup,
    variant: &Variant<'_>,
    record: &RunRecord,
) {
    let page_size_bytes = setup.cache.engine_config(outcome.scale, outcome.seed).page_size_bytes;
    let Variant { name, run, is_lama } = variant;
    outcome.add(MEAN, name, Ok(record.miss_ratio() * 100.0));
    let steady = steady(record, setup.steady_tolerance_points / 100.0);
    outcome.add(STEADY, name, Ok(steady.final_ratio * 100.0));
    add_steady(outcome, name, record, &steady);
    add_series(outcome, name, record);
    if run.mover == MoverName::None {
        return;
    }
    match is_lama {
        true => add_allocation_steady(outcome, name, record),
        false => add_at_target(outcome, name, record),
    }
    outcome.add(PAGES, name, Ok(record.counts.moved as f64));
    if page_size_bytes < setup.cache.page_size_kib << 10 {
        outcome.note_last_row(
            "at this scale pages are smaller than published, so more pages move, and each move takes less time",
        );
    }
    add_gets(outcome, name, record);
    add_mover_counts(outcome, name, &record.counts);
    if !is_lama {
        let moving_nanos = record.moving_nanos.max(1.0);
        outcome.add(CPU, name, Ok(record.time.work_nanos / moving_nanos * 100.0));
    }
}
