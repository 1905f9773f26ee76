//! Ranks with GreedyDual's inflation, for the eviction kinds that rank items.
//!
//! The rank of an item is the inflation L plus the worth of the item. L is the rank of the last victim. L rises as
//! items are evicted, but an item that is not used again keeps its rank. So an expensive item that is no longer used is
//! evicted in the end: its rank falls below the ranks of cheaper items that were used later.
//!
//! Ranks have 32 bits and wrap around. Rank `a` is above rank `b` if `a - b`, computed modulo 2^32, is between 1 and
//! 2^31 - 1. The worth of an item is at most 2^29. So comparisons are right unless L rises by more than 2^30 between
//! two accesses to an item.

use slabwise_base::Cost;

/// The cost, in units, that an item of unknown cost counts as. In the papers, the cost of every item is known.
const UNITS_IF_UNKNOWN: u64 = 1;

/// The highest worth of an item; a higher worth counts as this one.
const WORTH_MAX: u64 = 1 << 29;

/// The inflation of one class: the rank that new items start from.
#[derive(Clone, Copy, Debug, Default)]
pub struct Inflation {
    /// The inflation L: the rank of the last victim. `gd_wheel` may raise L above that rank.
    pub level: u32,
    /// True after the first eviction of the class, which shows that the class has been full.
    pub has_evicted: bool,
}

/// True if rank `a` is above rank `b`. Both wrap around.
pub fn is_above(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) > 0
}

/// Returns the cost of an item in units, and `UNITS_IF_UNKNOWN` for an unknown cost.
#[inline]
pub fn cost_units(cost: Option<Cost>) -> u64 {
    cost.map_or(UNITS_IF_UNKNOWN, |cost| u64::from(cost.units()))
}

impl Inflation {
    /// Returns the rank of an item of this worth that is stored or hit now.
    pub fn rank_of(&self, worth: u64) -> u32 {
        self.level.wrapping_add(worth.min(WORTH_MAX) as u32)
    }

    /// Records the eviction of an item of this rank.
    pub fn note_evicted(&mut self, rank: u32) {
        self.has_evicted = true;
        self.raise(rank);
    }

    /// Raises the inflation to this rank, unless the inflation is at or above this rank already.
    pub fn raise(&mut self, rank: u32) {
        if is_above(rank, self.level) {
            self.level = rank;
        }
    }

    /// Returns the state that survives a restart. The second number, `number_of_kind`, belongs to the eviction kind.
    pub fn saved_with(&self, number_of_kind: u32) -> [u32; 3] {
        [self.level, number_of_kind, u32::from(self.has_evicted)]
    }

    /// Restores a saved state. Returns the number that belongs to the eviction kind.
    pub fn restore(&mut self, [level, number_of_kind, has_evicted]: [u32; 3]) -> u32 {
        *self = Inflation { level, has_evicted: has_evicted != 0 };
        number_of_kind
    }
}
