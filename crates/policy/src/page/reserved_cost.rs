//! The page policy that was published together with the eviction kind `reserved`: it moves a page after the hit ratio
//! has dropped.
//!
//! Source: V. S. R. Coelho, "Study and optimization of the memory management in Memcached", thesis, NOVA University of
//! Lisbon, 2018: sections 3.3 (its Algorithm 2) and 4.4.
//!
//! ```text
//!   hit ratio per second 90  91  92  91 | 91  84  77  79 |      best so far: 92; | is an evaluation
//!                                                  '-- more than a tenth below the best: one page moves
//!   m  stores of new keys since the warm-up: each counts as a miss
//!   r  hits since the warm-up, plus m
//!   cb cost per byte of the class's items
//!   a page moves from the class with the least m * cb / r to the class with the most
//! ```
//!
//! Choices where the thesis is ambiguous:
//!
//! - One sentence of section 4.4 swaps victim and receiver; Algorithm 2 and all other sentences agree with this code.
//! - A sample is the hit ratio of the gets since the last sample. A second with fewer than [`SAMPLE_GETS_MIN`] gets
//!   makes no sample; its gets are part of the next sample. This limit is an addition of slabwise.
//! - The best hit ratio is the best of all samples since the warm-up: the thesis has an array of 200 seconds, but
//!   compares with "the maximum point that was seen".
//! - An evaluation moves at most one page, even if several of its samples are low.
//! - The authors end the warm-up by hand; here it ends when classes first own all pages.
//! - The bytes of a class are the bytes of its used chunks. If no client supplies costs, every chunk costs 1.
//!
//! Weaknesses: after a permanent drop of the hit ratio a page moves at every evaluation. If the hit ratio was low from
//! the start, no page moves. A class whose keys are used once has the highest m / r.
//!
//! Invariants: at most one move a step, and only at an evaluation after a drop; a class keeps one page.

use super::cost_per_byte::costs_per_byte;
use crate::history::per_class::PerClass;
use crate::options::options;
use crate::policy::Policy;
use crate::{ClassSnapshot, PageMove, Plan, Snapshot, Trigger};
use slabwise_base::{Random, Ticks};

/// The minimum number of gets of a sample. The hit ratio of fewer gets is unreliable.
const SAMPLE_GETS_MIN: u64 = 100;

options! {
    pub struct ReservedCostOptions of ReservedCost {
        period_ticks: u32 = Ticks::PER_SECOND, period_ticks;
        samples: u32 = 4, whole(1..=1_000),
            "steps between two evaluations; each step samples the hit ratio";
        hit_ratio_drop: f64 = 0.1, real(0.0..=1.0),
            "a page moves if a sample is below the best hit ratio by more than this fraction of the best hit ratio";
    }
}

#[derive(Clone, Debug, Default)]
pub struct ReservedCost {
    options: ReservedCostOptions,
    /// The counts of each class at the end of the warm-up; empty during the warm-up.
    at_warm_up: PerClass<Counts>,
    /// True after the warm-up.
    is_warm: bool,
    /// The gets and the misses of the cache since the start, at the last sample.
    sampled_at: (u64, u64),
    /// The highest hit ratio of all samples.
    best: f64,
    steps_since_evaluation: u32,
    /// True if the hit ratio of a sample since the last evaluation was too far below `best`.
    has_dropped: bool,
}

/// The counts of a class at the end of the warm-up; for a class that is created later, its first counts.
#[derive(Clone, Copy, Debug)]
struct Counts {
    hits: u64,
    inserted: u64,
}

impl Policy for ReservedCost {
    fn trigger(&self) -> Trigger {
        Trigger::EveryTicks(self.options.period_ticks)
    }

    fn step(&mut self, snapshot: &Snapshot, _random: &mut Random) -> Plan {
        let mut plan = Plan::default();
        if !self.is_warm {
            if !snapshot.is_divided() {
                return plan;
            }
            self.is_warm = true;
            self.sampled_at = (snapshot.gets, snapshot.misses);
        }
        let counts = |class: &ClassSnapshot| Counts { hits: class.hits, inserted: class.inserted };
        self.at_warm_up.follow(snapshot, counts);
        self.sample(snapshot);
        self.steps_since_evaluation += 1;
        if self.steps_since_evaluation >= self.options.samples {
            self.steps_since_evaluation = 0;
            if std::mem::take(&mut self.has_dropped) && snapshot.is_divided() {
                plan.moves.extend(self.best_move(snapshot));
            }
        }
        plan
    }
}

impl ReservedCost {
    /// Takes a sample of the hit ratio if there were enough gets since the last sample.
    fn sample(&mut self, snapshot: &Snapshot) {
        let gets = snapshot.gets.saturating_sub(self.sampled_at.0);
        if gets < SAMPLE_GETS_MIN {
            return;
        }
        let misses = snapshot.misses.saturating_sub(self.sampled_at.1);
        self.sampled_at = (snapshot.gets, snapshot.misses);
        let hit_ratio = gets.saturating_sub(misses) as f64 / gets as f64;
        self.best = self.best.max(hit_ratio);
        self.has_dropped |= self.best - hit_ratio > self.options.hit_ratio_drop * self.best;
    }

    /// Returns a move from the class with the least score to the class with the greatest; `None` if all scores are
    /// equal. The score is m * cb / r: the miss ratio since the warm-up times the cost per byte.
    fn best_move(&self, snapshot: &Snapshot) -> Option<PageMove> {
        let since = snapshot.classes.iter().zip(self.at_warm_up.iter());
        let miss_ratios = since.map(|(class, before)| {
            let misses = class.inserted.saturating_sub(before.inserted) as f64;
            let hits = class.hits.saturating_sub(before.hits) as f64;
            misses / (hits + misses).max(1.0)
        });
        let scores: Vec<f64> =
            miss_ratios.zip(costs_per_byte(snapshot)).map(|(misses, cost)| misses * cost).collect();
        let by_score = |&a: &usize, &b: &usize| scores[a].total_cmp(&scores[b]);
        let receiver = (0..scores.len()).max_by(by_score)?;
        let gives = |&index: &usize| index != receiver && snapshot.classes[index].pages > 1;
        let victim = (0..scores.len()).filter(gives).min_by(by_score)?;
        let reason =
            "the hit ratio dropped: from the least miss ratio times cost per byte to the most";
        (scores[victim] < scores[receiver])
            .then(|| PageMove::between(snapshot, victim, receiver, reason))
    }
}

#[cfg(test)]
#[path = "reserved_cost_tests.rs"]
mod tests;
