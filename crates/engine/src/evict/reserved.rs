//! `eviction=reserved`: a queue beside hot, warm and cold for the most expensive items of a class.
//!
//! Source: V. Coelho, "Study and optimization of the memory management in Memcached" (thesis, NOVA Lisbon, 2018), sections 3.2 and 4.3, algorithm 1.
//!
//! ```text
//!             ranks above M              tail, when another enters; M rises to its rank
//!   new, hit --------------> RESERVED ------------------------------------------------> HOT
//!       | else                                                                           |
//!       '--------> HOT, or where it is: as in the segmented LRU <------------------------'
//! ```
//!
//! An item of cost c gets rank L + c when it is stored and at each hit; L rises to the rank of each victim. The
//! queue is not sorted: its items of low rank leave it as M rises. The reserved queue replaces memcached's temp
//! queue, as in the thesis. Until the first eviction, the queue accepts every item (as the thesis says in prose).

use super::lanes::{Lane, Place};
use super::order::{Entry, Hit, Info, Move, Order, View};
use super::ranking::{Inflation, cost_units, is_above};
use crate::mem::{QueueKind, Queued};
use slabwise_base::{Cost, Ticks};

const RESERVED: QueueKind = QueueKind::Temp;
const RESERVED_PLACE: Place = Place { lane: Lane::FIRST, queue: RESERVED };

/// The options of `reserved`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReservedConfig {
    /// The share of a class's chunks whose items the reserved queue may hold, in percent.
    pub percent: u32,
    /// The formula for ranks.
    pub rank: ReservedRank,
}

/// The thesis's two formulas for the rank of an item of cost `c` if the last victim's rank is `l`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReservedRank {
    /// `l + c` (section 3.2).
    Sum,
    /// `l + l * c / cost_max + c`: an item of the highest cost counts `l` twice (section 5.5.3).
    Weighted {
        /// The highest cost, in units.
        cost_max: u32,
    },
}

impl Default for ReservedConfig {
    fn default() -> ReservedConfig {
        ReservedConfig { percent: 10, rank: ReservedRank::Sum }
    }
}

/// The order of one class.
#[derive(Debug)]
pub struct Reserved {
    config: ReservedConfig,
    inflation: Inflation,
    /// The rank that an item must exceed to enter the reserved queue (M).
    entry_threshold: u32,
}

impl Reserved {
    pub fn new(config: &ReservedConfig) -> Reserved {
        Reserved { config: *config, inflation: Inflation::default(), entry_threshold: 0 }
    }

    /// The rank that an item of this cost gets now.
    fn rank_of(&self, cost: Option<Cost>) -> u32 {
        let cost = cost_units(cost);
        match self.config.rank {
            ReservedRank::Sum => self.inflation.rank_of(cost),
            ReservedRank::Weighted { cost_max } => {
                let extra = u64::from(self.inflation.level) * cost / u64::from(cost_max.max(1));
                self.inflation.rank_of(extra.saturating_add(cost))
            }
        }
    }

    fn is_full(&self, view: &View<'_>) -> bool {
        let count = view.lanes.queue(RESERVED_PLACE).count();
        count * 100 >= view.chunk_count() * u64::from(self.config.percent)
    }

    /// The place of an item of this rank; `queue` is its place in the segmented LRU.
    fn entry(&mut self, view: &View<'_>, rank: u32, queue: QueueKind) -> Entry {
        let entry = |queue, displaced| {
            let place = Place { lane: Lane::FIRST, queue };
            Entry { place, rank: Some(rank), displaced }
        };
        let is_above_threshold = is_above(rank, self.entry_threshold);
        if !self.is_full(view) {
            let may_enter = queue == QueueKind::Hot || is_above_threshold;
            return entry(if may_enter { RESERVED } else { queue }, None);
        }
        if !(self.inflation.has_evicted && is_above_threshold) {
            return entry(queue, None);
        }
        let Some(displaced) = view.tail(RESERVED_PLACE) else { return entry(queue, None) };
        if is_above(displaced.rank(), self.entry_threshold) {
            self.entry_threshold = displaced.rank();
        }
        entry(RESERVED, Some(Move::within(Lane::FIRST, RESERVED, QueueKind::Hot)))
    }
}

impl Order for Reserved {
    const INFO: Info = Info {
        is_segmented: true,
        uses_costs: true,
        stores_rank: true,
        acts_on_hits: true,
        ..Info::new("reserved", "segmented LRU with a queue for expensive items (Coelho 2018)")
    };

    fn enter(&mut self, view: &View<'_>, item: Queued<'_>, _queue: QueueKind) -> Entry {
        let rank = self.rank_of(item.cost());
        self.entry(view, rank, QueueKind::Hot)
    }

    fn hit(&mut self, view: &View<'_>, item: Queued<'_>) -> Hit {
        let rank = self.rank_of(item.cost());
        if rank == item.rank() {
            return Hit::Stay;
        }
        let entry = match item.state().queue() {
            RESERVED => Entry { place: RESERVED_PLACE, rank: Some(rank), displaced: None },
            queue => self.entry(view, rank, queue),
        };
        if entry.place == RESERVED_PLACE { Hit::Enter(entry, true) } else { Hit::Rank(rank) }
    }

    fn note_evicted(&mut self, _view: &View<'_>, item: Queued<'_>, _now: Ticks) {
        self.inflation.note_evicted(item.rank());
    }

    fn forget(&mut self) {
        (self.inflation, self.entry_threshold) = (Inflation::default(), 0);
    }

    fn saved(&self) -> [u32; 3] {
        self.inflation.saved_with(self.entry_threshold)
    }

    fn restore(&mut self, saved: [u32; 3]) {
        self.entry_threshold = self.inflation.restore(saved);
    }

    fn lanes_name(&self) -> String {
        Self::INFO.name.to_owned()
    }
}
