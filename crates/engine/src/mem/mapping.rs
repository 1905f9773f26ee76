//! Mappings of memory: ranges of address space that the system commits on first use.

use rustix::io::Errno;
#[cfg(not(all(test, loom)))]
use rustix::mm::mmap;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
#[cfg(not(all(test, loom)))]
use rustix::mm::{MprotectFlags, mprotect};
use std::ffi::c_void;
#[cfg(not(all(test, loom)))]
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

/// The reason why memory cannot be mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MappingError {
    /// The system refuses to reserve this many bytes of address space.
    #[error(
        "cannot reserve {bytes} bytes of address space ({errno}): lower -m, or raise the limit of address space \
         (ulimit -v)"
    )]
    NoSpace { bytes: usize, errno: Errno },
    /// The system refuses to lock the memory file or to read its size.
    #[error(
        "cannot lock the memory file ({0}): stop the process that uses it, or name another file"
    )]
    Locked(Errno),
    /// Another arena of this process maps the memory file.
    #[error("the memory file is already mapped by this process: name another file")]
    Mapped,
    /// The system refuses to make the memory of another process writable.
    #[error(
        "cannot write to the memory of the earlier process ({0}): start the server without `upgrade`"
    )]
    ReadOnly(Errno),
    /// The memory file is shorter than the pages in it. The number is their size in bytes.
    #[error("the memory file is shorter than {0} bytes: remove it to start with an empty cache")]
    Short(u64),
}

/// Whether the memory of a mapping is in huge pages. It is a request: the system may have no huge pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HugePages {
    /// The system is asked to use huge pages.
    Requested,
    /// The system is asked to use none.
    Refused,
    /// The system decides.
    BySystem,
}

/// Whether the bytes of a mapped file can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileAccess {
    /// A write raises SIGSEGV until [`Mapping::allow_writes`].
    ReadOnly,
    Writable,
}

/// A range of mapped memory. It is either anonymous, so that bytes read as zero until they are written, or a part of a
/// file. Dropping it removes the mapping.
#[derive(Debug)]
pub struct Mapping {
    base: NonNull<u8>,
    size_bytes: usize,
}

// SAFETY: a `Mapping` owns plain memory, which is not tied to a thread. Its safe functions do not access the bytes.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

const READ_AND_WRITE: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);

impl Mapping {
    /// Reserves `size_bytes` of address space as anonymous memory. The system commits memory only when a thread writes
    /// to it.
    pub fn anonymous(size_bytes: usize, huge_pages: HugePages) -> Result<Mapping, MappingError> {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: the address is null, so the system chooses a free range and does not replace an existing mapping.
        let base =
            unsafe { mmap_anonymous(std::ptr::null_mut(), size_bytes, READ_AND_WRITE, flags) };
        Mapping::new(base, size_bytes, huge_pages)
    }

    /// Maps the first `size_bytes` bytes of a file. An access to a page of memory beyond the end of the file raises SIGBUS.
    ///
    /// # Safety
    ///
    /// As long as the mapping exists, nothing else writes these bytes, and no other mapping of the file exists.
    #[cfg(not(all(test, loom)))]
    pub(super) unsafe fn of_file(
        file: BorrowedFd<'_>,
        size_bytes: usize,
        huge_pages: HugePages,
        access: FileAccess,
    ) -> Result<Mapping, MappingError> {
        let flags = MapFlags::SHARED;
        let protection = match access {
            FileAccess::ReadOnly => ProtFlags::READ,
            FileAccess::Writable => READ_AND_WRITE,
        };
        // SAFETY: the address is null, so the system chooses a free range and does not replace an existing mapping. The
        // caller guarantees that only this mapping changes the bytes of the file.
        let base = unsafe { mmap(std::ptr::null_mut(), size_bytes, protection, flags, file, 0) };
        Mapping::new(base, size_bytes, huge_pages)
    }

    /// Allows writes to a mapping of a file that was mapped read-only.
    #[cfg(not(all(test, loom)))]
    pub(super) fn allow_writes(&self) -> Result<(), MappingError> {
        let (base, flags) = (self.base.as_ptr().cast(), MprotectFlags::READ | MprotectFlags::WRITE);
        // SAFETY: the range is exactly this mapping, and the call only adds a permission.
        unsafe { mprotect(base, self.size_bytes, flags) }.map_err(MappingError::ReadOnly)
    }

    /// Commits a part of the mapping now, so that later accesses do not wait for the system. The bytes do not
    /// change. Has no effect on a system that does not support this.
    pub fn populate(&self, part: std::ops::Range<usize>) {
        assert!(part.end <= self.size_bytes, "the part is within the mapping");
        let start = self.base.as_ptr().wrapping_add(part.start).cast();
        // SAFETY: the part is within the mapping, and the advice does not change its bytes.
        let _ = unsafe { madvise(start, part.len(), Advice::LinuxPopulateWrite) };
    }

    /// Returns the mapping that a system call has made.
    fn new(
        base: Result<*mut c_void, Errno>,
        size_bytes: usize,
        huge_pages: HugePages,
    ) -> Result<Mapping, MappingError> {
        let base = base.map_err(|errno| MappingError::NoSpace { bytes: size_bytes, errno })?;
        let advice = match huge_pages {
            HugePages::Requested => Some(Advice::LinuxHugepage),
            HugePages::Refused => Some(Advice::LinuxNoHugepage),
            HugePages::BySystem => None,
        };
        if let Some(advice) = advice {
            // SAFETY: the range is the new mapping, and the advice does not change its bytes. A system without huge
            // pages returns an error, which is ignored.
            let _ = unsafe { madvise(base, size_bytes, advice) };
        }
        let base = NonNull::new(base.cast()).expect("the system maps no memory at address 0");
        Ok(Mapping { base, size_bytes })
    }

    /// Returns a part of the memory to the system. The part of an anonymous mapping reads as zeros afterwards. If the part
    /// is only a part of a huge page, the system uses the memory again when memory is scarce. It adds no huge pages to the
    /// mapping from now on: a huge page at the border of the part would take its memory again.
    ///
    /// # Safety
    ///
    /// No thread accesses the bytes of the part during the call, or needs their values.
    #[cfg(not(all(test, loom)))]
    pub(super) unsafe fn release(&self, part: std::ops::Range<usize>) {
        assert!(part.end <= self.size_bytes, "the part is within the mapping");
        let base: *mut c_void = self.base.as_ptr().cast();
        let start = base.wrapping_byte_add(part.start);
        // SAFETY: the part is within the mapping, and the caller guarantees that no thread needs its bytes.
        if unsafe { madvise(start, part.len(), Advice::LinuxDontNeed) }.is_err() {
            // The memory is locked (`-k`). A system before Linux 5.18 cannot release it.
            // SAFETY: as above.
            let _ = unsafe { madvise(start, part.len(), Advice::LinuxDontneedLocked) };
        }
        // SAFETY: the range is the whole mapping, and the advice does not change its bytes. A system without huge pages
        // returns an error, which is ignored.
        let _ = unsafe { madvise(base, self.size_bytes, Advice::LinuxNoHugepage) };
    }

    /// Returns the address of the first byte. It is valid as long as the mapping exists.
    #[inline]
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    #[inline]
    pub fn size_bytes(&self) -> usize {
        self.size_bytes
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is exactly this mapping. The owner of the mapping drops it only when no reference to the
        // bytes exists.
        let unmapped = unsafe { munmap(self.base.as_ptr().cast(), self.size_bytes) };
        debug_assert!(unmapped.is_ok(), "the system removes a mapping that it has made");
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const SIZE_BYTES: usize = 8 << 20;

    /// Returns the flags of a mapping in `/proc/self/smaps`: `hg` if huge pages are requested, `nh` if they are refused.
    fn flags(mapping: &Mapping) -> Vec<String> {
        let maps = std::fs::read_to_string("/proc/self/smaps").expect("Linux shows the mappings");
        let address = mapping.base().as_ptr().addr();
        let range_of = |line: &str| {
            let (start, end) = line.split_once(' ')?.0.split_once('-')?;
            let number = |text| usize::from_str_radix(text, 16).ok();
            Some(number(start)?..number(end)?)
        };
        let mut lines = maps.lines();
        lines.find(|line| range_of(line).is_some_and(|range| range.contains(&address)));
        let flags = lines.find_map(|line| line.strip_prefix("VmFlags:")).expect("smaps has flags");
        flags.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn huge_pages_are_requested_until_a_part_is_released() {
        if !std::path::Path::new("/sys/kernel/mm/transparent_hugepage").exists() {
            println!("not tested: this system has no transparent huge pages");
            return;
        }
        let has = |mapping: &Mapping, flag: &str| flags(mapping).iter().any(|it| it == flag);
        let mapping = Mapping::anonymous(SIZE_BYTES, HugePages::Requested).unwrap();
        assert!(has(&mapping, "hg"));
        let base = mapping.base().as_ptr();
        // SAFETY: the range is the mapping, which only this test uses.
        unsafe { base.write_bytes(1, SIZE_BYTES) };
        let part = SIZE_BYTES / 4..SIZE_BYTES / 2;
        // SAFETY: only this test uses the mapping, and it does not need the bytes of the part.
        unsafe { mapping.release(part.clone()) };
        // SAFETY: the range is the mapping, which only this test uses, and all its bytes are initialised.
        let bytes = unsafe { std::slice::from_raw_parts(base, SIZE_BYTES) };
        let expected = |at: usize| u8::from(!part.contains(&at));
        assert!(bytes.iter().enumerate().all(|(at, &byte)| byte == expected(at)));
        assert!(has(&mapping, "nh") && !has(&mapping, "hg"));
        let refused = Mapping::anonymous(SIZE_BYTES, HugePages::Refused).unwrap();
        assert!(has(&refused, "nh"));
        let unadvised = Mapping::anonymous(SIZE_BYTES, HugePages::BySystem).unwrap();
        assert!(!has(&unadvised, "hg") && !has(&unadvised, "nh"));
    }
}
