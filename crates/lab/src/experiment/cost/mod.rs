//! `cost`: which way of keeping what is costly saves most of what misses cost?
//!
//! ```text
//!   setting, mix --> calibration: how many keys --> for each seed: population --> a trial for each variant --> rows
//!                                                                       '-------> bound
//! ```
//!
//! Laws: all variants of a setting, a mix and a seed see the same requests at the same costs from the same start, with
//! room for as many items; every variant has its rows, and what cannot be run has rows that say why.

mod bound;
mod calibration;
mod popularity;
mod population;
mod report;
mod spec;
mod trial;

#[cfg(test)]
mod tests;

pub use spec::CostSetup;

use super::error::ExperimentError;
use super::outcome::Outcome;
use super::progress::Progress;
use super::spec::Spec;
use population::{Population, Pricing};
use rayon::iter::{IntoParallelIterator, IntoParallelRefIterator, ParallelIterator};
use slabwise_replay::workload::CostMix;
use spec::{Setting, Variant};
use trial::{Tally, Trial};

/// A setting under a mix, with as many keys as make its hit ratio.
struct Case<'s> {
    setting: &'s Setting,
    mix: CostMix,
    keys: u64,
}

/// What one variant came to in a case: a tally for each seed, or why there is none.
type Tallies = Result<Vec<Tally>, String>;

/// What came of a case.
struct Finding<'s> {
    case: Case<'s>,
    variants: Vec<(&'s Variant, Tallies)>,
    /// By seed, units that a request costs at least; none where nothing is evicted.
    bounds: Vec<Option<f64>>,
}

/// What came of costs that should change nothing.
struct Equal<'s> {
    /// By seed: costs told and all alike; none told; another variant, none told.
    rows: Vec<(&'s Variant, Pricing, Tallies)>,
}

/// Runs it.
pub fn run(
    spec: &Spec,
    setup: &CostSetup,
    scale: f64,
    seed: u64,
    progress: &Progress,
) -> Result<Outcome, ExperimentError> {
    let spinner = progress.spinner("how many keys");
    let cases = cases(setup, scale, seed)?;
    spinner.finish_and_clear();
    let seeds: Vec<u64> = (seed..).take(setup.seeds as usize).collect();
    let size = Size { setup, scale, seeds: &seeds };
    let bar = progress.bar(&spec.name);
    bar.set_length(cases.iter().map(|case| size.requests(case)).sum());
    let equal = size.equal(&cases)?;
    let found = cases.into_par_iter().map(|case| {
        let finding = size.finding(case)?;
        bar.inc(size.requests(&finding.case));
        Ok(finding)
    });
    let found: Vec<Finding<'_>> = found.collect::<Result<_, ExperimentError>>()?;
    bar.finish_and_clear();
    let mut outcome = Outcome::new(spec, seed, scale, false);
    report::describe(&mut outcome, setup, scale, &seeds);
    report::add(&mut outcome, setup, &found, &equal);
    outcome.complete();
    Ok(outcome)
}

/// All settings under all mixes, in the order of the file.
fn cases(setup: &CostSetup, scale: f64, seed: u64) -> Result<Vec<Case<'_>>, ExperimentError> {
    // Where all values are as long, a mix changes nothing of what the first variant hits.
    let [first, others @ ..] = setup.value_lens;
    let is_one_size = others.iter().all(|&other| other == first);
    let counted = if is_one_size { 1 } else { setup.mixes.len() };
    let pairs = setup.settings.iter();
    let pairs =
        pairs.flat_map(|setting| setup.mixes[..counted].iter().map(move |mix| (setting, mix)));
    let pairs: Vec<_> = pairs.collect();
    let keys = pairs
        .par_iter()
        .map(|(setting, mix)| calibration::keys(setup, setting, **mix, scale, seed));
    let keys: Vec<u64> = keys.collect::<Result<_, ExperimentError>>()?;
    let cases = setup.settings.iter().enumerate().flat_map(|(number, setting)| {
        let keys = &keys[number * counted..][..counted];
        let mixes = setup.mixes.iter().enumerate();
        mixes.map(move |(at, &mix)| Case { setting, mix, keys: keys[at.min(counted - 1)] })
    });
    Ok(cases.collect())
}

/// What all cases have in common.
struct Size<'s> {
    setup: &'s CostSetup,
    scale: f64,
    seeds: &'s [u64],
}

impl<'s> Size<'s> {
    /// The variants that a setting is run with.
    fn variants(&self, setting: &Setting) -> impl Iterator<Item = &'s Variant> {
        let in_sweep = setting.in_sweep;
        self.setup.variants.iter().filter(move |variant| !in_sweep || variant.in_sweep)
    }

    /// Requests of all runs of a case.
    fn requests(&self, case: &Case<'_>) -> u64 {
        let requests = (case.setting.warm_up_requests + case.setting.requests) as f64 * self.scale;
        let runs = self.variants(case.setting).count() * self.seeds.len();
        requests as u64 * runs as u64
    }

    fn finding(&self, case: Case<'s>) -> Result<Finding<'s>, ExperimentError> {
        let variants: Vec<&Variant> = self.variants(case.setting).collect();
        let (setup, scale) = (self.setup, self.scale);
        let by_seed = self.seeds.par_iter().map(|&seed| {
            let population = Population::new(setup, case.mix, case.keys, seed);
            let runs = variants
                .par_iter()
                .map(|variant| self.trial(&case, variant, &population, Pricing::Mixed).go());
            let runs: Vec<_> = runs.collect::<Result<_, ExperimentError>>()?;
            let evicts = !case.setting.never_fills;
            let bound = || bound::units_a_request(setup, case.setting, &population, scale);
            Ok((runs, evicts.then(bound)))
        });
        let by_seed: Vec<_> = by_seed.collect::<Result<_, ExperimentError>>()?;
        let (runs, bounds): (Vec<_>, Vec<_>) = by_seed.into_iter().unzip();
        let tallies = |at: usize| runs.iter().map(|runs| runs[at].clone()).collect();
        let variants =
            variants.into_iter().enumerate().map(|(at, variant)| (variant, tallies(at))).collect();
        Ok(Finding { case, variants, bounds })
    }

    fn trial<'t>(
        &self,
        case: &Case<'t>,
        variant: &'t Variant,
        population: &'t Population,
        pricing: Pricing,
    ) -> Trial<'t>
    where
        's: 't,
    {
        let (setup, setting, scale) = (self.setup, case.setting, self.scale);
        Trial { setup, setting, variant, population, pricing, scale }
    }

    /// The runs whose costs should change nothing.
    fn equal(&self, cases: &[Case<'s>]) -> Result<Equal<'s>, ExperimentError> {
        let equal = &self.setup.equal;
        let is_it = |case: &&Case<'_>| case.setting.name == equal.setting && case.mix == equal.mix;
        let known = cases.iter().find(is_it).zip(self.setup.variant(&equal.variant));
        let Some((case, variant)) = known else {
            let text = format!("{} under {:?}: no such case, or variant", equal.setting, equal.mix);
            return Err(ExperimentError::Option(text));
        };
        let runs = [
            (variant, Pricing::Equal(equal.units)),
            (variant, Pricing::Untold),
            (&equal.without, Pricing::Untold),
        ];
        let rows = runs.into_par_iter().map(|(variant, pricing)| {
            let tallies = self.seeds.par_iter().map(|&seed| {
                let population = Population::new(self.setup, case.mix, case.keys, seed);
                self.trial(case, variant, &population, pricing).go()
            });
            let tallies: Vec<_> = tallies.collect::<Result<_, ExperimentError>>()?;
            Ok((variant, pricing, tallies.into_iter().collect()))
        });
        Ok(Equal { rows: rows.collect::<Result<_, ExperimentError>>()? })
    }
}
