//! `eviction=lru`: one queue (cold) in exact order of use. Every hit takes the class's lock.

use crate::class::ClassState;
use crate::mem::{ChunkAddress, QueueKind};
use crate::memory::Memory;

/// A hit: the item becomes the newest.
pub fn hit(class: &mut ClassState, memory: &Memory, address: ChunkAddress) {
    if memory.header(address).state().load().queued() {
        let _: QueueKind = class.relink(memory, address, QueueKind::Cold);
    }
}
