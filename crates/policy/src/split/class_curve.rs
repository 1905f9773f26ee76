//! A class as a splitter sees it, and what a split is to make least.

use crate::history::costs::MissCosts;
use crate::options::Choice;
use crate::{ClassProfile, Snapshot};
use slabwise_profile::Mrc;

/// One class's curve, and what is needed to read it by pages.
#[derive(Clone, Copy, Debug)]
pub struct ClassCurve<'a> {
    /// Misses by chunks.
    pub curve: &'a Mrc,
    /// Chunks a page; at least 1.
    pub chunks_per_page: u64,
    /// What each of the curve's references counts; 1 where they are all that is to be counted.
    pub weight: f64,
    /// How many chunks it takes where the curve says one; 1 where the curve is right.
    pub stretch: f64,
    /// What a miss costs more than a hit, in the unit of the [`Objective`].
    pub miss_cost: f64,
    /// Pages it has.
    pub pages: u64,
    /// Pages that it keeps.
    pub pages_min: u64,
    /// Further pages are of no use to it, whatever its curve says.
    pub pages_usable: u64,
}

impl<'a> ClassCurve<'a> {
    /// A class with these pages that keeps none of them, whose misses are counted as the curve has them.
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

    /// Its misses with so many pages.
    pub fn misses(&self, pages: u64) -> f64 {
        self.curve.misses(self.chunks_at(pages)) * self.weight
    }

    fn chunks_at(&self, pages: u64) -> u64 {
        let chunks = pages.min(self.pages_usable).saturating_mul(self.chunks_per_page);
        (chunks as f64 / self.stretch) as u64
    }

    /// The pages at which so many of the curve's chunks are there, but for rounding.
    pub(crate) fn pages_at(&self, chunks: u64) -> u64 {
        (chunks as f64 * (self.stretch / self.chunks_per_page as f64)) as u64
    }

    /// Its references: its misses with no page.
    pub fn references(&self) -> f64 {
        self.curve.references() * self.weight
    }

    /// The cost of its misses with so many pages.
    pub fn cost(&self, pages: u64) -> f64 {
        self.misses(pages) * self.miss_cost
    }

    /// The same of many sizes, which must rise: in one walk along the curve. A page more or less than it has
    /// costs `move_price` beside.
    pub(crate) fn costs(
        &self,
        sizes: impl Iterator<Item = u64> + Clone,
        move_price: f64,
    ) -> impl Iterator<Item = f64> {
        let misses = self.curve.misses_of_rising(sizes.clone().map(|pages| self.chunks_at(pages)));
        sizes.zip(misses).map(move |(pages, misses)| {
            misses * self.weight * self.miss_cost + move_price * pages.abs_diff(self.pages) as f64
        })
    }

    pub(crate) fn cost_max(&self) -> f64 {
        self.references() * self.miss_cost
    }

    /// The most pages that a split of `pages` has a reason to give it: where its curve is level, or what it
    /// has.
    pub(crate) fn pages_max(&self, pages: u64) -> u64 {
        let level = self.curve.points().last().map_or(0, |last| last.chunks);
        let level = (self.pages_at(level) + 1).min(self.pages_usable);
        level.max(self.pages).max(self.pages_min).min(pages)
    }
}

/// The cost of a split: the sum of its classes'.
pub fn cost(classes: &[ClassCurve], split: &[u64]) -> f64 {
    classes.iter().zip(split).map(|(class, &pages)| class.cost(pages)).sum()
}

/// What a page's move must save at least: next to nothing, and enough that of two splits whose costs
/// differ by rounding only the one nearer to the present is taken.
pub(crate) fn least_move_price(classes: &[ClassCurve]) -> f64 {
    let costs_all: f64 = classes.iter().map(ClassCurve::cost_max).sum();
    costs_all.max(f64::MIN_POSITIVE * 1e12) * 1e-12
}

/// The classes of a snapshot with their curves, by which misses are counted; none if the snapshot has no profiles. A
/// class that holds items keeps a page.
pub(crate) fn class_curves(snapshot: &Snapshot) -> Vec<ClassCurve<'_>> {
    let each = snapshot.classes.iter().zip(&snapshot.profiles);
    each.map(|(class, profile)| ClassCurve {
        pages_min: class.pages.min(u64::from(class.used_chunks > 0)),
        ..ClassCurve::new(&profile.curve, class.chunks_per_page as u64, class.pages)
    })
    .collect()
}

/// What a split is to make least.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Objective {
    /// The share of gets that miss.
    #[default]
    MissRatio,
    /// The mean time of a get: of each class `MR * Tm + (1 - MR) * Th`, with the miss ratio MR and the mean
    /// times of a miss and of a hit.
    RequestTime,
    /// The cost of all that misses: each class's misses, times their mean cost. Where nobody gives costs, or they
    /// are equal, it is the same as the miss ratio, to the last bit.
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
    /// The classes of a snapshot with their curves, each with what a miss costs.
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

    /// What misses cost beside the mean of all classes, where that is to be weighed without curves.
    pub(crate) fn relative_costs(self, snapshot: &Snapshot, costs: &MissCosts) -> Vec<f64> {
        match self {
            Objective::MissRatio | Objective::RequestTime => vec![1.0; snapshot.classes.len()],
            Objective::Cost => costs.relative(snapshot),
        }
    }
}

/// How much longer a miss takes than a hit; of classes whose misses have not been timed, the mean of the others, by
/// references.
fn miss_times(profiles: &[ClassProfile]) -> Vec<f64> {
    let timed = || profiles.iter().filter_map(|profile| Some((profile, miss_time(profile)?)));
    let references: f64 = timed().map(|(profile, _)| profile.curve.references()).sum();
    let sum: f64 = timed().map(|(profile, time)| profile.curve.references() * time).sum();
    let unknown = if references > 0.0 { sum / references } else { 1.0 };
    profiles.iter().map(|profile| miss_time(profile).unwrap_or(unknown)).collect()
}

/// The time that a miss takes longer than a hit, if it is known.
fn miss_time(profile: &ClassProfile) -> Option<f64> {
    (profile.miss_time_us > profile.hit_time_us)
        .then_some(profile.miss_time_us - profile.hit_time_us)
}
