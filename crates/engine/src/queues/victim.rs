//! The search for the item that a class gives up next.
//!
//! Where there are several lanes, the eviction kind says which one gives up an item. The search begins at the
//! tail of its COLD and takes the first item there that nobody pins. On the way, under
//! `eviction=segmented`, an active item goes back to WARM, and an empty COLD is refilled from HOT, WARM
//! and at last TEMP. Where the tail is pinned, the queues are walked lane by lane, in the order COLD, HOT,
//! WARM, TEMP: a pinned item goes to the head of its queue, out of the next search's way.
//!
//! Law: under one hold of the class's lock a search looks at a bounded number of items; it goes on from
//! there, and ends without a victim only when it has passed every item of the class.

use super::{Lane, cost_bands, gd_wheel, greedydual_size};
use crate::class::ClassState;
use crate::config::EvictionKind;
use crate::mem::{ChunkAddress, QueueKind};
use crate::memory::Memory;
use slabwise_base::Ticks;

/// The queues in the order in which their items are given up.
const COLDEST_FIRST: [QueueKind; 4] =
    [QueueKind::Cold, QueueKind::Hot, QueueKind::Warm, QueueKind::Temp];

/// How many items a step of a search looks at.
const VICTIM_LOOKS_MAX: usize = 64;

/// Where the search for a victim begins: the coldest item but for pins and hits.
pub fn coldest(class: &ClassState, memory: &Memory, now: Ticks) -> Option<ChunkAddress> {
    match class.eviction() {
        EvictionKind::GreedyDualSize => greedydual_size::lowest(class),
        EvictionKind::GdWheel => gd_wheel::nearest(class),
        _ => coldest_in(class, lane_to_evict(class, memory, now)),
    }
}

/// The same in one lane.
pub fn coldest_in(class: &ClassState, lane: Lane) -> Option<ChunkAddress> {
    COLDEST_FIRST.into_iter().find_map(|kind| class.lanes().queue(lane, kind).tail())
}

/// The lane that gives up an item next.
#[inline]
fn lane_to_evict(class: &ClassState, memory: &Memory, now: Ticks) -> Lane {
    if class.lanes().are_many() {
        cost_bands::lane_to_evict(class, memory, now)
    } else {
        class.lanes().next_from(Lane::FIRST).unwrap_or_default()
    }
}

/// What a step of a search came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VictimStep {
    /// The item to evict: the coldest that nobody pins, still queued.
    Found(ChunkAddress),
    /// Nothing but pinned items yet: the class may be unlocked before the next step.
    Further,
    /// The class has no item that could be evicted.
    Nothing,
}

/// A search for a victim, step by step.
#[derive(Debug, Default)]
pub struct VictimSearch {
    tails_tried: bool,
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
        if !self.tails_tried {
            self.tails_tried = true;
            let found = match class.eviction() {
                EvictionKind::GreedyDualSize => greedydual_size::lowest(class),
                EvictionKind::GdWheel => match gd_wheel::lowest(class, memory) {
                    VictimStep::Found(lowest) => Some(lowest),
                    VictimStep::Further => {
                        self.tails_tried = false;
                        return VictimStep::Further;
                    }
                    VictimStep::Nothing => None,
                },
                _ => unpinned_tail(class, memory, now),
            };
            if let Some(victim) = found
                && memory.header(victim).state().load().pins() == 0
            {
                return VictimStep::Found(victim);
            }
        }
        for _ in 0..VICTIM_LOOKS_MAX {
            let from = self.lane.unwrap_or_default();
            let Some(lane) = class.lanes().next_from(from) else {
                return VictimStep::Nothing;
            };
            if self.lane != Some(lane) {
                (self.lane, self.queues_passed, self.items_passed) = (Some(lane), 0, 0);
            }
            let Some(&kind) = COLDEST_FIRST.get(self.queues_passed) else {
                (self.lane, self.queues_passed) = (Some(Lane(lane.0 + 1)), 0);
                continue;
            };
            let queue = class.lanes().queue(lane, kind);
            match queue.tail() {
                Some(tail) if self.items_passed < queue.count() => {
                    if memory.header(tail).state().load().pins() == 0 {
                        return VictimStep::Found(tail);
                    }
                    class.counters.tail_pinned += 1;
                    class.requeue(memory, tail, kind);
                    self.items_passed += 1;
                }
                _ => (self.queues_passed, self.items_passed) = (self.queues_passed + 1, 0),
            }
        }
        VictimStep::Further
    }
}

/// The tail of COLD, once active items are out of the way and an empty COLD is refilled; `None`: it is
/// pinned, or there is none.
fn unpinned_tail(class: &mut ClassState, memory: &Memory, now: Ticks) -> Option<ChunkAddress> {
    class.note_lanes();
    for look in 0..VICTIM_LOOKS_MAX {
        let lane = lane_to_evict(class, memory, now);
        let cold = class.lanes().queue(lane, QueueKind::Cold);
        let Some(tail) = cold.tail() else {
            let refill = coldest_in(class, lane)?;
            let state = memory.header(refill).state().load();
            let earned = state.active() && state.queue() == QueueKind::Hot;
            let rescued = earned && look < VICTIM_LOOKS_MAX / 2;
            let target = if rescued { QueueKind::Warm } else { QueueKind::Cold };
            class.requeue(memory, refill, target);
            continue;
        };
        let state = memory.header(tail).state().load();
        let spare = cold.count() > 1 && look + 1 < VICTIM_LOOKS_MAX / 2;
        if state.pins() > 0 {
            return None;
        }
        if state.active() && spare && class.eviction() != EvictionKind::Lru {
            class.bands_mut().note_look(lane, true);
            class.requeue(memory, tail, QueueKind::Warm);
            continue;
        }
        class.bands_mut().note_look(lane, state.active());
        return Some(tail);
    }
    None
}
