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
//! - an allocation that finds no chunk in its class and can evict no item, before it fails or uses another class;
//! - the mover: before it chooses a page, in each step for the page that drains, and before it evicts an item;
//! - a change of the class table, of the memory limit, or to exact LRU order;
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
//! - All spare chunks together take at most the part of the memory limit that the configuration specifies. For a class,
//!   a holder has slots for an equal part of its share. No chunk above [`SPARE_SIZE_BYTES_MAX`] is spare.
//! - The items that a batch evicts early, over all holders, are at most the same part of the items of their class.
//! - Nothing is spare if the eviction order must be exact (`Space::set_spare_limits`).

use crate::class::TABLE_NUMBERS;
use crate::config::SpareConfig;
use crate::layout::{ChunkAddress, ClassTable};
use crate::mem::{Memory, OwnedChunk, SpareSlots};
use slabwise_base::ClassId;
use slabwise_base::sync::{Mutex, lock};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// The largest number of spare chunks of one class that a holder has.
pub const SPARES_MAX: usize = if cfg!(loom) { 2 } else { 8 };

/// The size of the largest chunks that may be spare.
pub const SPARE_SIZE_BYTES_MAX: usize = 4096;

/// The slots of one holder: [`SPARES_MAX`] for each class number. Two holders share no cache line.
#[derive(Debug)]
#[repr(align(128))]
pub struct Holder {
    slots: SpareSlots,
}

impl Holder {
    fn slot(class: ClassId, at: usize) -> usize {
        debug_assert!(at < SPARES_MAX, "a holder has {SPARES_MAX} slots for a class");
        class.index() * SPARES_MAX + at
    }

    /// Puts a chunk into the slot `at` of its class. Returns the chunk as the error if the slot is full. Only the
    /// handle that owns the slots may call this function.
    #[inline]
    pub fn put(&self, at: usize, chunk: OwnedChunk) -> Result<(), OwnedChunk> {
        self.slots.put(Holder::slot(chunk.class(), at), chunk)
    }

    /// Takes the chunk out of the slot `at` of a class. `None`: the slot is empty.
    #[inline]
    pub fn take(&self, class: ClassId, at: usize) -> Option<OwnedChunk> {
        self.slots.take(Holder::slot(class, at))
    }
}

/// The slots of all holders, and their limits.
#[derive(Debug)]
pub struct Spares {
    config: SpareConfig,
    holders: Box<[Holder]>,
    /// The indexes of the holders that no handle uses.
    unused: Mutex<Vec<usize>>,
    /// The largest number of spare chunks of each class that a holder may have.
    counts_max: [AtomicU8; TABLE_NUMBERS],
}

impl Spares {
    pub fn new(config: SpareConfig, memory: &Arc<Memory>) -> Spares {
        let slots = || SpareSlots::new(memory, TABLE_NUMBERS * SPARES_MAX);
        let holders: Box<[Holder]> =
            (0..config.holders_max).map(|_| Holder { slots: slots() }).collect();
        Spares {
            config,
            unused: Mutex::new((0..holders.len()).rev().collect()),
            holders,
            counts_max: std::array::from_fn(|_| AtomicU8::new(0)),
        }
    }

    /// True if no handle ever has spare chunks.
    pub fn is_disabled(&self) -> bool {
        self.holders.is_empty()
    }

    /// Gives the slots of a holder to a handle. Returns the index of the holder, or `None` if all are in use.
    pub fn hire(&self) -> Option<usize> {
        if self.is_disabled() { None } else { lock(&self.unused).pop() }
    }

    /// Ends the use of a holder whose slots are empty.
    pub fn dismiss(&self, holder: usize) {
        lock(&self.unused).push(holder);
    }

    pub fn holder(&self, index: usize) -> &Holder {
        &self.holders[index]
    }

    /// Returns the largest number of spare chunks of this class that a holder may have now.
    #[inline]
    pub fn count_max(&self, class: ClassId) -> usize {
        usize::from(self.counts_max[class.index()].load(Relaxed))
    }

    /// Returns the number of chunks that a holder gets under one lock of a class that owns `chunk_count` chunks.
    pub fn batch_len(&self, class: ClassId, chunk_count: u64) -> usize {
        let share = chunk_count / self.config.memory_divisor / self.holders.len().max(1) as u64;
        self.count_max(class).min(usize::try_from(share).unwrap_or(usize::MAX))
    }

    /// Sets the limits for a class table and a memory limit. The caller holds the lock of the class table.
    pub fn set_limits(&self, table: &ClassTable, memory_limit_bytes: u64) {
        if self.is_disabled() {
            return;
        }
        let counts = self.limits(table, memory_limit_bytes);
        self.counts_max
            .iter()
            .zip(counts)
            .for_each(|(count_max, count)| count_max.store(count, Relaxed));
    }

    /// Returns the largest number of spare chunks of each class number.
    fn limits(&self, table: &ClassTable, memory_limit_bytes: u64) -> [u8; TABLE_NUMBERS] {
        let share = memory_limit_bytes / self.config.memory_divisor / self.holders.len() as u64;
        // Chunks of the largest class are bodies of chained items, too.
        let may_be_spare =
            |&(id, size): &(ClassId, usize)| size <= SPARE_SIZE_BYTES_MAX && id != table.largest();
        let classes: Vec<_> = table.classes().filter(may_be_spare).collect();
        let mut counts = [0; TABLE_NUMBERS];
        let Some(size_bytes_max) = classes.iter().map(|&(_, size_bytes)| size_bytes as u64).max()
        else {
            return counts;
        };
        // A holder that has read an earlier limit may still put one more chunk into its slots.
        let class_share = share.saturating_sub(size_bytes_max) / classes.len() as u64;
        for (id, size_bytes) in classes {
            counts[id.index()] = (class_share / size_bytes as u64).min(SPARES_MAX as u64) as u8;
        }
        counts
    }

    /// Sets all limits to 0.
    pub fn forbid(&self) {
        self.counts_max.iter().for_each(|count| count.store(0, Relaxed));
    }

    /// Takes all spare chunks of a class whose addresses `is_wanted` accepts, and calls `visit` with each.
    pub fn take_all(
        &self,
        class: ClassId,
        is_wanted: impl Fn(ChunkAddress) -> bool,
        mut visit: impl FnMut(OwnedChunk),
    ) {
        for holder in &self.holders {
            let slots = (0..SPARES_MAX).map(|at| Holder::slot(class, at));
            slots.filter_map(|slot| holder.slots.take_if(slot, &is_wanted)).for_each(&mut visit);
        }
    }

    /// Returns the addresses of all spare chunks of a class. The chunks may be taken at any time.
    pub fn addresses(&self, class: ClassId) -> impl Iterator<Item = ChunkAddress> {
        let slots = (0..SPARES_MAX).map(move |at| Holder::slot(class, at));
        let in_table = class.index() < TABLE_NUMBERS;
        let holders = self.holders.iter().filter(move |_| in_table);
        holders.flat_map(move |holder| slots.clone().filter_map(|slot| holder.slots.address(slot)))
    }

    /// Returns the number of spare chunks of a class.
    pub fn count(&self, class: ClassId) -> u64 {
        self.addresses(class).count() as u64
    }

    /// Returns the largest number of bytes that all spare chunks together may take at this memory limit.
    pub fn size_bytes_max(&self, memory_limit_bytes: u64) -> u64 {
        memory_limit_bytes / self.config.memory_divisor
    }
}
