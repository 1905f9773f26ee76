//! Ranks by GreedyDual's inflation, for the kinds that go by them.
//!
//! An item's rank is what has been evicted so far, and its own worth above it. So an item that is not used
//! again is overtaken by cheaper ones that are, the later the more it is worth.
//!
//! Ranks have 32 bits and wrap around: the higher of two is the one less than half of all ahead. A worth is
//! below a quarter of all, so that holds for all items of a class that are not ages apart.

use slabwise_base::Cost;

/// What an item of unknown cost counts as, in units: the published kinds know of none.
const COST_UNKNOWN: u64 = 1;

/// The highest worth of an item.
const WORTH_MAX: u64 = 1 << 29;

/// What has been evicted so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Inflation {
    /// The rank of the last victim, or higher (L).
    pub level: u32,
    /// Whether there was a victim: the class is full.
    pub has_evicted: bool,
}

/// Whether rank `a` is above `b`.
pub fn is_above(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) > 0
}

#[inline]
pub fn cost_units(cost: Option<Cost>) -> u64 {
    cost.map_or(COST_UNKNOWN, |cost| u64::from(cost.units()))
}

impl Inflation {
    /// The rank of an item of this worth, now.
    pub fn rank_of(&self, worth: u64) -> u32 {
        self.level.wrapping_add(worth.min(WORTH_MAX) as u32)
    }

    pub fn note_evicted(&mut self, rank: u32) {
        self.has_evicted = true;
        self.raise(rank);
    }

    /// Raises the level to this rank, if it is below.
    pub fn raise(&mut self, rank: u32) {
        if is_above(rank, self.level) {
            self.level = rank;
        }
    }

    /// What a restart keeps, beside a number of the kind's own.
    pub fn saved_with(&self, own: u32) -> [u32; 3] {
        [self.level, own, u32::from(self.has_evicted)]
    }

    /// Continues from what was saved; returns the kind's own number.
    pub fn restore(&mut self, [level, own, has_evicted]: [u32; 3]) -> u32 {
        *self = Inflation { level, has_evicted: has_evicted != 0 };
        own
    }
}
