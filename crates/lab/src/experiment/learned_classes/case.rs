//! The distributions, each with what the published figures say of it.
//!
//! The largest item. Hill climbing lowers the last size in use until it is the largest item's, and never further. So the
//! last new size is that of the largest item; where it is not legible and there is but one size, the share that it
//! recovers tells it.
//!
//! The spread. See `law.rs`.

use super::law::{KnownWaste, SizeLaw, fit, fit_range};
use super::names::{CLIMB, OLD, PRINTED, RECOVERED, WASTE};
use super::setup::{DistributionSetup, LearnedClassesSetup};
use super::tables::Tables;
use crate::result::{Measure, Spec, least, mean, most};
use slabwise_base::Random;
use slabwise_base::random::mix;
use slabwise_policy::sizes::Demand;
use std::collections::BTreeMap;

/// A waste so near to the published one, as a part of it, would be taken for it.
const FIT_TOLERANCE: f64 = 0.01;
/// How finely a law's shares are told apart where it stands for items.
const LAW_ITEMS: f64 = 1e9;

/// A distribution with all that follows from the paper's figures.
pub struct Case<'a> {
    pub setup: &'a DistributionSetup,
    pub tables: Tables,
    pub most: usize,
    pub sd_bytes: f64,
    /// The least and the largest deviation that the old waste alone allows; where it is not known, that as many times the
    /// printed one as in another distribution comes to.
    pub sd_range: Option<(f64, f64)>,
    pub is_fitted: bool,
}

impl<'a> Case<'a> {
    fn new(spec: &Spec, setup: &'a LearnedClassesSetup, of: &'a DistributionSetup) -> Case<'a> {
        let tables = Tables::of(&setup.table, of);
        let published = |measure: Measure, what: &str| {
            let variant = format!("{}, {what}", of.name);
            let mut figures = spec.published.iter();
            let figure = figures.find(|it| it.measure == measure.name && it.variant == variant);
            figure.map(|figure| figure.value)
        };
        let most = of.new_sizes.last().copied().unwrap_or_else(|| {
            let [old] = of.old_sizes[..] else { panic!("{}: give its new sizes", of.name) };
            let recovered = published(RECOVERED, CLIMB).expect("its share is published") / 100.0;
            (old as f64 - recovered * (old as f64 - of.mean_bytes)).round() as usize
        });
        let mut case =
            Case { setup: of, tables, most, sd_bytes: 0.0, sd_range: None, is_fitted: false };
        let waste = |what: &str| Some(published(WASTE, what)? / setup.items as f64);
        let (old, new) = (case.tables.old(), case.tables.published(&of.new_sizes));
        let known = |(table, waste_bytes)| KnownWaste { table, waste_bytes };
        if let (Some(before), Some(after)) = (waste(OLD), waste(PRINTED)) {
            let known = [(&old[..], before), (&new[..], after)].map(known);
            let law = |sd_bytes| case.law(sd_bytes);
            let sd_bytes = fit(of.mean_bytes, law, &known);
            let sd_range = fit_range(of.mean_bytes, law, &known[0], FIT_TOLERANCE);
            (case.sd_bytes, case.sd_range, case.is_fitted) = (sd_bytes, sd_range, true);
        }
        case
    }

    fn law(&self, sd_bytes: f64) -> SizeLaw {
        SizeLaw::new(self.setup.mean_bytes, sd_bytes, self.tables.least_item_bytes(), self.most)
    }

    pub fn variant(&self, what: &str) -> String {
        format!("{}, {what}", self.setup.name)
    }

    pub fn draw(&self, count: u64, seed: u64) -> Vec<usize> {
        let law = self.law(self.sd_bytes);
        let mut random = Random::new(mix(seed ^ self.setup.mean_bytes.to_bits()));
        (0..count).map(|_| law.draw(&mut random)).collect()
    }

    pub fn expected(&self, sd_bytes: f64) -> Vec<Demand> {
        let law = self.law(sd_bytes);
        let items = |share: f64| (share * LAW_ITEMS).round() as u64;
        law.shares().map(|(size, share)| demand(size, items(share))).collect()
    }
}

/// Every distribution with its spread: by its published wastes, or else by what the others' came to.
pub fn cases<'a>(spec: &Spec, setup: &'a LearnedClassesSetup) -> Vec<Case<'a>> {
    let case = |of: &'a DistributionSetup| Case::new(spec, setup, of);
    let mut cases: Vec<Case<'a>> = setup.distributions.iter().map(case).collect();
    let ratios: Vec<f64> = cases.iter().filter(|case| case.is_fitted).map(sd_ratio).collect();
    for case in cases.iter_mut().filter(|case| !case.is_fitted) {
        let printed = case.setup.sd_bytes_printed;
        case.sd_bytes = mean(&ratios) * printed;
        case.sd_range = Some((least(&ratios) * printed, most(&ratios) * printed));
    }
    cases
}

/// How many times the printed deviation it is.
fn sd_ratio(case: &Case) -> f64 {
    case.sd_bytes / case.setup.sd_bytes_printed
}

/// Items of these sizes, every size by itself.
pub fn demands_of(sizes: &[usize]) -> Vec<Demand> {
    let mut items: BTreeMap<usize, u64> = BTreeMap::new();
    sizes.iter().for_each(|&size| *items.entry(size).or_default() += 1);
    items.into_iter().map(|(size, items)| demand(size, items)).collect()
}

fn demand(size_bytes: usize, items: u64) -> Demand {
    Demand { size_bytes, items, byte_value: 1.0 }
}
