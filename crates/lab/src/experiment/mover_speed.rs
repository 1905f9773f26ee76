//! `mover-speed`: how many pages per second of its processor time does a mover move?
//!
//! The set-up is that of `two-phase`, with several lengths of the sleep after a busy chunk; the first pages after the
//! change of phase move. The processor time of visits and sleeps and the actual length of sleeps are measured. Requests
//! run in virtual time.

use super::kind::{Experiment, Job};
use crate::result::{Outcome, measures, number};
use crate::trial::curves::Partition;
use crate::trial::error::ExperimentError;
use crate::trial::execute::{Controller, OracleAllocation, execute, measured};
use crate::trial::run::{AtTarget, Run};
use crate::trial::run_record::RunRecord;
use crate::trial::setup::{CacheSetup, TimeSetup, WorkloadSetup, scaled};
use crate::vtime::{MoverName, SleepCost, SleepLength};
use rayon::iter::{IntoParallelRefIterator, ParallelIterator};
use serde::Deserialize;
use slabwise_base::Clock;
use std::time::Duration;

measures! {
    SPEED: "pages_a_second", "pages per second of mover processor time", "pages/s", Fixed;
    CPU: "cpu_percent", "processor use of the mover while moving", "%", Fixed;
    VISITS: "visits_a_page", "visits per page", "visits", Fixed;
    SLEEPS: "sleeps_a_page", "sleeps per page", "sleeps", Fixed;
    REALLOCATED: "reallocated_a_page", "re-allocated per page", "chunks", Fixed;
    GETS: "gets_a_page", "GETs per page, mean", "requests", Fixed;
    VISIT: "visit_cost", "a visit to a chunk, measured", "ns", Fixed;
    SLEEP: "sleep_cost", "processor time of a sleep, measured", "ns", Fixed;
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MoverSpeedSetup {
    pub movers: Vec<MoverName>,
    /// How long `base` sleeps after a busy chunk, in microseconds; one run each.
    pub sleeps_us: Vec<u64>,
    pub pages: u64,
    pub workload: WorkloadSetup,
    pub cache: CacheSetup,
    pub time: TimeSetup,
}

struct Variant<'s> {
    name: String,
    run: Run<'s>,
    sleep: SleepCost,
}

impl Experiment for MoverSpeedSetup {
    fn fill(&self, job: &Job<'_>, outcome: &mut Outcome) -> Result<(), ExperimentError> {
        let (setup, (scale, seed)) = (self, job.size());
        let variants = variants(setup, job)?;
        let partition = |_: usize, pages: &[u64]| Partition {
            pages: vec![pages[0].saturating_sub(setup.pages), setup.pages + 1],
        };
        let at = [scaled(setup.workload.first_phase_requests, scale)];
        let oracle = Controller::Oracle(OracleAllocation { at: &at, partition: &partition });
        let records: Result<Vec<RunRecord>, ExperimentError> = variants
            .par_iter()
            .map(|variant| execute(&variant.run, oracle.clone(), &job.progress.bar(&variant.name)))
            .collect();
        let config = setup.cache.engine_config(scale, seed);
        outcome.choose("pages moved in each run", setup.pages);
        outcome.choose("page size", format!("{} bytes", number(config.page_size_bytes as f64)));
        outcome.choose("chunk sizes", format!("{:?} bytes", config.classes.sizes()));
        outcome.choose("rate", setup.time.rate_text());
        for (variant, record) in variants.iter().zip(records?) {
            add(outcome, variant, &record);
        }
        Ok(())
    }
}

fn variants<'s>(
    setup: &'s MoverSpeedSetup,
    job: &Job<'_>,
) -> Result<Vec<Variant<'s>>, ExperimentError> {
    let spinner = job.progress.spinner("measuring the cost of visits and sleeps");
    let mut variants = Vec::new();
    for &mover in &setup.movers {
        let run = Run::new(&setup.workload, &setup.cache, &setup.time, mover, job.size());
        let run = Run { at_target: AtTarget::Stop, ..run };
        let run = measured(run)?;
        // `base` waits for nearly every chunk, so it runs with every length; the others hardly ever sleep.
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
            let cost = SleepCost::measure(length, &Clock::real());
            let sleep = SleepLength::Measured(cost.wall_nanos);
            let run = Run { mover_rest: length, sleep, ..run.clone() };
            variants.push(Variant { name, run, sleep: cost });
        }
    }
    spinner.finish_and_clear();
    Ok(variants)
}

fn add(outcome: &mut Outcome, variant: &Variant<'_>, record: &RunRecord) {
    let (name, time) = (variant.name.as_str(), &record.time);
    let pages = record.arrivals.iter().filter(|arrival| arrival.arrived).count() as f64;
    if pages == 0.0 {
        let why = || Err("no page arrived before the end of the run".to_owned());
        outcome.add(SPEED, name, why());
        outcome.add(CPU, name, why());
        return;
    }
    let cpu_nanos = time.work_nanos + time.sleeps as f64 * variant.sleep.cpu_nanos;
    let gets = record.arrivals.iter().map(|arrival| arrival.requests()).sum::<u64>() as f64;
    outcome.add(SPEED, name, Ok(pages / (cpu_nanos / 1e9)));
    // The length of a sleep includes falling asleep and waking.
    outcome.add(CPU, name, Ok(cpu_nanos / (time.work_nanos + time.sleep_nanos) * 100.0));
    if time.sleeps > 0 {
        let wakes = variant.sleep.wall_nanos / 1e3;
        outcome.note(format!("timers fire late: this sleep takes {wakes:.0} us"));
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
