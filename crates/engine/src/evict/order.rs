//! The extension point: what an eviction kind implements.
//!
//! The defaults are a queue in the order of arrival: a kind that overrides nothing is FIFO.
//!
//! Invariants that an order keeps:
//!
//! - the lane of a queued item follows from what the item stores, and does not change while it is queued unless
//!   the order itself moves or ranks the item;
//! - a search for a victim ends: after a bounded number of moves it answers something else.
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
//! A hit only sets bits in the item (fetched, then active). A look at a tail that finds an active item moves it
//! to WARM, which clears the bit. Each insertion demotes at most as much as it added, so the shares hold without
//! a background thread; the maintainer enforces ages.
//!
//! In exact order there is one queue, COLD: a hit moves its item to the head, and what is still in the others
//! moves to COLD.

use super::lanes::{ItemCosts, Lane, Lanes, Place};
use crate::heap::Pages;
use crate::mem::{QueueKind, Queued};
use slabwise_base::{Seconds, Ticks};

/// What is fixed about an eviction kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info {
    /// Its name in options and specifications.
    pub name: &'static str,
    pub help: &'static str,
    /// Whether it moves items between hot, warm and cold by the class's [`Segments`].
    pub is_segmented: bool,
    /// Whether costs of items change what leaves.
    pub uses_costs: bool,
    pub stores_rank: bool,
    /// Whether a hit may move its item, beyond what [`Info::is_exact`] implies.
    pub acts_on_hits: bool,
    /// Whether the class keeps one queue in exact order of use at the start, and needs no maintainer.
    pub is_exact: bool,
    /// Whether [`Engine::set_segmented`](crate::Engine::set_segmented) may be called.
    pub can_switch: bool,
}

impl Info {
    /// A kind in the order of arrival.
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

/// The queues of a lane in the order in which their items leave.
pub const COLDEST_FIRST: [QueueKind; 4] =
    [QueueKind::Cold, QueueKind::Hot, QueueKind::Warm, QueueKind::Temp];

/// The queue of a lane whose last item leaves first.
pub fn coldest_in(view: &View<'_>, lane: Lane) -> Option<Place> {
    let places = COLDEST_FIRST.into_iter().map(|queue| Place { lane, queue });
    places.into_iter().find(|&place| view.lanes.queue(place).count() > 0)
}

/// The first lane that holds an item.
#[inline]
pub fn first_lane(view: &View<'_>) -> Lane {
    view.lanes.next_from(Lane::FIRST).unwrap_or_default()
}

/// The order in which one class gives up its items, under the class's lock.
pub trait Order {
    /// What is fixed about the kind.
    const INFO: Info;

    /// The lane of an item, by what the item stores.
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

    /// Where an item enters that was meant for `queue`.
    #[inline]
    fn enter(&mut self, _view: &View<'_>, item: Queued<'_>, queue: QueueKind) -> Entry {
        let place = Place { lane: self.lane_of(item), queue };
        Entry { place, rank: None, displaced: None }
    }

    /// What a hit does to a queued item. Asked only where hits act.
    #[inline]
    fn hit(&mut self, view: &View<'_>, item: Queued<'_>) -> Hit {
        if Self::INFO.is_segmented { view.segments.hit(self.lane_of(item)) } else { Hit::Stay }
    }

    /// The queue that the last item of a queue moves to by its share of the lane or, with the time, by its age.
    /// `None`: it stays, or there is none.
    #[inline]
    fn balance(&mut self, view: &View<'_>, place: Place, now: Option<Ticks>) -> Option<QueueKind> {
        if Self::INFO.is_segmented { view.segments.balance(view, place, now) } else { None }
    }

    /// The queue whose last item the search for a victim would look at first.
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

    /// Notes that the last item of a lane's queue may be another one.
    #[inline]
    fn note_tail(&mut self, _view: &View<'_>, _lane: Lane) {}

    /// Whether the costs of items are so far apart that every hit should mark its item as active.
    #[inline]
    fn costs_are_apart(&self, _view: &View<'_>) -> bool {
        false
    }

    /// Forgets what it learned: the class's number stands for another class now.
    fn forget(&mut self) {}

    /// What a restart keeps of what it learned.
    fn saved(&self) -> [u32; 3] {
        [0; 3]
    }

    fn restore(&mut self, _saved: [u32; 3]) {}

    /// What its lanes and its items' ranks follow from, for a restart, before which it must be the same. Kinds of
    /// one lane without ranks can follow each other.
    fn lanes_name(&self) -> String {
        "one".to_owned()
    }
}

/// A move of the last item of one queue to the head of another, or of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// The queue that loses its last item.
    pub from: Place,
    /// The queue that gets it.
    pub to: Place,
    /// Whether the class counts the move in its statistics.
    pub is_counted: bool,
}

impl Move {
    pub fn within(lane: Lane, from: QueueKind, to: QueueKind) -> Move {
        Move { from: Place { lane, queue: from }, to: Place { lane, queue: to }, is_counted: true }
    }
}

/// Where an item enters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The queue that it becomes the newest of.
    pub place: Place,
    pub rank: Option<u32>,
    /// A move that makes room first.
    pub displaced: Option<Move>,
}

/// What a hit does to its item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hit {
    Stay,
    /// It stays where it is, with another rank.
    Rank(u32),
    /// It enters a queue anew. Whether the class counts the move.
    Enter(Entry, bool),
}

/// One step of the search for the item to evict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Victim {
    /// The last item of this queue leaves, unless it is pinned.
    Evict(Place),
    /// This move comes first; then the search goes on.
    Move(Move),
    /// The search goes on after the class's lock was released for a moment.
    Further,
    /// The order has no candidate, or a pinned one: any unpinned item may leave.
    Nothing,
}

/// A class whose lock is held, without its order.
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

    /// Chunks on its pages, free ones included.
    #[inline]
    pub fn chunk_count(&self) -> u64 {
        u64::from(self.pages.token.page_count()) * u64::from(self.pages.token.chunks_per_page())
    }
}

/// Looks of one search for a victim; active items are spared in the first half only.
const LOOKS_MAX: usize = 64;

/// The limits of the segmented LRU, with memcached's defaults.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LruConfig {
    /// The share of a class's bytes that the hot queue may hold, in percent.
    pub hot_percent: u32,
    /// The share of a class's bytes that the warm queue may hold, in percent.
    pub warm_percent: u32,
    /// A hot item older than this factor of the cold tail's age goes to cold.
    pub hot_age_factor: f64,
    /// A warm item older than this factor of the cold tail's age goes to cold.
    pub warm_age_factor: f64,
    /// Items that live at most this long go to the temp queue, which only expiry empties.
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

/// The rules in force.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Segments {
    /// Shares and ages.
    pub limits: LruConfig,
    /// Whether there is one queue in exact order of use.
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

    /// What a hit does to an item of this lane.
    #[inline]
    pub fn hit(&self, lane: Lane) -> Hit {
        if !self.is_exact {
            return Hit::Stay;
        }
        let place = Place { lane, queue: QueueKind::Cold };
        Hit::Enter(Entry { place, rank: None, displaced: None }, false)
    }

    /// The queue that the last item of a queue moves to. The maintainer, which has the time, also asks about
    /// COLD: an active item there would stand for an age that it does not have.
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
        if moves >= LOOKS_MAX {
            return Victim::Nothing;
        }
        let cold = Place { lane, queue: QueueKind::Cold };
        let Some(tail) = view.tail(cold) else { return refill(view, lane, moves) };
        let state = tail.state();
        if state.pins() > 0 {
            return Victim::Nothing;
        }
        let is_spared = view.lanes.queue(cold).count() > 1 && moves + 1 < LOOKS_MAX / 2;
        if state.active() && is_spared && !self.is_exact {
            return Victim::Move(Move::within(lane, QueueKind::Cold, QueueKind::Warm));
        }
        Victim::Evict(cold)
    }
}

/// Moves an item to an empty COLD, or out of its way to WARM.
fn refill(view: &View<'_>, lane: Lane, moves: usize) -> Victim {
    let others = [QueueKind::Hot, QueueKind::Warm, QueueKind::Temp];
    let tails = others.map(|queue| Some((queue, view.tail(Place { lane, queue })?)));
    let Some((queue, tail)) = tails.into_iter().flatten().next() else { return Victim::Nothing };
    let earned = tail.state().active() && queue == QueueKind::Hot;
    let is_rescued = earned && moves < LOOKS_MAX / 2;
    let target = if is_rescued { QueueKind::Warm } else { QueueKind::Cold };
    Victim::Move(Move::within(lane, queue, target))
}
