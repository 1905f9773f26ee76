//! The set-up of `learned-classes`, and each distribution with its tables and its parameters from the published figures.
//!
//! ```text
//!   memcached's own   96 120 ... 240 | 304 384 ... 944 | 1184 ... 524288
//!                         others            used             others   largest
//! ```
//!
//! New sizes, equally many, replace the used ones. The other sizes are removed, as with `-o slab_sizes` and the sizes that
//! the paper prints; on memcached's pages the largest chunk stays.
//!
//! Item sizes are log-normal. With the printed deviation nearly all items would be in one class, and half of the listed
//! classes would be empty. So only the mean is as printed; the deviation is fitted to the published wastes, by least
//! squares of relative errors. No item is smaller than the listed classes, because otherwise another class would be used.
//! Hill climbing lowers the last size until it is that of the largest item, so the last new size is the largest item. If
//! it is not legible in the paper, it is computed from the recovered fraction of the distribution's single size.

use crate::result::{Measure, Spec, least, mean, measures, most};
use serde::Deserialize;
use slabwise_base::Random;
use slabwise_base::random::mix;
use slabwise_policy::sizes::{BestTable, ChunkLayout, Demand, SizesError, exact, geometric};
use std::collections::BTreeMap;

measures! {
    SD: "sd_bytes", "standard deviation", "bytes", Fixed;
    SD_LEAST: "sd_bytes_least", "smallest deviation that the old waste allows", "bytes", Fixed;
    SD_MOST: "sd_bytes_most", "largest deviation that the old waste allows", "bytes", Fixed;
    WASTE: "wasted_bytes", "bytes wasted in chunks", "bytes", WithRun;
    RECOVERED: "recovered_percent", "recovered part of the old waste", "%", Fixed;
    BEST_ENDS: "best_ends_percent", "climbs that end in the exact best waste", "%", Fixed;
    ENDS: "ends", "different wastes at the ends of climbs", "wastes", Fixed;
    EXCESS: "excess_percent", "more waste than the exact best, maximum", "%", Fixed;
    MOVES: "moves", "moves per climb, mean", "moves", Fixed;
    PAGES: "pages", "pages taken", "pages", Fixed;
    FEWER: "fewer_pages_percent", "fewer pages than with the old sizes", "%", Fixed;
}

pub const OLD: &str = "old sizes";
pub const PRINTED: &str = "printed sizes";
pub const CLIMB: &str = "hill climbing";
pub const CLIMB_BEST: &str = "hill climbing, best";
pub const EXACT: &str = "exact";

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LearnedClassesSetup {
    pub items: u64,
    pub restarts: u64,
    /// The MiB of items that are stored to count pages.
    pub stored_mib: u64,
    pub table: TableSetup,
    pub distributions: Vec<DistributionSetup>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableSetup {
    pub first_bytes: usize,
    pub factor: f64,
    pub chunk_size_kib_max: usize,
    pub page_size_kib: usize,
    pub align_bytes: usize,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DistributionSetup {
    pub name: String,
    pub mean_bytes: f64,
    pub sd_bytes_printed: f64,
    pub old_sizes: Vec<usize>,
    /// None if they are not legible.
    #[serde(default)]
    pub new_sizes: Vec<usize>,
}

/// A chunk that no best table uses, because in the paper the used sizes hold all items.
const CHUNK_SIZE_BYTES_NEVER: usize = 1 << 40;

#[derive(Clone, Debug)]
pub struct Tables {
    used: Vec<usize>,
    others: Vec<usize>,
    /// The paper's layout: without alignment and ends of pages. A table ends with a chunk that holds no item.
    pub published: ChunkLayout,
    pub paged: ChunkLayout,
}

impl Tables {
    pub fn of(table: &TableSetup, distribution: &DistributionSetup) -> Tables {
        let published = ChunkLayout::published(CHUNK_SIZE_BYTES_NEVER);
        let paged = ChunkLayout {
            page_size_bytes: Some(table.page_size_kib << 10),
            chunk_size_bytes_min: table.first_bytes.next_multiple_of(table.align_bytes),
            chunk_size_bytes_max: table.chunk_size_kib_max << 10,
            chunk_align_bytes: table.align_bytes,
            ..published
        };
        let all = geometric(table.first_bytes, table.factor, &paged);
        let used = distribution.old_sizes.clone();
        let others: Vec<usize> = all.iter().copied().filter(|size| !used.contains(size)).collect();
        let name = &distribution.name;
        assert_eq!(others.len() + used.len(), all.len(), "{name}: an old size is not memcached's");
        Tables { used, others, published, paged }
    }

    pub fn least_item_bytes(&self) -> usize {
        self.others.iter().rev().find(|&&size| size < self.used[0]).map_or(1, |size| size + 1)
    }

    pub fn published(&self, sizes: &[usize]) -> Vec<usize> {
        [sizes, &[self.published.chunk_size_bytes_max]].concat()
    }

    pub fn old(&self) -> Vec<usize> {
        self.published(&self.used)
    }

    pub fn paged(&self, sizes: &[usize]) -> Vec<usize> {
        let align = self.paged.chunk_align_bytes;
        let mut table: Vec<usize> = sizes.iter().map(|size| size.next_multiple_of(align)).collect();
        table.push(self.paged.chunk_size_bytes_max);
        table
    }

    pub fn paged_old(&self) -> Vec<usize> {
        let mut table = [&self.used[..], &self.others].concat();
        table.sort();
        table
    }

    /// A table of the paper's layout with as many random sizes as are used, from `least` to `most`.
    pub fn random(&self, least: usize, most: usize, random: &mut Random) -> Vec<usize> {
        loop {
            let size = |_| least + random.below((most - least) as u64) as usize;
            let mut sizes: Vec<usize> = (1..self.used.len()).map(size).chain([most]).collect();
            sizes.sort();
            sizes.dedup();
            if sizes.len() == self.used.len() {
                return self.published(&sizes);
            }
        }
    }

    /// The best table of as many sizes as are used, and its waste.
    pub fn exact(&self, demands: &[Demand]) -> Result<(Vec<usize>, f64), SizesError> {
        self.best(demands, &[], self.used.len())
    }

    /// The best table of as many sizes as are used, in addition to memcached's other sizes, and its waste.
    pub fn exact_beside(&self, demands: &[Demand]) -> Result<(Vec<usize>, f64), SizesError> {
        self.best(demands, &self.others, self.used.len() + self.others.len())
    }

    /// The best table of as many sizes as memcached's table has, and its waste.
    pub fn exact_of_all(&self, demands: &[Demand]) -> Result<(Vec<usize>, f64), SizesError> {
        self.best(demands, &[], self.used.len() + self.others.len())
    }

    fn best(
        &self,
        demands: &[Demand],
        kept: &[usize],
        sizes: usize,
    ) -> Result<(Vec<usize>, f64), SizesError> {
        // The chunk that holds no item is a class too.
        let count = sizes + 1;
        let tables = exact(demands, &self.published, kept, count)?;
        let BestTable { mut sizes, loss } = tables.of(count).clone();
        sizes.pop();
        Ok((sizes, loss.total_bytes()))
    }

    /// The best table of as many sizes as are used, plus the largest chunk, on memcached's pages.
    pub fn exact_paged(&self, demands: &[Demand]) -> Result<Vec<usize>, SizesError> {
        let count = self.used.len() + 1;
        Ok(exact(demands, &self.paged, &[], count)?.of(count).sizes.clone())
    }
}

#[derive(Clone, Debug)]
pub struct SizeDistribution {
    least: usize,
    /// The cumulative distribution by size, from the smallest.
    share_to: Vec<f64>,
}

impl SizeDistribution {
    /// The log-normal distribution with this mean and standard deviation, truncated to `least..=most`.
    pub fn new(mean_bytes: f64, sd_bytes: f64, least: usize, most: usize) -> SizeDistribution {
        let variance = (1.0 + (sd_bytes / mean_bytes).powi(2)).ln();
        let middle = mean_bytes.ln() - variance / 2.0;
        let mut sum = 0.0;
        let mut share_to: Vec<f64> = (least..=most)
            .map(|size| {
                let away = (size as f64).ln() - middle;
                sum += (-away * away / (2.0 * variance)).exp() / size as f64;
                sum
            })
            .collect();
        share_to.iter_mut().for_each(|share| *share /= sum);
        SizeDistribution { least, share_to }
    }

    pub fn shares(&self) -> impl Iterator<Item = (usize, f64)> + '_ {
        let before = [0.0].into_iter().chain(self.share_to.iter().copied());
        let shares = self.share_to.iter().zip(before).map(|(to, before)| to - before);
        shares.enumerate().map(|(place, share)| (self.least + place, share))
    }

    /// The expected waste of an item in bytes.
    pub fn waste(&self, table: &[usize]) -> f64 {
        let mut class = 0;
        let mut waste = 0.0;
        for (size, share) in self.shares() {
            while table[class] < size {
                class += 1;
            }
            waste += share * (table[class] - size) as f64;
        }
        waste
    }

    pub fn draw(&self, random: &mut Random) -> usize {
        let at = random.unit();
        let place = self.share_to.partition_point(|&share| share <= at);
        self.least + place.min(self.share_to.len() - 1)
    }
}

pub struct PublishedWaste<'a> {
    pub table: &'a [usize],
    pub waste_bytes: f64,
}

impl PublishedWaste<'_> {
    fn relative_error(&self, sizes: &SizeDistribution) -> f64 {
        sizes.waste(self.table) / self.waste_bytes - 1.0
    }
}

const SD_SHARE_MAX: f64 = 0.4;
const STEPS: u32 = 800;
const FINE_STEPS: u32 = 40;

fn deviations(mean_bytes: f64) -> impl Iterator<Item = f64> {
    let step = mean_bytes * SD_SHARE_MAX / f64::from(STEPS);
    (1..=STEPS).map(move |at| f64::from(at) * step)
}

pub fn fit(
    mean_bytes: f64,
    distribution: impl Fn(f64) -> SizeDistribution,
    published: &[PublishedWaste],
) -> f64 {
    let error = |sd_bytes: f64| {
        let sizes = distribution(sd_bytes);
        published.iter().map(|waste| waste.relative_error(&sizes).powi(2)).sum::<f64>()
    };
    let best_of = |candidates: &mut dyn Iterator<Item = f64>| {
        let rated = candidates.map(|sd_bytes| (error(sd_bytes), sd_bytes));
        rated.min_by(|a, b| a.0.total_cmp(&b.0)).expect("there are candidates").1
    };
    let coarse = best_of(&mut deviations(mean_bytes));
    let step = mean_bytes * SD_SHARE_MAX / f64::from(STEPS);
    let fine =
        (1..2 * FINE_STEPS).map(|at| coarse + step * (f64::from(at) / f64::from(FINE_STEPS) - 1.0));
    best_of(&mut fine.filter(|&sd_bytes| sd_bytes > 0.0))
}

/// The smallest and the largest standard deviation whose waste has a relative error of at most `tolerance`.
pub fn fit_range(
    mean_bytes: f64,
    distribution: impl Fn(f64) -> SizeDistribution,
    published: &PublishedWaste,
    tolerance: f64,
) -> Option<(f64, f64)> {
    let is_near =
        |&sd_bytes: &f64| published.relative_error(&distribution(sd_bytes)).abs() <= tolerance;
    let near: Vec<f64> = deviations(mean_bytes).filter(is_near).collect();
    Some((*near.first()?, *near.last()?))
}

/// Wastes within this relative error of the published one count as equal to it.
const FIT_TOLERANCE: f64 = 0.01;
/// The number of items that represents a distribution.
const DISTRIBUTION_ITEMS: f64 = 1e9;

/// A distribution with its parameters from the paper's figures.
pub struct Case<'a> {
    pub setup: &'a DistributionSetup,
    pub tables: Tables,
    pub most: usize,
    pub sd_bytes: f64,
    /// The smallest and the largest deviation that the old waste allows, or those of the other distributions without it.
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
            let [old] = of.old_sizes[..] else { panic!("{}: new_sizes are required", of.name) };
            let recovered = published(RECOVERED, CLIMB).expect("it is published") / 100.0;
            (old as f64 - recovered * (old as f64 - of.mean_bytes)).round() as usize
        });
        let mut case =
            Case { setup: of, tables, most, sd_bytes: 0.0, sd_range: None, is_fitted: false };
        let waste = |what: &str| Some(published(WASTE, what)? / setup.items as f64);
        let (old, new) = (case.tables.old(), case.tables.published(&of.new_sizes));
        if let (Some(before), Some(after)) = (waste(OLD), waste(PRINTED)) {
            let wastes = [(&old[..], before), (&new[..], after)]
                .map(|(table, waste_bytes)| PublishedWaste { table, waste_bytes });
            let distribution = |sd_bytes| case.distribution(sd_bytes);
            let sd_bytes = fit(of.mean_bytes, distribution, &wastes);
            let sd_range = fit_range(of.mean_bytes, distribution, &wastes[0], FIT_TOLERANCE);
            (case.sd_bytes, case.sd_range, case.is_fitted) = (sd_bytes, sd_range, true);
        }
        case
    }

    fn distribution(&self, sd_bytes: f64) -> SizeDistribution {
        let least = self.tables.least_item_bytes();
        SizeDistribution::new(self.setup.mean_bytes, sd_bytes, least, self.most)
    }

    pub fn variant(&self, what: &str) -> String {
        format!("{}, {what}", self.setup.name)
    }

    pub fn draw(&self, count: u64, seed: u64) -> Vec<usize> {
        let sizes = self.distribution(self.sd_bytes);
        let mut random = Random::new(mix(seed ^ self.setup.mean_bytes.to_bits()));
        (0..count).map(|_| sizes.draw(&mut random)).collect()
    }

    pub fn expected(&self, sd_bytes: f64) -> Vec<Demand> {
        let sizes = self.distribution(sd_bytes);
        let items = |share: f64| (share * DISTRIBUTION_ITEMS).round() as u64;
        sizes.shares().map(|(size, share)| Demand::new(size, items(share))).collect()
    }
}

/// Every distribution; one without published wastes gets the mean ratio of fitted to printed deviations.
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

fn sd_ratio(case: &Case) -> f64 {
    case.sd_bytes / case.setup.sd_bytes_printed
}

pub fn demands_of(sizes: &[usize]) -> Vec<Demand> {
    let mut items: BTreeMap<usize, u64> = BTreeMap::new();
    sizes.iter().for_each(|&size| *items.entry(size).or_default() += 1);
    items.into_iter().map(|(size, items)| Demand::new(size, items)).collect()
}

#[cfg(test)]
mod tests {
    use super::{PublishedWaste, SizeDistribution, fit, fit_range};
    use slabwise_base::Random;

    #[test]
    fn random_sizes_have_the_mean_and_deviation() {
        let sizes = SizeDistribution::new(500.0, 60.0, 200, 1_000);
        let mut random = Random::new(3);
        let drawn: Vec<f64> = (0..100_000).map(|_| sizes.draw(&mut random) as f64).collect();
        let mean = drawn.iter().sum::<f64>() / drawn.len() as f64;
        let variance = drawn.iter().map(|size| (size - mean).powi(2)).sum::<f64>();
        let sd = (variance / drawn.len() as f64).sqrt();
        assert!((mean - 500.0).abs() < 1.0 && (sd - 60.0).abs() < 1.0, "{mean}, {sd}");
        let skew = drawn.iter().map(|size| (size - mean).powi(3)).sum::<f64>();
        assert!(skew > 0.0, "a log-normal distribution is skewed to the right");
    }

    #[test]
    fn shares_add_up_to_1_and_give_the_waste() {
        let sizes = SizeDistribution::new(500.0, 60.0, 400, 600);
        let sum: f64 = sizes.shares().map(|(_, share)| share).sum();
        assert!((sum - 1.0).abs() < 1e-12);
        let mean: f64 = sizes.shares().map(|(size, share)| share * size as f64).sum();
        assert!((sizes.waste(&[600]) - (600.0 - mean)).abs() < 1e-9);
        assert!(sizes.waste(&[500, 600]) < sizes.waste(&[600]));
        let mut random = Random::new(1);
        assert!((0..10_000).all(|_| (400..=600).contains(&sizes.draw(&mut random))));
    }

    #[test]
    fn a_deviation_is_recovered_from_its_waste() {
        let distribution = |sd| SizeDistribution::new(500.0, sd, 300, 1_000);
        for sd in [12.0, 60.0, 110.0] {
            let tables = [[480, 600, 1_000], [510, 620, 1_000]];
            let wastes = tables
                .each_ref()
                .map(|table| PublishedWaste { table, waste_bytes: distribution(sd).waste(table) });
            let found = fit(500.0, distribution, &wastes);
            assert!((found - sd).abs() < 0.02, "{found}, not {sd}");
            let (least, most) = fit_range(500.0, distribution, &wastes[0], 0.01).expect("some");
            assert!(least <= sd && sd <= most, "{least} to {most}, not {sd}");
        }
        let impossible = PublishedWaste { table: &[1_000], waste_bytes: 1e6 };
        assert!(fit_range(500.0, distribution, &impossible, 0.01).is_none());
    }
}
