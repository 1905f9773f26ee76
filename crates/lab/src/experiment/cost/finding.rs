//! What came of all trials.

use super::population::Pricing;
use super::setup::{Setting, Variant};
use super::trial::Tally;
use slabwise_replay::workload::CostMix;

/// A setting under a mix, with as many keys as make its hit ratio.
pub struct Case<'s> {
    /// The setting.
    pub setting: &'s Setting,
    /// The mix.
    pub mix: CostMix,
    /// How many keys there are.
    pub keys: u64,
}

/// What one variant came to in a case: a tally for each seed, or why there is none.
pub type Tallies = Result<Vec<Tally>, String>;

/// What came of a case.
pub struct Finding<'s> {
    /// The case.
    pub case: Case<'s>,
    /// By variant.
    pub variants: Vec<(&'s Variant, Tallies)>,
    /// By seed, units that a request costs at least; none where nothing is evicted.
    pub bounds: Vec<Option<f64>>,
}

/// What came of costs that should change nothing.
pub struct Equal<'s> {
    /// By seed: costs told and all alike; none told; another variant, none told.
    pub rows: Vec<(&'s Variant, Pricing, Tallies)>,
}

/// What the rows of a mix are called.
pub fn mix_name(mix: CostMix) -> String {
    mix.name().to_uppercase()
}

impl Finding<'_> {
    pub fn tallies(&self, variant: &Variant) -> Option<&Tallies> {
        let is_it = |(known, _): &&(&Variant, Tallies)| known.name == variant.name;
        self.variants.iter().find(is_it).map(|(_, tallies)| tallies)
    }

    pub fn figures(&self, variant: &Variant, figure: impl Fn(&Tally) -> f64) -> Option<Vec<f64>> {
        let tallies = self.tallies(variant)?.as_ref().ok()?;
        Some(tallies.iter().map(figure).collect())
    }

    /// By seed, how many percent less the first takes than the second.
    pub fn less(&self, pair: [&Variant; 2], figure: impl Fn(&Tally) -> f64) -> Option<Vec<f64>> {
        let [figures, others] = pair.map(|variant| self.figures(variant, &figure));
        let pairs = figures?.into_iter().zip(others?);
        Some(pairs.map(|(figure, other)| less_percent(figure, other)).collect())
    }

    pub fn less_cost(&self, variant: &Variant, other: &Variant) -> Option<Vec<f64>> {
        self.less([variant, other], Tally::units_a_request)
    }

    pub fn name(&self, of: &str) -> String {
        let Case { setting, mix, .. } = &self.case;
        format!("{}, {}, {of}", setting.name, mix_name(*mix))
    }
}

/// How many percent less the first figure is than the other.
pub fn less_percent(figure: f64, other: f64) -> f64 {
    if other > 0.0 { (1.0 - figure / other) * 100.0 } else { 0.0 }
}
