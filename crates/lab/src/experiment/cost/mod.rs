//! `cost`: which cost-aware eviction saves the most recomputation cost?
//!
//! ```text
//!   setting, mix --> calibration of the number of keys --> for each seed: population --> a trial per variant --> rows
//!                                                                              '-------> bound
//! ```
//!
//! Invariants: all variants of a setting, mix and seed get the same requests and costs, start with the same contents, and
//! hold the same number of items; a variant that cannot be run has rows with the reason.

mod population;
mod report;
mod trial;

#[cfg(test)]
mod tests;

pub use population::CostSetup;

use super::kind::{Experiment, Job};
use crate::result::Outcome;
use crate::trial::error::ExperimentError;
use population::{Population, Pricing, Setting, Variant};
use rayon::iter::{IntoParallelIterator, IntoParallelRefIterator, ParallelIterator};
use report::{Case, Finding, Row};
use trial::{Trial, calibrated_keys, units_a_request};

impl Experiment for CostSetup {
    fn fill(&self, job: &Job<'_>, outcome: &mut Outcome) -> Result<(), ExperimentError> {
        let (setup, (scale, seed)) = (self, job.size());
        let spinner = job.progress.spinner("calibrating the number of keys");
        let cases = cases(setup, scale, seed)?;
        spinner.finish_and_clear();
        let seeds: Vec<u64> = (seed..).take(setup.seeds as usize).collect();
        let size = Size { setup, scale, seeds: &seeds };
        let bar = job.progress.bar(&job.spec.name);
        bar.set_length(cases.iter().map(|case| size.requests(case)).sum());
        let equal = size.equal(&cases)?;
        let found = cases.into_par_iter().map(|case| {
            let finding = size.finding(case)?;
            bar.inc(size.requests(&finding.case));
            Ok(finding)
        });
        let found: Vec<Finding<'_>> = found.collect::<Result<_, ExperimentError>>()?;
        bar.finish_and_clear();
        report::describe(outcome, setup, scale, &seeds);
        report::add(outcome, setup, &found, &equal);
        Ok(())
    }
}

fn cases(setup: &CostSetup, scale: f64, seed: u64) -> Result<Vec<Case<'_>>, ExperimentError> {
    // If all values have the same length, the hit ratio of the first variant does not depend on the mix.
    let [first, others @ ..] = setup.value_lens;
    let is_one_size = others.iter().all(|&other| other == first);
    let calibrated = if is_one_size { 1 } else { setup.mixes.len() };
    let pairs = setup.settings.iter();
    let pairs =
        pairs.flat_map(|setting| setup.mixes[..calibrated].iter().map(move |mix| (setting, mix)));
    let pairs: Vec<_> = pairs.collect();
    let keys =
        pairs.par_iter().map(|(setting, mix)| calibrated_keys(setup, setting, **mix, scale, seed));
    let keys: Vec<u64> = keys.collect::<Result<_, ExperimentError>>()?;
    let cases = setup.settings.iter().enumerate().flat_map(|(number, setting)| {
        let keys = &keys[number * calibrated..][..calibrated];
        let mixes = setup.mixes.iter().enumerate();
        mixes.map(move |(at, &mix)| Case { setting, mix, keys: keys[at.min(calibrated - 1)] })
    });
    Ok(cases.collect())
}

struct Size<'s> {
    setup: &'s CostSetup,
    scale: f64,
    seeds: &'s [u64],
}

impl<'s> Size<'s> {
    fn variants(&self, setting: &Setting) -> impl Iterator<Item = &'s Variant> {
        let in_sweep = setting.in_sweep;
        self.setup.variants.iter().filter(move |variant| !in_sweep || variant.in_sweep)
    }

    fn requests(&self, case: &Case<'_>) -> u64 {
        let requests = (case.setting.warm_up_requests + case.setting.requests) as f64 * self.scale;
        let runs = self.variants(case.setting).count() * self.seeds.len();
        requests as u64 * runs as u64
    }

    fn populations(&self, case: &Case<'_>) -> Vec<Population> {
        let population = |&seed| Population::new(self.setup, case.mix, case.keys, seed);
        self.seeds.par_iter().map(population).collect()
    }

    fn rows(
        &self,
        case: &Case<'s>,
        populations: &[Population],
        runs: impl IntoIterator<Item = (&'s Variant, Pricing)>,
    ) -> Result<Vec<Row<'s>>, ExperimentError> {
        let (setup, setting, scale) = (self.setup, case.setting, self.scale);
        let row = |(variant, pricing)| {
            let tallies = populations.par_iter().map(|population| {
                Trial { setup, setting, variant, population, pricing, scale }.run()
            });
            let tallies: Vec<_> = tallies.collect::<Result<_, ExperimentError>>()?;
            Ok(Row { variant, pricing, tallies: tallies.into_iter().collect() })
        };
        runs.into_iter().collect::<Vec<_>>().into_par_iter().map(row).collect()
    }

    fn finding(&self, case: Case<'s>) -> Result<Finding<'s>, ExperimentError> {
        let populations = self.populations(&case);
        let runs = self.variants(case.setting).map(|variant| (variant, Pricing::Mixed));
        let rows = self.rows(&case, &populations, runs)?;
        let bound = |population| {
            let units = || units_a_request(self.setup, case.setting, population, self.scale);
            (!case.setting.never_fills).then(units)
        };
        let bounds = populations.par_iter().map(bound).collect();
        Ok(Finding { case, rows, bounds })
    }

    /// Returns runs that should have equal misses: one with equal client-supplied costs, one without costs, and one of
    /// another variant without costs.
    fn equal(&self, cases: &[Case<'s>]) -> Result<Vec<Row<'s>>, ExperimentError> {
        let equal = &self.setup.equal;
        let is_it = |case: &&Case<'_>| case.setting.name == equal.setting && case.mix == equal.mix;
        let known = cases.iter().find(is_it).zip(self.setup.variant(&equal.variant));
        let Some((case, variant)) = known else {
            let text =
                format!("equal: unknown setting {}, mix {:?} or variant", equal.setting, equal.mix);
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
