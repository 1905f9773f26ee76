//! The arena in loom's models. It has the same functions as the real arena, but loom observes the accesses to its
//! chunks.
//!
//! State words and CAS values are loom's atomics, because the engine reads them without locks. Links, lengths and bytes
//! are loom's cells. So loom reports a race if a thread accesses them without the lock or the access token that the
//! invariants require. loom does not observe times and uses, because they may be out of date. Nor does it observe the links of
//! free lists, because the lock that protects them also protects links that loom observes.

use super::mapping::{FileAccess, HugePages, MappingError};
use super::state::{State, StateWord};
use crate::layout::{ChunkAddress, HEADER_SIZE_BYTES};
use loom::cell::UnsafeCell;
use loom::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Release},
};
use slabwise_base::{PageId, Uses, WorkTime};
use std::collections::HashMap;
use std::marker::PhantomData;
use std::os::fd::BorrowedFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering::Relaxed};

/// The largest number of bytes after the header of a chunk in a model.
const CONTENTS_SIZE_BYTES: usize = 1024;

/// An arena that creates each chunk on the first access to it.
pub struct Arena {
    size_bytes: usize,
    /// The chunks that were created until now, by the offset from the arena's start.
    chunks: Mutex<HashMap<usize, &'static Chunk>>,
}

impl std::fmt::Debug for Arena {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Arena").field("size_bytes", &self.size_bytes).finish()
    }
}

/// A chunk: the fields of its header and the bytes after its header.
struct Chunk {
    cas: AtomicU64,
    time: AtomicU32,
    uses: AtomicU8,
    state: StateWord,
    prev: UnsafeCell<Option<ChunkAddress>>,
    next: UnsafeCell<Option<ChunkAddress>>,
    len: UnsafeCell<usize>,
    contents: Contents,
}

/// The bytes after the header of a chunk. Each access to a byte also accesses a cell of loom, so that loom can report
/// races. Each of the first 16 bytes has a cell of its own, because fields that different locks protect are neighbours
/// there. All further bytes share the last cell.
struct Contents {
    bytes: std::cell::UnsafeCell<[u8; CONTENTS_SIZE_BYTES]>,
    cells: [UnsafeCell<()>; CELL_COUNT],
}

/// The number of cells of a chunk: one for each of the first 16 bytes, and one for all further bytes.
const CELL_COUNT: usize = 17;

impl Contents {
    fn new() -> Contents {
        let cells = std::array::from_fn(|_| UnsafeCell::new(()));
        Contents { bytes: [0; CONTENTS_SIZE_BYTES].into(), cells }
    }

    /// Returns the cells for `len` bytes from `start` on.
    fn cells(&self, start: usize, len: usize) -> &[UnsafeCell<()>] {
        let last = (start + len).saturating_sub(1).min(CELL_COUNT - 1);
        if len == 0 { &[] } else { &self.cells[start.min(CELL_COUNT - 1)..=last] }
    }

    fn read(&self, start: usize, len: usize) -> &[u8] {
        self.cells(start, len).iter().for_each(|cell| cell.with(|_| ()));
        // SAFETY: the accesses to the cells have just let loom check that no thread writes these bytes concurrently.
        let bytes = unsafe { &*self.bytes.get().cast::<[u8; CONTENTS_SIZE_BYTES]>() };
        &bytes[start..start + len]
    }

    #[expect(clippy::mut_from_ref, reason = "loom checks that the caller has exclusive access")]
    fn write(&self, start: usize, len: usize) -> &mut [u8] {
        self.cells(start, len).iter().for_each(|cell| cell.with_mut(|_| ()));
        assert!(start + len <= CONTENTS_SIZE_BYTES, "the bytes are within the chunk of a model");
        // SAFETY: the line above has checked that the range is within the array.
        let first = unsafe { self.bytes.get().cast::<u8>().add(start) };
        // SAFETY: 1. The range is within the array. 2. The accesses to the cells have just let loom check that no other
        // thread accesses these bytes concurrently.
        unsafe { std::slice::from_raw_parts_mut(first, len) }
    }
}

// SAFETY: loom reports each pair of accesses to a cell that the locks of the model do not order.
unsafe impl Sync for Chunk {}
// SAFETY: a chunk is not tied to a thread.
unsafe impl Send for Chunk {}

/// The header of one chunk.
#[derive(Clone, Copy)]
pub struct Header<'a> {
    chunk: &'static Chunk,
    arena: PhantomData<&'a Arena>,
}

impl Arena {
    /// Returns an arena of `size_bytes` bytes without chunks.
    pub fn reserve(size_bytes: usize, _huge_pages: HugePages) -> Result<Arena, MappingError> {
        Ok(Arena { size_bytes, chunks: Mutex::default() })
    }

    /// Returns an arena without a file, because models do not restart a cache.
    pub fn of_file(
        _file: BorrowedFd<'_>,
        (size_bytes, _present_bytes): (usize, u64),
        huge_pages: HugePages,
        _access: FileAccess,
    ) -> Result<Arena, MappingError> {
        Arena::reserve(size_bytes, huge_pages)
    }

    pub fn allow_writes(&self) -> Result<(), MappingError> {
        Ok(())
    }

    pub fn size_bytes(&self) -> usize {
        self.size_bytes
    }

    /// Returns an empty range, because this arena has no mapping.
    pub fn addresses(&self) -> std::ops::Range<usize> {
        0..0
    }

    /// Returns the chunk at `address`, which is created on the first call.
    fn chunk(&self, address: ChunkAddress) -> &'static Chunk {
        let mut chunks = self.chunks.lock().expect("no thread panics while it holds this lock");
        chunks.entry(address.offset()).or_insert_with(|| {
            // The chunk is leaked, because it must exist longer than every header. A run of a model is short.
            Box::leak(Box::new(Chunk {
                cas: AtomicU64::new(0),
                time: AtomicU32::new(0),
                uses: AtomicU8::new(0),
                state: StateWord::for_test(State::FREE),
                prev: UnsafeCell::new(None),
                next: UnsafeCell::new(None),
                len: UnsafeCell::new(0),
                contents: Contents::new(),
            }))
        })
    }

    /// Returns the header of the chunk at `address`.
    ///
    /// # Safety
    ///
    /// A chunk of this arena starts at `address`.
    pub(super) unsafe fn header_of(&self, address: ChunkAddress) -> Header<'_> {
        Header { chunk: self.chunk(address), arena: PhantomData }
    }

    /// Returns `len` bytes of the chunk at `address`, beginning `start` bytes after the chunk's start, for reading.
    ///
    /// # Safety
    ///
    /// No thread writes these bytes as long as the slice is used. loom reports a violation.
    pub(super) unsafe fn read(&self, address: ChunkAddress, start: usize, len: usize) -> &[u8] {
        self.chunk(address).contents.read(start - HEADER_SIZE_BYTES, len)
    }

    /// Returns `len` bytes of the chunk at `address`, beginning `start` bytes after the chunk's start, for writing.
    ///
    /// # Safety
    ///
    /// Only the holder of the slice accesses these bytes as long as the slice is used. loom reports a violation.
    #[expect(clippy::mut_from_ref, reason = "the caller has exclusive access to these bytes")]
    pub(super) unsafe fn write(
        &self,
        address: ChunkAddress,
        start: usize,
        len: usize,
    ) -> &mut [u8] {
        self.chunk(address).contents.write(start - HEADER_SIZE_BYTES, len)
    }

    /// Does nothing. The real function reads the links without the lock of the class, which loom would report as a
    /// race.
    pub(super) fn prefetch_neighbours(&self, _header: Header<'_>) {}

    /// Does nothing: a model has no cache lines.
    pub fn prefetch_chunk(&self, _address: ChunkAddress, _size_bytes: usize) {}

    /// Does nothing: a model commits no memory.
    pub fn populate(&self, _page: PageId, _page_size_bytes: usize) {}

    /// Does nothing: a model returns no memory to the system.
    ///
    /// # Safety
    ///
    /// No chunk of the page is in use.
    pub(super) unsafe fn release_page(&self, _page: PageId, _page_size_bytes: usize) -> bool {
        true
    }
}

/// Does nothing: a model has no cache lines.
pub fn prefetch<T>(_address: *const T) {}

impl<'a> Header<'a> {
    pub(super) fn state(self) -> &'a StateWord {
        &self.chunk.state
    }

    pub(super) fn cas(self) -> u64 {
        self.chunk.cas.load(Acquire)
    }

    pub(super) fn set_cas(self, cas: u64) {
        self.chunk.cas.store(cas, Release);
    }

    pub(super) fn time(self) -> WorkTime {
        WorkTime(self.chunk.time.load(Relaxed))
    }

    pub(super) fn set_time(self, time: WorkTime) {
        self.chunk.time.store(time.0, Relaxed);
    }

    pub(super) fn replace_time(self, before: WorkTime, time: WorkTime) {
        let _: Result<u32, u32> =
            self.chunk.time.compare_exchange(before.0, time.0, Relaxed, Relaxed);
    }

    pub(super) fn uses(self) -> Uses {
        Uses::from_bits(self.chunk.uses.load(Relaxed))
    }

    pub(super) fn set_uses(self, uses: Uses) {
        self.chunk.uses.store(uses.to_bits(), Relaxed);
    }

    pub(super) fn prev(self) -> Option<ChunkAddress> {
        // SAFETY: loom reports a concurrent write.
        self.chunk.prev.with(|link| unsafe { *link })
    }

    pub(super) fn next(self) -> Option<ChunkAddress> {
        // SAFETY: loom reports a concurrent write.
        self.chunk.next.with(|link| unsafe { *link })
    }

    pub(super) fn set_prev(self, address: Option<ChunkAddress>) {
        // SAFETY: loom reports a concurrent access.
        self.chunk.prev.with_mut(|link| unsafe { *link = address });
    }

    pub(super) fn set_next(self, address: Option<ChunkAddress>) {
        // SAFETY: loom reports a concurrent access.
        self.chunk.next.with_mut(|link| unsafe { *link = address });
    }

    pub(super) fn len(self) -> usize {
        // SAFETY: loom reports a concurrent write.
        self.chunk.len.with(|len| unsafe { *len })
    }

    pub(super) fn set_len(self, len: usize) {
        // SAFETY: loom reports a concurrent access.
        self.chunk.len.with_mut(|cell| unsafe { *cell = len });
    }

    pub(super) fn free_next(self) -> Option<u32> {
        self.chunk.time.load(Relaxed).checked_sub(1)
    }

    pub(super) fn set_free_next(self, slot: Option<u32>) {
        self.chunk.time.store(slot.map_or(0, |slot| slot + 1), Relaxed);
    }
}
