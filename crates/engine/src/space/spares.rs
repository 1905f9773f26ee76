//! Spare chunks: free chunks that the handles of workers hold, so that most stores neither take a free chunk from
//! their class nor return one.
//!
//! ```text
//!                     a batch, under one lock of the class
//!   class: free chunks, victims -------------------------> spare chunks of a handle --take--> new item
//!          ^      ^                                         |        ^                           |
//!          |      '--------- half of them, if full ---------'        '----- replaced, deleted ---'
//!          '---------------- recall, by any thread ---------'
//! ```
//!
//! A handle that has spare chunks is a *holder*. It has a few slots for each class, and uses them like a stack. Only the
//! holder puts chunks into its slots. But every thread can take chunks out of them, by one atomic operation per slot. So
//! a thread that needs memory *recalls* spare chunks at once, without waiting for the holder, even if that is idle:
//!
//! - an allocation that finds no free chunk in its class and can evict no item of the class's own queues;
//! - the mover: before it chooses a class or a page, before it evicts or drops an item, and at the end of each pass
//!   over its page;
//! - a change of the class table, for the classes that it retires, and a change of the eviction order;
//! - a handle that is dropped.
//!
//! To a page, a spare chunk is in use, so the page is not released before the chunk returns. In statistics, a spare
//! chunk is free.
//!
//! A store that finds no spare and no free chunk evicts a batch of items, and keeps the chunks that it does not need. So
//! the items of a batch are evicted slightly early, in the order in which single stores would evict them.
//!
//! Invariants:
//!
//! - A chunk is either spare, or on a free list, or in use. One slot at most holds it.
//! - A chunk moves between a slot and a free list only under the lock of its class. So a thread that holds this lock
//!   and finds neither a free chunk nor a spare one knows that all chunks are in use.
//! - A holder has at most [`SpareLimits::count_max`] spare chunks of a class. But a holder that has read the limit just
//!   before it falls may still put one chunk into a slot, after the recall that follows.
//! - In exact LRU order, no item is evicted while a chunk of its class is spare.

use crate::class::{SpareLimits, TABLE_NUMBERS};
use crate::config::{EngineConfig, SpareConfig};
use crate::layout::ChunkAddress;
use crate::mem::{Memory, OwnedChunk, SPARES_MAX, SpareSlots};
use slabwise_base::ClassId;
use slabwise_base::sync::{Mutex, lock};
use std::sync::Arc;

/// Returns the limits of spare chunks for a configuration. Nothing may be spare if a store that finds no free chunk
/// must evict exactly one item, or if each chunk in use must hold an item: with an eviction kind that ranks or divides
/// items, with memcached's limit, and with a mover that withdraws free chunks.
fn spare_config(config: &EngineConfig) -> SpareConfig {
    let is_exact = !config.eviction.info().evicts_in_batches
        || config.mover.withdraws_chunks()
        || config.first_page_beyond_limit;
    if is_exact { SpareConfig::NONE } else { config.spares }
}

/// The slots of all holders, and their limits.
#[derive(Debug)]
pub struct Spares {
    holders: Box<[SpareSlots]>,
    /// The indexes of the holders that no handle uses.
    unused: Mutex<Vec<usize>>,
    /// The limits, which the classes set.
    pub limits: Arc<SpareLimits>,
}

impl Spares {
    /// Returns empty slots for the handles that may have spare chunks in this configuration.
    pub fn new(config: &EngineConfig, memory: &Arc<Memory>) -> Spares {
        let SpareConfig { holders_max, memory_divisor } = spare_config(config);
        let slots = |_| SpareSlots::new(memory, TABLE_NUMBERS);
        let holders: Box<[SpareSlots]> = (0..holders_max).map(slots).collect();
        let chunks_per_spare = memory_divisor.saturating_mul(holders.len() as u64).max(1);
        Spares {
            unused: Mutex::new((0..holders.len()).rev().collect()),
            holders,
            limits: Arc::new(SpareLimits::new(chunks_per_spare, config.classes.largest())),
        }
    }

    /// Assigns the slots of a holder to a handle. Returns the index of the holder, or `None` if all are in use.
    pub fn assign(&self) -> Option<usize> {
        lock(&self.unused).pop()
    }

    /// Ends the use of a holder whose slots are empty.
    pub fn release(&self, holder: usize) {
        lock(&self.unused).push(holder);
    }

    /// Returns the slots of each holder.
    pub fn holders(&self) -> &[SpareSlots] {
        &self.holders
    }

    /// Returns the largest number of spare chunks of this class that a holder may have now.
    #[inline]
    pub fn count_max(&self, class: ClassId) -> usize {
        self.limits.count_max(class)
    }

    /// Takes all spare chunks of a class whose addresses `is_wanted` accepts, and calls `visit` with each. The caller
    /// holds the lock of the class.
    pub fn take_all(
        &self,
        class: ClassId,
        is_wanted: impl Fn(ChunkAddress) -> bool,
        mut visit: impl FnMut(OwnedChunk),
    ) {
        for slots in &self.holders {
            let taken = (0..SPARES_MAX).filter_map(|at| slots.take_if(class, at, &is_wanted));
            taken.for_each(&mut visit);
        }
    }

    /// Returns the addresses of all spare chunks of a class. The chunks may be taken at any time.
    pub fn addresses(&self, class: ClassId) -> impl Iterator<Item = ChunkAddress> {
        self.holders.iter().flat_map(move |slots| slots.addresses(class))
    }

    /// Returns the number of spare chunks of a class.
    pub fn count(&self, class: ClassId) -> u64 {
        self.addresses(class).count() as u64
    }
}
