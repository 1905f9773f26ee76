//! The data about a class from which partitions are computed, and the objective of a partition.

use crate::history::costs::MissCosts;
use crate::options::Choice;
use crate::{ClassProfile, Snapshot};
use slabwise_profile::Mrc;

/// The miss-ratio curve of a class, with the values that convert pages to misses and to their cost.
#[derive(Clone, Copy, Debug)]
pub struct ClassCurve<'a> {
    /// The misses for each number of chunks.
    pub curve: &'a Mrc,
    /// The number of chunks on a page; at least 1.
    pub chunks_per_page: u64,
    /// The factor by which misses of the curve are multiplied; 1 if the curve counts every reference.
    pub weight: f64,
    /// The factor by which sizes of the curve are multiplied; 1 if the curve is accurate.
    pub stretch: f64,
    /// The cost of a miss minus the cost of a hit, in the unit of the [`Objective`].
    pub miss_cost: f64,
    /// The current number of pages of the class.
    pub pages: u64,
    /// The minimum number of pages of the class in a new partition.
    pub pages_min: u64,
    /// Pages beyond this number save no misses, even if the curve shows a gain.
    pub pages_usable: u64,
}

impl<'a> ClassCurve<'a> {
    /// Creates a class that now has `pages` pages and may have any number of pages. Its misses are those of the curve,
    /// and a miss costs 1.
    pub fn new(curve: &'a Mrc, chunks_per_page: u64, pages: u64) -> ClassCurve<'a> {
        ClassCurve {
            curve,
            chunks_per_page,
            weight: 1.0,
            stretch: 1.0,
            miss_cost: 1.0,
            pages,
            pages_min: 0,
            pages_usable: u64::MAX,
        }
    }

    /// Returns the number of misses with this number of pages.
    pub fn misses(&self, pages: u64) -> f64 {
        self.curve.misses(self.chunks_at(pages)) * self.weight
    }

    fn chunks_at(&self, pages: u64) -> u64 {
        let chunks = pages.min(self.pages_usable).saturating_mul(self.chunks_per_page);
        (chunks as f64 / self.stretch) as u64
    }

    /// Returns the number of pages, rounded down, that correspond to this size of the curve, in chunks.
    pub(crate) fn pages_at(&self, chunks: u64) -> u64 {
        (chunks as f64 * (self.stretch / self.chunks_per_page as f64)) as u64
    }

    /// Returns the number of references, which is the number of misses without any page.
    pub fn references(&self) -> f64 {
        self.curve.references() * self.weight
    }

    /// Returns the cost of the misses with this number of pages.
    pub fn cost(&self, pages: u64) -> f64 {
        self.misses(pages) * self.miss_cost
    }

    /// Returns the cost for each of these numbers of pages, which must ascend, in one pass along the curve. The cost
    /// includes `move_cost` for each page of difference from the current number of pages.
    pub(crate) fn costs(
        &self,
        sizes: impl Iterator<Item = u64> + Clone,
        move_cost: f64,
    ) -> impl Iterator<Item = f64> {
        let misses =
            self.curve.misses_at_ascending(sizes.clone().map(|pages| self.chunks_at(pages)));
        sizes.zip(misses).map(move |(pages, misses)| {
            misses * self.weight * self.miss_cost + move_cost * pages.abs_diff(self.pages) as f64
        })
    }

    /// Returns the cost if every reference misses.
    pub(crate) fn cost_max(&self) -> f64 {
        self.references() * self.miss_cost
    }

    /// Returns the largest number of pages to try in a partition of `pages` pages. More pages than the curve's last
    /// point save no misses, but the class may keep its current pages.
    pub(crate) fn pages_max(&self, pages: u64) -> u64 {
        let end_chunks = self.curve.points().last().map_or(0, |last| last.chunks);
        let end = (self.pages_at(end_chunks) + 1).min(self.pages_usable);
        end.max(self.pages).max(self.pages_min).min(pages)
    }
}

/// Returns the cost of a partition: the sum of the costs of all classes. `partition` has the pages of each class.
pub fn cost(classes: &[ClassCurve], partition: &[u64]) -> f64 {
    classes.iter().zip(partition).map(|(class, &pages)| class.cost(pages)).sum()
}

/// Returns a move cost that is far below any real gain. It only decides between partitions whose costs differ by
/// rounding errors: the partition nearest to the current partition is then the cheapest.
pub(crate) fn least_move_cost(classes: &[ClassCurve]) -> f64 {
    let costs_all: f64 = classes.iter().map(ClassCurve::cost_max).sum();
    costs_all.max(f64::MIN_POSITIVE * 1e12) * 1e-12
}

/// Returns the classes of a snapshot with their curves; a miss costs 1. Returns no classes if the snapshot has no
/// profiles. A class that holds items keeps a page.
pub(crate) fn class_curves(snapshot: &Snapshot) -> Vec<ClassCurve<'_>> {
    let each = snapshot.classes.iter().zip(&snapshot.profiles);
    each.map(|(class, profile)| ClassCurve {
        pages_min: class.pages.min(u64::from(class.used_chunks > 0)),
        ..ClassCurve::new(&profile.curve, class.chunks_per_page as u64, class.pages)
    })
    .collect()
}

/// The quantity that the best partition minimizes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Objective {
    /// The share of gets that miss.
    #[default]
    MissRatio,
    /// The mean time of a get. For each class it is `MR * Tm + (1 - MR) * Th`, with the miss ratio MR, the mean time Tm
    /// of a miss and the mean time Th of a hit.
    RequestTime,
    /// The cost of all misses: the sum over all classes of the misses times the mean cost of a miss. If all costs are
    /// equal or unknown, plans are exactly those of [`Objective::MissRatio`].
    Cost,
}

impl Choice for Objective {
    const WORDS: &'static [(&'static str, Objective)] = &[
        ("miss_ratio", Objective::MissRatio),
        ("request_time", Objective::RequestTime),
        ("cost", Objective::Cost),
    ];
}

impl Objective {
    /// Returns the classes of a snapshot with their curves and with the miss costs of this objective.
    pub(crate) fn class_curves<'s>(
        self,
        snapshot: &'s Snapshot,
        costs: &MissCosts,
    ) -> Vec<ClassCurve<'s>> {
        let mut classes = class_curves(snapshot);
        let miss_costs = match self {
            Objective::MissRatio => return classes,
            Objective::RequestTime => miss_times(&snapshot.profiles),
            Objective::Cost => costs.relative(snapshot),
        };
        let each = classes.iter_mut().zip(miss_costs);
        each.for_each(|(class, miss_cost)| class.miss_cost = miss_cost);
        classes
    }

    /// Returns the miss cost of each class divided by the mean miss cost of all classes, for decisions without curves.
    /// Unless the objective is the cost, each value is 1.
    pub(crate) fn relative_costs(self, snapshot: &Snapshot, costs: &MissCosts) -> Vec<f64> {
        match self {
            Objective::MissRatio | Objective::RequestTime => vec![1.0; snapshot.classes.len()],
            Objective::Cost => costs.relative(snapshot),
        }
    }
}

/// Returns for each class the time of a miss minus the time of a hit, in microseconds. A class without measured times
/// has the mean of the other classes, weighted by references.
fn miss_times(profiles: &[ClassProfile]) -> Vec<f64> {
    let timed = || profiles.iter().filter_map(|profile| Some((profile, miss_time(profile)?)));
    let references: f64 = timed().map(|(profile, _)| profile.curve.references()).sum();
    let sum: f64 = timed().map(|(profile, time)| profile.curve.references() * time).sum();
    let unknown = if references > 0.0 { sum / references } else { 1.0 };
    profiles.iter().map(|profile| miss_time(profile).unwrap_or(unknown)).collect()
}

/// Returns the time of a miss minus the time of a hit, in microseconds; `None` if the times were not measured.
fn miss_time(profile: &ClassProfile) -> Option<f64> {
    (profile.miss_time_us > profile.hit_time_us)
        .then_some(profile.miss_time_us - profile.hit_time_us)
}
