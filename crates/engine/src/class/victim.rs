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
use crate::layout::ChunkAddress;
use crate::memory::Memory;
use slabwise_base::Ticks;
use std::sync::atomic::Ordering::Relaxed;

/// How many items a step of a walk looks at.
const LOOKS_MAX: usize = 64;

/// What a step of a search came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VictimStep {
    /// The item to evict, unpinned and still queued.
    Found(ChunkAddress),
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
    pub fn step(&mut self, class: &mut ClassState, memory: &Memory, now: Ticks) -> VictimStep {
        if !self.is_walking {
            match class.choose_victim(memory, now) {
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
            let items = class.lanes.queue(Place { lane, queue });
            match items.tail() {
                Some(tail) if self.items_passed < items.count() => {
                    if is_unpinned(memory, tail) {
                        return VictimStep::Found(tail);
                    }
                    class.counters.tail_pinned += 1;
                    class.apply(memory, Move::within(lane, queue, queue));
                    self.items_passed += 1;
                }
                _ => (self.queues_passed, self.items_passed) = (self.queues_passed + 1, 0),
            }
        }
        VictimStep::Further
    }
}

impl ClassState {
    /// Where the search for a victim begins: the coldest item but for pins and hits.
    pub fn coldest(&self, memory: &Memory, now: Ticks) -> Option<ChunkAddress> {
        let place = self.order.coldest(&self.view(memory), now)?;
        self.lanes.queue(place).tail()
    }

    /// The item that the order gives up, after the moves that come before; `Nothing` if it is pinned, too.
    fn choose_victim(&mut self, memory: &Memory, now: Ticks) -> VictimStep {
        self.note_costs(memory);
        let mut moves = 0;
        loop {
            let (order, view) = self.order_and_view(memory);
            match order.victim(&view, moves, now) {
                Victim::Evict(place) => {
                    let tail = self.lanes.queue(place).tail();
                    let unpinned = tail.filter(|&tail| is_unpinned(memory, tail));
                    return unpinned.map_or(VictimStep::Nothing, VictimStep::Found);
                }
                Victim::Move(step) => self.apply(memory, step),
                Victim::Further => return VictimStep::Further,
                Victim::Nothing => return VictimStep::Nothing,
            }
            moves += 1;
        }
    }

    fn note_costs(&mut self, memory: &Memory) {
        let are_apart = self.order.costs_are_apart(&self.view(memory));
        if self.costs_are_apart.load(Relaxed) != are_apart {
            self.costs_are_apart.store(are_apart, Relaxed);
        }
    }
}

fn is_unpinned(memory: &Memory, item: ChunkAddress) -> bool {
    memory.header(item).state().load().pins() == 0
}
