//! `eviction=lru`: one queue (cold) in exact order of use. Every hit takes the class's lock.

use crate::class::ClassState;
use crate::mem::{ChunkAddress, QueueKind};
use crate::memory::Memory;

/// A hit: the item becomes the newest.
pub fn hit(class: &mut ClassState, memory: &Memory, address: ChunkAddress) {
    let state = memory.header(address).state().load();
    if state.queued() {
        class.queue_mut(state.queue()).remove(memory, address);
        class.queue_mut(QueueKind::Cold).push_head(memory, address);
        memory.header(address).state().requeue(QueueKind::Cold);
    }
}
