//! The arena is either anonymous memory, which the system provides page by page on first use, or a mapped file,
//! whose bytes outlive the process. Chunk headers are atomics; the callers of the unsafe functions prove that they may
//! access a chunk's other bytes.
//!
//! The header of a chunk that holds an item, a body of a chained item or nothing:
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
//!     26    2 len, low     bytes of value in this chunk  as in an item    -
//!     28    1 len, high
//!     29      item: [client flags 4] [expiry 4] [cost 2] [rank 4] [chain 9] key value; body: value
//! ```
//!
//! A memory file stores these bytes: a change to this layout, the state word or the layout of an item needs a new
//! format version of memory files (`restart/meta.rs`).

use super::state::StateWord;
use crate::layout::{CHUNK_ALIGN_BYTES, ChunkAddress, HEADER_SIZE_BYTES};
use rustix::fs::{FlockOperation, flock, fstat};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};
use slabwise_base::sync::AtomicU64;
use slabwise_base::{PageId, Ticks};
use std::ffi::c_void;
use std::marker::PhantomData;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{
    AtomicU8, AtomicU16, AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::{Mutex, MutexGuard, PoisonError};

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

/// Why an arena cannot be created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MappingError {
    /// The system refuses the address space.
    #[error(
        "cannot reserve {bytes} bytes of address space ({errno}): lower -m, or raise the limit of address space \
         (ulimit -v)"
    )]
    NoSpace { bytes: usize, errno: Errno },
    /// The file cannot be locked, or its size cannot be read.
    #[error(
        "cannot lock the memory file ({0}): stop the process that uses it, or name another file"
    )]
    Locked(Errno),
    /// Another arena of this process maps the file.
    #[error("the memory file is already mapped by this process: name another file")]
    Mapped,
    /// The file is shorter than the arena.
    #[error("the memory file is shorter than {0} bytes: remove it to start with an empty cache")]
    Short(usize),
}

/// A file, by its device and its inode.
type FileId = (u64, u64);

/// The files that this process has mapped, so that no two arenas share bytes.
static MAPPED: Mutex<Vec<FileId>> = Mutex::new(Vec::new());

fn mapped() -> MutexGuard<'static, Vec<FileId>> {
    MAPPED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Mapped memory, divided into pages of one size: private and zeroed until written, or of a file.
#[derive(Debug)]
pub struct Arena {
    base: NonNull<u8>,
    size_bytes: usize,
    /// `None` for anonymous memory.
    file: Option<FileId>,
}

// SAFETY: a mapping is plain memory owned by this value; nothing in it is tied to a thread.
unsafe impl Send for Arena {}
// SAFETY: safe code reaches only the bounds and, as atomics, headers; every other access states its own invariant.
unsafe impl Sync for Arena {}

/// The header of one chunk. Every field is an atomic (HEADER-ATOMIC); each accessor names the lock that protects
/// what the field means.
#[derive(Clone, Copy)]
pub struct Header<'a> {
    base: NonNull<u8>,
    arena: PhantomData<&'a Arena>,
}

const PROTECTION: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);

impl Arena {
    /// Reserves `size_bytes` of address space, without committing memory.
    pub fn reserve(size_bytes: usize, huge_pages: bool) -> Result<Arena, MappingError> {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: no address is asked for, so no mapping that exists is touched.
        let base = unsafe { mmap_anonymous(std::ptr::null_mut(), size_bytes, PROTECTION, flags) };
        let base = base.map_err(|errno| MappingError::NoSpace { bytes: size_bytes, errno })?;
        Ok(Arena::mapped_at(base, size_bytes, huge_pages, None))
    }

    /// Locks a file and maps its first `size_bytes`. Fails if the file is shorter, if another process has locked it, or
    /// if this process has already mapped it. The file must not be shortened, and these bytes must not be written by
    /// other means: this is the only precondition of `mem` for safe code that is not checked.
    pub fn of_file(
        file: BorrowedFd<'_>,
        size_bytes: usize,
        huge_pages: bool,
    ) -> Result<Arena, MappingError> {
        flock(file, FlockOperation::NonBlockingLockExclusive).map_err(MappingError::Locked)?;
        let about = fstat(file).map_err(MappingError::Locked)?;
        if u64::try_from(about.st_size).unwrap_or(0) < size_bytes as u64 {
            return Err(MappingError::Short(size_bytes));
        }
        let id = (about.st_dev, about.st_ino);
        let mut mapped = mapped();
        if mapped.contains(&id) {
            return Err(MappingError::Mapped);
        }
        let flags = MapFlags::SHARED;
        // SAFETY: no address is asked for, so no mapping that exists is touched. No other mapping of this or of
        // another process that locks it has the file's bytes.
        let base = unsafe { mmap(std::ptr::null_mut(), size_bytes, PROTECTION, flags, file, 0) };
        let base = base.map_err(|errno| MappingError::NoSpace { bytes: size_bytes, errno })?;
        mapped.push(id);
        Ok(Arena::mapped_at(base, size_bytes, huge_pages, Some(id)))
    }

    fn mapped_at(
        base: *mut c_void,
        size_bytes: usize,
        huge_pages: bool,
        file: Option<FileId>,
    ) -> Arena {
        if huge_pages {
            // SAFETY: the mapping is new, and the advice changes no contents. A system without huge pages refuses it.
            let _ = unsafe { madvise(base, size_bytes, Advice::LinuxHugepage) };
        }
        let base = NonNull::new(base.cast()).expect("the system never maps address 0");
        Arena { base, size_bytes, file }
    }

    /// Copies the bytes of another arena.
    ///
    /// # Safety
    ///
    /// The other has the same size, and nobody writes to it meanwhile.
    #[cfg(test)]
    pub(super) unsafe fn copy_from(&mut self, other: &Arena) {
        // SAFETY: two mappings of the same size, of which this one is borrowed exclusively.
        unsafe { self.base.copy_from_nonoverlapping(other.base, self.size_bytes) };
    }

    pub fn size_bytes(&self) -> usize {
        self.size_bytes
    }

    /// The header of a chunk of this arena.
    ///
    /// # Safety
    ///
    /// A chunk of this arena starts at `address`.
    #[inline]
    pub(super) unsafe fn header_of(&self, address: ChunkAddress) -> Header<'_> {
        debug_assert!(address.offset() + HEADER_SIZE_BYTES <= self.size_bytes);
        // SAFETY: the caller's chunk lies within the mapping.
        let base = unsafe { self.base.add(address.offset()) };
        Header { base, arena: PhantomData }
    }

    /// `len` bytes of a chunk, from `start` bytes after its beginning.
    ///
    /// # Safety
    ///
    /// They are within a chunk of this arena, after its header, and nobody writes them as long as the slice
    /// is used.
    #[inline]
    pub(super) unsafe fn read(&self, address: ChunkAddress, start: usize, len: usize) -> &[u8] {
        debug_assert!(start >= HEADER_SIZE_BYTES);
        debug_assert!(address.offset() + start + len <= self.size_bytes);
        // SAFETY: in bounds, as the caller says.
        let first = unsafe { self.base.add(address.offset() + start) };
        // SAFETY: 1. in bounds; initialised: the mapping was zeroed. 2. Nobody writes, as the caller says.
        unsafe { std::slice::from_raw_parts(first.as_ptr(), len) }
    }

    /// `len` bytes of a chunk to write, from `start` bytes after its beginning.
    ///
    /// # Safety
    ///
    /// They are within a chunk of this arena, after its header, and nobody else reads or writes them as
    /// long as the slice is used.
    #[inline]
    #[expect(clippy::mut_from_ref, reason = "the caller has exclusive access to these bytes")]
    pub(super) unsafe fn write(
        &self,
        address: ChunkAddress,
        start: usize,
        len: usize,
    ) -> &mut [u8] {
        debug_assert!(start >= HEADER_SIZE_BYTES);
        debug_assert!(address.offset() + start + len <= self.size_bytes);
        // SAFETY: in bounds, as the caller says.
        let first = unsafe { self.base.add(address.offset() + start) };
        // SAFETY: 1. in bounds; initialised: the mapping was zeroed. 2. The caller's alone.
        unsafe { std::slice::from_raw_parts_mut(first.as_ptr(), len) }
    }

    /// Prefetches the cache lines of a chunk's neighbours in its queue, which will be written soon. The links are read
    /// without the class lock, so they may be out of date.
    #[inline]
    pub(super) fn prefetch_neighbours(&self, header: Header<'_>) {
        for address in [header.prev(), header.next()].into_iter().flatten() {
            prefetch(self.base.as_ptr().wrapping_add(address.offset()));
        }
    }

    /// Prefetches the first `size_bytes` of a chunk.
    #[inline]
    pub fn prefetch_chunk(&self, address: ChunkAddress, size_bytes: usize) {
        let first = self.base.as_ptr().wrapping_add(address.offset());
        for at in (0..size_bytes).step_by(LINE_SIZE_BYTES) {
            prefetch(first.wrapping_add(at));
        }
    }

    /// Commits a page's memory now instead of on the first write to each part of it, if the system supports this.
    /// Chunks of the page may be in use.
    pub fn populate(&self, page: PageId, page_size_bytes: usize) {
        let start = self.page_start(page, page_size_bytes);
        // SAFETY: within the mapping; this changes no byte that anybody could see.
        let _ = unsafe { madvise(start, page_size_bytes, Advice::LinuxPopulateWrite) };
    }

    /// Returns a page's memory to the system; it reads as zeros afterwards. A page of a file is unchanged.
    ///
    /// # Safety
    ///
    /// No chunk of the page is in use.
    pub(super) unsafe fn release_page(&self, page: PageId, page_size_bytes: usize) {
        if self.file.is_some() {
            return;
        }
        let start = self.page_start(page, page_size_bytes);
        // SAFETY: within the mapping, and nobody needs the contents, as the caller says.
        let released = unsafe { madvise(start, page_size_bytes, Advice::LinuxDontNeed) };
        debug_assert!(released.is_ok(), "releasing a range of our own mapping cannot fail");
    }

    /// The start of a page, which is within the mapping.
    fn page_start(&self, page: PageId, page_size_bytes: usize) -> *mut c_void {
        let offset = page.index() * page_size_bytes;
        assert!(offset + page_size_bytes <= self.size_bytes, "range out of bounds");
        self.base.as_ptr().wrapping_add(offset).cast()
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: the range is this mapping's own, and its owner is going away (ARENA-LIVE).
        let unmapped = unsafe { munmap(self.base.as_ptr().cast(), self.size_bytes) };
        debug_assert!(unmapped.is_ok(), "unmapping our own mapping cannot fail");
        if let Some(file) = self.file {
            mapped().retain(|&other| other != file);
        }
    }
}

/// Prefetches the cache line at `place`. Any address is allowed.
#[inline]
pub fn prefetch<T>(place: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch never faults and has no effect on memory, whatever the address is.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(place.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

impl<'a> Header<'a> {
    /// The field at `offset`, of an atomic type.
    ///
    /// # Safety
    ///
    /// `offset` is one of the constants above and `T` the atomic type of that field.
    #[inline]
    unsafe fn field<T>(self, offset: usize) -> &'a T {
        // SAFETY: in bounds: a chunk starts at `base`, as the caller of `Arena::header_of` promised.
        let field = unsafe { self.base.add(offset) }.cast::<T>();
        // SAFETY: 1. aligned: chunks are aligned to CHUNK_ALIGN_BYTES and the assertions above align the
        // offsets. 2. any bit pattern is valid for an integer atomic, and these bytes are accessed only as atomics
        // (HEADER-ATOMIC).
        unsafe { field.as_ref() }
    }

    #[inline]
    pub(super) fn state(self) -> &'a StateWord {
        // SAFETY: the state field is a StateWord, which is a transparent AtomicU32.
        unsafe { self.field::<StateWord>(STATE) }
    }

    #[inline]
    fn cas_cell(self) -> &'a AtomicU64 {
        // SAFETY: the CAS field is an AtomicU64.
        unsafe { self.field(CAS) }
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

    /// The CAS value. Stripe lock; without it, the value may be out of date. Acquire: a reader of a client-supplied
    /// value also sees the mark for it in the state word.
    #[inline]
    pub(super) fn cas(self) -> u64 {
        self.cas_cell().load(Acquire)
    }

    /// Sets the CAS value. Owner, or stripe lock.
    pub(super) fn set_cas(self, cas: u64) {
        self.cas_cell().store(cas, Release);
    }

    /// The time of the last access. It may be out of date under any lock or none.
    #[inline]
    pub(super) fn time(self) -> Ticks {
        Ticks(self.word(TIME).load(Relaxed))
    }

    /// Sets the time of the last access. Does not write an equal time, so that the cache line stays shared.
    #[inline]
    pub(super) fn set_time(self, time: Ticks) {
        let cell = self.word(TIME);
        if cell.load(Relaxed) != time.0 {
            cell.store(time.0, Relaxed);
        }
    }

    /// The neighbour towards the head of the queue; for a body, the head of its item. Class lock.
    #[inline]
    pub(super) fn prev(self) -> Option<ChunkAddress> {
        self.link(PREV_LOW, PREV_HIGH)
    }

    /// The neighbour towards the tail of the queue; for a body, the next body. Class lock; for a body, stripe lock.
    #[inline]
    pub(super) fn next(self) -> Option<ChunkAddress> {
        self.link(NEXT_LOW, NEXT_HIGH)
    }

    #[inline]
    pub(super) fn set_prev(self, address: Option<ChunkAddress>) {
        self.set_link(PREV_LOW, PREV_HIGH, address);
    }

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

    /// Sets the bytes of value in this chunk, below 16 MiB. Owner only.
    pub(super) fn set_len(self, len: usize) {
        assert!(len < 1 << 24, "a chunk's value of {len} bytes is beyond the field's 24 bits");
        self.len_low().store(len as u16, Relaxed);
        self.byte(LEN_HIGH).store((len >> 16) as u8, Relaxed);
    }

    /// For a free chunk, the next free slot of its page. Class lock.
    pub(super) fn free_next(self) -> Option<u32> {
        self.word(TIME).load(Relaxed).checked_sub(1)
    }

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
