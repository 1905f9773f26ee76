//! A class as a splitter sees it, and the objective of a partition.

use crate::history::costs::MissCosts;
use crate::options::Choice;
use crate::{ClassProfile, Snapshot};
use slabwise_profile::Mrc;

/// A class's curve, with the values that convert pages to misses and costs.
#[derive(Clone, Copy, Debug)]
pub struct ClassCurve<'a> {
    /// The misses for each number of chunks.
    pub curve: &'a Mrc,
    /// Chunks on a page; at least 1.
    pub chunks_per_page: u64,
    /// The weight of each reference of the curve; 1 if they are all the references.
    pub weight: f64,
    /// The number of real chunks for one of the curve; 1 if the curve is accurate.
    pub stretch: f64,
    /// The cost of a miss above that of a hit, in the unit of the [`Objective`].
    pub miss_cost: f64,
    /// The current number of pages.
    pub pages: u64,
    /// The minimum number of pages.
    pub pages_min: u64,
    /// The number of pages beyond which more are of no use, even if the curve says otherwise.
    pub pages_usable: u64,
}

impl<'a> ClassCurve<'a> {
    /// A class with these pages, no minimum, and the misses of the curve.
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

    /// The misses with this number of pages.
    pub fn misses(&self, pages: u64) -> f64 {
        self.curve.misses(self.chunks_at(pages)) * self.weight
    }

    fn chunks_at(&self, pages: u64) -> u64 {
        let chunks = pages.min(self.pages_usable).saturating_mul(self.chunks_per_page);
        (chunks as f64 / self.stretch) as u64
    }

    /// The number of pages, rounded down, at which the class has this many chunks of the curve.
    pub(crate) fn pages_at(&self, chunks: u64) -> u64 {
        (chunks as f64 * (self.stretch / self.chunks_per_page as f64)) as u64
    }

    /// The number of references: the misses without any page.
    pub fn references(&self) -> f64 {
        self.curve.references() * self.weight
    }

    /// The cost of the misses with this number of pages.
    pub fn cost(&self, pages: u64) -> f64 {
        self.misses(pages) * self.miss_cost
    }

    /// The costs for many sizes, which must ascend, in one pass along the curve. Each page gained or lost costs
    /// `move_cost`.
    pub(crate) fn costs(
        &self,
        sizes: impl Iterator<Item = u64> + Clone,
        move_cost: f64,
    ) -> impl Iterator<Item = f64> {
        let misses = self.curve.misses_of_rising(sizes.clone().map(|pages| self.chunks_at(pages)));
        sizes.zip(misses).map(move |(pages, misses)| {
            misses * self.weight * self.miss_cost + move_cost * pages.abs_diff(self.pages) as f64
        })
    }

    pub(crate) fn cost_max(&self) -> f64 {
        self.references() * self.miss_cost
    }

    /// The largest useful size in a partition of `pages`: the level end of its curve, or its current pages if they are
    /// more.
    pub(crate) fn pages_max(&self, pages: u64) -> u64 {
        let level = self.curve.points().last().map_or(0, |last| last.chunks);
        let level = (self.pages_at(level) + 1).min(self.pages_usable);
        level.max(self.pages).max(self.pages_min).min(pages)
    }
}

/// The cost of a partition: the sum over its classes.
pub fn cost(classes: &[ClassCurve], split: &[u64]) -> f64 {
    classes.iter().zip(split).map(|(class, &pages)| class.cost(pages)).sum()
}

/// The minimum that a page's move must save: almost nothing, but enough to choose the partition nearest to the current
/// one if costs differ only by rounding.
pub(crate) fn least_move_cost(classes: &[ClassCurve]) -> f64 {
    let costs_all: f64 = classes.iter().map(ClassCurve::cost_max).sum();
    costs_all.max(f64::MIN_POSITIVE * 1e12) * 1e-12
}

/// The classes of a snapshot with their curves and misses as costs; empty if the snapshot has no profiles. A class that
/// holds items keeps a page.
pub(crate) fn class_curves(snapshot: &Snapshot) -> Vec<ClassCurve<'_>> {
    let each = snapshot.classes.iter().zip(&snapshot.profiles);
    each.map(|(class, profile)| ClassCurve {
        pages_min: class.pages.min(u64::from(class.used_chunks > 0)),
        ..ClassCurve::new(&profile.curve, class.chunks_per_page as u64, class.pages)
    })
    .collect()
}

/// The quantity that a partition minimizes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Objective {
    /// The share of gets that miss.
    #[default]
    MissRatio,
    /// The mean time of a get: `MR * Tm + (1 - MR) * Th` for each class, with the miss ratio MR and the mean times of a
    /// miss (Tm) and of a hit (Th).
    RequestTime,
    /// The cost of all misses: each class's misses times their mean cost. If there are no costs, or equal ones, plans
    /// are exactly those of the miss ratio.
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
    /// The classes of a snapshot with their curves and miss costs.
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

    /// The miss costs relative to the mean of all classes, for decisions without curves.
    pub(crate) fn relative_costs(self, snapshot: &Snapshot, costs: &MissCosts) -> Vec<f64> {
        match self {
            Objective::MissRatio | Objective::RequestTime => vec![1.0; snapshot.classes.len()],
            Objective::Cost => costs.relative(snapshot),
        }
    }
}

/// The time by which a miss takes longer than a hit; for classes without measured misses, the mean of the others by
/// references.
fn miss_times(profiles: &[ClassProfile]) -> Vec<f64> {
    let timed = || profiles.iter().filter_map(|profile| Some((profile, miss_time(profile)?)));
    let references: f64 = timed().map(|(profile, _)| profile.curve.references()).sum();
    let sum: f64 = timed().map(|(profile, time)| profile.curve.references() * time).sum();
    let unknown = if references > 0.0 { sum / references } else { 1.0 };
    profiles.iter().map(|profile| miss_time(profile).unwrap_or(unknown)).collect()
}

/// The time by which a miss takes longer than a hit, if it is known.
fn miss_time(profile: &ClassProfile) -> Option<f64> {
    (profile.miss_time_us > profile.hit_time_us)
        .then_some(profile.miss_time_us - profile.hit_time_us)
}
