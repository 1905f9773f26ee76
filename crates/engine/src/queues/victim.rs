//! The search for the item that a class gives up next.
//!
//! It begins at the tail of COLD and takes the first item there that nobody pins. On the way, under
//! `eviction=segmented`, an active item goes back to WARM, and an empty COLD is refilled from HOT, WARM
//! and at last TEMP. Where the tail is pinned, the queues are walked in the order COLD, HOT, WARM, TEMP:
//! a pinned item goes to the head of its queue, out of the next search's way.
//!
//! Law: under one hold of the class's lock a search looks at a bounded number of items; it goes on from
//! there, and ends without a victim only when it has passed every item of the class.

use crate::class::ClassState;
use crate::config::EvictionKind;
use crate::mem::{ChunkAddress, QueueKind};
use crate::memory::Memory;

/// The queues in the order in which their items are given up.
const COLDEST_FIRST: [QueueKind; 4] =
    [QueueKind::Cold, QueueKind::Hot, QueueKind::Warm, QueueKind::Temp];

/// How many items a step of a search looks at.
const VICTIM_LOOKS_MAX: usize = 64;

/// Where the search for a victim begins: the coldest item but for pins and hits.
pub fn coldest(class: &ClassState) -> Option<ChunkAddress> {
    COLDEST_FIRST.into_iter().find_map(|kind| class.queue(kind).tail())
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
    /// Queues that were passed as a whole, of [`COLDEST_FIRST`].
    queues_passed: usize,
    /// Pinned items of the next queue that were passed.
    items_passed: u64,
}

impl VictimSearch {
    /// Looks on.
    pub fn step(&mut self, class: &mut ClassState, memory: &Memory) -> VictimStep {
        if !self.tails_tried {
            self.tails_tried = true;
            if let Some(victim) = unpinned_tail(class, memory) {
                return VictimStep::Found(victim);
            }
        }
        for _ in 0..VICTIM_LOOKS_MAX {
            let Some(&kind) = COLDEST_FIRST.get(self.queues_passed) else {
                return VictimStep::Nothing;
            };
            let queue = class.queue(kind);
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
fn unpinned_tail(class: &mut ClassState, memory: &Memory) -> Option<ChunkAddress> {
    for look in 0..VICTIM_LOOKS_MAX {
        let Some(tail) = class.queue(QueueKind::Cold).tail() else {
            let refill = coldest(class)?;
            let state = memory.header(refill).state().load();
            let earned = state.active() && state.queue() == QueueKind::Hot;
            let rescued = earned && look < VICTIM_LOOKS_MAX / 2;
            let target = if rescued { QueueKind::Warm } else { QueueKind::Cold };
            class.requeue(memory, refill, target);
            continue;
        };
        let state = memory.header(tail).state().load();
        let spare = class.queue(QueueKind::Cold).count() > 1 && look + 1 < VICTIM_LOOKS_MAX / 2;
        if state.pins() > 0 {
            return None;
        }
        if state.active() && spare && class.eviction() == EvictionKind::Segmented {
            class.requeue(memory, tail, QueueKind::Warm);
            continue;
        }
        return Some(tail);
    }
    None
}
