//! The virtual time of a visit to a chunk, for each mover.
//!
//! A visit takes different times on different machines, so it is measured before the runs of an experiment. The measured
//! times are rows of the result. `--visit-ns` gives the times of another result, so that a run can be repeated.

use super::error::ExperimentError;
use super::execute::preload;
use super::run::Run;
use super::setup::scaled;
use super::units::Units;
use crate::result::{Outcome, measures};
use crate::vtime::{Cache, MoverName, VisitCost};
use slabwise_engine::Engine;
use std::collections::BTreeMap;
use std::str::FromStr;

measures! {
    VISIT: "visit_cost", "a visit to a chunk", "ns", Fixed;
}

/// Adds the row with the time of a visit by a mover. The control of an experiment has no row.
pub fn add_visit(outcome: &mut Outcome, mover: MoverName, cost: VisitCost) {
    if mover != MoverName::None {
        outcome.add(VISIT, &mover.to_string(), Ok(cost.nanos()));
    }
}

/// The times of visits that are given and not measured.
#[derive(Clone, Debug, Default)]
pub struct VisitTimes(BTreeMap<MoverName, VisitCost>);

impl FromIterator<VisitTime> for VisitTimes {
    fn from_iter<I: IntoIterator<Item = VisitTime>>(times: I) -> VisitTimes {
        VisitTimes(times.into_iter().map(|time| (time.mover, time.cost)).collect())
    }
}

/// The time of a visit by one mover, in the form `MOVER=NANOSECONDS`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VisitTime {
    pub mover: MoverName,
    pub cost: VisitCost,
}

impl FromStr for VisitTime {
    type Err = String;

    fn from_str(text: &str) -> Result<VisitTime, String> {
        let parse = || {
            let (mover, nanos) = text.split_once('=')?;
            let mover = MoverName::ALL.into_iter().find(|name| name.to_string() == mover)?;
            Some(VisitTime { mover, cost: VisitCost::new(nanos.parse().ok()?).ok()? })
        };
        let expected =
            "expected a mover (base, base_next, fast, stock or warm), = and a number above 0";
        parse().ok_or_else(|| expected.to_owned())
    }
}

impl VisitTimes {
    /// Sets the time of a visit in a run: the given time, or the time that a measurement finds. The measurement is a unit.
    pub fn apply(&self, run: &mut Run<'_>, units: &Units) -> Result<(), ExperimentError> {
        run.cost = match self.0.get(&run.mover) {
            Some(&cost) => cost,
            // The control of an experiment moves no page.
            None if run.mover == MoverName::None => run.cost,
            None => {
                let name = format!("visit cost of {}", run.mover);
                VisitCost::new(units.run(&name, || Ok(measured(run)?.nanos()))?)?
            }
        };
        Ok(())
    }

    /// Returns the given times as pairs of a mover and nanoseconds.
    pub fn given(&self) -> BTreeMap<String, f64> {
        self.0.iter().map(|(mover, cost)| (mover.to_string(), cost.nanos())).collect()
    }
}

/// Fills an engine with the contents of a run before its first request and with the requests of its first phase, and
/// measures the time of a visit to a chunk of this engine.
fn measured(run: &Run<'_>) -> Result<VisitCost, ExperimentError> {
    let engine = Engine::new(run.engine_config())?;
    let first_phase = scaled(run.workload.first_phase_requests, run.scale);
    let mut requests = run.requests(engine.config())?;
    let mut cache = Cache::new(&engine);
    preload(run, &engine, &requests, &mut cache, || {});
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
    Ok(VisitCost::measure(&engine, run.rate.moment_at(done))?)
}

#[cfg(test)]
mod tests {
    use super::{VisitTime, VisitTimes};
    use crate::vtime::{MoverName, VisitCost};

    #[test]
    fn a_time_has_a_mover_and_a_positive_number() {
        let time = |text: &str| text.parse::<VisitTime>();
        let cost = VisitCost::new(185.5).expect("the cost is valid");
        assert_eq!(time("base=185.5"), Ok(VisitTime { mover: MoverName::Base, cost }));
        for text in ["base", "slow=1", "base=0", "base=x", "=1", ""] {
            assert!(time(text).is_err_and(|error| error.contains("expected a mover")), "{text}");
        }
        let times: VisitTimes = time("base=185.5").into_iter().collect();
        assert_eq!(times.given(), [("base".to_owned(), 185.5)].into());
    }
}
