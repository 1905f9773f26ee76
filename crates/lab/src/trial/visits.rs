//! The virtual time of a visit to a chunk, for each mover.
//!
//! A visit takes different times on different machines, so it is measured before the runs of an experiment. The measured
//! times are rows of the result. `--visit-ns` gives the times of another result, so that a run can be repeated. The
//! result then says that they were given.

use super::error::ExperimentError;
use super::execute::preload;
use super::run::Run;
use super::setup::scaled;
use super::units::Units;
use crate::result::{Outcome, measures};
use crate::vtime::{Cache, MoverName, VisitCost};
use slabwise_engine::Engine;
use std::collections::{BTreeMap, BTreeSet};
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

/// Marks the rows whose times were given (`Outcome::visit_ns`), and adds these times to the conditions of the run. The
/// variant of such a row begins with the name of the mover.
pub fn mark_given(outcome: &mut Outcome) {
    let Outcome { rows, visit_ns, .. } = &mut *outcome;
    let mut given = BTreeSet::new();
    for row in rows.iter_mut().filter(|row| row.measure == VISIT.name) {
        let mover = row.variant.split(',').next().unwrap_or_default();
        let Some(nanos) = visit_ns.get(mover) else { continue };
        given.insert(format!("{mover} {nanos} ns"));
        (row.spread, row.note) = (None, Some("given, not measured".to_owned()));
    }
    if !given.is_empty() {
        let given = given.into_iter().collect::<Vec<_>>().join(", ");
        outcome.add_setup("times of visits that were given, not measured", given);
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
    use super::{VISIT, VisitTime, VisitTimes, mark_given};
    use crate::registry;
    use crate::result::Outcome;
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

    #[test]
    fn the_result_names_the_times_that_were_given() {
        let outcome_of = |variants: &[&str]| {
            let mut outcome = Outcome::new(&registry::specs()[0], 1, 1.0, false);
            outcome.visit_ns = [("base".to_owned(), 185.5), ("fast".to_owned(), 484.0)].into();
            variants.iter().for_each(|variant| outcome.add(VISIT, variant, Ok(185.5)));
            mark_given(&mut outcome);
            outcome
        };
        let outcome = outcome_of(&["base, 1 us", "base, 10 us", "base_next"]);
        let has_note: Vec<bool> = outcome.rows.iter().map(|row| row.note.is_some()).collect();
        assert_eq!(has_note, [true, true, false]);
        let [(name, value)] = &outcome.setup[..] else { panic!("{:?}", outcome.setup) };
        assert!(name.contains("not measured"), "{name}");
        assert_eq!(value, "base 185.5 ns", "no row uses the time of fast");
        assert!(outcome_of(&["warm"]).setup.is_empty());
    }
}
