//! `eviction=reserved`: a queue beside hot, warm and cold for the costliest items of a class.
//!
//! Source: V. Coelho, "Study and optimization of the memory management in Memcached" (thesis, NOVA Lisbon, 2018), sections 3.2 and 4.3, algorithm 1.
//!
//! ```text
//!             ranks above M              tail, when another enters; M rises to its rank
//!   new, hit --------------> RESERVED ------------------------------------------------> HOT
//!       | else                                                                           |
//!       '--------> HOT, or where it is: as in the segmented LRU <------------------------'
//! ```
//!
//! An item ranks L + c when it is stored and at each hit; L rises to the rank of what is evicted. Nothing is
//! sorted: what is worth least leaves the queue in time, as M rises. The reserved queue takes the place of
//! memcached's temp queue, as in the thesis. Until the class first evicts, the queue fills with whatever
//! comes (the thesis's prose), and then stays as it is.

use super::Lane;
use super::ranking::is_above;
use crate::class::ClassState;
use crate::mem::{ChunkAddress, QueueKind, ReadProof};
use crate::memory::Memory;

/// The queue of items with a reserved place.
pub const RESERVED: QueueKind = QueueKind::Temp;

/// Whether the reserved queue holds its share of the class.
fn is_full(class: &ClassState) -> bool {
    let chunks = u64::from(class.page_count()) * u64::from(class.chunks_per_page());
    let count = class.lanes().queue(Lane::FIRST, RESERVED).count();
    count * 100 >= chunks * u64::from(class.ranking().config.reserved_percent)
}

/// The queue that an item of this rank enters, or is hit in; room is made in the reserved one.
pub fn queue_for(
    class: &mut ClassState,
    memory: &Memory,
    rank: u32,
    otherwise: QueueKind,
) -> QueueKind {
    let is_new = otherwise == QueueKind::Hot;
    if !is_full(class) {
        return if is_new || is_above(rank, class.ranking().entry_bar()) {
            RESERVED
        } else {
            otherwise
        };
    }
    let may_enter = class.ranking().has_evicted() && is_above(rank, class.ranking().entry_bar());
    if !may_enter {
        return otherwise;
    }
    let Some(leaves) = class.lanes().queue(Lane::FIRST, RESERVED).tail() else {
        return otherwise;
    };
    class.requeue(memory, leaves, QueueKind::Hot);
    let left = memory.rank(leaves, ReadProof::under_class(class));
    class.ranking_mut().raise_entry_bar(left);
    // The next to enter will take its place.
    if let Some(next) = class.lanes().queue(Lane::FIRST, RESERVED).tail() {
        memory.arena.prefetch_item(next);
    }
    RESERVED
}

/// The queue of an item whose rank has just risen at a hit.
pub fn queue_after_hit(
    class: &mut ClassState,
    memory: &Memory,
    address: ChunkAddress,
    rank: u32,
) -> QueueKind {
    match memory.header(address).state().load().queue() {
        RESERVED => RESERVED,
        queue => queue_for(class, memory, rank, queue),
    }
}
