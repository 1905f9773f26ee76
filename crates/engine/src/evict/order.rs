//! The trait that an eviction kind implements.
//!
//! The default methods are FIFO.
//!
//! Invariants that an order keeps:
//!
//! - the lane of a queued item depends only on data that the item stores, and changes only when the order moves
//!   or ranks the item;
//! - a search for a victim ends: it makes a bounded number of moves.
//!
//! # Segments
//!
//! The moves between memcached's hot, warm, cold and temp queues of a lane.
//!
//! Source of the rules: memcached's doc/new_lru.txt.
//!
//! ```text
//!              over its share or too old                      no free chunk
//!   new ---> HOT ------------------------------> COLD ----------------------> out
//!             | active                          ^    | active
//!             v         over its share, too old |    v
//!            WARM <----(active: to the head)----'   WARM
//!
//!   short TTL ---> TEMP ---> expiry only
//! ```
//!
//! A hit only sets bits in the item (fetched, then active). An active item that reaches a tail moves to WARM,
//! which clears the bit. Each insertion demotes at most one item per queue, so the shares hold without a
//! background thread; the maintainer enforces ages.
//!
//! In exact order there is one queue, COLD: a hit moves its item to the head, and items that are still in other
//! queues move to COLD.

use super::lanes::{ItemCosts, Lane, Lanes, Place};
use crate::heap::Pages;
use crate::mem::{QueueKind, Queued};
use slabwise_base::{Seconds, Ticks};

/// The constant properties of an eviction kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info {
    /// The name in options and specifications.
    pub name: &'static str,
    pub help: &'static str,
    /// True if items move between hot, warm and cold by the class's [`Segments`].
    pub is_segmented: bool,
    /// True if item costs influence the choice of a victim.
    pub uses_costs: bool,
    pub stores_rank: bool,
    /// True if a hit may move its item even without [`Info::is_exact`].
    pub acts_on_hits: bool,
    /// True if a class starts with one queue in exact LRU order, and needs no maintainer.
    pub is_exact: bool,
    /// True if [`Engine::set_segmented`](crate::Engine::set_segmented) may be called.
    pub can_switch: bool,
}

impl Info {
    /// The properties of FIFO.
    pub const fn new(name: &'static str, help: &'static str) -> Info {
        Info {
            name,
            help,
            is_segmented: false,
            uses_costs: false,
            stores_rank: false,
            acts_on_hits: false,
            is_exact: false,
            can_switch: false,
        }
    }
}

/// The queues of a lane in the order in which their items are evicted.
pub const COLDEST_FIRST: [QueueKind; 4] =
    [QueueKind::Cold, QueueKind::Hot, QueueKind::Warm, QueueKind::Temp];

/// The queue of a lane whose last item is evicted first.
pub fn coldest_in(view: &View<'_>, lane: Lane) -> Option<Place> {
    let places = COLDEST_FIRST.into_iter().map(|queue| Place { lane, queue });
    places.into_iter().find(|&place| view.lanes.queue(place).count() > 0)
}

/// The first lane that holds an item.
#[inline]
pub fn first_lane(view: &View<'_>) -> Lane {
    view.lanes.next_from(Lane::FIRST).unwrap_or_default()
}

/// The order in which one class evicts its items. Its methods are called under the class's lock.
pub trait Order {
    const INFO: Info;

    /// The lane of an item, computed from data that the item stores.
    #[inline]
    fn lane_of(&self, _item: Queued<'_>) -> Lane {
        Lane::FIRST
    }

    #[inline]
    fn queue_for_new(&self, view: &View<'_>, is_short_lived: bool) -> QueueKind {
        if Self::INFO.is_segmented {
            view.segments.queue_for_new(is_short_lived)
        } else {
            QueueKind::Cold
        }
    }

    /// The place and rank of an item that enters the class; `queue` is the caller's choice.
    #[inline]
    fn enter(&mut self, _view: &View<'_>, item: Queued<'_>, queue: QueueKind) -> Entry {
        let place = Place { lane: self.lane_of(item), queue };
        Entry { place, rank: None, displaced: None }
    }

    /// The effect of a hit on a queued item. Called only if hits may move items.
    #[inline]
    fn hit(&mut self, view: &View<'_>, item: Queued<'_>) -> Hit {
        if Self::INFO.is_segmented { view.segments.hit(self.lane_of(item)) } else { Hit::Stay }
    }

    /// The queue to which the last item of `place` moves because the queue is beyond its share of the lane or, if
    /// `now` is given, because the item is too old. `None`: it stays, or the queue is empty.
    #[inline]
    fn balance(&mut self, view: &View<'_>, place: Place, now: Option<Ticks>) -> Option<QueueKind> {
        if Self::INFO.is_segmented { view.segments.balance(view, place, now) } else { None }
    }

    /// The queue with whose last item a search for a victim would begin.
    #[inline]
    fn coldest(&self, view: &View<'_>, _now: Ticks) -> Option<Place> {
        coldest_in(view, first_lane(view))
    }

    /// The next step of a search for a victim after `moves` moves.
    #[inline]
    fn victim(&mut self, view: &View<'_>, moves: usize, now: Ticks) -> Victim {
        if Self::INFO.is_segmented {
            view.segments.victim(view, first_lane(view), moves)
        } else {
            self.coldest(view, now).map_or(Victim::Nothing, Victim::Evict)
        }
    }

    #[inline]
    fn note_evicted(&mut self, _view: &View<'_>, _item: Queued<'_>, _now: Ticks) {}

    /// Notes that the last item of a queue of the lane may have changed.
    #[inline]
    fn note_tail(&mut self, _view: &View<'_>, _lane: Lane) {}

    /// True if item costs differ so widely that every hit should mark its item as active.
    #[inline]
    fn costs_differ_widely(&self, _view: &View<'_>) -> bool {
        false
    }

    /// Resets the order's state: another class gets the class's number.
    fn forget(&mut self) {}

    /// The part of the order's state that survives a restart.
    fn saved(&self) -> [u32; 3] {
        [0; 3]
    }

    fn restore(&mut self, _saved: [u32; 3]) {}

    /// Identifies the scheme of lanes and ranks: a warm restart needs the same one. All kinds with one lane and
    /// without ranks share a scheme.
    fn lanes_name(&self) -> String {
        "one".to_owned()
    }
}

/// A move of the last item of one queue to the head of another, or of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    pub from: Place,
    pub to: Place,
    /// True if the class counts the move in its statistics.
    pub is_counted: bool,
}

impl Move {
    pub fn within(lane: Lane, from: QueueKind, to: QueueKind) -> Move {
        Move { from: Place { lane, queue: from }, to: Place { lane, queue: to }, is_counted: true }
    }
}

/// The place of an item that enters a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The queue at whose head it enters.
    pub place: Place,
    pub rank: Option<u32>,
    /// A move of another item that comes first.
    pub displaced: Option<Move>,
}

/// The effect of a hit on its item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hit {
    Stay,
    /// The item keeps its place and gets this rank.
    Rank(u32),
    /// The item moves to the head of a queue. True: the class counts the move.
    Enter(Entry, bool),
}

/// One step of the search for a victim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Victim {
    /// The victim is the last item of this queue, unless it is pinned.
    Evict(Place),
    /// The class makes this move and then continues the search.
    Move(Move),
    /// The search continues after the class's lock was released briefly.
    Continue,
    /// The order has no candidate, or a pinned one: any unpinned item may be evicted.
    Nothing,
}

/// The parts of a locked class that an order may read.
#[derive(Clone, Copy)]
pub struct View<'c> {
    pub lanes: &'c Lanes,
    pub pages: &'c Pages,
    pub costs: &'c ItemCosts,
    pub segments: &'c Segments,
}

impl<'c> View<'c> {
    #[inline]
    pub fn tail(&self, place: Place) -> Option<Queued<'c>> {
        self.lanes.queue(place).tail(&self.pages.token)
    }

    /// The number of chunks on its pages, free ones included.
    #[inline]
    pub fn chunk_count(&self) -> u64 {
        u64::from(self.pages.token.page_count()) * u64::from(self.pages.token.chunks_per_page())
    }
}

/// The most tails that one search for a victim checks; active items are spared in the first half only.
const CHECKS_MAX: usize = 64;

/// The limits of the segmented LRU, with memcached's defaults.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LruConfig {
    /// The share of a class's bytes that the hot queue may hold, in percent.
    pub hot_percent: u32,
    /// The share of a class's bytes that the warm queue may hold, in percent.
    pub warm_percent: u32,
    /// A hot item whose age exceeds this multiple of the cold tail's age moves to cold.
    pub hot_age_factor: f64,
    /// A warm item whose age exceeds this multiple of the cold tail's age moves to cold.
    pub warm_age_factor: f64,
    /// Items with at most this TTL enter the temp queue, which only expiry empties.
    pub temporary_ttl: Option<Seconds>,
}

impl Default for LruConfig {
    fn default() -> LruConfig {
        LruConfig {
            hot_percent: 20,
            warm_percent: 40,
            hot_age_factor: 0.2,
            warm_age_factor: 2.0,
            temporary_ttl: None,
        }
    }
}

/// The current rules for hot, warm, cold and temp.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Segments {
    pub limits: LruConfig,
    /// True if there is one queue in exact LRU order.
    pub is_exact: bool,
}

impl Segments {
    #[inline]
    pub fn queue_for_new(&self, is_short_lived: bool) -> QueueKind {
        match (self.is_exact, is_short_lived) {
            (true, _) => QueueKind::Cold,
            (false, true) => QueueKind::Temp,
            (false, false) => QueueKind::Hot,
        }
    }

    /// The effect of a hit on an item of this lane.
    #[inline]
    pub fn hit(&self, lane: Lane) -> Hit {
        if !self.is_exact {
            return Hit::Stay;
        }
        let place = Place { lane, queue: QueueKind::Cold };
        Hit::Enter(Entry { place, rank: None, displaced: None }, false)
    }

    /// The queue to which the last item of `place` moves. The maintainer also checks COLD: an active item at its
    /// tail would misstate the tail age.
    #[inline(always)]
    pub fn balance(&self, view: &View<'_>, place: Place, now: Option<Ticks>) -> Option<QueueKind> {
        let tail = view.tail(place)?;
        if place.queue == QueueKind::Cold {
            return (tail.state().active() && !self.is_exact).then_some(QueueKind::Warm);
        }
        let leaves = self.is_over_share(view, place)
            || now.is_some_and(|now| self.is_too_old(view, place, tail, now))
            || self.is_exact;
        let is_spared = tail.state().active() && !self.is_exact;
        leaves.then_some(if is_spared { QueueKind::Warm } else { QueueKind::Cold })
    }

    #[inline(always)]
    fn is_over_share(&self, view: &View<'_>, Place { lane, queue }: Place) -> bool {
        let percent = match queue {
            QueueKind::Hot => self.limits.hot_percent,
            _ => self.limits.warm_percent,
        };
        let bytes = |queue| view.lanes.queue(Place { lane, queue }).bytes();
        let total: u64 =
            [QueueKind::Hot, QueueKind::Warm, QueueKind::Cold].map(bytes).into_iter().sum();
        bytes(queue) * 100 > total * u64::from(percent)
    }

    fn is_too_old(&self, view: &View<'_>, place: Place, tail: Queued<'_>, now: Ticks) -> bool {
        let factor = match place.queue {
            QueueKind::Hot => self.limits.hot_age_factor,
            _ => self.limits.warm_age_factor,
        };
        let cold = view.tail(Place { queue: QueueKind::Cold, ..place });
        let cold_age = cold.map_or(0, |cold| cold.time().age_at(now));
        f64::from(tail.time().age_at(now)) > f64::from(cold_age) * factor
    }

    /// The next step of a search in a lane after `moves` moves: active items leave COLD, and an empty COLD is
    /// refilled from HOT, WARM and at last TEMP.
    #[inline(always)]
    pub fn victim(&self, view: &View<'_>, lane: Lane, moves: usize) -> Victim {
        if moves >= CHECKS_MAX {
            return Victim::Nothing;
        }
        let cold = Place { lane, queue: QueueKind::Cold };
        let Some(tail) = view.tail(cold) else { return refill(view, lane, moves) };
        let state = tail.state();
        if state.pins() > 0 {
            return Victim::Nothing;
        }
        let is_spared = view.lanes.queue(cold).count() > 1 && moves + 1 < CHECKS_MAX / 2;
        if state.active() && is_spared && !self.is_exact {
            return Victim::Move(Move::within(lane, QueueKind::Cold, QueueKind::Warm));
        }
        Victim::Evict(cold)
    }
}

/// The move that refills an empty COLD, or that moves an active hot item to WARM.
fn refill(view: &View<'_>, lane: Lane, moves: usize) -> Victim {
    let others = [QueueKind::Hot, QueueKind::Warm, QueueKind::Temp];
    let tails = others.map(|queue| Some((queue, view.tail(Place { lane, queue })?)));
    let Some((queue, tail)) = tails.into_iter().flatten().next() else { return Victim::Nothing };
    let is_active_hot = tail.state().active() && queue == QueueKind::Hot;
    let is_spared = is_active_hot && moves < CHECKS_MAX / 2;
    let target = if is_spared { QueueKind::Warm } else { QueueKind::Cold };
    Victim::Move(Move::within(lane, queue, target))
}
