//! LAMA: the split that misses least, by dynamic programming over the classes' curves.
//!
//! Source: X. Hu, X. Wang, Y. Li, L. Zhou, Y. Luo, C. Ding, S. Jiang, Z. Wang, "LAMA: Optimized Locality-aware Memory
//! Allocation for Key-value Cache", ATC 2015.
//!
//! ```text
//!   every M gets:  curves --> best_split --> gain past the threshold? --> the N pages of least risk
//!                                                      '-- no: nothing
//! ```
//!
//! Curves are of footprints over the last M gets, as published, or of stack distances that decay. A sample of the keys
//! takes as many more gets as it needs. The risk of a page is its class's references a page, as in PSA (D. Carra, P.
//! Michiardi, ICC 2014). The order of receivers is not published; here the one that gains most a page is first. The
//! objective is misses or the time of gets, as published, or, ours, the cost of misses.
//!
//! The published program takes O(classes * pages^2) time: minutes for 64 GB of 1 MiB pages. Here a cache of more than
//! [`UNITS_MAX`] pages is divided by as many units of several pages, which takes a second at most.
//!
//! Strength: it sees a cliff at any distance. Weaknesses: its time; a class whose keys have not been reused yet is
//! worth nothing to it; what does not fit one round waits M gets.
//!
//! Invariants: at most N moves a round; a class that holds items keeps a page; while the pool has pages nothing moves.

use crate::history::costs::MissCosts;
use crate::options::{COUNT_MAX, Choice, options};
use crate::policy::Policy;
use crate::split::{Moves, Objective, best_split_in_units, cost, predict};
use crate::{Plan, Snapshot, Trigger, Wants};
use slabwise_base::Random;

/// The most units that pages are divided by.
const UNITS_MAX: u64 = 4_096;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CurveSource {
    /// [`footprint_curve`](crate::ClassProfile::footprint_curve): reuse times of the last M gets.
    #[default]
    Footprint,
    /// [`curve`](crate::ClassProfile::curve): stack distances.
    Distance,
}

impl Choice for CurveSource {
    const WORDS: &'static [(&'static str, CurveSource)] =
        &[("footprint", CurveSource::Footprint), ("distance", CurveSource::Distance)];
}

options! {
    /// As published: a round moves N pages at most, every M gets. The gain is in misses a get; where costs are the
    /// objective, in mean costs of a miss a get.
    pub struct LamaOptions of Lama {
        moves_max: usize = 50, moves_max;
        period_gets: u64 = 1_000_000, events, "gets between two steps";
        gain_min: f64 = 0.001, gain_min;
        objective: Objective = Objective::MissRatio, choice, "what is made least";
        curve: CurveSource = CurveSource::Footprint, choice,
            "whether curves are of footprints, or of stack distances that fade";
        footprint_gets: u64 = 0, whole(0..=COUNT_MAX),
            "gets that footprints are of, at least, and twice as many at most; 0: those from step to step";
    }
}

#[derive(Clone, Debug, Default)]
pub struct Lama {
    options: LamaOptions,
    costs: MissCosts,
}

impl Policy for Lama {
    fn trigger(&self) -> Trigger {
        Trigger::EveryGets(self.options.period_gets)
    }

    fn wants(&self) -> Wants {
        Wants::Profiles
    }

    fn footprint_gets(&self) -> Option<u64> {
        let gets = match self.options.footprint_gets {
            0 => self.options.period_gets,
            gets => gets,
        };
        (self.options.curve == CurveSource::Footprint).then_some(gets)
    }

    fn step(&mut self, snapshot: &Snapshot, _random: &mut Random) -> Plan {
        self.costs.take_in(snapshot);
        let mut classes = self.options.objective.class_curves(snapshot, &self.costs);
        if self.options.curve == CurveSource::Footprint {
            let profiles = classes.iter_mut().zip(&snapshot.profiles);
            profiles.for_each(|(class, profile)| class.curve = &profile.footprint_curve);
        }
        if !snapshot.is_divided() || classes.is_empty() {
            return Plan::default();
        }
        let present: Vec<u64> = classes.iter().map(|class| class.pages).collect();
        let unit = present.iter().sum::<u64>().div_ceil(UNITS_MAX);
        let target = best_split_in_units(&classes, unit.max(1));
        let costs_all: f64 = classes.iter().map(|class| class.cost_max()).sum();
        let gain = cost(&classes, &present) - cost(&classes, &target);
        if gain <= self.options.gain_min * costs_all {
            return Plan::default();
        }
        let moves = Moves {
            classes: &classes,
            target: &target,
            moves_max: self.options.moves_max,
            reason: "towards the split of fewest misses, least referenced pages first",
        };
        let risk = |place: usize, pages: u64| classes[place].curve.references() / pages as f64;
        Plan {
            moves: moves.of(snapshot, risk),
            predicted: Some(predict(snapshot, &classes, &present, &target)),
        }
    }
}

#[cfg(test)]
#[path = "lama_tests.rs"]
mod tests;
