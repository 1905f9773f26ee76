//! What came of all trials.

use super::population::Pricing;
use super::setup::{Setting, Variant};
use super::trial::Tally;
use slabwise_replay::workload::CostMix;

/// A setting under a mix, with as many keys as make its hit ratio.
pub struct Case<'s> {
    pub setting: &'s Setting,
    pub mix: CostMix,
    pub keys: u64,
}

pub struct Row<'s> {
    pub variant: &'s Variant,
    pub pricing: Pricing,
    /// A tally for each seed, or why there is none.
    pub tallies: Result<Vec<Tally>, String>,
}

impl Row<'_> {
    /// A figure of each seed's tally.
    pub fn figures(&self, figure: impl Fn(&Tally) -> f64) -> Option<Vec<f64>> {
        Some(self.tallies.as_ref().ok()?.iter().map(figure).collect())
    }
}

pub struct Finding<'s> {
    pub case: Case<'s>,
    /// By variant.
    pub rows: Vec<Row<'s>>,
    /// By seed, units that a request costs at least; none where nothing is evicted.
    pub bounds: Vec<Option<f64>>,
}

pub fn mix_name(mix: CostMix) -> String {
    mix.name().to_uppercase()
}

impl Finding<'_> {
    pub fn row(&self, variant: &Variant) -> Option<&Row<'_>> {
        self.rows.iter().find(|row| row.variant.name == variant.name)
    }

    /// A figure of each of its seeds' tallies.
    pub fn figures(&self, variant: &Variant, figure: impl Fn(&Tally) -> f64) -> Option<Vec<f64>> {
        self.row(variant)?.figures(figure)
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
