//! What `learned-classes` sets up, and each distribution with its tables and all that follows from the published figures.
//!
//! ```text
//!   memcached's own   96 120 ... 240 | 304 384 ... 944 | 1184 ... 524288
//!                         others           in use            others   largest
//! ```
//!
//! As many other sizes take the place of those in use. The others are gone, as they are where `-o slab_sizes` is given the
//! sizes that the paper prints; on memcached's pages its largest chunk stays.
//!
//! Sizes are log-normal. With the printed deviation nearly all items would lie in one class, and half of the listed
//! classes would be empty; so the mean is taken as printed, and the spread is the one whose expected waste is nearest to
//! the published ones, in least squares of relative errors. No size lies below the listed classes, or another class would
//! be in use; none above the largest item. Hill climbing lowers the last size until it is the largest item's, so the last
//! new size is that; where it is not legible, the share that its one size recovers gives it.

use crate::result::{Measure, Spec, least, mean, measures, most};
use serde::Deserialize;
use slabwise_base::Random;
use slabwise_base::random::mix;
use slabwise_policy::sizes::{BestTable, ChunkLayout, Demand, SizesError, exact, geometric};
use std::collections::BTreeMap;

measures! {
    SD: "sd_bytes", "standard deviation", "bytes", Fixed;
    SD_LEAST: "sd_bytes_least", "least deviation that the old waste allows", "bytes", Fixed;
    SD_MOST: "sd_bytes_most", "largest deviation that the old waste allows", "bytes", Fixed;
    WASTE: "wasted_bytes", "bytes wasted in chunks", "bytes", WithRun;
    RECOVERED: "recovered_percent", "of the old waste, recovered", "%", Fixed;
    BEST_ENDS: "best_ends_percent", "climbs that end in the exact best waste", "%", Fixed;
    ENDS: "ends", "different wastes that climbs end in", "wastes", Fixed;
    EXCESS: "excess_percent", "more waste than the exact best, at most", "%", Fixed;
    MOVES: "moves", "moves of a climb, mean", "moves", Fixed;
    PAGES: "pages", "pages taken", "pages", Fixed;
    FEWER: "fewer_pages_percent", "fewer pages than by the old sizes", "%", Fixed;
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
    /// Of the items, so many MiB are stored where pages are counted.
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
    /// The new ones; none where they cannot be read.
    #[serde(default)]
    pub new_sizes: Vec<usize>,
}

/// A chunk so large that no waste elsewhere makes up for an item in it: where the paper counts, the sizes in use hold
/// all items.
const CHUNK_SIZE_BYTES_NEVER: usize = 1 << 40;

#[derive(Clone, Debug)]
pub struct Tables {
    used: Vec<usize>,
    others: Vec<usize>,
    /// How the paper counts: to the byte, and without the ends of pages. A table ends with a chunk for nothing.
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
        assert_eq!(others.len() + used.len(), all.len(), "{name}: old sizes are memcached's");
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

    /// As many sizes as are in use, anywhere from `least` up to `most`, which is one of them, as a table of the paper's.
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

    /// The best of as many sizes as the paper counts, and what they lose.
    pub fn exact(&self, demands: &[Demand]) -> Result<(Vec<usize>, f64), SizesError> {
        self.best(demands, &[], self.used.len())
    }

    /// The same beside memcached's others.
    pub fn exact_beside(&self, demands: &[Demand]) -> Result<(Vec<usize>, f64), SizesError> {
        self.best(demands, &self.others, self.used.len() + self.others.len())
    }

    /// The same where memcached's others are given other sizes, too.
    pub fn exact_of_all(&self, demands: &[Demand]) -> Result<(Vec<usize>, f64), SizesError> {
        self.best(demands, &[], self.used.len() + self.others.len())
    }

    fn best(
        &self,
        demands: &[Demand],
        kept: &[usize],
        sizes: usize,
    ) -> Result<(Vec<usize>, f64), SizesError> {
        // The chunk for nothing is a class, too.
        let count = sizes + 1;
        let tables = exact(demands, &self.published, kept, count)?;
        let BestTable { mut sizes, loss } = tables.of(count).clone();
        sizes.pop();
        Ok((sizes, loss.total_bytes()))
    }

    /// The best table of as many sizes, and the largest, on memcached's pages.
    pub fn exact_paged(&self, demands: &[Demand]) -> Result<Vec<usize>, SizesError> {
        let count = self.used.len() + 1;
        Ok(exact(demands, &self.paged, &[], count)?.of(count).sizes.clone())
    }
}

#[derive(Clone, Debug)]
pub struct SizeLaw {
    least: usize,
    /// By size from the least: the share of sizes up to it.
    share_to: Vec<f64>,
}

impl SizeLaw {
    /// With this mean and standard deviation but for what lies outside of `least..=most`.
    pub fn new(mean_bytes: f64, sd_bytes: f64, least: usize, most: usize) -> SizeLaw {
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
        SizeLaw { least, share_to }
    }

    pub fn shares(&self) -> impl Iterator<Item = (usize, f64)> + '_ {
        let before = [0.0].into_iter().chain(self.share_to.iter().copied());
        let shares = self.share_to.iter().zip(before).map(|(to, before)| to - before);
        shares.enumerate().map(|(place, share)| (self.least + place, share))
    }

    /// Bytes that a chunk of this table is expected to hold in vain.
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

pub struct KnownWaste<'a> {
    pub table: &'a [usize],
    pub waste_bytes: f64,
}

impl KnownWaste<'_> {
    fn relative_error(&self, law: &SizeLaw) -> f64 {
        law.waste(self.table) / self.waste_bytes - 1.0
    }
}

const SD_SHARE_MAX: f64 = 0.4;
const STEPS: u32 = 800;
const FINE_STEPS: u32 = 40;

fn spreads(mean_bytes: f64) -> impl Iterator<Item = f64> {
    let step = mean_bytes * SD_SHARE_MAX / f64::from(STEPS);
    (1..=STEPS).map(move |at| f64::from(at) * step)
}

/// The standard deviation whose law is nearest to what is known.
pub fn fit(mean_bytes: f64, law: impl Fn(f64) -> SizeLaw, known: &[KnownWaste]) -> f64 {
    let error = |sd_bytes: f64| {
        let law = law(sd_bytes);
        known.iter().map(|known| known.relative_error(&law).powi(2)).sum::<f64>()
    };
    let best_of = |spreads: &mut dyn Iterator<Item = f64>| {
        let rated = spreads.map(|sd_bytes| (error(sd_bytes), sd_bytes));
        rated.min_by(|a, b| a.0.total_cmp(&b.0)).expect("there are some").1
    };
    let coarse = best_of(&mut spreads(mean_bytes));
    let step = mean_bytes * SD_SHARE_MAX / f64::from(STEPS);
    let fine =
        (1..2 * FINE_STEPS).map(|at| coarse + step * (f64::from(at) / f64::from(FINE_STEPS) - 1.0));
    best_of(&mut fine.filter(|&sd_bytes| sd_bytes > 0.0))
}

/// The least and the largest standard deviation whose waste is off by at most `tolerance`, as a part of it.
pub fn fit_range(
    mean_bytes: f64,
    law: impl Fn(f64) -> SizeLaw,
    known: &KnownWaste,
    tolerance: f64,
) -> Option<(f64, f64)> {
    let is_near = |&sd_bytes: &f64| known.relative_error(&law(sd_bytes)).abs() <= tolerance;
    let near: Vec<f64> = spreads(mean_bytes).filter(is_near).collect();
    Some((*near.first()?, *near.last()?))
}

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
        law.shares().map(|(size, share)| Demand::new(size, items(share))).collect()
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
    use super::{KnownWaste, SizeLaw, fit, fit_range};
    use slabwise_base::Random;

    #[test]
    fn what_is_drawn_has_the_mean_and_the_spread() {
        let law = SizeLaw::new(500.0, 60.0, 200, 1_000);
        let mut random = Random::new(3);
        let drawn: Vec<f64> = (0..100_000).map(|_| law.draw(&mut random) as f64).collect();
        let mean = drawn.iter().sum::<f64>() / drawn.len() as f64;
        let variance = drawn.iter().map(|size| (size - mean).powi(2)).sum::<f64>();
        let sd = (variance / drawn.len() as f64).sqrt();
        assert!((mean - 500.0).abs() < 1.0 && (sd - 60.0).abs() < 1.0, "{mean}, {sd}");
        let skew = drawn.iter().map(|size| (size - mean).powi(3)).sum::<f64>();
        assert!(skew > 0.0, "a log-normal has a long upper side");
    }

    #[test]
    fn shares_add_up_and_the_waste_is_their_mean() {
        let law = SizeLaw::new(500.0, 60.0, 400, 600);
        let sum: f64 = law.shares().map(|(_, share)| share).sum();
        assert!((sum - 1.0).abs() < 1e-12);
        let mean: f64 = law.shares().map(|(size, share)| share * size as f64).sum();
        assert!((law.waste(&[600]) - (600.0 - mean)).abs() < 1e-9);
        assert!(law.waste(&[500, 600]) < law.waste(&[600]));
        let mut random = Random::new(1);
        assert!((0..10_000).all(|_| (400..=600).contains(&law.draw(&mut random))));
    }

    #[test]
    fn a_spread_is_found_again_by_what_it_wastes() {
        for sd in [12.0, 60.0, 110.0] {
            let law = |sd| SizeLaw::new(500.0, sd, 300, 1_000);
            let tables = [[480, 600, 1_000], [510, 620, 1_000]];
            let known = tables
                .each_ref()
                .map(|table| KnownWaste { table, waste_bytes: law(sd).waste(table) });
            let found = fit(500.0, law, &known);
            assert!((found - sd).abs() < 0.02, "{found}, not {sd}");
            let (least, most) = fit_range(500.0, law, &known[0], 0.01).expect("some");
            assert!(least <= sd && sd <= most, "{least} to {most}, not {sd}");
        }
        let known = KnownWaste { table: &[1_000], waste_bytes: 1e6 };
        let law = |sd| SizeLaw::new(500.0, sd, 300, 1_000);
        assert!(fit_range(500.0, law, &known, 0.01).is_none());
    }
}
