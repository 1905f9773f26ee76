//! The arena: chunk headers as atomics, chunk bytes under a proof.
//!
//! A chunk's header, the same for items, bodies of chained items and free chunks:
//!
//! ```text
//! offset size field        item                         body             free
//!      0    8 cas          CAS value                     -                -
//!      8    4 time         last access, in ticks         -                next free slot + 1
//!     12    4 state        see state.rs                  kind             0
//!     16    4 prev, low    queue neighbour to the head   owner (head)     -
//!     20    4 next, low    queue neighbour to the tail   next body        -
//!     24    1 prev, high
//!     25    1 next, high
//!     26    2 len, low     bytes of value in this chunk  the same         -
//!     28    1 len, high
//!     29      item: [client flags 4] [expiry 4] [cost 2] [rank 4] [chain 9] key value; body: value
//! ```
//!
//! A memory file outlives the process with these bytes in it: another layout here, in the state word or
//! of an item is another format of memory files (`restart/meta.rs`).

use super::mapping::{Mapping, MappingError};
use super::prefetch::prefetch;
use super::state::StateWord;
use crate::layout::{CHUNK_ALIGN_BYTES, ChunkAddress, HEADER_SIZE_BYTES};
use slabwise_base::sync::AtomicU64;
use slabwise_base::{PageId, Ticks};
use std::marker::PhantomData;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{
    AtomicU8, AtomicU16, AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};

/// What memory moves in.
const LINE_SIZE_BYTES: usize = 64;

const CAS: usize = 0;
const TIME: usize = 8;
const STATE: usize = 12;
const PREV_LOW: usize = 16;
const NEXT_LOW: usize = 20;
const PREV_HIGH: usize = 24;
const NEXT_HIGH: usize = 25;
const LEN_LOW: usize = 26;
const LEN_HIGH: usize = 28;

const _: () = {
    assert!(
        CAS.is_multiple_of(align_of::<AtomicU64>()) && CHUNK_ALIGN_BYTES >= align_of::<AtomicU64>()
    );
    assert!(TIME == CAS + 8 && STATE == TIME + 4 && PREV_LOW == STATE + 4);
    assert!(STATE.is_multiple_of(align_of::<StateWord>()) && size_of::<StateWord>() == 4);
    assert!(NEXT_LOW == PREV_LOW + 4 && PREV_HIGH == NEXT_LOW + 4 && NEXT_HIGH == PREV_HIGH + 1);
    assert!(LEN_LOW == NEXT_HIGH + 1 && LEN_LOW.is_multiple_of(align_of::<AtomicU16>()));
    assert!(LEN_HIGH == LEN_LOW + 2 && HEADER_SIZE_BYTES == LEN_HIGH + 1);
};

/// Reserved memory, divided into pages of one size.
#[derive(Debug)]
pub struct Arena {
    mapping: Mapping,
}

/// The header of one chunk. Every field is an atomic (HEADER-ATOMIC); which lock gives it meaning is
/// said at each accessor.
#[derive(Clone, Copy)]
pub struct Header<'a> {
    base: NonNull<u8>,
    arena: PhantomData<&'a Arena>,
}

impl Arena {
    /// Reserves room for `size_bytes`, without taking memory.
    pub fn reserve(size_bytes: usize, huge_pages: bool) -> Result<Arena, MappingError> {
        let mapping = Mapping::reserve(size_bytes)?;
        if huge_pages {
            let _ = mapping.advise_huge_pages();
        }
        Ok(Arena { mapping })
    }

    /// The first `size_bytes` of a file, which is at least that long, as the arena.
    pub fn of_file(
        file: BorrowedFd<'_>,
        size_bytes: usize,
        huge_pages: bool,
    ) -> Result<Arena, MappingError> {
        let mapping = Mapping::of_file(file, size_bytes)?;
        if huge_pages {
            let _ = mapping.advise_huge_pages();
        }
        Ok(Arena { mapping })
    }

    /// Makes this arena's bytes those of another.
    ///
    /// # Safety
    ///
    /// The other is of the same size, and nobody writes to it meanwhile.
    #[cfg(test)]
    pub(super) unsafe fn copy_from(&mut self, other: &Arena) {
        let (from, to) = (other.mapping.base().as_ptr(), self.mapping.base().as_ptr());
        // SAFETY: two mappings of the same size, of which this one is borrowed exclusively.
        unsafe { std::ptr::copy_nonoverlapping(from, to, self.mapping.size_bytes()) };
    }

    /// Bytes reserved.
    pub fn size_bytes(&self) -> usize {
        self.mapping.size_bytes()
    }

    /// The header of a chunk that is known to lie in this arena.
    ///
    /// # Safety
    ///
    /// A chunk of this arena starts at `address`.
    #[inline]
    pub(super) unsafe fn header_of(&self, address: ChunkAddress) -> Header<'_> {
        debug_assert!(address.offset() + HEADER_SIZE_BYTES <= self.mapping.size_bytes());
        // SAFETY: the caller's chunk lies within the mapping.
        let base = unsafe { self.mapping.base().add(address.offset()) };
        Header { base, arena: PhantomData }
    }

    /// `len` bytes of a chunk, from `start` bytes after its beginning.
    ///
    /// # Safety
    ///
    /// They lie within a chunk of this arena, behind its header, and nobody writes them as long as the slice
    /// is used.
    #[inline]
    pub(super) unsafe fn read(&self, address: ChunkAddress, start: usize, len: usize) -> &[u8] {
        debug_assert!(start >= HEADER_SIZE_BYTES);
        debug_assert!(address.offset() + start + len <= self.mapping.size_bytes());
        // SAFETY: in bounds, as the caller says.
        let first = unsafe { self.mapping.base().add(address.offset() + start) };
        // SAFETY: 1. in bounds; initialised: the mapping was zeroed. 2. Nobody writes, as the caller says.
        unsafe { std::slice::from_raw_parts(first.as_ptr(), len) }
    }

    /// `len` bytes of a chunk to write, from `start` bytes after its beginning.
    ///
    /// # Safety
    ///
    /// They lie within a chunk of this arena, behind its header, and nobody else reads or writes them as
    /// long as the slice is used.
    #[inline]
    #[expect(clippy::mut_from_ref, reason = "the caller has the sole right to these bytes")]
    pub(super) unsafe fn write(
        &self,
        address: ChunkAddress,
        start: usize,
        len: usize,
    ) -> &mut [u8] {
        debug_assert!(start >= HEADER_SIZE_BYTES);
        debug_assert!(address.offset() + start + len <= self.mapping.size_bytes());
        // SAFETY: in bounds, as the caller says.
        let first = unsafe { self.mapping.base().add(address.offset() + start) };
        // SAFETY: 1. in bounds; initialised: the mapping was zeroed. 2. The caller's alone.
        unsafe { std::slice::from_raw_parts_mut(first.as_ptr(), len) }
    }

    /// Asks for the cache line of a header that will be written soon. A hint: the address may be stale.
    #[inline]
    pub fn prefetch_header(&self, address: ChunkAddress) {
        prefetch(self.mapping.base().as_ptr().wrapping_add(address.offset()));
    }

    /// Asks for a chunk's first cache lines: header, key, and where most values begin.
    #[inline]
    pub fn prefetch_item(&self, address: ChunkAddress) {
        self.prefetch_chunk(address, 2 * LINE_SIZE_BYTES);
    }

    /// Asks for the cache lines of a chunk's first bytes.
    #[inline]
    pub fn prefetch_chunk(&self, address: ChunkAddress, size_bytes: usize) {
        let first = self.mapping.base().as_ptr().wrapping_add(address.offset());
        for at in (0..size_bytes).step_by(LINE_SIZE_BYTES) {
            prefetch(first.wrapping_add(at));
        }
    }

    /// Takes a page's memory from the system at once, as it will soon be written. Whoever has its chunks.
    pub fn populate(&self, page: PageId, page_size_bytes: usize) {
        let (offset, size_bytes) = (page.index() * page_size_bytes, page_size_bytes);
        assert!(offset + size_bytes <= self.mapping.size_bytes(), "range out of bounds");
        // SAFETY: in bounds.
        unsafe { self.mapping.populate(offset, size_bytes) }
    }

    /// Gives a page's memory back to the system.
    ///
    /// # Safety
    ///
    /// No chunk of the page is in use.
    pub(super) unsafe fn release_page(&self, page: PageId, page_size_bytes: usize) {
        let (offset, size_bytes) = (page.index() * page_size_bytes, page_size_bytes);
        assert!(offset + size_bytes <= self.mapping.size_bytes(), "range out of bounds");
        // SAFETY: in bounds, and nobody needs the contents, as the caller says.
        unsafe { self.mapping.release(offset, size_bytes) }
    }
}

impl<'a> Header<'a> {
    /// The field at `offset`, of an atomic type.
    ///
    /// # Safety
    ///
    /// `offset` is one of the constants above and `T` the atomic type of that field.
    #[inline]
    unsafe fn field<T>(self, offset: usize) -> &'a T {
        // SAFETY: in bounds: `Arena::header` checked the whole header.
        let field = unsafe { self.base.add(offset) }.cast::<T>();
        // SAFETY: 1. aligned: chunks are aligned to CHUNK_ALIGN_BYTES and the assertions above align the
        // offsets. 2. any bit pattern is valid for an integer atomic, and nobody reaches these bytes
        // otherwise (HEADER-ATOMIC).
        unsafe { field.as_ref() }
    }

    /// The state word; see `state.rs`.
    #[inline]
    pub(super) fn state(self) -> &'a StateWord {
        // SAFETY: the state field is a StateWord, which is a transparent AtomicU32.
        unsafe { self.field::<StateWord>(STATE) }
    }

    #[inline]
    fn cas_cell(self) -> &'a AtomicU64 {
        // SAFETY: the CAS field is an AtomicU64.
        unsafe { self.field::<AtomicU64>(CAS) }
    }

    #[inline]
    fn word(self, offset: usize) -> &'a AtomicU32 {
        debug_assert!(matches!(offset, TIME | PREV_LOW | NEXT_LOW));
        // SAFETY: the callers below pass offsets of AtomicU32 fields only.
        unsafe { self.field::<AtomicU32>(offset) }
    }

    #[inline]
    fn byte(self, offset: usize) -> &'a AtomicU8 {
        debug_assert!(matches!(offset, PREV_HIGH | NEXT_HIGH | LEN_HIGH));
        // SAFETY: the callers below pass offsets of AtomicU8 fields only.
        unsafe { self.field::<AtomicU8>(offset) }
    }

    #[inline]
    fn len_low(self) -> &'a AtomicU16 {
        // SAFETY: the low half of the length is an AtomicU16.
        unsafe { self.field::<AtomicU16>(LEN_LOW) }
    }

    /// The CAS value. Stripe; without it, a hint. Acquire: who sees one that a client chose sees that noted
    /// in the state word.
    #[inline]
    pub(super) fn cas(self) -> u64 {
        self.cas_cell().load(Acquire)
    }

    /// Sets the CAS value. Owner, or stripe.
    pub(super) fn set_cas(self, cas: u64) {
        self.cas_cell().store(cas, Release);
    }

    /// The time of the last access. A hint under any lock or none.
    #[inline]
    pub(super) fn time(self) -> Ticks {
        Ticks(self.word(TIME).load(Relaxed))
    }

    /// Sets the time of the last access; writes only a change.
    #[inline]
    pub(super) fn set_time(self, time: Ticks) {
        let cell = self.word(TIME);
        if cell.load(Relaxed) != time.0 {
            cell.store(time.0, Relaxed);
        }
    }

    /// The neighbour to the head of the queue; of a body, the head of its item. Class lock.
    #[inline]
    pub(super) fn prev(self) -> Option<ChunkAddress> {
        self.link(PREV_LOW, PREV_HIGH)
    }

    /// The neighbour to the tail of the queue; of a body, the next body. Class lock; for a body stripe.
    #[inline]
    pub(super) fn next(self) -> Option<ChunkAddress> {
        self.link(NEXT_LOW, NEXT_HIGH)
    }

    /// Both neighbours, read without the lock that gives them meaning: only to prefetch them.
    #[inline]
    pub(super) fn links_hint(self) -> [Option<ChunkAddress>; 2] {
        [self.prev(), self.next()]
    }

    /// Sets [`Header::prev`].
    #[inline]
    pub(super) fn set_prev(self, address: Option<ChunkAddress>) {
        self.set_link(PREV_LOW, PREV_HIGH, address);
    }

    /// Sets [`Header::next`].
    #[inline]
    pub(super) fn set_next(self, address: Option<ChunkAddress>) {
        self.set_link(NEXT_LOW, NEXT_HIGH, address);
    }

    /// Bytes of value in this chunk. Never changes while published.
    #[inline]
    pub(super) fn len(self) -> usize {
        usize::from(self.len_low().load(Relaxed))
            | usize::from(self.byte(LEN_HIGH).load(Relaxed)) << 16
    }

    /// Sets [`Header::len`]. Owner only; below 16 MiB.
    pub(super) fn set_len(self, len: usize) {
        assert!(len < 1 << 24, "a chunk's value of {len} bytes is beyond the field's 24 bits");
        self.len_low().store(len as u16, Relaxed);
        self.byte(LEN_HIGH).store((len >> 16) as u8, Relaxed);
    }

    /// Of a free chunk, the next free slot of its page. Class lock.
    pub(super) fn free_next(self) -> Option<u32> {
        self.word(TIME).load(Relaxed).checked_sub(1)
    }

    /// Sets [`Header::free_next`].
    pub(super) fn set_free_next(self, slot: Option<u32>) {
        self.word(TIME).store(slot.map_or(0, |slot| slot + 1), Relaxed);
    }

    #[inline]
    fn link(self, low: usize, high: usize) -> Option<ChunkAddress> {
        let low = u64::from(self.word(low).load(Relaxed));
        ChunkAddress::from_bits(low | u64::from(self.byte(high).load(Relaxed)) << 32)
    }

    #[inline]
    fn set_link(self, low: usize, high: usize, address: Option<ChunkAddress>) {
        let bits = ChunkAddress::to_bits(address);
        self.word(low).store(bits as u32, Relaxed);
        self.byte(high).store((bits >> 32) as u8, Relaxed);
    }
}
