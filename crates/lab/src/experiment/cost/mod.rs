//! The cost experiments, such as `cost-single`: compares the recomputation cost of misses under several eviction kinds
//! and page policies.
//!
//! ```text
//!   setting, mix --> calibration of the number of keys --> for each seed: population --> a trial per variant --> rows
//!                                                                              '-------> bound
//! ```
//!
//! Invariants:
//! - All variants with the same setting, cost mix and seed get the same requests and costs, start with the same
//!   contents, and hold the same number of items.
//! - A variant that cannot be run has a row with the reason.

mod calibration;
mod population;
mod report;
mod tally;
mod trial;

#[cfg(test)]
mod tests;

pub use population::CostSetup;

use super::kind::{Experiment, Job};
use crate::result::Outcome;
use crate::trial::error::ExperimentError;
use crate::trial::units::Units;
use calibration::calibrated_keys;
use population::{EqualSetup, Population, Pricing, Setting, Variant};
use rayon::iter::{IntoParallelIterator, IntoParallelRefIterator, ParallelIterator};
use report::{Case, Finding, Row};
use trial::{Trial, bound_units_per_request};

impl Experiment for CostSetup {
    fn fill(&self, job: &Job<'_>, outcome: &mut Outcome) -> Result<(), ExperimentError> {
        let (setup, (scale, seed)) = (self, job.size());
        let spinner = job.progress.spinner("calibrating the number of keys");
        let cases = cases(setup, (scale, seed), &job.units)?;
        spinner.finish_and_clear();
        let conditions = Conditions { setup, scale, seeds: &[seed], units: &job.units };
        let bar = job.progress.bar(&job.spec.name);
        bar.set_length(cases.iter().map(|case| conditions.requests(case)).sum());
        let equal = setup.equal.as_ref().map(|equal| conditions.equal(&cases, equal));
        let equal = equal.transpose()?.unwrap_or_default();
        let found = cases.into_par_iter().map(|case| {
            let finding = conditions.finding(case)?;
            bar.inc(conditions.requests(&finding.case));
            Ok(finding)
        });
        let found: Vec<Finding<'_>> = found.collect::<Result<_, ExperimentError>>()?;
        bar.finish_and_clear();
        report::describe(outcome, setup, scale);
        report::add(outcome, setup, scale, &found, &equal);
        Ok(())
    }
}

/// Returns a case for each setting and each mix, with the calibrated number of keys. Each calibration is a unit.
fn cases<'s>(
    setup: &'s CostSetup,
    (scale, seed): (f64, u64),
    units: &Units,
) -> Result<Vec<Case<'s>>, ExperimentError> {
    // If all values have the same length, the hit ratio of the first variant does not depend on the mix. Then all mixes
    // use the number of keys of the first mix.
    let [first, others @ ..] = setup.value_lens;
    let is_one_size = others.iter().all(|&other| other == first);
    let calibrated = if is_one_size { 1 } else { setup.mixes.len() };
    let pairs = setup.settings.iter();
    let pairs =
        pairs.flat_map(|setting| setup.mixes[..calibrated].iter().map(move |mix| (setting, mix)));
    let pairs: Vec<_> = pairs.collect();
    let keys = pairs.par_iter().map(|(setting, mix)| {
        let name = format!("keys of {}, {}", setting.name, mix.name());
        units.run(&name, || calibrated_keys(setup, setting, **mix, scale, seed))
    });
    let keys: Vec<u64> = keys.collect::<Result<_, ExperimentError>>()?;
    let cases = setup.settings.iter().enumerate().flat_map(|(number, setting)| {
        let keys = &keys[number * calibrated..][..calibrated];
        let mixes = setup.mixes.iter().enumerate();
        mixes.map(move |(at, &mix)| Case { setting, mix, keys: keys[at.min(calibrated - 1)] })
    });
    Ok(cases.collect())
}

/// The conditions that all cases share.
struct Conditions<'s> {
    setup: &'s CostSetup,
    scale: f64,
    /// The seeds. Each variant runs once per seed.
    seeds: &'s [u64],
    /// The stored results. Each run of a variant is a unit.
    units: &'s Units,
}

impl<'s> Conditions<'s> {
    /// Returns the variants that run in a setting.
    fn variants(&self, setting: &'s Setting) -> impl Iterator<Item = &'s Variant> + use<'s> {
        let runs = |variant: &&Variant| {
            let is_named = setting.variants.is_empty() || setting.variants.contains(&variant.name);
            is_named && (!setting.in_sweep || variant.in_sweep)
        };
        self.setup.variants.iter().filter(runs)
    }

    /// Returns the number of requests of all runs of a case, for the progress bar.
    fn requests(&self, case: &Case<'s>) -> u64 {
        let requests = (case.setting.warm_up_requests + case.setting.requests) as f64 * self.scale;
        let runs = self.variants(case.setting).count() * self.seeds.len();
        requests as u64 * runs as u64
    }

    /// Returns the population of each seed.
    fn populations(&self, case: &Case<'_>) -> Vec<Population> {
        let population = |&seed| Population::new(self.setup, case.mix, case.keys, seed);
        self.seeds.par_iter().map(population).collect()
    }

    /// Runs the variants with their pricings on all populations.
    fn rows(
        &self,
        case: &Case<'s>,
        populations: &[Population],
        runs: impl IntoIterator<Item = (&'s Variant, Pricing)>,
    ) -> Result<Vec<Row<'s>>, ExperimentError> {
        let (setup, setting, scale) = (self.setup, case.setting, self.scale);
        let row = |(variant, pricing): (&'s Variant, Pricing)| {
            let name =
                format!("{}, {}, {}, {pricing:?}", setting.name, case.mix.name(), variant.name);
            let tallies = populations.par_iter().map(|population| {
                let trial = Trial { setup, setting, variant, population, pricing, scale };
                self.units.run(&name, || trial.run())
            });
            let tallies: Vec<_> = tallies.collect::<Result<_, ExperimentError>>()?;
            Ok(Row { variant, pricing, tallies: tallies.into_iter().collect() })
        };
        runs.into_iter().collect::<Vec<_>>().into_par_iter().map(row).collect()
    }

    /// Runs all variants of a case, and computes the bound.
    fn finding(&self, case: Case<'s>) -> Result<Finding<'s>, ExperimentError> {
        let populations = self.populations(&case);
        let runs = self.variants(case.setting).map(|variant| (variant, Pricing::Mixed));
        let rows = self.rows(&case, &populations, runs)?;
        let bound = |population| {
            if case.setting.never_fills {
                return Ok(None);
            }
            let name = format!("bound of {}, {}", case.setting.name, case.mix.name());
            let units_per_request =
                || bound_units_per_request(self.setup, case.setting, population, self.scale);
            self.units.run(&name, || Ok(Some(units_per_request())))
        };
        let bounds = populations.par_iter().map(bound).collect::<Result<_, ExperimentError>>()?;
        Ok(Finding { case, rows, bounds })
    }

    /// Runs three configurations that should have the same misses: a variant with the same client-supplied cost for all
    /// keys, the same variant without costs, and a variant that ignores costs.
    fn equal(
        &self,
        cases: &[Case<'s>],
        equal: &'s EqualSetup,
    ) -> Result<Vec<Row<'s>>, ExperimentError> {
        let is_match =
            |case: &&Case<'_>| case.setting.name == equal.setting && case.mix == equal.mix;
        let known = cases.iter().find(is_match).zip(self.setup.variant(&equal.variant));
        let Some((case, variant)) = known else {
            let text = format!(
                "`equal` in the experiment's file: unknown setting '{}', mix {:?} or variant '{}'",
                equal.setting, equal.mix, equal.variant
            );
            return Err(ExperimentError::Option(text));
        };
        let runs = [
            (variant, Pricing::Equal(equal.units)),
            (variant, Pricing::NotSupplied),
            (&equal.without, Pricing::NotSupplied),
        ];
        self.rows(case, &self.populations(case), runs)
    }
}
