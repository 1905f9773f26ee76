//! The arena: the one mapping that holds all pages. It is either anonymous memory, which the system commits on first
//! use, or a mapped file (the memory file of `-e`), whose bytes outlive the process.
//!
//! The header of each chunk is accessed only as atomics. All other bytes of a chunk are accessed through unsafe
//! functions, whose callers guarantee that no other thread accesses the bytes in conflict.
//!
//! A chunk holds an item, a body of a chained item, or nothing. Its header in these three cases:
//!
//! ```text
//! offset size field        item                           body                           free
//!      0    8 cas          CAS value                      -                              -
//!      8    4 time         last access (work clock)       -                              next free slot + 1
//!     12    4 state        see state.rs                   see state.rs                   0
//!     16    4 prev, low    address of the neighbour       address of the item's head     -
//!                          toward the queue's head
//!     20    4 next, low    address of the neighbour       address of the next body       -
//!                          toward the queue's tail
//!     24    1 prev, high   the high byte of prev          the high byte of prev          -
//!     25    1 next, high   the high byte of next          the high byte of next          -
//!     26    2 len, low     bytes of value in this chunk   bytes of value in this chunk   -
//!     28    1 len, high    the high byte of len           the high byte of len           -
//!     29    1 uses         requests (base/src/uses.rs)    -                              -
//! ```
//!
//! At offset 30 follow the parts of an item, whose offsets `layout.rs` computes, or the part of the value in a body.
//!
//! A memory file stores these bytes. So a change to this layout, to the state word or to the layout of an item needs a
//! new format version of memory files (`restart/meta.rs`).

use super::mapping::{FileAccess, HugePages, Mapping, MappingError};
use super::state::StateWord;
use crate::layout::{CHUNK_ALIGN_BYTES, ChunkAddress, HEADER_SIZE_BYTES};
use rustix::fs::{FallocateFlags, FlockOperation, fallocate, flock, fstat};
use rustix::io::{fcntl_dupfd_cloexec, retry_on_intr};
use slabwise_base::sync::AtomicU64;
use slabwise_base::{PageId, Uses, WorkTime};
use std::marker::PhantomData;
use std::ops::Range;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{
    AtomicU8, AtomicU16, AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::{Mutex, MutexGuard, PoisonError};

const CACHE_LINE_SIZE_BYTES: usize = 64;

// The offsets of the header's fields, in bytes from the chunk's start.
const CAS: usize = 0;
const TIME: usize = 8;
const STATE: usize = 12;
const PREV_LOW: usize = 16;
const NEXT_LOW: usize = 20;
const PREV_HIGH: usize = 24;
const NEXT_HIGH: usize = 25;
const LEN_LOW: usize = 26;
const LEN_HIGH: usize = 28;
const USES: usize = 29;

// The fields follow each other without gaps, each is aligned for its type, and the last ends with the header.
const _: () = {
    assert!(
        CAS.is_multiple_of(align_of::<AtomicU64>()) && CHUNK_ALIGN_BYTES >= align_of::<AtomicU64>()
    );
    assert!(TIME == CAS + 8 && STATE == TIME + 4 && PREV_LOW == STATE + 4);
    assert!(STATE.is_multiple_of(align_of::<StateWord>()) && size_of::<StateWord>() == 4);
    assert!(NEXT_LOW == PREV_LOW + 4 && PREV_HIGH == NEXT_LOW + 4 && NEXT_HIGH == PREV_HIGH + 1);
    assert!(LEN_LOW == NEXT_HIGH + 1 && LEN_LOW.is_multiple_of(align_of::<AtomicU16>()));
    assert!(LEN_HIGH == LEN_LOW + 2 && USES == LEN_HIGH + 1 && HEADER_SIZE_BYTES == USES + 1);
};

/// Identifies a file: the number of its device and the number of its inode.
type FileId = (u64, u64);

/// The files that arenas of this process map at present. A file is mapped only once, so that no two arenas share bytes.
static MAPPED_FILES: Mutex<Vec<FileId>> = Mutex::new(Vec::new());

/// A file that an arena maps. Dropping it permits another arena to map the file.
#[derive(Debug)]
struct MappedFile {
    id: FileId,
    /// A second descriptor of the file. It shares the lock of the first one.
    descriptor: OwnedFd,
}

impl Drop for MappedFile {
    fn drop(&mut self) {
        lock_mapped_files().retain(|&other| other != self.id);
    }
}

fn lock_mapped_files() -> MutexGuard<'static, Vec<FileId>> {
    MAPPED_FILES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A mapping of memory, divided into pages of one size. It is either anonymous, so that bytes read as zero until they
/// are written, or a mapping of a memory file.
#[derive(Debug)]
pub struct Arena {
    mapping: Mapping,
    /// The mapped file, or `None` for anonymous memory. It is dropped after the mapping.
    file: Option<MappedFile>,
}

// SAFETY: an `Arena` owns its mapping, which is plain memory and is not tied to a thread.
unsafe impl Send for Arena {}
// SAFETY: safe functions access only the bounds of the mapping and, as atomics, the headers of chunks. All other
// accesses are in unsafe functions, whose callers exclude data races.
unsafe impl Sync for Arena {}

/// The header of one chunk. Every field is an atomic (HEADER-ATOMIC). The documentation of each accessor names the lock
/// that protects the meaning of its field.
#[derive(Clone, Copy)]
pub struct Header<'a> {
    base: NonNull<u8>,
    arena: PhantomData<&'a Arena>,
}

impl Arena {
    /// Reserves `size_bytes` of address space as anonymous memory. The system commits memory only when a thread writes
    /// to it.
    pub fn reserve(size_bytes: usize, huge_pages: HugePages) -> Result<Arena, MappingError> {
        Ok(Arena { mapping: Mapping::anonymous(size_bytes, huge_pages)?, file: None })
    }

    /// Locks a file and maps its first `size_bytes` bytes. Fails if the file has less than `present_bytes` bytes, if another
    /// process has locked the file, or if this process has already mapped the file. The file may have less than `size_bytes`
    /// bytes, as long as no chunk beyond its end is accessed.
    ///
    /// The lock belongs to the open file and not to the process. So a process that has received the file from another one
    /// by SCM_RIGHTS maps it while the other process still maps it, too.
    ///
    /// While the arena exists and is writable, these bytes may be written only through this arena. While it is read-only,
    /// another process may write them only until this process first reads one of them. This precondition of `mem` for safe
    /// code is not checked. If a program shortens the file, an access to a lost byte raises SIGBUS.
    pub fn of_file(
        file: BorrowedFd<'_>,
        (size_bytes, present_bytes): (usize, u64),
        huge_pages: HugePages,
        access: FileAccess,
    ) -> Result<Arena, MappingError> {
        flock(file, FlockOperation::NonBlockingLockExclusive).map_err(MappingError::Locked)?;
        let about = fstat(file).map_err(MappingError::Locked)?;
        if u64::try_from(about.st_size).unwrap_or(0) < present_bytes {
            return Err(MappingError::Short(present_bytes));
        }
        let id = (about.st_dev, about.st_ino);
        let descriptor = fcntl_dupfd_cloexec(file, 0).map_err(MappingError::Locked)?;
        let mut mapped = lock_mapped_files();
        if mapped.contains(&id) {
            return Err(MappingError::Mapped);
        }
        // SAFETY: this process has no other mapping of the file, as was just checked, and the lock keeps other slabwise
        // processes from mapping the file. So only this mapping writes the bytes, except for the precondition above.
        let mapping = unsafe { Mapping::of_file(file, size_bytes, huge_pages, access)? };
        mapped.push(id);
        Ok(Arena { mapping, file: Some(MappedFile { id, descriptor }) })
    }

    /// Allows writes to an arena that was mapped read-only.
    pub fn allow_writes(&self) -> Result<(), MappingError> {
        self.mapping.allow_writes()
    }

    /// Copies all bytes of another arena to this arena.
    ///
    /// # Safety
    ///
    /// Both arenas have the same size, and no thread writes to `other` during the call.
    #[cfg(test)]
    pub(super) unsafe fn copy_from(&mut self, other: &Arena) {
        // SAFETY: the two mappings have the same size and do not overlap. `self` is borrowed exclusively, and the
        // caller guarantees that no thread writes to `other`.
        unsafe { self.base().copy_from_nonoverlapping(other.base(), self.size_bytes()) };
    }

    pub fn size_bytes(&self) -> usize {
        self.mapping.size_bytes()
    }

    #[inline]
    fn base(&self) -> NonNull<u8> {
        self.mapping.base()
    }

    /// Returns the addresses of the mapping.
    pub fn addresses(&self) -> Range<usize> {
        let start = self.base().addr().get();
        start..start + self.size_bytes()
    }

    /// Returns the header of the chunk at `address`.
    ///
    /// # Safety
    ///
    /// A chunk of this arena starts at `address`.
    #[inline]
    pub(super) unsafe fn header_of(&self, address: ChunkAddress) -> Header<'_> {
        let end = address.offset() + HEADER_SIZE_BYTES;
        debug_assert!(end <= self.size_bytes(), "the header is within the arena");
        // SAFETY: the caller guarantees that a chunk starts at this offset, so the offset is within the mapping.
        let base = unsafe { self.base().add(address.offset()) };
        Header { base, arena: PhantomData }
    }

    /// Returns `len` bytes of the chunk at `address`, beginning `start` bytes after the chunk's start, for reading.
    ///
    /// # Safety
    ///
    /// A chunk of this arena starts at `address`. The `len` bytes are within this chunk and after its header. No thread
    /// writes these bytes as long as the slice is used.
    #[inline]
    pub(super) unsafe fn read(&self, address: ChunkAddress, start: usize, len: usize) -> &[u8] {
        self.debug_check_range(address, start, len);
        // SAFETY: the caller guarantees that the range is within a chunk, so it is within the mapping.
        let first = unsafe { self.base().add(address.offset() + start) };
        // SAFETY: 1. The range is within the mapping, and its bytes are initialised, as all mapped bytes are. 2. The
        // caller guarantees that no thread writes the bytes as long as the slice is used.
        unsafe { std::slice::from_raw_parts(first.as_ptr(), len) }
    }

    /// Returns `len` bytes of the chunk at `address`, beginning `start` bytes after the chunk's start, for writing.
    ///
    /// # Safety
    ///
    /// A chunk of this arena starts at `address`. The `len` bytes are within this chunk and after its header. Only the
    /// holder of the slice reads or writes these bytes as long as the slice is used.
    #[inline]
    #[expect(clippy::mut_from_ref, reason = "the caller has exclusive access to these bytes")]
    pub(super) unsafe fn write(
        &self,
        address: ChunkAddress,
        start: usize,
        len: usize,
    ) -> &mut [u8] {
        self.debug_check_range(address, start, len);
        // SAFETY: the caller guarantees that the range is within a chunk, so it is within the mapping.
        let first = unsafe { self.base().add(address.offset() + start) };
        // SAFETY: 1. The range is within the mapping, and its bytes are initialised, as all mapped bytes are. 2. The
        // caller guarantees that only the holder of the slice accesses the bytes as long as the slice is used.
        unsafe { std::slice::from_raw_parts_mut(first.as_ptr(), len) }
    }

    /// Panics in debug builds if the range includes a part of the header or is not within the arena.
    #[inline]
    fn debug_check_range(&self, address: ChunkAddress, start: usize, len: usize) {
        debug_assert!(start >= HEADER_SIZE_BYTES, "the bytes are after the chunk's header");
        let end = address.offset() + start + len;
        debug_assert!(end <= self.size_bytes(), "the bytes are within the arena");
    }

    /// Prefetches the headers of a chunk's two neighbours in its queue, because the caller will soon write them. The
    /// links are read without the lock of the class, so they may be out of date. This is harmless: a prefetch of a
    /// wrong address has no effect.
    #[inline]
    pub(super) fn prefetch_neighbours(&self, header: Header<'_>) {
        for address in [header.prev(), header.next()].into_iter().flatten() {
            prefetch(self.base().as_ptr().wrapping_add(address.offset()));
        }
    }

    /// Prefetches the first `size_bytes` bytes of the chunk at `address`.
    #[inline]
    pub fn prefetch_chunk(&self, address: ChunkAddress, size_bytes: usize) {
        let first = self.base().as_ptr().wrapping_add(address.offset());
        for at in (0..size_bytes).step_by(CACHE_LINE_SIZE_BYTES) {
            prefetch(first.wrapping_add(at));
        }
    }

    /// Commits the memory of a page now, so that later writes to the page do not wait for the system. Has no effect on
    /// a system that does not support this. Chunks of the page may be in use.
    pub fn populate(&self, page: PageId, page_size_bytes: usize) {
        let offset = page.index() * page_size_bytes;
        self.mapping.populate(offset..offset + page_size_bytes);
    }

    /// Returns the memory of a page to the system, so that the page reads as zeros. Returns false if this is not possible,
    /// because the file system cannot free the blocks of a part of a file.
    ///
    /// # Safety
    ///
    /// No chunk of the page is in use.
    pub(super) unsafe fn release_page(&self, page: PageId, page_size_bytes: usize) -> bool {
        let start = page.index() * page_size_bytes;
        let part = start..start + page_size_bytes;
        match &self.file {
            None => {
                // SAFETY: the caller guarantees that no chunk of the page is in use, so no thread accesses or needs its
                // bytes.
                unsafe { self.mapping.release(part) };
                true
            }
            // The system refuses a call that frees blocks by their addresses if the memory is locked (`-k`).
            Some(MappedFile { descriptor, .. }) => {
                let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                let (offset, len) = (start as u64, page_size_bytes as u64);
                retry_on_intr(|| fallocate(descriptor, flags, offset, len)).is_ok()
            }
        }
    }
}

/// Prefetches the cache line that contains `address`. Any address is allowed, also one of unmapped memory.
#[inline]
pub fn prefetch<T>(address: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch of any address neither faults nor changes memory.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

impl<'a> Header<'a> {
    /// Returns the field at `offset` bytes after the chunk's start.
    ///
    /// # Safety
    ///
    /// `offset` is one of the field offsets in this file, and `T` is the atomic type of that field.
    #[inline]
    unsafe fn field<T>(self, offset: usize) -> &'a T {
        // SAFETY: the caller of `Arena::header_of` guaranteed that a chunk starts at `base`, and the field is within
        // the header of a chunk.
        let field = unsafe { self.base.add(offset) }.cast::<T>();
        // SAFETY: 1. The field is aligned: chunks are aligned to CHUNK_ALIGN_BYTES, and the assertions in this file
        // check the alignment of the offsets. 2. Every bit pattern is a valid integer. 3. These bytes are accessed only
        // as atomics (HEADER-ATOMIC).
        unsafe { field.as_ref() }
    }

    /// Returns the state word. `state.rs` names the lock for each transition.
    #[inline]
    pub(super) fn state(self) -> &'a StateWord {
        // SAFETY: the field at STATE is a StateWord, which is a transparent AtomicU32.
        unsafe { self.field::<StateWord>(STATE) }
    }

    #[inline]
    fn cas_cell(self) -> &'a AtomicU64 {
        // SAFETY: the field at CAS is an AtomicU64.
        unsafe { self.field(CAS) }
    }

    #[inline]
    fn word(self, offset: usize) -> &'a AtomicU32 {
        debug_assert!(matches!(offset, TIME | PREV_LOW | NEXT_LOW), "a field of four bytes");
        // SAFETY: the callers are in this file and pass only the offsets of AtomicU32 fields.
        unsafe { self.field::<AtomicU32>(offset) }
    }

    #[inline]
    fn byte(self, offset: usize) -> &'a AtomicU8 {
        debug_assert!(
            matches!(offset, PREV_HIGH | NEXT_HIGH | LEN_HIGH | USES),
            "a field of one byte"
        );
        // SAFETY: the callers are in this file and pass only the offsets of AtomicU8 fields.
        unsafe { self.field::<AtomicU8>(offset) }
    }

    #[inline]
    fn len_low(self) -> &'a AtomicU16 {
        // SAFETY: the field at LEN_LOW is an AtomicU16.
        unsafe { self.field::<AtomicU16>(LEN_LOW) }
    }

    /// Returns the CAS value. The caller holds the lock of the stripe; without this lock the value may be out of date.
    /// With Acquire ordering, because a thread that reads a client-supplied value must also see the mark "given CAS" in
    /// the state word.
    #[inline]
    pub(super) fn cas(self) -> u64 {
        self.cas_cell().load(Acquire)
    }

    /// Sets the CAS value. The caller owns the item or holds the lock of its stripe.
    pub(super) fn set_cas(self, cas: u64) {
        self.cas_cell().store(cas, Release);
    }

    /// Returns the time of the last access. No lock protects the time, so it may be out of date.
    #[inline]
    pub(super) fn time(self) -> WorkTime {
        WorkTime(self.word(TIME).load(Relaxed))
    }

    /// Sets the time of the last access. Needs no lock. If the time is unchanged, the function does not write, so that
    /// the cache line stays shared between CPUs.
    #[inline]
    pub(super) fn set_time(self, time: WorkTime) {
        let cell = self.word(TIME);
        if cell.load(Relaxed) != time.0 {
            cell.store(time.0, Relaxed);
        }
    }

    /// Sets the time of the last access, unless it has changed since it was `before`.
    pub(super) fn replace_time(self, before: WorkTime, time: WorkTime) {
        // An error means that another thread has set a later time.
        let _: Result<u32, u32> =
            self.word(TIME).compare_exchange(before.0, time.0, Relaxed, Relaxed);
    }

    /// Returns an item's neighbour toward the head of its queue, or the first chunk of the item to which a body
    /// belongs. The caller holds the lock of the class that queues the item, or that owns the page of the body.
    #[inline]
    pub(super) fn prev(self) -> Option<ChunkAddress> {
        self.link(PREV_LOW, PREV_HIGH)
    }

    /// Returns an item's neighbour toward the tail of its queue, or the next body after a body. For a neighbour, the
    /// caller holds the lock of the class that queues the item. For a body, the caller may read the value, so no thread
    /// changes the chain.
    #[inline]
    pub(super) fn next(self) -> Option<ChunkAddress> {
        self.link(NEXT_LOW, NEXT_HIGH)
    }

    /// Sets the link that [`Header::prev`] returns. For an item, the caller holds the lock of the class that queues the
    /// item. For a body, the caller owns the chunk, or holds the lock of the stripe and the mover's token.
    #[inline]
    pub(super) fn set_prev(self, address: Option<ChunkAddress>) {
        self.set_link(PREV_LOW, PREV_HIGH, address);
    }

    /// Sets the link that [`Header::next`] returns. For an item, the caller holds the lock of the class that queues the
    /// item. For a body, the caller owns the chunk, or may write the value.
    #[inline]
    pub(super) fn set_next(self, address: Option<ChunkAddress>) {
        self.set_link(NEXT_LOW, NEXT_HIGH, address);
    }

    /// Returns the number of bytes of the value in this chunk. The number does not change while the chunk is published.
    #[inline]
    pub(super) fn len(self) -> usize {
        usize::from(self.len_low().load(Relaxed))
            | usize::from(self.byte(LEN_HIGH).load(Relaxed)) << 16
    }

    /// Sets the number of bytes of the value in this chunk. The caller owns the chunk. Panics for 16 MiB or more.
    pub(super) fn set_len(self, len: usize) {
        assert!(len < 1 << 24, "{len} bytes of value are below the limit of 16 MiB for a chunk");
        self.len_low().store(len as u16, Relaxed);
        self.byte(LEN_HIGH).store((len >> 16) as u8, Relaxed);
    }

    /// Returns the requests for the item. No lock protects them, so they may be out of date.
    #[inline]
    pub(super) fn uses(self) -> Uses {
        Uses::from_bits(self.byte(USES).load(Relaxed))
    }

    /// Sets the requests for the item. If they are unchanged, the function does not write, so that the cache line stays
    /// shared between CPUs.
    #[inline]
    pub(super) fn set_uses(self, uses: Uses) {
        let cell = self.byte(USES);
        if cell.load(Relaxed) != uses.to_bits() {
            cell.store(uses.to_bits(), Relaxed);
        }
    }

    /// Returns the slot of the next chunk on the free list of the page, for a chunk that is on this list. The caller
    /// holds the lock of the class. A free chunk stores this link in the field of the time.
    pub(super) fn free_next(self) -> Option<u32> {
        self.word(TIME).load(Relaxed).checked_sub(1)
    }

    /// Sets the slot of the next chunk on the free list of the page. The caller holds the lock of the class.
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
