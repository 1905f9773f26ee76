//! `mover-speed`: measures the number of pages that a mover moves per second of its processor time.
//!
//! The workload and the cache are those of `two-phase`. Each run moves the first pages after the change of phase. The
//! mover `base` has one run for each of several lengths of its sleep after a busy chunk. The experiment measures the
//! processor time of visits to chunks, the processor time of sleeps and the actual length of sleeps on this machine.
//! Requests run in virtual time.

use super::kind::{Experiment, Job};
use crate::result::{Outcome, format_number, measures};
use crate::trial::curves::Partition;
use crate::trial::error::ExperimentError;
use crate::trial::execute::{Controller, OracleAllocation};
use crate::trial::run::{AtTarget, Run};
use crate::trial::run_record::RunRecord;
use crate::trial::setup::{CacheSetup, TimeSetup, WorkloadSetup, scaled};
use crate::trial::visits::VISIT;
use crate::vtime::{MoverName, Rate, SleepCost, SleepLength};
use rayon::iter::{IntoParallelRefIterator, ParallelIterator};
use serde::Deserialize;
use slabwise_base::Clock;
use std::time::Duration;

measures! {
    SPEED: "pages_per_second", "pages per second of mover processor time", "pages/s", Fixed;
    SPEED_WITHOUT_SLEEPS: "pages_per_second_without_sleeps", "pages per second of mover processor time, if sleeps take none", "pages/s", Fixed;
    CPU: "cpu_percent", "processor use of the mover while moving", "%", Fixed;
    VISITS: "visits_per_page", "visits per page", "visits", Fixed;
    SLEEPS: "sleeps_per_page", "sleeps per page", "sleeps", Fixed;
    REALLOCATED: "reallocated_per_page", "chunks re-allocated before the next visit, per page", "chunks", Fixed;
    GETS: "gets_per_page", "GETs per page, mean", "requests", WithPageSize;
    SLEEP: "sleep_cost", "processor time of a sleep, measured", "ns", Fixed;
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MoverSpeedSetup {
    pub movers: Vec<MoverName>,
    /// Lengths of the sleep of `base` after a busy chunk, in microseconds. There is one run per length.
    pub sleeps_us: Vec<u64>,
    /// Rates of gets and sets per second, in addition to that of `time`. There is one run of `base` per rate, with the sleep
    /// of `time`.
    pub rates: Vec<f64>,
    /// Number of pages that move in each run.
    pub pages: u64,
    pub workload: WorkloadSetup,
    pub cache: CacheSetup,
    pub time: TimeSetup,
}

/// A mover, and the length of its sleep after a busy chunk.
struct Variant<'s> {
    name: String,
    run: Run<'s>,
    /// Measured cost of a sleep of the mover.
    sleep: SleepCost,
}

impl Experiment for MoverSpeedSetup {
    fn fill(&self, job: &Job<'_>, outcome: &mut Outcome) -> Result<(), ExperimentError> {
        let (setup, (scale, seed)) = (self, job.size());
        outcome.page_share = setup.cache.page_share(job.scale);
        let variants = variants(setup, job)?;
        let partition = |_: usize, pages: &[u64]| Partition {
            pages: vec![pages[0].saturating_sub(setup.pages), setup.pages + 1],
        };
        let at = [scaled(setup.workload.first_phase_requests, scale)];
        let oracle = Controller::Oracle(OracleAllocation { at: &at, partition: &partition });
        let records: Result<Vec<RunRecord>, ExperimentError> = variants
            .par_iter()
            .map(|variant| job.execute(&variant.name, &variant.run, oracle.clone()))
            .collect();
        let config = setup.cache.engine_config(scale, seed);
        outcome.add_setup("pages moved in each run", setup.pages);
        outcome.add_setup(
            "page size",
            format!("{} bytes", format_number(config.page_size_bytes as f64)),
        );
        outcome.add_setup("chunk sizes", format!("{:?} bytes", config.classes.sizes()));
        outcome.add_setup("rate", setup.time.rate_text());
        for (variant, record) in variants.iter().zip(records?) {
            add(outcome, variant, &record);
        }
        Ok(())
    }
}

/// Returns one variant for each mover and length of a sleep, with the costs measured on this machine.
fn variants<'s>(
    setup: &'s MoverSpeedSetup,
    job: &Job<'_>,
) -> Result<Vec<Variant<'s>>, ExperimentError> {
    let spinner = job.progress.spinner("measuring the cost of visits and sleeps");
    let mut variants = Vec::new();
    for &mover in &setup.movers {
        let run = Run::new(&setup.workload, &setup.cache, &setup.time, mover, job.size());
        let mut run = Run { at_target: AtTarget::Stop, ..run };
        job.set_visit_cost(&mut run)?;
        // `base` sleeps at nearly every chunk, so it has one run per length and rate. The other movers rarely sleep.
        let default = (setup.time.sleep_us, None);
        let conditions: Vec<(u64, Option<f64>)> = match mover {
            MoverName::Base => {
                let rates = setup.rates.iter().map(|&rate| (setup.time.sleep_us, Some(rate)));
                setup.sleeps_us.iter().map(|&sleep_us| (sleep_us, None)).chain(rates).collect()
            }
            _ => vec![default],
        };
        for (sleep_us, rate) in conditions {
            let length = Duration::from_micros(sleep_us);
            let measure = || Ok(SleepCost::measure(length, &Clock::real()));
            let cost = job.units.run(&format!("sleep cost of {sleep_us} us"), measure)?;
            let sleep = SleepLength::Measured(cost.wall_nanos);
            let mut run = Run { mover_pause: length, sleep, ..run.clone() };
            let mut name = match mover {
                MoverName::Base => format!("{mover}, {sleep_us} us"),
                _ => mover.to_string(),
            };
            if let Some(rate) = rate {
                run.rate = Rate::new(rate);
                name = format!("{name}, {rate} per second");
            }
            variants.push(Variant { name, run, sleep: cost });
        }
    }
    spinner.finish_and_clear();
    Ok(variants)
}

/// Adds the rows of a variant.
fn add(outcome: &mut Outcome, variant: &Variant<'_>, record: &RunRecord) {
    let (name, time) = (variant.name.as_str(), &record.time);
    let pages = record.page_moves.iter().filter(|page_move| page_move.arrived).count() as f64;
    if pages == 0.0 {
        let reason = || Err("no page arrived before the end of the run".to_owned());
        outcome.add(SPEED, name, reason());
        outcome.add(CPU, name, reason());
        return;
    }
    let cpu_nanos = time.work_nanos + time.sleeps as f64 * variant.sleep.cpu_nanos;
    let gets = record.page_moves.iter().map(|page_move| page_move.requests()).sum::<u64>() as f64;
    outcome.add(SPEED, name, Ok(pages / (cpu_nanos / 1e9)));
    outcome.add(SPEED_WITHOUT_SLEEPS, name, Ok(pages / (time.work_nanos / 1e9)));
    // The measured length of a sleep includes the processor time to fall asleep and to wake up.
    outcome.add(CPU, name, Ok(cpu_nanos / (time.work_nanos + time.sleep_nanos) * 100.0));
    if time.sleeps > 0 {
        let length_us = variant.sleep.wall_nanos / 1e3;
        outcome.note_last_row(format!("timers fire late: a sleep takes {length_us:.0} us"));
    }
    let counts = [
        (VISITS, time.visits as f64),
        (SLEEPS, time.sleeps as f64),
        (REALLOCATED, record.counts.reallocated as f64),
        (GETS, gets),
    ];
    outcome.add_all(name, counts.map(|(measure, count)| (measure, count / pages)));
    outcome.add_all(name, [(VISIT, variant.run.cost.nanos()), (SLEEP, variant.sleep.cpu_nanos)]);
}
