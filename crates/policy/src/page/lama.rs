//! LAMA: the partition with the fewest misses, by dynamic programming over the classes' miss-ratio curves.
//!
//! Source: X. Hu, X. Wang, Y. Li, L. Zhou, Y. Luo, C. Ding, S. Jiang, Z. Wang, "LAMA: Optimized Locality-aware Memory
//! Allocation for Key-value Cache", ATC 2015.
//!
//! ```text
//!   every M gets:  curves --> best_partition --> gain > gain_min? --> moves of the N pages with the least risk
//!                                                      '-- no: no page moves
//! ```
//!
//! M is the option `period_gets`, and N is the option `moves_max`. By default, and as published, the curves come from
//! footprints over the last M gets. The published formula counts the windows without a key by the intervals between
//! the uses of each key (X. Xiang and others, PACT 2011). Here the same footprint is a sum over reuse times (P. J.
//! Denning, S. C. Schwartz, CACM 1972), which needs no pass over all keys. For whole streams, the experiment `curves`
//! of the lab compares the two: the miss ratios differ by at most 0.1 percentage points for all generated workloads and
//! by at most 0.3 for recorded traces. A reuse time may begin before the last M gets; the slides do not say whether
//! such a reference is a first reference instead. With `curve=distance` they come from decaying stack distances. If keys are sampled,
//! footprints cover more gets until the sample is large enough. The risk of a page is its class's references per page,
//! as in PSA (D. Carra, P. Michiardi, ICC 2014). The paper does not give the order of receivers; here the class that
//! gains most per page is first. The objective is the number of misses or the time of gets, as published, or the cost
//! of misses, which is an addition of slabwise.
//!
//! The published program takes O(classes * pages^2) time: minutes for 64 GB with pages of 1 MiB. Here a cache of more
//! than [`UNITS_MAX`] pages is partitioned in at most [`UNITS_MAX`] units of several pages each, which takes a second
//! at most.
//!
//! Strength: it finds cliffs at any distance from the current size. Weaknesses: its run time; it takes the pages of a
//! class whose keys have not been reused yet; after N moves, the other moves must wait for the next step.
//!
//! Invariants: at most N moves a step; a class that holds items keeps a page; while the pool has pages no page moves.

use crate::history::costs::MissCosts;
use crate::options::{COUNT_MAX, Choice, options};
use crate::partition::{Moves, Objective, best_partition_in_units, cost, predict};
use crate::policy::Policy;
use crate::{Inputs, Plan, Snapshot, Trigger};
use slabwise_base::Random;

/// The maximum number of units of pages: in a larger cache, a unit has several pages.
const UNITS_MAX: u64 = 4_096;

/// The data that the curves are computed from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CurveSource {
    /// The reuse times of recent gets: [`footprint_curve`](crate::ClassProfile::footprint_curve).
    #[default]
    Footprint,
    /// Decaying stack distances: [`curve`](crate::ClassProfile::curve).
    Distance,
}

impl Choice for CurveSource {
    const WORDS: &'static [(&'static str, CurveSource)] =
        &[("footprint", CurveSource::Footprint), ("distance", CurveSource::Distance)];
}

options! {
    /// As published, a step follows every M gets (`period_gets`) and moves at most N pages (`moves_max`). `gain_min` is
    /// in misses per get, or in mean miss costs per get if the objective is cost.
    pub struct LamaOptions of Lama {
        moves_max: usize = 50, moves_max;
        period_gets: u64 = 1_000_000, events, "gets between two steps";
        gain_min: f64 = 0.001, gain_min;
        objective: Objective = Objective::MissRatio, choice, "quantity that a new partition minimizes";
        curve: CurveSource = CurveSource::Footprint, choice,
            "data that the curves are computed from: footprints or decaying stack distances";
        footprint_gets: u64 = 0, whole(0..=COUNT_MAX),
            "gets that footprints cover at least (they cover at most twice this number); 0: the gets between two steps";
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

    fn inputs(&self) -> Inputs {
        Inputs::FreshProfiles
    }

    fn footprint_gets(&self) -> Option<u64> {
        let gets = match self.options.footprint_gets {
            0 => self.options.period_gets,
            gets => gets,
        };
        (self.options.curve == CurveSource::Footprint).then_some(gets)
    }

    fn step(&mut self, snapshot: &Snapshot, _random: &mut Random) -> Plan {
        self.costs.update(snapshot);
        let mut classes = self.options.objective.class_curves(snapshot, &self.costs);
        if self.options.curve == CurveSource::Footprint {
            let profiles = classes.iter_mut().zip(&snapshot.profiles);
            profiles.for_each(|(class, profile)| class.curve = &profile.footprint_curve);
        }
        if !snapshot.is_divided() || classes.is_empty() {
            return Plan::default();
        }
        let current: Vec<u64> = classes.iter().map(|class| class.pages).collect();
        let unit = current.iter().sum::<u64>().div_ceil(UNITS_MAX);
        let target = best_partition_in_units(&classes, unit.max(1));
        let costs_all: f64 = classes.iter().map(|class| class.cost_max()).sum();
        let gain = cost(&classes, &current) - cost(&classes, &target);
        if gain <= self.options.gain_min * costs_all {
            return Plan::default();
        }
        let moves = Moves {
            classes: &classes,
            target: &target,
            moves_max: self.options.moves_max,
            received_max: None,
            reason: "towards the partition with the fewest misses, least referenced pages first",
        };
        let risk = |index: usize, pages: u64| classes[index].curve.references() / pages as f64;
        Plan {
            moves: moves.of(snapshot, risk),
            predicted: Some(predict(snapshot, &classes, &current, &target)),
            ..Plan::default()
        }
    }
}

#[cfg(test)]
#[path = "lama_tests.rs"]
mod tests;
