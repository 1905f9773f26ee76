//! The set-up of `learned-classes`. For each distribution of item sizes: the class tables, and the parameters that are
//! computed from the published values.
//!
//! ```text
//!   memcached's sizes   96 120 ... 240 | 304 384 ... 944 | 1184 ... 524288
//!                           others            used             others   largest
//! ```
//!
//! The *used* sizes are the sizes of the classes that hold items, as listed in the paper. The same number of new sizes
//! replaces the used sizes. The other sizes are removed, as memcached does with `-o slab_sizes`. When pages are
//! counted, the largest size remains.
//!
//! Item sizes are log-normal. The mean is as printed in the paper. With the printed standard deviation nearly all items
//! would be in one class, and half of the listed classes would be empty. So the deviation is fitted to the published
//! wastes, by least squares of the relative errors. Every item is larger than the chunks of the class below the used
//! classes, because that class would otherwise be used too. Hill climbing lowers the last size until it equals the size
//! of the largest item. So the last new size is the size of the largest item. In one distribution, which has a single
//! used size, the new size is not legible. There the size of the largest item is computed from the published recovered
//! waste.

use crate::result::{Measure, Spec, maximum, mean, measures, minimum};
use serde::Deserialize;
use slabwise_base::Random;
use slabwise_base::random::mix;
use slabwise_policy::sizes::{BestTable, ChunkLayout, Demand, SizesError, exact, geometric};
use std::collections::BTreeMap;

measures! {
    SD: "sd_bytes", "standard deviation", "bytes", Fixed;
    SD_MIN: "sd_bytes_min", "smallest standard deviation that the old waste allows", "bytes", Fixed;
    SD_MAX: "sd_bytes_max", "largest standard deviation that the old waste allows", "bytes", Fixed;
    WASTE: "wasted_bytes", "bytes wasted in chunks", "bytes", WithRun;
    RECOVERED: "recovered_percent", "recovered part of the old waste", "%", Fixed;
    CHUNK_SIZE: "chunk_size", "chunk size", "bytes", Fixed;
    SAME_ENDS: "same_ends_percent", "climbs that end in the most frequent waste", "%", Fixed;
    BEST_ENDS: "best_ends_percent", "climbs that end in the exact best waste", "%", Fixed;
    ENDS: "ends", "different wastes at the ends of climbs", "wastes", Fixed;
    EXCESS: "excess_percent", "more waste than the exact best, maximum", "%", Fixed;
    MOVES: "moves", "moves per climb, mean", "moves", Fixed;
    PAGES: "pages", "pages taken", "pages", Fixed;
    FEWER: "fewer_pages_percent", "fewer pages than with the old sizes", "%", Fixed;
}

// Labels of class tables in the variants of rows.
pub const OLD: &str = "old sizes";
pub const PRINTED: &str = "printed sizes";
pub const CLIMB: &str = "hill climbing";
pub const CLIMB_BEST: &str = "hill climbing, best";
pub const EXACT: &str = "exact";

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LearnedClassesSetup {
    /// Number of items that are drawn from each distribution.
    pub items: u64,
    /// Number of climbs, which are runs of hill climbing, from each kind of start: the old sizes, or random sizes.
    pub restarts: u64,
    /// Size of the items that are stored to count pages.
    pub stored_mib: u64,
    /// memcached's class table.
    pub table: TableSetup,
    pub distributions: Vec<DistributionSetup>,
}

/// The parameters of memcached's class table.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableSetup {
    /// The smallest chunk size.
    pub first_bytes: usize,
    /// Each chunk size is the previous size times this factor.
    pub factor: f64,
    /// The largest chunk size.
    pub chunk_size_kib_max: usize,
    pub page_size_kib: usize,
    /// Chunk sizes are multiples of this number of bytes.
    pub align_bytes: usize,
}

/// A distribution of item sizes in the paper. Sizes include header and key.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DistributionSetup {
    /// Name of the distribution in rows.
    pub name: String,
    pub mean_bytes: f64,
    /// Standard deviation as printed in the paper.
    pub sd_bytes_printed: f64,
    /// The used sizes of memcached's table, in bytes.
    pub old_sizes: Vec<usize>,
    /// The new sizes that the paper prints, in bytes. Empty if they are not legible.
    #[serde(default)]
    pub new_sizes: Vec<usize>,
}

/// Size of a chunk that is larger than every item. A class table needs such a chunk as its last, but in the paper the
/// used sizes hold all items.
const CHUNK_SIZE_BYTES_UNUSED: usize = 1 << 40;

/// The class tables of a distribution.
#[derive(Clone, Debug)]
pub struct Tables {
    /// The used sizes of memcached's table.
    used: Vec<usize>,
    /// The other sizes of memcached's table.
    others: Vec<usize>,
    /// The paper's layout, without alignment and without ends of pages. The last chunk of its tables holds no item.
    pub published: ChunkLayout,
    /// memcached's layout, in which pages are counted.
    pub paged: ChunkLayout,
}

impl Tables {
    /// Divides memcached's chunk sizes into the used sizes and the other sizes.
    ///
    /// # Panics
    /// If an old size of the distribution is not in memcached's table.
    pub fn of(table: &TableSetup, distribution: &DistributionSetup) -> Tables {
        let published = ChunkLayout::published(CHUNK_SIZE_BYTES_UNUSED);
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
        let known = others.len() + used.len();
        assert_eq!(known, all.len(), "{name}: every old size is a chunk size of memcached");
        Tables { used, others, published, paged }
    }

    /// Returns the size of the smallest item that is too large for the classes below the used classes.
    pub fn smallest_item_bytes(&self) -> usize {
        self.others.iter().rev().find(|&&size| size < self.used[0]).map_or(1, |size| size + 1)
    }

    /// Returns the table of these sizes in the paper's layout.
    pub fn published(&self, sizes: &[usize]) -> Vec<usize> {
        [sizes, &[self.published.chunk_size_bytes_max]].concat()
    }

    /// Returns the table of the used sizes in the paper's layout.
    pub fn old(&self) -> Vec<usize> {
        self.published(&self.used)
    }

    /// Returns the table of these sizes in memcached's layout.
    pub fn paged(&self, sizes: &[usize]) -> Vec<usize> {
        let align = self.paged.chunk_align_bytes;
        let mut table: Vec<usize> = sizes.iter().map(|size| size.next_multiple_of(align)).collect();
        table.push(self.paged.chunk_size_bytes_max);
        table
    }

    /// Returns memcached's table, with all of its sizes.
    pub fn paged_old(&self) -> Vec<usize> {
        let mut table = [&self.used[..], &self.others].concat();
        table.sort();
        table
    }

    /// Returns a table of random sizes in the paper's layout. It has the same number of sizes as there are used sizes.
    /// The sizes are at least `smallest`, and the last size is `largest`.
    pub fn random(&self, smallest: usize, largest: usize, random: &mut Random) -> Vec<usize> {
        loop {
            let size = |_| smallest + random.below((largest - smallest) as u64) as usize;
            let mut sizes: Vec<usize> = (1..self.used.len()).map(size).chain([largest]).collect();
            sizes.sort();
            sizes.dedup();
            if sizes.len() == self.used.len() {
                return self.published(&sizes);
            }
        }
    }

    /// Returns the table with the least waste that has as many sizes as there are used sizes, and its waste in bytes.
    pub fn exact(&self, demands: &[Demand]) -> Result<(Vec<usize>, f64), SizesError> {
        self.best(demands, &[], self.used.len())
    }

    /// Returns the table with the least waste that contains memcached's other sizes, and in addition as many sizes as
    /// there are used sizes. Also returns its waste in bytes.
    pub fn exact_with_others(&self, demands: &[Demand]) -> Result<(Vec<usize>, f64), SizesError> {
        self.best(demands, &self.others, self.used.len() + self.others.len())
    }

    /// Returns the table with the least waste that has as many sizes as memcached's table, and its waste in bytes.
    pub fn exact_for_all(&self, demands: &[Demand]) -> Result<(Vec<usize>, f64), SizesError> {
        self.best(demands, &[], self.used.len() + self.others.len())
    }

    /// Returns the table with the least waste that has `sizes` sizes and contains the sizes in `kept`. Also returns its
    /// waste in bytes.
    fn best(
        &self,
        demands: &[Demand],
        kept: &[usize],
        sizes: usize,
    ) -> Result<(Vec<usize>, f64), SizesError> {
        // The class of the chunk that holds no item is counted too.
        let count = sizes + 1;
        let tables = exact(demands, &self.published, kept, count)?;
        let BestTable { mut sizes, loss } = tables.of(count).clone();
        sizes.pop();
        Ok((sizes, loss.total_bytes()))
    }

    /// Returns the table with the least waste in memcached's layout. It has as many sizes as there are used sizes, and
    /// the largest chunk in addition.
    pub fn exact_paged(&self, demands: &[Demand]) -> Result<Vec<usize>, SizesError> {
        let count = self.used.len() + 1;
        Ok(exact(demands, &self.paged, &[], count)?.of(count).sizes.clone())
    }
}

/// A distribution of item sizes.
#[derive(Clone, Debug)]
pub struct SizeDistribution {
    /// The smallest size in bytes.
    smallest: usize,
    /// The cumulative distribution: element i is the fraction of the items whose size is at most `smallest + i`.
    cumulative: Vec<f64>,
}

impl SizeDistribution {
    /// Returns the log-normal distribution with this mean and standard deviation, truncated to the sizes from
    /// `smallest` to `largest`.
    pub fn new(
        mean_bytes: f64,
        sd_bytes: f64,
        smallest: usize,
        largest: usize,
    ) -> SizeDistribution {
        // Variance and mean of the logarithm of the size.
        let log_variance = (1.0 + (sd_bytes / mean_bytes).powi(2)).ln();
        let log_mean = mean_bytes.ln() - log_variance / 2.0;
        let mut sum = 0.0;
        let mut cumulative: Vec<f64> = (smallest..=largest)
            .map(|size| {
                let deviation = (size as f64).ln() - log_mean;
                sum += (-deviation * deviation / (2.0 * log_variance)).exp() / size as f64;
                sum
            })
            .collect();
        cumulative.iter_mut().for_each(|share| *share /= sum);
        SizeDistribution { smallest, cumulative }
    }

    /// Returns each size with the fraction of the items that have this size.
    pub fn shares(&self) -> impl Iterator<Item = (usize, f64)> + '_ {
        let before = [0.0].into_iter().chain(self.cumulative.iter().copied());
        let shares = self.cumulative.iter().zip(before).map(|(to, before)| to - before);
        shares.enumerate().map(|(index, share)| (self.smallest + index, share))
    }

    /// Returns the mean waste per item, in bytes, with the chunk sizes of a table.
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

    /// Draws a random size.
    pub fn draw(&self, random: &mut Random) -> usize {
        let at = random.unit();
        let index = self.cumulative.partition_point(|&share| share <= at);
        self.smallest + index.min(self.cumulative.len() - 1)
    }
}

/// The published waste of a class table.
pub struct PublishedWaste<'a> {
    /// The chunk sizes of the table, in bytes.
    pub table: &'a [usize],
    /// Waste per item.
    pub waste_bytes: f64,
}

impl PublishedWaste<'_> {
    /// Returns the waste of a distribution with this table divided by the published waste, minus 1.
    fn relative_error(&self, sizes: &SizeDistribution) -> f64 {
        sizes.waste(self.table) / self.waste_bytes - 1.0
    }
}

/// The largest standard deviation that is considered, as a fraction of the mean.
const SD_SHARE_MAX: f64 = 0.4;
/// Number of standard deviations that [`fit`] compares first. They are evenly spaced, one step apart.
const STEPS: u32 = 800;
/// Then [`fit`] divides each of the two steps next to the best deviation into this number of parts.
const FINE_STEPS: u32 = 40;

/// Returns the standard deviations that [`fit`] compares first.
fn deviations(mean_bytes: f64) -> impl Iterator<Item = f64> {
    let step = mean_bytes * SD_SHARE_MAX / f64::from(STEPS);
    (1..=STEPS).map(move |at| f64::from(at) * step)
}

/// Returns the standard deviation for which the sum of the squares of the relative errors of all published wastes is
/// smallest. `distribution` returns the distribution with a standard deviation.
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
        let best = rated.min_by(|a, b| a.0.total_cmp(&b.0));
        best.expect("there is at least one candidate").1
    };
    let coarse = best_of(&mut deviations(mean_bytes));
    let step = mean_bytes * SD_SHARE_MAX / f64::from(STEPS);
    let fine =
        (1..2 * FINE_STEPS).map(|at| coarse + step * (f64::from(at) / f64::from(FINE_STEPS) - 1.0));
    best_of(&mut fine.filter(|&sd_bytes| sd_bytes > 0.0))
}

/// Returns the smallest and the largest standard deviation whose waste differs from the published waste by a relative
/// error of at most `tolerance`. Returns `None` if there is no such deviation.
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

/// The published waste of the old sizes allows a standard deviation if the waste that results from the deviation has at
/// most this relative error.
const FIT_TOLERANCE: f64 = 0.01;
/// Number of items that represent a distribution when the expected waste is computed.
const DISTRIBUTION_ITEMS: f64 = 1e9;

/// A distribution with the parameters that are computed from published values.
pub struct Case<'a> {
    pub setup: &'a DistributionSetup,
    pub tables: Tables,
    pub largest_item_bytes: usize,
    /// Standard deviation.
    pub sd_bytes: f64,
    /// The smallest and the largest standard deviation that the old waste allows, or `None` if it allows no deviation.
    /// If no waste is published, the printed deviation times two factors. The factors are the smallest and the largest
    /// ratio of fitted to printed deviation among the other distributions.
    pub sd_range: Option<(f64, f64)>,
    /// True if the standard deviation was fitted to published wastes.
    pub is_fitted: bool,
}

impl<'a> Case<'a> {
    fn new(spec: &Spec, setup: &'a LearnedClassesSetup, of: &'a DistributionSetup) -> Case<'a> {
        let tables = Tables::of(&setup.table, of);
        let published = |measure: Measure, table: &str| {
            let variant = format!("{}, {table}", of.name);
            let mut values = spec.published.iter();
            let value =
                values.find(|value| value.measure == measure.name && value.variant == variant);
            value.map(|value| value.value)
        };
        let largest_item_bytes = of.new_sizes.last().copied().unwrap_or_else(|| {
            let [old] = of.old_sizes[..] else {
                panic!("{}: a distribution without new_sizes has exactly one old size", of.name)
            };
            let recovered = published(RECOVERED, CLIMB);
            let recovered = recovered.expect("the recovered waste is published") / 100.0;
            (old as f64 - recovered * (old as f64 - of.mean_bytes)).round() as usize
        });
        let mut case = Case {
            setup: of,
            tables,
            largest_item_bytes,
            sd_bytes: 0.0,
            sd_range: None,
            is_fitted: false,
        };
        let waste = |table: &str| Some(published(WASTE, table)? / setup.items as f64);
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
        let smallest = self.tables.smallest_item_bytes();
        SizeDistribution::new(self.setup.mean_bytes, sd_bytes, smallest, self.largest_item_bytes)
    }

    /// Returns the variant of a row of this distribution.
    pub fn variant(&self, label: &str) -> String {
        format!("{}, {label}", self.setup.name)
    }

    /// Draws `count` random item sizes.
    pub fn draw(&self, count: u64, seed: u64) -> Vec<usize> {
        let sizes = self.distribution(self.sd_bytes);
        let mut random = Random::new(mix(seed ^ self.setup.mean_bytes.to_bits()));
        (0..count).map(|_| sizes.draw(&mut random)).collect()
    }

    /// Returns the expected numbers of items of each size, with another standard deviation.
    pub fn expected(&self, sd_bytes: f64) -> Vec<Demand> {
        let sizes = self.distribution(sd_bytes);
        let items = |share: f64| (share * DISTRIBUTION_ITEMS).round() as u64;
        sizes.shares().map(|(size, share)| Demand::new(size, items(share))).collect()
    }
}

/// Returns all distributions. If no wastes of a distribution are published, its standard deviation is the printed
/// deviation times the mean factor of the other distributions. The factor is the fitted deviation divided by the
/// printed deviation.
pub fn cases<'a>(spec: &Spec, setup: &'a LearnedClassesSetup) -> Vec<Case<'a>> {
    let case = |of: &'a DistributionSetup| Case::new(spec, setup, of);
    let mut cases: Vec<Case<'a>> = setup.distributions.iter().map(case).collect();
    let factors: Vec<f64> =
        cases.iter().filter(|case| case.is_fitted).map(deviation_factor).collect();
    for case in cases.iter_mut().filter(|case| !case.is_fitted) {
        let printed = case.setup.sd_bytes_printed;
        case.sd_bytes = mean(&factors) * printed;
        case.sd_range = Some((minimum(&factors) * printed, maximum(&factors) * printed));
    }
    cases
}

/// Returns the fitted standard deviation divided by the printed standard deviation.
fn deviation_factor(case: &Case) -> f64 {
    case.sd_bytes / case.setup.sd_bytes_printed
}

/// Counts the items of each size.
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
    fn random_sizes_have_the_mean_and_the_deviation_of_the_distribution() {
        let sizes = SizeDistribution::new(500.0, 60.0, 200, 1_000);
        let mut random = Random::new(3);
        let drawn: Vec<f64> = (0..100_000).map(|_| sizes.draw(&mut random) as f64).collect();
        let mean = drawn.iter().sum::<f64>() / drawn.len() as f64;
        let variance = drawn.iter().map(|size| (size - mean).powi(2)).sum::<f64>();
        let sd = (variance / drawn.len() as f64).sqrt();
        let context = format!("mean {mean}, standard deviation {sd}");
        assert!((mean - 500.0).abs() < 1.0 && (sd - 60.0).abs() < 1.0, "{context}");
        let skew = drawn.iter().map(|size| (size - mean).powi(3)).sum::<f64>();
        assert!(skew > 0.0, "a log-normal distribution is skewed to the right");
    }

    #[test]
    fn the_shares_add_up_to_1_and_determine_the_waste() {
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
    fn fitting_finds_the_deviation_that_caused_the_wastes() {
        let distribution = |sd| SizeDistribution::new(500.0, sd, 300, 1_000);
        for sd in [12.0, 60.0, 110.0] {
            let tables = [[480, 600, 1_000], [510, 620, 1_000]];
            let wastes = tables
                .each_ref()
                .map(|table| PublishedWaste { table, waste_bytes: distribution(sd).waste(table) });
            let found = fit(500.0, distribution, &wastes);
            assert!((found - sd).abs() < 0.02, "fitted deviation {found}, expected {sd}");
            let range = fit_range(500.0, distribution, &wastes[0], 0.01);
            let (smallest, largest) = range.expect("at least one deviation has the waste");
            let context = format!("range from {smallest} to {largest}, deviation {sd}");
            assert!(smallest <= sd && sd <= largest, "{context}");
        }
        let impossible = PublishedWaste { table: &[1_000], waste_bytes: 1e6 };
        assert!(fit_range(500.0, distribution, &impossible, 0.01).is_none());
    }
}
