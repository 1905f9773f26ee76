//! The arena under loom: the same interface, on loom's cells.
//!
//! State words and CAS values, which are read without locks, are loom's atomics. Links, lengths and bytes are plain
//! cells: an access without the lock or access token that the invariants demand is reported as a race. Times and free
//! links are not modelled: they may be out of date, or the same locks protect them.

use super::state::{State, StateWord};
use crate::layout::{ChunkAddress, HEADER_SIZE_BYTES};
use loom::cell::UnsafeCell;
use loom::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Release},
};
use slabwise_base::{PageId, Ticks};
use std::collections::HashMap;
use std::marker::PhantomData;
use std::os::fd::BorrowedFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// A model does not run out of address space.
pub type MappingError = std::convert::Infallible;

/// The largest contents of a chunk in a model.
const CONTENTS_SIZE_BYTES: usize = 1024;

/// Memory whose chunks are created on their first access.
pub struct Arena {
    size_bytes: usize,
    chunks: Mutex<HashMap<usize, &'static Chunk>>,
}

impl std::fmt::Debug for Arena {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Arena").field("size_bytes", &self.size_bytes).finish()
    }
}

struct Chunk {
    cas: AtomicU64,
    time: AtomicU32,
    state: StateWord,
    prev: UnsafeCell<Option<ChunkAddress>>,
    next: UnsafeCell<Option<ChunkAddress>>,
    len: UnsafeCell<usize>,
    contents: Contents,
}

/// Bytes with a loom cell for each of the first ones and one cell for the rest, because a key and the number
/// after it have different writers.
struct Contents {
    bytes: std::cell::UnsafeCell<[u8; CONTENTS_SIZE_BYTES]>,
    watches: [UnsafeCell<()>; WATCH_COUNT],
}

const WATCH_COUNT: usize = 17;

impl Contents {
    fn new() -> Contents {
        let watches = std::array::from_fn(|_| UnsafeCell::new(()));
        Contents { bytes: [0; CONTENTS_SIZE_BYTES].into(), watches }
    }

    fn watches(&self, start: usize, len: usize) -> &[UnsafeCell<()>] {
        let last = (start + len).saturating_sub(1).min(WATCH_COUNT - 1);
        if len == 0 { &[] } else { &self.watches[start.min(WATCH_COUNT - 1)..=last] }
    }

    fn read(&self, start: usize, len: usize) -> &[u8] {
        self.watches(start, len).iter().for_each(|watch| watch.with(|_| ()));
        // SAFETY: loom has just checked that no write of these bytes is concurrent.
        let bytes = unsafe { &*self.bytes.get().cast::<[u8; CONTENTS_SIZE_BYTES]>() };
        &bytes[start..start + len]
    }

    #[expect(clippy::mut_from_ref, reason = "loom checks that the caller has exclusive access")]
    fn write(&self, start: usize, len: usize) -> &mut [u8] {
        self.watches(start, len).iter().for_each(|watch| watch.with_mut(|_| ()));
        assert!(start + len <= CONTENTS_SIZE_BYTES);
        // SAFETY: in bounds of the array, as was just checked.
        let first = unsafe { self.bytes.get().cast::<u8>().add(start) };
        // SAFETY: in bounds, as above; loom has just checked that no access is concurrent.
        unsafe { std::slice::from_raw_parts_mut(first, len) }
    }
}

// SAFETY: loom itself reports any access to the cells that is not ordered by the model's locks.
unsafe impl Sync for Chunk {}
// SAFETY: as above.
unsafe impl Send for Chunk {}

/// The header of one chunk.
#[derive(Clone, Copy)]
pub struct Header<'a> {
    chunk: &'static Chunk,
    arena: PhantomData<&'a Arena>,
}

impl Arena {
    pub fn reserve(size_bytes: usize, _huge_pages: bool) -> Result<Arena, MappingError> {
        Ok(Arena { size_bytes, chunks: Mutex::default() })
    }

    /// Models do not restart, so they map no file.
    pub fn of_file(
        _file: BorrowedFd<'_>,
        size_bytes: usize,
        huge_pages: bool,
    ) -> Result<Arena, MappingError> {
        Arena::reserve(size_bytes, huge_pages)
    }

    pub fn size_bytes(&self) -> usize {
        self.size_bytes
    }

    fn chunk(&self, address: ChunkAddress) -> &'static Chunk {
        let mut chunks = self.chunks.lock().expect("never held across a panic");
        chunks.entry(address.offset()).or_insert_with(|| {
            // Leaked: a model run is short, and its chunks must outlive every header.
            Box::leak(Box::new(Chunk {
                cas: AtomicU64::new(0),
                time: AtomicU32::new(0),
                state: StateWord::for_test(State::FREE),
                prev: UnsafeCell::new(None),
                next: UnsafeCell::new(None),
                len: UnsafeCell::new(0),
                contents: Contents::new(),
            }))
        })
    }

    /// # Safety
    ///
    /// A chunk of this arena starts at `address`.
    pub(super) unsafe fn header_of(&self, address: ChunkAddress) -> Header<'_> {
        Header { chunk: self.chunk(address), arena: PhantomData }
    }

    /// # Safety
    ///
    /// As in the real arena; loom checks it.
    pub(super) unsafe fn read(&self, address: ChunkAddress, start: usize, len: usize) -> &[u8] {
        self.chunk(address).contents.read(start - HEADER_SIZE_BYTES, len)
    }

    /// # Safety
    ///
    /// As in the real arena; loom checks it.
    #[expect(clippy::mut_from_ref, reason = "the caller has exclusive access to these bytes")]
    pub(super) unsafe fn write(
        &self,
        address: ChunkAddress,
        start: usize,
        len: usize,
    ) -> &mut [u8] {
        self.chunk(address).contents.write(start - HEADER_SIZE_BYTES, len)
    }

    // Without the class lock, reading the links would be a race.
    pub(super) fn prefetch_neighbours(&self, _header: Header<'_>) {}

    pub fn prefetch_chunk(&self, _address: ChunkAddress, _size_bytes: usize) {}

    pub fn populate(&self, _page: PageId, _page_size_bytes: usize) {}

    /// # Safety
    ///
    pub(super) unsafe fn release_page(&self, _page: PageId, _page_size_bytes: usize) {}
}

pub fn prefetch<T>(_place: *const T) {}

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

    pub(super) fn time(self) -> Ticks {
        Ticks(self.chunk.time.load(Relaxed))
    }

    pub(super) fn set_time(self, time: Ticks) {
        self.chunk.time.store(time.0, Relaxed);
    }

    pub(super) fn prev(self) -> Option<ChunkAddress> {
        // SAFETY: loom checks that no write is concurrent.
        self.chunk.prev.with(|link| unsafe { *link })
    }

    pub(super) fn next(self) -> Option<ChunkAddress> {
        // SAFETY: loom checks that no write is concurrent.
        self.chunk.next.with(|link| unsafe { *link })
    }

    pub(super) fn set_prev(self, address: Option<ChunkAddress>) {
        // SAFETY: loom checks that no other access is concurrent.
        self.chunk.prev.with_mut(|link| unsafe { *link = address });
    }

    pub(super) fn set_next(self, address: Option<ChunkAddress>) {
        // SAFETY: loom checks that no other access is concurrent.
        self.chunk.next.with_mut(|link| unsafe { *link = address });
    }

    pub(super) fn len(self) -> usize {
        // SAFETY: loom checks that no write is concurrent.
        self.chunk.len.with(|len| unsafe { *len })
    }

    pub(super) fn set_len(self, len: usize) {
        // SAFETY: loom checks that no other access is concurrent.
        self.chunk.len.with_mut(|cell| unsafe { *cell = len });
    }

    pub(super) fn free_next(self) -> Option<u32> {
        self.chunk.time.load(Relaxed).checked_sub(1)
    }

    pub(super) fn set_free_next(self, slot: Option<u32>) {
        self.chunk.time.store(slot.map_or(0, |slot| slot + 1), Relaxed);
    }
}
