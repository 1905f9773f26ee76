//! What a split is to make least.

use super::ClassCurve;
use super::class_curve::class_curves;
use crate::history::costs::MissCosts;
use crate::options::Choice;
use crate::{ClassProfile, Snapshot};

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
