//! What a class goes by that ranks its items: GreedyDual's inflation.
//!
//! An item's rank is what has been evicted so far, and its own worth above it. So an item that is not used
//! again is overtaken by cheaper ones that are, the later the more it is worth.
//!
//! Ranks are of 32 bits and wrap around: the higher of two is the one less than half of all ahead. A worth is
//! below a quarter of all, so that holds for all items of a class that are not ages apart.

use super::Lane;
use crate::config::{RankingConfig, ReservedRank};

/// The highest worth of an item.
const WORTH_MAX: u64 = 1 << 29;

/// The state of a class's ranking, under its lock.
#[derive(Debug)]
pub struct Ranking {
    pub config: RankingConfig,
    /// The rank of what was evicted last, or higher (L).
    inflation: u32,
    /// Of `reserved`: what an item must rank above to enter the reserved queue (M).
    entry_bar: u32,
    /// Whether anything was evicted: the class is full.
    has_evicted: bool,
    /// Of `greedydual_size`: the rank of each lane's tail.
    tail_ranks: Vec<u32>,
}

/// Whether rank `a` is above `b`.
pub fn is_above(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) > 0
}

impl Ranking {
    /// Nothing was evicted yet.
    pub fn new(config: RankingConfig) -> Ranking {
        let tail_ranks = Vec::new();
        Ranking { config, inflation: 0, entry_bar: 0, has_evicted: false, tail_ranks }
    }

    /// The rank of what was evicted last, or higher.
    pub fn inflation(&self) -> u32 {
        self.inflation
    }

    /// What an item must rank above to be reserved a place.
    pub fn entry_bar(&self) -> u32 {
        self.entry_bar
    }

    /// Whether the class is full.
    pub fn has_evicted(&self) -> bool {
        self.has_evicted
    }

    /// All that a restart keeps.
    pub fn saved(&self) -> [u32; 3] {
        [self.inflation, self.entry_bar, u32::from(self.has_evicted)]
    }

    /// Goes on from what was saved.
    pub fn restore(&mut self, [inflation, entry_bar, has_evicted]: [u32; 3]) {
        (self.inflation, self.entry_bar, self.has_evicted) =
            (inflation, entry_bar, has_evicted != 0);
    }

    /// The rank of an item of this worth, now.
    pub fn rank_of(&self, worth: u64) -> u32 {
        self.inflation.wrapping_add(worth.min(WORTH_MAX) as u32)
    }

    /// The rank that `reserved` gives an item of this cost, now.
    pub fn reserved_rank_of(&self, cost: u64) -> u32 {
        match self.config.reserved_rank {
            ReservedRank::Sum => self.rank_of(cost),
            ReservedRank::Weighted { cost_max } => {
                let extra = u64::from(self.inflation) * cost / u64::from(cost_max.max(1));
                self.rank_of(extra.saturating_add(cost))
            }
        }
    }

    /// Notes the rank of an item that is evicted.
    pub fn note_evicted(&mut self, rank: u32) {
        self.has_evicted = true;
        self.raise_inflation(rank);
    }

    /// Lets the inflation come to this rank, if it is below.
    pub fn raise_inflation(&mut self, rank: u32) {
        if is_above(rank, self.inflation) {
            self.inflation = rank;
        }
    }

    /// Notes the rank of an item that lost its reserved place.
    pub fn raise_entry_bar(&mut self, rank: u32) {
        if is_above(rank, self.entry_bar) {
            self.entry_bar = rank;
        }
    }

    /// Notes the rank of a lane's tail.
    pub fn set_tail_rank(&mut self, lane: Lane, rank: u32) {
        let at = usize::from(lane.0);
        if at >= self.tail_ranks.len() {
            self.tail_ranks.resize(at + 1, 0);
        }
        self.tail_ranks[at] = rank;
    }

    /// How far a lane's tail ranks above what was evicted.
    pub fn tail_distance(&self, lane: Lane) -> i32 {
        self.tail_ranks[usize::from(lane.0)].wrapping_sub(self.inflation) as i32
    }
}
