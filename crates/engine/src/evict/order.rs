//! The trait [`Order`], which every eviction kind implements, and the rules of memcached's segmented LRU.
//!
//! A kind that implements no method evicts in FIFO order.
//!
//! Invariants that every order keeps:
//!
//! - the lane of a queued item depends only on data that the item stores, and changes only when the order moves
//!   or ranks the item;
//! - a search for a victim ends, because it makes a bounded number of moves.
//!
//! # Segments
//!
//! [`Segments`] decides the moves between the queues hot, warm, cold and temp of a lane. The rules are those of
//! memcached's doc/new_lru.txt.
//!
//! A new item enters HOT, or TEMP if its TTL is short. Items in TEMP are removed when they have expired.
//!
//! ```text
//!   queue   its tail moves when                               an active item moves to   any other item moves to
//!   HOT     HOT is over its share, or the item is too old     WARM                      COLD
//!   WARM    WARM is over its share, or the item is too old    the head of WARM          COLD
//!   COLD    the class has no free chunk                       WARM                      nowhere: it is evicted
//! ```
//!
//! In segmented order, a hit moves no item. An item's first hit sets its bit *fetched*, each later hit sets its bit
//! *active*. An active item that reaches the tail of a queue moves to the head of WARM, and this move clears the bit.
//! Each store moves at most one item out of HOT and one out of WARM, so these queues stay within their shares without a
//! background thread. The LRU maintainer moves the items that are too old, and moves active items from the tail of COLD
//! to WARM.
//!
//! In exact LRU order, a class has only the queue COLD, and a hit moves its item to the head. After a switch from
//! segmented to exact order, items in other queues move to COLD when they reach the tail of their queue or are hit.

use super::lanes::{ItemCosts, Lane, Lanes, Place};
use crate::heap::Pages;
use crate::mem::{QueueKind, Queued, Slot};
use slabwise_base::density::Densities;
use slabwise_base::{Seconds, WorkTime};
use std::sync::Arc;

/// The constant properties of an eviction kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info {
    /// The name of the kind in options and specifications.
    pub name: &'static str,
    /// The kind's help text: a noun phrase without a period.
    pub help: &'static str,
    /// True if the class's [`Segments`] decide how items move between hot, warm and cold.
    pub is_segmented: bool,
    /// True if the costs of items influence the choice of a victim.
    pub uses_costs: bool,
    /// True if every item stores a rank.
    pub stores_rank: bool,
    /// True if a hit may move or rank its item even if the class is not in exact LRU order.
    pub acts_on_hits: bool,
    /// True if items count the requests for them.
    pub counts_uses: bool,
    /// True if a store may evict several items at once, and keep the chunks that it does not need.
    pub evicts_in_batches: bool,
    /// True if a class starts in exact LRU order, with one queue. Such a class needs no LRU maintainer.
    pub is_exact: bool,
    /// True if [`Engine::set_segmented`](crate::Engine::set_segmented) can switch between segmented and exact LRU
    /// order.
    pub can_switch: bool,
}

impl Info {
    /// Returns the properties of a kind that evicts in FIFO order.
    pub const fn new(name: &'static str, help: &'static str) -> Info {
        Info {
            name,
            help,
            is_segmented: false,
            uses_costs: false,
            stores_rank: false,
            acts_on_hits: false,
            counts_uses: false,
            evicts_in_batches: false,
            is_exact: false,
            can_switch: false,
        }
    }
}

/// The queues of a lane in the order in which a search for a victim checks them.
pub const COLDEST_FIRST: [QueueKind; 4] =
    [QueueKind::Cold, QueueKind::Hot, QueueKind::Warm, QueueKind::Temp];

/// Returns the queue of the lane whose tail is evicted first. `None`: the lane is empty.
pub fn coldest_in(view: &View<'_>, lane: Lane) -> Option<Place> {
    let places = COLDEST_FIRST.into_iter().map(|queue| Place { lane, queue });
    places.into_iter().find(|&place| view.lanes.queue(place).count() > 0)
}

/// Returns the first lane that holds an item, or the first of all lanes if the class is empty.
#[inline]
pub fn first_lane(view: &View<'_>) -> Lane {
    view.lanes.next_from(Lane::FIRST).unwrap_or_default()
}

/// The division of a class's queue in a left and a right queue. Both shares are in [0, 1].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct QueueSplit {
    /// The share of the keys whose items enter the left queue. With 0 the queue is undivided.
    pub left_key_share: f64,
    /// The share of the class's items that the left queue may have.
    pub left_item_share: f64,
}

/// The order in which one class evicts its items. The class calls these methods while its lock is held.
pub trait Order {
    /// The constant properties of the eviction kind.
    const INFO: Info;

    /// Returns the lane of an item, computed from data that the item stores.
    #[inline]
    fn lane_of(&self, _item: Queued<'_>) -> Lane {
        Lane::FIRST
    }

    /// Returns the queue for a new item. `is_short_lived` is true if the item's TTL is short enough for the temp queue.
    #[inline]
    fn queue_for_new(&self, view: &View<'_>, is_short_lived: bool) -> QueueKind {
        if Self::INFO.is_segmented {
            view.segments.queue_for_new(is_short_lived)
        } else {
            QueueKind::Cold
        }
    }

    /// Returns the place and the rank of an item that enters the class. `queue` is the queue that the caller proposes.
    #[inline]
    fn enter(&mut self, _view: &View<'_>, item: Queued<'_>, queue: QueueKind) -> Entry {
        let place = Place { lane: self.lane_of(item), queue };
        Entry { place, rank: None, displaced: None }
    }

    /// Returns true if an item that replaces another one takes its position, without a call of [`Order::enter`]: the order
    /// has only one queue, and needs positions only if it finds no other candidate.
    #[inline]
    fn successors_take_places(&self, _view: &View<'_>) -> bool {
        false
    }

    /// Returns the effect of a hit on a queued item. The class calls this only if hits may move items.
    #[inline]
    fn hit(&mut self, view: &View<'_>, item: Queued<'_>) -> Hit {
        if Self::INFO.is_segmented { view.segments.hit(self.lane_of(item)) } else { Hit::Stay }
    }

    /// Returns the queue to which the tail of `place` must move. The tail moves if its queue is over its share of the
    /// lane, if it is an active item in COLD, or if it is too old. Without `now`, ages do not count. `None`: the tail
    /// stays, or the queue is empty.
    #[inline]
    fn balance(
        &mut self,
        view: &View<'_>,
        place: Place,
        now: Option<WorkTime>,
    ) -> Option<QueueKind> {
        if Self::INFO.is_segmented { view.segments.balance(view, place, now) } else { None }
    }

    /// Returns the queue whose tail a search for a victim would check first. `None`: the class is empty.
    #[inline]
    fn coldest(&self, view: &View<'_>, _now: WorkTime) -> Option<Place> {
        coldest_in(view, first_lane(view))
    }

    /// Returns the next step of a search for a victim, in which the class has made `moves` moves so far.
    #[inline]
    fn victim(&mut self, view: &View<'_>, moves: usize, now: WorkTime) -> Victim {
        if Self::INFO.is_segmented {
            view.segments.victim(view, first_lane(view), moves)
        } else {
            self.coldest(view, now).map_or(Victim::Nothing, Victim::Evict)
        }
    }

    /// Does the same as [`Order::victim`]. An order that compares many items implements this method instead, and prefers
    /// items that have expired or were flushed: those for which `is_invalid` returns true.
    #[inline]
    fn victim_preferring(
        &mut self,
        view: &View<'_>,
        moves: usize,
        now: WorkTime,
        _is_invalid: impl Fn(Queued<'_>) -> bool,
    ) -> Victim {
        self.victim(view, moves, now)
    }

    /// Returns the time since its last use, in ticks, at which an item of the class is evicted next, if the order
    /// estimates it. `None`: it is the age of the coldest item.
    fn eviction_age(&self, _view: &View<'_>, _now: WorkTime) -> Option<u32> {
        None
    }

    /// Returns a number that is higher in the class that should evict an item first, if the order compares classes. It
    /// is the inverse of the expected hits per byte and tick, as a logarithm. `None`: the age of the coldest item
    /// decides.
    fn coldness(&self, _view: &View<'_>, _now: WorkTime) -> Option<u32> {
        None
    }

    /// Returns true if the order expects hardly more hits of the item than of the items that it evicts. The mover evicts such
    /// an item instead of carrying it. False if the order does not compare single items.
    fn is_cold(&self, _view: &View<'_>, _item: Queued<'_>, _now: WorkTime) -> bool {
        false
    }

    /// Sets the hit densities, and the mean of the known costs of all classes, for a kind that ranks items by them.
    fn set_densities(&mut self, _densities: &Arc<Densities>, _mean_cost_units: Option<u64>) {}

    /// Updates the order's state before an item of the class is evicted.
    #[inline]
    fn note_evicted(&mut self, _view: &View<'_>, _item: Queued<'_>, _now: WorkTime) {}

    /// Updates the order's state after the tail of a queue of the lane may have changed.
    #[inline]
    fn note_tail(&mut self, _view: &View<'_>, _lane: Lane) {}

    /// True if the costs of the class's items differ so widely that every hit, even the first, should mark its item as
    /// active.
    #[inline]
    fn costs_differ_widely(&self, _view: &View<'_>) -> bool {
        false
    }

    /// Returns the rank from which new items start, or 0 if the kind has no such rank.
    fn inflation(&self) -> u32 {
        0
    }

    /// Divides the queue of the class in two. Kinds that cannot divide it ignore the call.
    fn divide(&mut self, _split: QueueSplit) {}

    /// Resets the order's state, because the number of the class is assigned to a new class.
    fn forget(&mut self) {}

    /// Returns the part of the order's state that survives a restart.
    fn saved(&self) -> [u32; 3] {
        [0; 3]
    }

    /// Restores the state that [`Order::saved`] returned before a restart.
    fn restore(&mut self, _saved: [u32; 3]) {}

    /// Returns the name of the kind's scheme of lanes and ranks. A restart restores items only if their scheme has the
    /// same name. All kinds with one lane and without ranks share a scheme.
    fn lanes_name(&self) -> String {
        "one".to_owned()
    }
}

/// A move of the tail of a queue to the head of another queue or of the same queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// The queue whose tail moves.
    pub from: Place,
    /// The queue whose head the item becomes.
    pub to: Place,
    /// True if the class counts the move in its statistics.
    pub is_counted: bool,
}

impl Move {
    /// Returns a counted move between two queues of a lane.
    pub fn within(lane: Lane, from: QueueKind, to: QueueKind) -> Move {
        Move { from: Place { lane, queue: from }, to: Place { lane, queue: to }, is_counted: true }
    }
}

/// The decision about an item that enters a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The queue that the item enters. The item becomes its head, unless the mover has carried it from another class.
    pub place: Place,
    /// The item's new rank; `None`: this eviction kind stores no ranks.
    pub rank: Option<u32>,
    /// A move of another item that the class makes before the item enters.
    pub displaced: Option<Move>,
}

/// The effect of a hit on the item that was hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hit {
    /// The item keeps its place and its rank.
    Stay,
    /// The item keeps its place and gets this rank.
    Rank(u32),
    /// The item moves to the head of a queue. The second field is true if statistics count the move.
    Enter(Entry, bool),
}

/// The position of an item in its class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// At the tail of this queue.
    Tail(Place),
    /// In this slot of a page.
    In(Slot),
    /// In this queue, with this number of items between the item and the tail.
    FromTail(Place, usize),
}

/// The next step of a search for a victim, as the order decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Victim {
    /// The victim is the tail of this queue, unless this item is pinned.
    Evict(Place),
    /// The victim is the item at this position, unless this item is pinned.
    EvictAt(Position),
    /// The class makes this move and then asks for the next step.
    Move(Move),
    /// The search continues after the caller has released and retaken the class's lock.
    Continue,
    /// The order selects no victim, because the class is empty or the selected item is pinned. The caller may evict any
    /// unpinned item of the class.
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
    /// Returns the tail of a queue. `None`: the queue is empty.
    #[inline]
    pub fn tail(&self, place: Place) -> Option<Queued<'c>> {
        self.lanes.queue(place).tail(&self.pages.token)
    }

    /// Returns the number of chunks on the pages of the class, used and free.
    #[inline]
    pub fn chunk_count(&self) -> u64 {
        u64::from(self.pages.token.page_count()) * u64::from(self.pages.token.chunks_per_page())
    }
}

/// The largest number of tails that one search for a victim checks. The search moves active items to WARM only in the
/// first half of these checks, and evicts them in the second half.
const CHECKS_MAX: usize = 64;

/// The limits of the segmented LRU, with memcached's defaults.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LruConfig {
    /// The largest share of HOT in the bytes of a lane's HOT, WARM and COLD together, in percent.
    pub hot_percent: u32,
    /// The largest share of WARM in the bytes of a lane's HOT, WARM and COLD together, in percent.
    pub warm_percent: u32,
    /// The time since its last use after which the tail of HOT moves, as a multiple of the tail age of COLD.
    pub hot_age_factor: f64,
    /// The time since its last use after which the tail of WARM moves, as a multiple of the tail age of COLD.
    pub warm_age_factor: f64,
    /// The longest TTL of the items that enter the temp queue. Items in this queue stay until they expire, unless no
    /// other item can be evicted. `None`: no item enters the temp queue.
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

/// The current rules for the queues hot, warm, cold and temp.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Segments {
    /// The shares and ages at which items move.
    pub limits: LruConfig,
    /// True if a class has one queue, in exact LRU order.
    pub is_exact: bool,
}

impl Segments {
    /// Returns the queue for a new item. `is_short_lived` is true if the item's TTL is short enough for the temp queue.
    #[inline]
    pub fn queue_for_new(&self, is_short_lived: bool) -> QueueKind {
        match (self.is_exact, is_short_lived) {
            (true, _) => QueueKind::Cold,
            (false, true) => QueueKind::Temp,
            (false, false) => QueueKind::Hot,
        }
    }

    /// Returns the effect of a hit on an item in this lane.
    #[inline]
    pub fn hit(&self, lane: Lane) -> Hit {
        if !self.is_exact {
            return Hit::Stay;
        }
        let place = Place { lane, queue: QueueKind::Cold };
        Hit::Enter(Entry { place, rank: None, displaced: None }, false)
    }

    /// Returns the queue to which the tail of `place` must move. An active item at the tail of COLD moves to WARM,
    /// because the tail age of COLD would otherwise be too low. `None`: the tail stays, or the queue is empty.
    #[inline(always)]
    pub fn balance(
        &self,
        view: &View<'_>,
        place: Place,
        now: Option<WorkTime>,
    ) -> Option<QueueKind> {
        let tail = view.tail(place)?;
        if place.queue == QueueKind::Cold {
            return (tail.state().active() && !self.is_exact).then_some(QueueKind::Warm);
        }
        let must_move = self.is_over_share(view, place)
            || now.is_some_and(|now| self.is_too_old(view, place, tail, now))
            || self.is_exact;
        let is_spared = tail.state().active() && !self.is_exact;
        must_move.then_some(if is_spared { QueueKind::Warm } else { QueueKind::Cold })
    }

    /// True if a hot or warm queue holds more than its share of the lane's bytes.
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

    /// True if the tail of a hot or warm queue is older than its limit, which depends on the tail age of the cold
    /// queue.
    fn is_too_old(&self, view: &View<'_>, place: Place, tail: Queued<'_>, now: WorkTime) -> bool {
        let factor = match place.queue {
            QueueKind::Hot => self.limits.hot_age_factor,
            _ => self.limits.warm_age_factor,
        };
        let cold = view.tail(Place { queue: QueueKind::Cold, ..place });
        let cold_age = cold.map_or(0, |cold| cold.time().age_at(now));
        f64::from(tail.time().age_at(now)) > f64::from(cold_age) * factor
    }

    /// Returns the next step of a search for a victim in a lane, in which the class has made `moves` moves so far. An
    /// active item at the tail of COLD moves to WARM. If COLD is empty, the tail of HOT moves to COLD, or the tail of
    /// WARM if HOT is empty too, or else the tail of TEMP.
    #[inline(always)]
    pub fn victim(&self, view: &View<'_>, lane: Lane, moves: usize) -> Victim {
        if moves >= CHECKS_MAX {
            return Victim::Nothing;
        }
        let cold = Place { lane, queue: QueueKind::Cold };
        let Some(tail) = view.tail(cold) else { return refill_cold(view, lane, moves) };
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

/// Returns the move of an item to the empty queue COLD, or the move of an active item from HOT to WARM.
fn refill_cold(view: &View<'_>, lane: Lane, moves: usize) -> Victim {
    let others = [QueueKind::Hot, QueueKind::Warm, QueueKind::Temp];
    let tails = others.map(|queue| Some((queue, view.tail(Place { lane, queue })?)));
    let Some((queue, tail)) = tails.into_iter().flatten().next() else { return Victim::Nothing };
    let is_active_hot = tail.state().active() && queue == QueueKind::Hot;
    let is_spared = is_active_hot && moves < CHECKS_MAX / 2;
    let target = if is_spared { QueueKind::Warm } else { QueueKind::Cold };
    Victim::Move(Move::within(lane, queue, target))
}
