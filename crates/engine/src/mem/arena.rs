//! The arena: address space from the system, whose memory is taken page by page on first touch, or the bytes of a
//! file, which outlive the process. Chunk headers are atomics; chunk bytes are reached under a proof.
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

/// Why there is no arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MappingError {
    /// The system gives no address space.
    #[error(
        "cannot reserve {bytes} bytes of address space ({errno}): lower -m, or raise the limit of address space \
         (ulimit -v)"
    )]
    NoSpace {
        /// The bytes asked for.
        bytes: usize,
        /// The system's answer.
        errno: Errno,
    },
    /// The system does not lock the file, or tell its size.
    #[error(
        "cannot lock the memory file ({0}): stop the process that uses it, or name another file"
    )]
    Locked(Errno),
    /// Another arena of this process is of the file.
    #[error("the memory file is mapped already: name another file")]
    Mapped,
    /// The file ends before the arena does.
    #[error("the memory file is shorter than {0} bytes: remove it to start with an empty cache")]
    Short(usize),
}

/// A file, by its device and its number there.
type FileId = (u64, u64);

/// The files that this process has mapped: each once, so that no two arenas share bytes.
static MAPPED: Mutex<Vec<FileId>> = Mutex::new(Vec::new());

fn mapped() -> MutexGuard<'static, Vec<FileId>> {
    MAPPED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Mapped memory, divided into pages of one size: private and zeroed until written, or of a file.
#[derive(Debug)]
pub struct Arena {
    base: NonNull<u8>,
    size_bytes: usize,
    /// What it is a mapping of, if it is one of a file.
    file: Option<FileId>,
}

// SAFETY: a mapping is plain memory owned by this value; nothing in it is tied to a thread.
unsafe impl Send for Arena {}
// SAFETY: safe code reaches only the bounds and, as atomics, headers; every other access states its own invariant.
unsafe impl Sync for Arena {}

/// The header of one chunk. Every field is an atomic (HEADER-ATOMIC); which lock gives it meaning is
/// said at each accessor.
#[derive(Clone, Copy)]
pub struct Header<'a> {
    base: NonNull<u8>,
    arena: PhantomData<&'a Arena>,
}

const PROTECTION: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);

impl Arena {
    /// Reserves room for `size_bytes`, without taking memory.
    pub fn reserve(size_bytes: usize, huge_pages: bool) -> Result<Arena, MappingError> {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: no address is asked for, so no mapping that exists is touched.
        let base = unsafe { mmap_anonymous(std::ptr::null_mut(), size_bytes, PROTECTION, flags) };
        let base = base.map_err(|errno| MappingError::NoSpace { bytes: size_bytes, errno })?;
        Ok(Arena::mapped_at(base, size_bytes, huge_pages, None))
    }

    /// Maps the first `size_bytes` of a file, so that what is written here is written there. Refuses a file that is
    /// shorter, that another process has locked, or that this process has mapped already; it is locked from
    /// here on. Nobody may shorten it, or write to these bytes by other means: the one contract of `mem` with safe code
    /// that nothing checks.
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

    /// Makes this arena's bytes those of another.
    ///
    /// # Safety
    ///
    /// The other is of the same size, and nobody writes to it meanwhile.
    #[cfg(test)]
    pub(super) unsafe fn copy_from(&mut self, other: &Arena) {
        // SAFETY: two mappings of the same size, of which this one is borrowed exclusively.
        unsafe { self.base.copy_from_nonoverlapping(other.base, self.size_bytes) };
    }

    pub fn size_bytes(&self) -> usize {
        self.size_bytes
    }

    /// The header of a chunk that is known to lie in this arena.
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
    /// They lie within a chunk of this arena, behind its header, and nobody writes them as long as the slice
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
        debug_assert!(address.offset() + start + len <= self.size_bytes);
        // SAFETY: in bounds, as the caller says.
        let first = unsafe { self.base.add(address.offset() + start) };
        // SAFETY: 1. in bounds; initialised: the mapping was zeroed. 2. The caller's alone.
        unsafe { std::slice::from_raw_parts_mut(first.as_ptr(), len) }
    }

    /// Asks for the cache lines of a chunk's neighbours in its queue, which will be written soon. A hint: its links are
    /// read without the lock that gives them meaning.
    #[inline]
    pub(super) fn prefetch_neighbours(&self, header: Header<'_>) {
        for address in [header.prev(), header.next()].into_iter().flatten() {
            prefetch(self.base.as_ptr().wrapping_add(address.offset()));
        }
    }

    /// Asks for the cache lines of a chunk's first bytes.
    #[inline]
    pub fn prefetch_chunk(&self, address: ChunkAddress, size_bytes: usize) {
        let first = self.base.as_ptr().wrapping_add(address.offset());
        for at in (0..size_bytes).step_by(LINE_SIZE_BYTES) {
            prefetch(first.wrapping_add(at));
        }
    }

    /// Takes a page's memory from the system at once instead of with the first write to each part of it. Where the
    /// system cannot, it does so then. Its chunks may be in use.
    pub fn populate(&self, page: PageId, page_size_bytes: usize) {
        let start = self.page_start(page, page_size_bytes);
        // SAFETY: within the mapping; this changes no byte that anybody could see.
        let _ = unsafe { madvise(start, page_size_bytes, Advice::LinuxPopulateWrite) };
    }

    /// Gives a page's memory back to the system; it reads as zeros afterwards. A file keeps its memory, and its
    /// bytes.
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

    /// Where a page begins, which lies within the mapping.
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

/// Asks for the cache line at `place` before it is needed. A hint: it reads nothing and can harm nothing.
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
