//! Slots for spare chunks: free chunks that a worker holds (`space/spares.rs`).
//!
//! A slot is one atomic word, which is 0 or holds an [`OwnedChunk`]:
//!
//! ```text
//!   OwnedChunk --put: store--> slot --take: swap--> OwnedChunk
//!    only the worker            any thread
//! ```
//!
//! Invariant: the chunk of a slot has no other owner. A thread gets the chunk only if its own atomic operation has
//! emptied the slot, so no two threads get it. If two threads put chunks into one slot at the same time, one chunk
//! leaks, but neither chunk gets two owners.

use super::chunk::OwnedChunk;
use super::memory::Memory;
use crate::layout::{ADDRESS_BITS, ChunkAddress};
use slabwise_base::ClassId;
use slabwise_base::sync::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::Arc;

/// The number of slots for each class.
pub const SPARES_MAX: usize = if cfg!(loom) { 2 } else { 8 };

/// The number of bits for the class in a word. The chunk size, in units of 8 bytes, is in the bits above.
const CLASS_BITS: u32 = 8;

/// The largest size of a chunk that fits into a slot, in bytes.
const SIZE_BYTES_MAX: usize = ((1 << (u64::BITS - ADDRESS_BITS - CLASS_BITS)) - 1) * 8;

/// The slots for chunks of one class, in one cache line. A word is 0, or holds the address of a chunk in the lower 40
/// bits, then its class, then its size.
#[derive(Debug)]
#[repr(align(64))]
struct Row([AtomicU64; SPARES_MAX]);

/// [`SPARES_MAX`] slots for spare chunks of each class of one memory.
#[derive(Debug)]
pub struct SpareSlots {
    memory: Arc<Memory>,
    /// The slots of each class, indexed by the number of the class.
    rows: Box<[Row]>,
}

impl SpareSlots {
    /// Returns empty slots for the classes with numbers below `class_count`.
    pub fn new(memory: &Arc<Memory>, class_count: usize) -> SpareSlots {
        let row = |_| Row(std::array::from_fn(|_| AtomicU64::new(0)));
        SpareSlots { memory: Arc::clone(memory), rows: (0..class_count).map(row).collect() }
    }

    #[inline]
    fn word(&self, class: ClassId, at: usize) -> &AtomicU64 {
        &self.rows[class.index()].0[at]
    }

    /// Puts a chunk into the slot `at` of its class. Returns the chunk as the error if the slot is full. Only one
    /// thread may put chunks into these slots. Panics if the chunk has more than 512 KiB or belongs to another memory.
    #[inline]
    pub fn put(&self, at: usize, chunk: OwnedChunk) -> Result<(), OwnedChunk> {
        chunk.check(&self.memory);
        let size_bytes = chunk.size_bytes();
        assert!(size_bytes <= SIZE_BYTES_MAX, "a spare chunk has at most {SIZE_BYTES_MAX} bytes");
        let size_and_class = (size_bytes as u64 / 8) << CLASS_BITS | u64::from(chunk.class().0);
        let word = ChunkAddress::to_bits(Some(chunk.address())) | size_and_class << ADDRESS_BITS;
        let slot = self.word(chunk.class(), at);
        if slot.load(Relaxed) != 0 {
            return Err(chunk);
        }
        // With Release ordering, because the thread that takes the chunk must see all writes to the chunk.
        slot.store(word, Release);
        Ok(())
    }

    /// Takes the chunk out of the slot `at` of a class. Returns `None` if the slot is empty.
    #[inline]
    pub fn take(&self, class: ClassId, at: usize) -> Option<OwnedChunk> {
        let word = self.word(class, at).swap(0, Acquire);
        // SAFETY: this call has just removed the word from its slot.
        unsafe { self.chunk_of(word) }
    }

    /// Takes the chunk out of the slot `at` of a class if `is_wanted` returns true for its address. Returns `None` if
    /// the slot is empty, or another thread takes the chunk at the same time.
    pub fn take_if(
        &self,
        class: ClassId,
        at: usize,
        is_wanted: impl Fn(ChunkAddress) -> bool,
    ) -> Option<OwnedChunk> {
        let slot = self.word(class, at);
        let word = slot.load(Relaxed);
        if !address_of(word).is_some_and(is_wanted) {
            return None;
        }
        let taken = slot.compare_exchange(word, 0, Acquire, Relaxed).ok()?;
        // SAFETY: this call has just removed the word from its slot.
        unsafe { self.chunk_of(taken) }
    }

    /// Returns the addresses of the chunks in the slots of a class. Other threads may take the chunks at any time.
    pub fn addresses(&self, class: ClassId) -> impl Iterator<Item = ChunkAddress> {
        let slots = self.rows.get(class.index()).into_iter().flat_map(|row| &row.0);
        slots.filter_map(|slot| address_of(slot.load(Relaxed)))
    }

    /// Returns the chunk of a word, or `None` if the word is 0.
    ///
    /// # Safety
    ///
    /// The caller has just removed the word from a slot of these slots.
    #[inline]
    unsafe fn chunk_of(&self, word: u64) -> Option<OwnedChunk> {
        let address = address_of(word)?;
        let size_and_class = word >> ADDRESS_BITS;
        let (size, class) = (size_and_class >> CLASS_BITS, ClassId(size_and_class as u8));
        // SAFETY: `put` wrote this word, and its `OwnedChunk` ended there. So the chunk is in use, has this size and
        // class, and had no owner but the slot, from which only the caller has removed the word.
        Some(unsafe { OwnedChunk::new(&self.memory, address, size as usize * 8, class) })
    }
}

/// Returns the address of the chunk in a word, or `None` if the word is 0.
#[inline]
fn address_of(word: u64) -> Option<ChunkAddress> {
    ChunkAddress::from_bits(word & ((1 << ADDRESS_BITS) - 1))
}
