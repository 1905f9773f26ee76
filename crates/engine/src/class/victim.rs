//! The search for the item that a class gives up next.
//!
//! First the order of the class says which item leaves, and which others move before. Where that item is
//! pinned, the queues are walked lane by lane, in the order COLD, HOT, WARM, TEMP: a pinned item goes to the
//! head of its queue, out of the next search's way.
//!
//! Invariant: under one hold of the class's lock a search looks at a bounded number of items; it goes on from
//! there, and ends without a victim only when it has passed every item of the class.

use super::ClassState;
use crate::evict::{COLDEST_FIRST, Lane, Move, Order, Place, Victim};
use crate::mem::Queued;
use slabwise_base::Ticks;
use std::sync::atomic::Ordering::Relaxed;

/// How many items a step of a walk looks at.
const LOOKS_MAX: usize = 64;

/// What a step of a search came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VictimStep {
    /// The last item of this queue is to be evicted: it is unpinned and still queued.
    Found(Place),
    /// None yet: the class may be unlocked before the next step.
    Further,
    /// The class has no item that could be evicted.
    Nothing,
}

/// A search for a victim, step by step.
#[derive(Debug, Default)]
pub struct VictimSearch {
    /// Whether the order has been asked: its candidate is pinned, or there is none.
    is_walking: bool,
    /// The lane that is being walked, and those before it that were passed.
    lane: Option<Lane>,
    /// Queues of it that were passed as a whole, of [`COLDEST_FIRST`].
    queues_passed: usize,
    /// Pinned items of the next queue that were passed.
    items_passed: u64,
}

impl VictimSearch {
    /// Looks on.
    pub fn step(&mut self, class: &mut ClassState, now: Ticks) -> VictimStep {
        if !self.is_walking {
            match class.choose_victim(now) {
                VictimStep::Nothing => self.is_walking = true,
                step => return step,
            }
        }
        for _ in 0..LOOKS_MAX {
            let from = self.lane.unwrap_or_default();
            let Some(lane) = class.lanes.next_from(from) else {
                return VictimStep::Nothing;
            };
            if self.lane != Some(lane) {
                (self.lane, self.queues_passed, self.items_passed) = (Some(lane), 0, 0);
            }
            let Some(&queue) = COLDEST_FIRST.get(self.queues_passed) else {
                (self.lane, self.queues_passed) = (Some(Lane(lane.0 + 1)), 0);
                continue;
            };
            let place = Place { lane, queue };
            match class.tail(place) {
                Some(tail) if self.items_passed < class.lanes.queue(place).count() => {
                    if tail.is_unpinned() {
                        return VictimStep::Found(place);
                    }
                    class.counters.tail_pinned += 1;
                    class.apply(Move::within(lane, queue, queue));
                    self.items_passed += 1;
                }
                _ => (self.queues_passed, self.items_passed) = (self.queues_passed + 1, 0),
            }
        }
        VictimStep::Further
    }
}

impl ClassState {
    /// The last item of a queue.
    #[inline]
    pub fn tail(&self, place: Place) -> Option<Queued<'_>> {
        self.lanes.queue(place).tail(self.pages.token())
    }

    /// Where the search for a victim begins: the coldest item but for pins and hits.
    pub fn coldest(&self, now: Ticks) -> Option<Queued<'_>> {
        self.tail(self.order.coldest(&self.view(), now)?)
    }

    /// The item that the order gives up, after the moves that come before; `Nothing` if it is pinned, too.
    fn choose_victim(&mut self, now: Ticks) -> VictimStep {
        self.note_costs();
        let mut moves = 0;
        loop {
            let (order, view) = self.order_and_view();
            match order.victim(&view, moves, now) {
                Victim::Evict(place) => {
                    let is_unpinned = self.tail(place).is_some_and(Queued::is_unpinned);
                    return if is_unpinned {
                        VictimStep::Found(place)
                    } else {
                        VictimStep::Nothing
                    };
                }
                Victim::Move(step) => self.apply(step),
                Victim::Further => return VictimStep::Further,
                Victim::Nothing => return VictimStep::Nothing,
            }
            moves += 1;
        }
    }

    fn note_costs(&mut self) {
        let are_apart = self.order.costs_are_apart(&self.view());
        if self.costs_are_apart.load(Relaxed) != are_apart {
            self.costs_are_apart.store(are_apart, Relaxed);
        }
    }
}
