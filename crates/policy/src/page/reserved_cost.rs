//! The page policy that belongs to the eviction kind `reserved`.
//!
//! Source: V. S. R. Coelho, "Study and optimization of the memory management in Memcached", thesis, NOVA University of
//! Lisbon, 2018: sections 3.3 (its Algorithm 2) and 4.4.
//!
//! ```text
//!   hit ratio a second   90  91  92  91 | 91  84  77  79 |      best so far: 92
//!                                                  '-- more than a tenth below the best: one page moves
//!   m  stores of new keys since the warm-up: a miss each
//!   r  hits since then, and m
//!   cb cost a byte of what the class holds
//!   a page goes from the class of least m * cb / r to the one of most
//! ```
//!
//! Choices where the text leaves one:
//!
//! - One sentence of section 4.4 has giver and receiver the other way round; Algorithm 2 and all others are as here.
//! - A sample is the hit ratio of the gets since the last sample. A second of fewer than [`SAMPLE_GETS_MIN`] gets is
//!   counted with the next: ours.
//! - The best is that of all samples: the text has an array of 200 seconds, but compares with "the maximum point that
//!   was seen".
//! - A look moves one page at most, however many of its samples are low.
//! - The warm-up, whose end the authors signal by hand, ends when classes first own all the memory.
//! - The bytes of a class are those of its used chunks. Where no client gives costs, a chunk costs 1.
//!
//! Weaknesses: a hit ratio that is lower for good moves a page at every look; one that was always bad moves none. A
//! scan has the highest m / r.
//!
//! Invariants: at most one move a step, and only at a look after a fall; a class keeps one page.

use super::cost_per_byte::worths;
use crate::history::per_class::PerClass;
use crate::options::options;
use crate::policy::Policy;
use crate::{ClassSnapshot, PageMove, Plan, Snapshot, Trigger};
use slabwise_base::{Random, Ticks};

/// Fewer gets do not tell a hit ratio.
const SAMPLE_GETS_MIN: u64 = 100;

options! {
    pub struct ReservedCostOptions of ReservedCost {
        period_ticks: u32 = Ticks::PER_SECOND, period_ticks;
        samples: u32 = 4, whole(1..=1_000),
            "steps, each with a sample of the hit ratio, from look to look";
        fall: f64 = 0.1, real(0.0..=1.0),
            "how far below the best hit ratio, as a part of it, a sample is when a page moves";
    }
}

#[derive(Clone, Debug, Default)]
pub struct ReservedCost {
    options: ReservedCostOptions,
    /// By class; empty during the warm-up.
    at_warm_up: PerClass<Counts>,
    is_warm: bool,
    sampled_at: (u64, u64),
    best: f64,
    /// Steps since the last look, and whether one of their samples was low.
    steps: u32,
    fell: bool,
}

/// A class's counts ever at the end of the warm-up, or when it was first seen after it.
#[derive(Clone, Copy, Debug)]
struct Counts {
    hits: u64,
    inserted: u64,
}

impl Policy for ReservedCost {
    fn trigger(&self) -> Trigger {
        Trigger::EveryTicks(self.options.period_ticks)
    }

    /// Takes a sample; looks at the last few when there are enough.
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
        self.steps += 1;
        if self.steps >= self.options.samples {
            self.steps = 0;
            if std::mem::take(&mut self.fell) && snapshot.is_divided() {
                plan.moves.extend(self.best_move(snapshot));
            }
        }
        plan
    }
}

impl ReservedCost {
    fn sample(&mut self, snapshot: &Snapshot) {
        let gets = snapshot.gets.saturating_sub(self.sampled_at.0);
        if gets < SAMPLE_GETS_MIN {
            return;
        }
        let misses = snapshot.misses.saturating_sub(self.sampled_at.1);
        self.sampled_at = (snapshot.gets, snapshot.misses);
        let hit_ratio = gets.saturating_sub(misses) as f64 / gets as f64;
        self.best = self.best.max(hit_ratio);
        self.fell |= self.best - hit_ratio > self.options.fall * self.best;
    }

    /// From the class of least m * cb / r to the one of most; none where all are equal.
    fn best_move(&self, snapshot: &Snapshot) -> Option<PageMove> {
        let since = snapshot.classes.iter().zip(self.at_warm_up.iter());
        let miss_ratios = since.map(|(class, before)| {
            let misses = class.inserted.saturating_sub(before.inserted) as f64;
            let hits = class.hits.saturating_sub(before.hits) as f64;
            misses / (hits + misses).max(1.0)
        });
        let scores: Vec<f64> =
            miss_ratios.zip(worths(snapshot)).map(|(misses, worth)| misses * worth).collect();
        let by_score = |&a: &usize, &b: &usize| scores[a].total_cmp(&scores[b]);
        let receiver = (0..scores.len()).max_by(by_score)?;
        let gives = |&place: &usize| place != receiver && snapshot.classes[place].pages > 1;
        let victim = (0..scores.len()).filter(gives).min_by(by_score)?;
        let reason = "hits fell: least miss ratio times cost a byte, to the most";
        (scores[victim] < scores[receiver])
            .then(|| PageMove::between(snapshot, victim, receiver, reason))
    }
}

#[cfg(test)]
#[path = "reserved_cost_tests.rs"]
mod tests;
