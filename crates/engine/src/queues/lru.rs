//! `eviction=lru`: one queue (cold) in exact order of use. Every hit takes the class's lock.

use crate::class::ClassState;
use crate::mem::{ChunkAddress, QueueKind};
use crate::memory::Memory;

/// A hit: the item becomes the newest.
pub fn hit(class: &mut ClassState, memory: &Memory, address: ChunkAddress) {
    let state = memory.header(address).state().load();
    if state.queued() {
        let size_bytes = class.counted_size_of(memory, address);
        class.queue_mut(state.queue()).remove(memory, address, size_bytes);
        class.queue_mut(QueueKind::Cold).push_head(memory, address, size_bytes);
        memory.header(address).state().requeue(QueueKind::Cold);
    }
}
