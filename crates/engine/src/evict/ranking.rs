//! Ranks with GreedyDual's inflation, for the kinds that use them.
//!
//! An item's rank is L, the rank of the last victim, plus its own value. An item that is not used again keeps its
//! rank while L rises, so cheaper items that are used later outrank it in time.
//!
//! Ranks have 32 bits and wrap around: `a` is above `b` if it is less than half of the range ahead. Values are
//! below a quarter of the range, so comparisons are right unless L rose by a quarter between two accesses.

use slabwise_base::Cost;

/// The cost in units of an item whose cost is unknown, which the published policies do not provide for.
const COST_UNKNOWN: u64 = 1;

/// The highest value of an item.
const VALUE_MAX: u64 = 1 << 29;

/// The level to which evictions have raised ranks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Inflation {
    /// The rank of the last victim, or higher (L).
    pub level: u32,
    /// True after the first eviction: the class is full.
    pub has_evicted: bool,
}

/// True if rank `a` is above `b`.
pub fn is_above(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) > 0
}

#[inline]
pub fn cost_units(cost: Option<Cost>) -> u64 {
    cost.map_or(COST_UNKNOWN, |cost| u64::from(cost.units()))
}

impl Inflation {
    /// The rank that an item of this value gets now.
    pub fn rank_of(&self, value: u64) -> u32 {
        self.level.wrapping_add(value.min(VALUE_MAX) as u32)
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

    /// The state that survives a restart, with one number that belongs to the eviction kind.
    pub fn saved_with(&self, of_kind: u32) -> [u32; 3] {
        [self.level, of_kind, u32::from(self.has_evicted)]
    }

    /// Restores a saved state; returns the number that belongs to the eviction kind.
    pub fn restore(&mut self, [level, of_kind, has_evicted]: [u32; 3]) -> u32 {
        *self = Inflation { level, has_evicted: has_evicted != 0 };
        of_kind
    }
}
