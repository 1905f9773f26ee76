//! Address space from the system: reserved, its memory taken page by page on first touch; or the bytes
//! of a file, which outlive the process.

use rustix::fs::{FlockOperation, flock, fstat};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Why the arena could not be reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "cannot reserve {bytes} bytes of address space ({errno}): lower -m, or raise the limit of address space \
     (ulimit -v)"
)]
pub struct MappingError {
    /// The bytes asked for.
    pub bytes: usize,
    /// The system's answer.
    pub errno: Errno,
}

/// A file, by its device and its number there.
type FileId = (u64, u64);

/// The files that this process has mapped: each once, so that no two arenas share bytes.
static MAPPED: Mutex<Vec<FileId>> = Mutex::new(Vec::new());

fn mapped() -> MutexGuard<'static, Vec<FileId>> {
    MAPPED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A mapping: private and zeroed until written, or of a file.
#[derive(Debug)]
pub struct Mapping {
    base: NonNull<u8>,
    size_bytes: usize,
    /// What it is a mapping of, if it is one of a file.
    file: Option<FileId>,
}

// SAFETY: a mapping is plain memory owned by this value; nothing in it is tied to a thread.
unsafe impl Send for Mapping {}
// SAFETY: `&Mapping` gives out only its bounds; every access to its bytes states its own law.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Reserves `size_bytes` of address space, without taking memory for it.
    pub fn reserve(size_bytes: usize) -> Result<Mapping, MappingError> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: no address is asked for, so no mapping that exists is touched.
        let base = unsafe { mmap_anonymous(std::ptr::null_mut(), size_bytes, protection, flags) };
        let base = base.map_err(|errno| MappingError { bytes: size_bytes, errno })?;
        let base = NonNull::new(base.cast()).expect("the system never maps address 0");
        Ok(Mapping { base, size_bytes, file: None })
    }

    /// Maps the first `size_bytes` of a file, so that what is written here is written there. Refuses a file that is
    /// shorter, that another process has locked, or that this process has mapped already; it is locked from
    /// here on. Nobody may shorten it, or write to these bytes by other means.
    pub fn of_file(file: BorrowedFd<'_>, size_bytes: usize) -> Result<Mapping, MappingError> {
        let failed = |errno| MappingError { bytes: size_bytes, errno };
        flock(file, FlockOperation::NonBlockingLockExclusive).map_err(failed)?;
        let about = fstat(file).map_err(failed)?;
        if u64::try_from(about.st_size).unwrap_or(0) < size_bytes as u64 {
            return Err(failed(Errno::INVAL));
        }
        let id = (about.st_dev, about.st_ino);
        let mut mapped = mapped();
        if mapped.contains(&id) {
            return Err(failed(Errno::BUSY));
        }
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::SHARED;
        // SAFETY: no address is asked for, so no mapping that exists is touched. No other mapping of this or of
        // another process that locks it has the file's bytes.
        let base = unsafe { mmap(std::ptr::null_mut(), size_bytes, protection, flags, file, 0) };
        let base = NonNull::new(base.map_err(failed)?.cast());
        mapped.push(id);
        let base = base.expect("the system never maps address 0");
        Ok(Mapping { base, size_bytes, file: Some(id) })
    }

    /// The first byte.
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Bytes reserved.
    pub fn size_bytes(&self) -> usize {
        self.size_bytes
    }

    /// Asks for huge pages; a system that has none goes on without.
    pub fn advise_huge_pages(&self) -> Result<(), Errno> {
        // SAFETY: the range is this mapping's own, and the advice changes no contents.
        unsafe { madvise(self.base.as_ptr().cast(), self.size_bytes, Advice::LinuxHugepage) }
    }

    /// Takes a range's memory from the system at once instead of with the first write to each part of it.
    /// Where the system cannot, it does so then.
    ///
    /// # Safety
    ///
    /// The range lies within the mapping.
    pub unsafe fn populate(&self, offset: usize, size_bytes: usize) {
        debug_assert!(offset + size_bytes <= self.size_bytes);
        // SAFETY: the caller keeps the range within the mapping.
        let start = unsafe { self.base.as_ptr().add(offset) };
        // SAFETY: this changes no byte that anybody could see, and the range is this mapping's own.
        let _ = unsafe { madvise(start.cast(), size_bytes, Advice::LinuxPopulateWrite) };
    }

    /// Gives the memory of a range back to the system; it reads as zeros afterwards. A file keeps its
    /// memory, and its bytes.
    ///
    /// # Safety
    ///
    /// The range lies within the mapping, and nobody holds a reference into it or expects its contents.
    pub unsafe fn release(&self, offset: usize, size_bytes: usize) {
        debug_assert!(offset + size_bytes <= self.size_bytes);
        if self.file.is_some() {
            return;
        }
        // SAFETY: the caller keeps the range within the mapping.
        let start = unsafe { self.base.as_ptr().add(offset) };
        // SAFETY: the caller promises that nobody needs the contents.
        let released = unsafe { madvise(start.cast(), size_bytes, Advice::LinuxDontNeed) };
        debug_assert!(released.is_ok(), "releasing a range of our own mapping cannot fail");
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is this mapping's own, and its owner is going away.
        let unmapped = unsafe { munmap(self.base.as_ptr().cast(), self.size_bytes) };
        debug_assert!(unmapped.is_ok(), "unmapping our own mapping cannot fail");
        if let Some(file) = self.file {
            mapped().retain(|&other| other != file);
        }
    }
}
