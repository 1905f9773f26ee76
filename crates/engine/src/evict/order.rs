//! The extension point: what an eviction kind implements.
//!
//! The defaults are a queue in the order of arrival: a kind that overrides nothing is FIFO.
//!
//! Invariants that an order keeps:
//!
//! - the lane of a queued item follows from what the item stores, and does not change while it is queued unless
//!   the order itself moves or ranks the item;
//! - a search for a victim ends: after a bounded number of moves it answers something else.

use super::decision::{Entry, Hit, Victim};
use super::lanes::{Lane, Place};
use super::segments::Segments;
use super::view::{Item, View};
use crate::mem::QueueKind;
use slabwise_base::Ticks;

/// What is fixed about an eviction kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info {
    /// Its name in options and specifications.
    pub name: &'static str,
    /// One line of help.
    pub help: &'static str,
    /// Whether costs of items change what leaves.
    pub uses_costs: bool,
    /// Whether items store a rank.
    pub stores_rank: bool,
    /// Whether a hit may move its item, beyond what [`Info::is_exact`] implies.
    pub acts_on_hits: bool,
    /// Whether the class keeps one queue in exact order of use at the start, and needs no maintainer.
    pub is_exact: bool,
    /// Whether the class may change between segments and exact order while it serves.
    pub can_switch: bool,
}

impl Info {
    /// A kind in the order of arrival.
    pub const fn new(name: &'static str, help: &'static str) -> Info {
        Info {
            name,
            help,
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
pub fn coldest_in<V: View>(view: &V, lane: Lane) -> Option<Place> {
    let places = COLDEST_FIRST.into_iter().map(|queue| Place { lane, queue });
    places.into_iter().find(|&place| view.lanes().queue(place).count() > 0)
}

/// The first lane that holds an item.
#[inline]
pub fn first_lane<V: View>(view: &V) -> Lane {
    view.lanes().next_from(Lane::FIRST).unwrap_or_default()
}

/// The order in which one class gives up its items, under the class's lock.
pub trait Order {
    /// Its rules for hot, warm and cold, if it has these queues.
    #[inline]
    fn segments(&self) -> Option<&Segments> {
        None
    }

    /// Its rules for hot, warm and cold, to change.
    fn segments_mut(&mut self) -> Option<&mut Segments> {
        None
    }

    /// The lane of an item, by what the item stores.
    #[inline]
    fn lane_of<I: Item>(&self, _item: I) -> Lane {
        Lane::FIRST
    }

    /// The queue for a new item.
    #[inline]
    fn queue_for_new(&self, is_short_lived: bool) -> QueueKind {
        self.segments().map_or(QueueKind::Cold, |rules| rules.queue_for_new(is_short_lived))
    }

    /// Where an item enters that was meant for `queue`.
    #[inline]
    fn enter<V: View>(&mut self, _view: &V, item: V::Item, queue: QueueKind) -> Entry {
        let place = Place { lane: self.lane_of(item), queue };
        Entry { place, rank: None, displaced: None }
    }

    /// What a hit does to a queued item. Asked only where hits act.
    #[inline]
    fn hit<V: View>(&mut self, _view: &V, item: V::Item) -> Hit {
        let lane = self.lane_of(item);
        self.segments().map_or(Hit::Stay, |rules| rules.hit(lane))
    }

    /// The queue that the last item of a queue moves to by its share of the lane or, with the time, by its age.
    /// `None`: it stays, or there is none.
    #[inline]
    fn balance<V: View>(
        &mut self,
        view: &V,
        place: Place,
        now: Option<Ticks>,
    ) -> Option<QueueKind> {
        self.segments().and_then(|rules| rules.balance(view, place, now))
    }

    /// The queue whose last item the search for a victim would look at first.
    #[inline]
    fn coldest<V: View>(&self, view: &V, _now: Ticks) -> Option<Place> {
        coldest_in(view, first_lane(view))
    }

    /// The next step of a search for a victim after `moves` moves.
    #[inline]
    fn victim<V: View>(&mut self, view: &V, moves: usize, now: Ticks) -> Victim {
        match self.segments() {
            Some(rules) => rules.victim(view, first_lane(view), moves),
            None => self.coldest(view, now).map_or(Victim::Nothing, Victim::Evict),
        }
    }

    /// Notes that an item is evicted.
    #[inline]
    fn note_evicted<V: View>(&mut self, _view: &V, _item: V::Item, _now: Ticks) {}

    /// Notes that the last item of a lane's queue may be another one.
    #[inline]
    fn note_tail<V: View>(&mut self, _view: &V, _lane: Lane) {}

    /// Whether the costs of items are so far apart that every hit should mark its item as active.
    #[inline]
    fn costs_are_apart<V: View>(&self, _view: &V) -> bool {
        false
    }

    /// Forgets what it learned: the class's number stands for another class now.
    fn forget(&mut self) {}

    /// What a restart keeps of what it learned.
    fn saved(&self) -> [u32; 3] {
        [0; 3]
    }

    /// Continues from what was saved.
    fn restore(&mut self, _saved: [u32; 3]) {}

    /// What its lanes and its items' ranks follow from, for a restart, before which it must be the same. Kinds of
    /// one lane without ranks can follow each other.
    fn lanes_name(&self) -> String {
        "one".to_owned()
    }
}

/// What an eviction kind adds to its order.
pub trait Kind: Order {
    /// What is fixed about it.
    const INFO: Info;
}
