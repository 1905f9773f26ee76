//! Compares variants at several values of a parameter.
//!
//! ```text
//!   for each sweep, for each value:   set-up with the value --> findings --> rows "A against B, exponent 0.8"
//!                                                                  '--> a point of the curve "A against B"
//! ```

use super::findings::Findings;
use super::report::FEWER;
use super::setup::{PoliciesSetup, Sweep};
use crate::experiment::kind::Job;
use crate::result::{Outcome, maximum, mean, measures, minimum};
use crate::trial::error::ExperimentError;
use crate::trial::run_record::STEADY;
use crate::vtime::{MoverName, VisitCost};
use std::collections::BTreeMap;

measures! {
    SMALLEST: "fewer_misses_sweep_min", "fewer misses, minimum of the sweep", "%", Fixed;
    LARGEST: "fewer_misses_sweep_max", "fewer misses, maximum of the sweep", "%", Fixed;
}

/// Runs all sweeps of the set-up, and adds their rows and series.
pub fn run(
    setup: &PoliciesSetup,
    job: &Job<'_>,
    costs: &BTreeMap<MoverName, VisitCost>,
    outcome: &mut Outcome,
) -> Result<(), ExperimentError> {
    for sweep in &setup.sweeps {
        let mut curves: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
        for &value in &sweep.values {
            let setup = setup.with(sweep.parameter, value);
            let suffix = format!(", {} {value}", sweep.parameter.name());
            let findings = setup.findings(job, costs, &suffix)?;
            add_point(outcome, &findings, (sweep, value), &mut curves);
        }
        let parameter = sweep.parameter.name();
        for (name, points) in curves {
            let found: Vec<f64> = points.iter().map(|&(_, reduction)| reduction).collect();
            let of_sweep = format!("{name}, by {parameter}");
            outcome.add_all(&of_sweep, [(SMALLEST, minimum(&found)), (LARGEST, maximum(&found))]);
            let series = format!("fewer misses by {parameter}");
            outcome.add_series(series, name, [parameter, "%"], points);
        }
    }
    Ok(())
}

/// Adds the rows for one value of the parameter, and the point of each pair of variants to its curve.
fn add_point(
    outcome: &mut Outcome,
    findings: &Findings<'_>,
    (sweep, value): (&Sweep, f64),
    curves: &mut BTreeMap<String, Vec<(f64, f64)>>,
) {
    let setup = findings.setup;
    let at = format!("{} {value}", sweep.parameter.name());
    for variant in &setup.variants {
        let ratios = setup.limits_mib().into_iter().map(|limit| {
            findings.steady_of(&variant.name, limit).map(|steady| steady.miss_ratio * 100.0)
        });
        let ratios: Result<Vec<f64>, String> = ratios.collect();
        outcome.add(STEADY, &format!("{}, {at}", variant.name), ratios.map(|ratios| mean(&ratios)));
    }
    for [variant, other] in &setup.against {
        let name = format!("{variant} against {other}");
        let found = findings.fewer_misses([variant, other]).map(|found| mean(&found));
        if let Ok(found) = found {
            curves.entry(name.clone()).or_default().push((value, found));
        }
        outcome.add(FEWER, &format!("{name}, {at}"), found);
    }
}
