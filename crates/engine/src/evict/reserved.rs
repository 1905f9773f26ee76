//! `eviction=reserved`: a segmented LRU with one more queue, the reserved queue, for the most expensive items of a
//! class.
//!
//! Source: V. Coelho, "Study and optimization of the memory management in Memcached" (thesis, NOVA Lisbon, 2018),
//! sections 3.2 and 4.3, algorithm 1.
//!
//! ```text
//!   an item is new or hit, and
//!     the reserved queue has room, and the item is new, in HOT, or its rank is above M
//!         --> the item enters RESERVED
//!     the reserved queue is full, the class has evicted, and the item's rank is above M
//!         --> the item enters RESERVED; the tail of RESERVED moves to HOT, and M rises to the rank of this tail
//!     none of these conditions holds
//!         --> a new item enters HOT, and any other item stays in its queue
//!   an item in RESERVED is hit
//!         --> the item moves to the head of RESERVED
//! ```
//!
//! By default, an item of cost c gets the rank L + c when it is stored, and again at each hit. A hit that does not
//! change the rank moves nothing. The inflation L rises to the rank of each victim. M is the entry threshold of the
//! reserved queue. M rises to the rank of each item that moves from the full queue to HOT, so an item that takes its
//! place later must have a higher rank. The reserved queue takes the place of memcached's temp queue, as in the thesis.
//! All other moves are those of the segmented LRU (`order.rs`).

use super::lanes::{Lane, Place};
use super::order::{Entry, Hit, Info, Move, Order, View};
use super::ranking::{Inflation, cost_units, is_above};
use crate::mem::{QueueKind, Queued};
use slabwise_base::{Cost, Ticks};

/// The queue that holds the reserved items.
const RESERVED: QueueKind = QueueKind::Temp;
const RESERVED_PLACE: Place = Place { lane: Lane::FIRST, queue: RESERVED };

/// The options of the eviction kind `reserved`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReservedConfig {
    /// The largest number of items in the reserved queue of a class, in percent of the chunks of the class.
    pub percent: u32,
    /// The formula that computes the rank of an item.
    pub rank: ReservedRank,
}

/// The formula for the rank of an item of cost `c`, if the inflation is `l`. The thesis has two formulas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReservedRank {
    /// `l + c` (section 3.2).
    Sum,
    /// `l + l * c / cost_max + c` (section 5.5.3). So the rank of an item of the highest cost contains `l` twice.
    Weighted {
        /// The highest cost of an item that the operator expects, in units.
        cost_max: u32,
    },
}

impl Default for ReservedConfig {
    fn default() -> ReservedConfig {
        ReservedConfig { percent: 10, rank: ReservedRank::Sum }
    }
}

/// The eviction order of one class.
#[derive(Debug)]
pub struct Reserved {
    config: ReservedConfig,
    inflation: Inflation,
    /// The rank above which an item enters the reserved queue if this queue is full, or if the item is in WARM or COLD
    /// (M). 0 until the first item moves from the full queue to HOT.
    entry_threshold: u32,
}

impl Reserved {
    pub fn new(config: &ReservedConfig) -> Reserved {
        Reserved { config: *config, inflation: Inflation::default(), entry_threshold: 0 }
    }

    /// Returns the rank of an item of this cost that is stored or hit now.
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

    /// True if the reserved queue holds its largest number of items.
    fn is_full(&self, view: &View<'_>) -> bool {
        let count = view.lanes.queue(RESERVED_PLACE).count();
        count * 100 >= view.chunk_count() * u64::from(self.config.percent)
    }

    /// Decides whether an item of this rank enters the reserved queue, and which item it displaces from there. `queue`
    /// is the item's queue otherwise.
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
