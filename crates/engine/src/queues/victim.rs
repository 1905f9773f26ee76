//! The search for the item that a class gives up next.
//!
//! It begins at the tail of COLD and takes the first item there that nobody pins. On the way, under
//! `eviction=segmented`, an active item goes back to WARM, and an empty COLD is refilled from HOT, WARM
//! and at last TEMP. A search looks at a bounded number of tails, then takes what it finds.

use crate::class::ClassState;
use crate::config::EvictionKind;
use crate::mem::{ChunkAddress, QueueKind};
use crate::memory::Memory;

/// The queues in the order in which their items are given up.
const COLDEST_FIRST: [QueueKind; 4] =
    [QueueKind::Cold, QueueKind::Hot, QueueKind::Warm, QueueKind::Temp];

/// How many tails one search for a victim looks at before it takes what it finds.
const VICTIM_LOOKS_MAX: usize = 64;

/// Where the search for a victim begins: the coldest item but for pins and hits.
pub fn coldest(class: &ClassState) -> Option<ChunkAddress> {
    COLDEST_FIRST.into_iter().find_map(|kind| class.queue(kind).tail())
}

/// The item to evict: the coldest that nobody pins, still queued. Active items found on the way go
/// back to WARM; an empty COLD is refilled from HOT and WARM. `None`: nothing can be evicted.
pub fn next_victim(class: &mut ClassState, memory: &Memory) -> Option<ChunkAddress> {
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
            class.counters.tail_pinned += 1;
            break;
        }
        if state.active() && spare && class.eviction() == EvictionKind::Segmented {
            class.requeue(memory, tail, QueueKind::Warm);
            continue;
        }
        return Some(tail);
    }
    unpinned(class, memory)
}

/// Walks the queues from their cold ends for an item that nobody pins.
fn unpinned(class: &ClassState, memory: &Memory) -> Option<ChunkAddress> {
    let free = |&address: &ChunkAddress| memory.header(address).state().load().pins() == 0;
    COLDEST_FIRST
        .into_iter()
        .find_map(|kind| class.queue(kind).iter_from_tail(memory).take(VICTIM_LOOKS_MAX).find(free))
}
