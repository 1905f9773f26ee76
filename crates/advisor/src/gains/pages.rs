//! The gain of dividing the present pages better among the present classes.
//!
//! Source of the division: X. Hu and others, "LAMA: Optimized Locality-aware Memory Allocation for Key-value Cache", ATC
//! 2015, with nearly best partitions (`slabwise_policy::partition`).

use super::memory::{MemoryGain, Worth};
use crate::estimate::Estimate;
use crate::model::{Models, PAGES_MIN, with_unused};
use crate::observation::{ClassSeen, Observation};
use serde::Serialize;

/// The gain of another division of the pages.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PagesGain {
    /// The miss ratio with the new division.
    pub miss_ratio: Estimate,
    /// The pages that move.
    pub pages_moved: u64,
    /// All classes that own pages.
    pub classes: Vec<ClassPages>,
    /// The memory that would save as many misses without a new division.
    pub worth: Worth,
}

/// The pages of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ClassPages {
    /// The number of the class.
    pub class: u32,
    /// The size of a chunk in bytes.
    pub chunk_size: usize,
    /// The pages now.
    pub pages_now: u64,
    /// The pages in the new division.
    pub pages_then: u64,
}

impl PagesGain {
    /// Computes the gain.
    pub fn of(observation: &Observation, models: &Models, memory: &MemoryGain) -> PagesGain {
        let now = models.all.pages();
        let best = models.all.best_division(now.iter().sum(), PAGES_MIN);
        let then = with_unused(&now, best);
        let miss_ratio = models.estimate(|model| model.miss_ratio(&then));
        let pair = |((class, &pages_now), &pages_then): ((&ClassSeen, _), _)| {
            let shown = class.counters.shown;
            ClassPages {
                class: shown.class.wire(),
                chunk_size: shown.chunk_size_bytes,
                pages_now,
                pages_then,
            }
        };
        let classes: Vec<ClassPages> =
            observation.classes.iter().zip(&now).zip(&then).map(pair).collect();
        let moved = |class: &ClassPages| class.pages_then.saturating_sub(class.pages_now);
        PagesGain {
            miss_ratio,
            pages_moved: classes.iter().map(moved).sum(),
            classes,
            worth: memory.worth(miss_ratio.value),
        }
    }
}
