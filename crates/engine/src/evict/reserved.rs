//! `eviction=reserved`: a segmented LRU with one more queue, the reserved queue, for the most expensive items of a
//! class.
//!
//! Source: V. Coelho, "Study and optimization of the memory management in Memcached" (thesis, NOVA Lisbon, 2018),
//! sections 3.2 and 4.3, algorithm 1. The numbers are the lines of the algorithm.
//!
//! ```text
//!   an item that is not in RESERVED is hit                                                                5, 6
//!     RESERVED is full and the item's rank is above M                                                        7
//!         --> the tail of RESERVED enters HOT, M rises to the rank of this tail, the item enters RESERVED 8-13
//!     otherwise --> the item stays in its queue
//!   a new item is stored in the chunk of an evicted item                                              16-18, 22
//!     the item's rank is above M                                                                            23
//!         --> the tail of RESERVED enters HOT, M rises to the rank of this tail, the item enters RESERVED 24-29
//!     otherwise --> the item enters HOT                                                                     31
//!   a new item is stored in a free chunk                                                                33, 34
//!     RESERVED has room, and the item's rank is above M or RESERVED is empty --> the item enters RESERVED 35, 36
//!     otherwise --> the item enters HOT                                                                     38
//!   an item is evicted --> L rises to the rank of this item                                             19-21
//! ```
//!
//! An item of cost c gets the rank H = L + c when it is stored, and again at each hit (lines 6, 22, 34), unless
//! [`RankedHits`] limits these hits. L is the
//! inflation and M the entry threshold of the class. Both are 0 at first (line 2) and never fall. M rises only if the
//! rank of the tail is above M (lines 10 and 26).
//!
//! The algorithm leaves some points open. The rules of this file are:
//!
//! - *RESERVED has room.* Line 36 names no limit. The text of section 3.2 does: new items enter HOT if RESERVED is full.
//! - *A hit on an item in RESERVED* moves the item to the head of RESERVED, because all queues of the thesis are LRUs.
//! - *The victim* is the tail of COLD (line 18). If COLD is empty, it is the tail of the first queue in the order WARM,
//!   HOT, RESERVED that has an item (section 4.3.3).
//! - *The size of RESERVED* is a percentage of the class's chunks, so it changes with the number of pages. In the thesis
//!   it is a fixed number of items. While RESERVED is above its size, each search for a victim first moves its tail to
//!   HOT, with the change of M of line 10. If the size is 0, as for chained items, whose class has no chunks, no item
//!   enters RESERVED.
//!
//! RESERVED takes the place of memcached's temp queue, as in the thesis. All other moves are those of the segmented LRU
//! (`order.rs`).

use super::lanes::{Lane, Place};
use super::order::{Entry, Hit, Info, Move, Order, Victim, View};
use super::ranking::{Inflation, cost_units, is_above};
use crate::mem::{QueueKind, Queued};
use slabwise_base::{Cost, WorkTime};

/// The queue that holds the reserved items.
const RESERVED: QueueKind = QueueKind::Temp;
const RESERVED_PLACE: Place = Place { lane: Lane::FIRST, queue: RESERVED };

/// The queues in the order in which a search for a victim checks them.
const VICTIMS_FIRST: [QueueKind; 4] = [QueueKind::Cold, QueueKind::Warm, QueueKind::Hot, RESERVED];

/// The options of the eviction kind `reserved`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReservedConfig {
    /// The largest number of items in the reserved queue of a class, in percent of the chunks of the class.
    pub percent: u32,
    /// The formula that computes the rank of an item.
    pub rank: ReservedRank,
    /// The hits that give an item a new rank.
    pub ranked_hits: RankedHits,
}

/// The hits that give an item a new rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RankedHits {
    /// All hits, as in the thesis (line 6).
    All,
    /// Hits of items that are in the reserved queue or enter it. Other hits leave the rank as it is, so L rises more
    /// slowly: L rises to the rank of each victim, and a victim may have been hit just before its eviction.
    InReserved,
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
        let (rank, ranked_hits) = (ReservedRank::Sum, RankedHits::All);
        ReservedConfig { percent: 10, rank, ranked_hits }
    }
}

/// The eviction order of one class.
#[derive(Debug)]
pub struct Reserved {
    config: ReservedConfig,
    inflation: Inflation,
    /// The rank above which an item may enter the reserved queue (M). 0 until the first item moves from the reserved
    /// queue to HOT.
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

    /// Returns the largest number of items in the reserved queue.
    fn count_max(&self, view: &View<'_>) -> u64 {
        (view.chunk_count() * u64::from(self.config.percent)).div_ceil(100)
    }

    /// True if the reserved queue holds its largest number of items or more.
    fn is_full(&self, view: &View<'_>) -> bool {
        count(view) >= self.count_max(view)
    }

    /// True if an item with this rank may enter the reserved queue in place of the queue's tail.
    fn may_displace(&self, view: &View<'_>, rank: u32) -> bool {
        is_above(rank, self.entry_threshold) && self.count_max(view) > 0
    }

    /// Returns the move of the tail of the reserved queue to HOT, and raises the entry threshold to the rank of this
    /// tail. `None`: the queue is empty.
    fn displace_tail(&mut self, view: &View<'_>) -> Option<Move> {
        let tail = view.tail(RESERVED_PLACE)?;
        if is_above(tail.rank(), self.entry_threshold) {
            self.entry_threshold = tail.rank();
        }
        Some(Move::within(Lane::FIRST, RESERVED, QueueKind::Hot))
    }

    /// Returns the entry of an item with this rank into the reserved queue. The tail of the queue makes room for it.
    fn entry_for_tail(&mut self, view: &View<'_>, rank: u32) -> Entry {
        Entry { displaced: self.displace_tail(view), ..entry(RESERVED, rank) }
    }

    /// True if a new item has taken the chunk of a victim: the class has been full, and no chunk is free.
    fn has_taken_chunk_of_victim(&self, view: &View<'_>) -> bool {
        self.inflation.has_evicted && view.pages.partial().is_none()
    }
}

/// Returns the entry of an item with this rank into a queue that has room for it.
fn entry(queue: QueueKind, rank: u32) -> Entry {
    Entry { place: Place { lane: Lane::FIRST, queue }, rank: Some(rank), displaced: None }
}

/// Returns the number of items in the reserved queue.
fn count(view: &View<'_>) -> u64 {
    view.lanes.queue(RESERVED_PLACE).count()
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
        if self.has_taken_chunk_of_victim(view) {
            if self.may_displace(view, rank) {
                return self.entry_for_tail(view, rank);
            }
        } else if !self.is_full(view) && (is_above(rank, self.entry_threshold) || count(view) == 0)
        {
            return entry(RESERVED, rank);
        }
        entry(QueueKind::Hot, rank)
    }

    fn hit(&mut self, view: &View<'_>, item: Queued<'_>) -> Hit {
        let rank = self.rank_of(item.cost());
        if item.state().queue() == RESERVED {
            return Hit::Enter(entry(RESERVED, rank), true);
        }
        if self.is_full(view) && self.may_displace(view, rank) {
            return Hit::Enter(self.entry_for_tail(view, rank), true);
        }
        let keeps_rank = rank == item.rank() || self.config.ranked_hits == RankedHits::InReserved;
        if keeps_rank { Hit::Stay } else { Hit::Rank(rank) }
    }

    fn coldest(&self, view: &View<'_>, _now: WorkTime) -> Option<Place> {
        let places = VICTIMS_FIRST.map(|queue| Place { lane: Lane::FIRST, queue });
        places.into_iter().find(|&place| view.lanes.queue(place).count() > 0)
    }

    fn victim(&mut self, view: &View<'_>, moves: usize, now: WorkTime) -> Victim {
        if moves == 0
            && count(view) > self.count_max(view)
            && let Some(displaced) = self.displace_tail(view)
        {
            return Victim::Move(displaced);
        }
        match self.coldest(view, now) {
            Some(place) if place.queue != QueueKind::Cold => Victim::Evict(place),
            _ => view.segments.victim(view, Lane::FIRST, moves),
        }
    }

    fn note_evicted(&mut self, _view: &View<'_>, item: Queued<'_>, _now: WorkTime) {
        self.inflation.note_evicted(item.rank());
    }

    fn inflation(&self) -> u32 {
        self.inflation.level
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
