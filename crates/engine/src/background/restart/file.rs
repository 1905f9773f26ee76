//! The file operations on the memory file and its .meta file.

use super::outcome::RestartError;
use rustix::fs::{FallocateFlags, FlockOperation, fallocate, flock, fstatfs, fstatvfs};
use rustix::io::Errno;
use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The longest wait for the lock of a memory file. The system unlocks the file of a killed process only after it has
/// unmapped the memory of the process, which takes about a second for a large file.
const LOCK_WAIT_MAX: Duration = Duration::from_secs(if cfg!(test) { 0 } else { 5 });
/// The time from one attempt to lock a memory file to the next one.
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// The size of the generation number, which follows the arena in the memory file. The .meta file contains the same
/// number as text.
const GENERATION_SIZE_BYTES: u64 = 8;
/// The bytes in place of the generation number while a process uses the memory file.
const NO_GENERATION: [u8; GENERATION_SIZE_BYTES as usize] = [0; GENERATION_SIZE_BYTES as usize];
/// The last bytes of a memory file, by which slabwise recognizes a file that it may overwrite.
const MARK: [u8; 8] = *b"slabwise";
/// The end of the path of the .meta file.
pub const META_SUFFIX: &str = ".meta";
/// The access mode of both files: only their owner may read them, because they hold the contents of the cache.
const FILE_MODE: u32 = 0o600;

/// The largest number of bytes that get blocks by one system call. So a signal delays the call, and does not undo a long one.
const ALLOCATED_BYTES_MAX: u64 = 64 << 20;

/// The number by which Linux identifies a hugetlbfs.
const HUGETLBFS_MAGIC: rustix::fs::FsWord = 0x9584_58f6;

/// Returns the size of a memory file with an arena of this size: the generation number and the mark follow the arena.
fn file_size_bytes(arena_size_bytes: u64) -> u64 {
    arena_size_bytes + GENERATION_SIZE_BYTES + MARK.len() as u64
}

/// Locks a file. Waits while another process has locked it.
#[expect(clippy::disallowed_methods, reason = "the wait is for another process")]
fn lock(file: &File) -> Result<(), Errno> {
    let begun = Instant::now();
    loop {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) if begun.elapsed() < LOCK_WAIT_MAX => sleep(LOCK_PAUSE),
            result => return result,
        }
    }
}

/// An open memory file. It is locked against other processes until this value is dropped.
#[derive(Debug)]
pub struct MemoryFile {
    path: PathBuf,
    file: File,
    /// The number of bytes that the file system of a test has left.
    #[cfg(test)]
    pub(super) room_bytes: std::sync::atomic::AtomicU64,
}

impl MemoryFile {
    fn new(path: &Path, file: File) -> MemoryFile {
        MemoryFile {
            path: path.to_owned(),
            file,
            #[cfg(test)]
            room_bytes: u64::MAX.into(),
        }
    }

    /// Reduces the room of a test's file system. Fails like a full one if too little is left.
    #[cfg(test)]
    fn take_room(&self, len: u64) -> Result<(), Errno> {
        use std::sync::atomic::Ordering::Relaxed;
        let left = self.room_bytes.load(Relaxed).checked_sub(len).ok_or(Errno::NOSPC)?;
        self.room_bytes.store(left, Relaxed);
        Ok(())
    }

    /// Opens and locks the file at `path`, and creates it if it does not exist. Fails if another process keeps it locked
    /// for [`LOCK_WAIT_MAX`].
    pub fn open(path: &Path) -> Result<MemoryFile, RestartError> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(FILE_MODE);
        let opened = options.open(path).map_err(io_error("open", path))?;
        let memory_file = MemoryFile::new(path, opened);
        let about = memory_file.file.metadata().map_err(io_error("inspect", path))?;
        if !about.is_file() {
            return Err(RestartError::NotAFile(path.to_owned()));
        }
        let file_system =
            fstatfs(&memory_file.file).map_err(|errno| io_error("inspect", path)(errno.into()))?;
        if file_system.f_type == HUGETLBFS_MAGIC {
            return Err(RestartError::OnHugetlbfs(path.to_owned()));
        }
        match lock(&memory_file.file) {
            Ok(()) => Ok(memory_file),
            Err(Errno::WOULDBLOCK) => Err(RestartError::InUse(path.to_owned())),
            Err(errno) => Err(io_error("lock", path)(errno.into())),
        }
    }

    /// Returns the memory file at `path`, whose descriptor this process has received from the process that has locked it.
    /// Fails if `path` names another file.
    pub fn inherit(path: &Path, received: OwnedFd) -> Result<MemoryFile, RestartError> {
        let file = File::from(received);
        let inspect = |error| io_error("inspect", path)(error);
        let (named, open) =
            (std::fs::metadata(path).map_err(inspect)?, file.metadata().map_err(inspect)?);
        if (named.dev(), named.ino()) != (open.dev(), open.ino()) {
            return Err(RestartError::OtherFileHandedOver(path.to_owned()));
        }
        Ok(MemoryFile::new(path, file))
    }

    /// Returns an error if the file has contents that slabwise did not write. The caller has found no .meta file, which
    /// would show that the file belongs to a cache.
    pub fn check_origin(&self) -> Result<(), RestartError> {
        let inspect = |error| io_error("inspect", &self.path)(error);
        let len = self.file.metadata().map_err(inspect)?.len();
        let mut end = [0; MARK.len()];
        if let Some(offset) = len.checked_sub(MARK.len() as u64) {
            self.file.read_exact_at(&mut end, offset).map_err(inspect)?;
        }
        if len == 0 || end == MARK {
            return Ok(());
        }
        Err(RestartError::OtherFile { path: self.path.clone(), size_bytes: len })
    }

    /// Denies other users the access to the file. A file that existed before may have another mode.
    pub fn restrict_access(&self) -> Result<(), RestartError> {
        let about = self.file.metadata().map_err(io_error("inspect", &self.path))?;
        if about.permissions().mode() & 0o777 == FILE_MODE {
            return Ok(());
        }
        let restricted = self.file.set_permissions(Permissions::from_mode(FILE_MODE));
        restricted.map_err(io_error("restrict the access to", &self.path))
    }

    /// Returns the size of the arena in the file: the whole pages of this size.
    pub fn arena_size_bytes(&self, page_size_bytes: usize) -> Result<u64, RestartError> {
        let len = self.file.metadata().map_err(io_error("inspect", &self.path))?.len();
        Ok(len - len % page_size_bytes as u64)
    }

    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    pub fn meta_path(&self) -> PathBuf {
        self.path_with_suffix(META_SUFFIX)
    }

    fn path_with_suffix(&self, suffix: &str) -> PathBuf {
        let mut name = self.path.as_os_str().to_owned();
        name.push(suffix);
        name.into()
    }

    /// Reads the .meta file. Returns `None` if it does not exist.
    pub fn read_meta(&self) -> Result<Option<Vec<u8>>, RestartError> {
        let path = self.meta_path();
        match std::fs::read(&path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(io_error("read", &path)(error)),
        }
    }

    /// Removes the .meta file, if it exists, and syncs its directory. The removal is on the disk before the arena
    /// changes, which the invariant ONE-LIFE in `restart/mod.rs` requires.
    pub fn remove_meta(&self) -> Result<(), RestartError> {
        let path = self.meta_path();
        match std::fs::remove_file(&path) {
            Ok(()) => self.sync_directory(),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(io_error("remove", &path)(error)),
        }
    }

    /// Erases the generation number in a memory file with an arena of this size, and returns the number. Returns `None`
    /// if the number was erased before, or if the file has another size.
    pub fn take_generation(&self, arena_size_bytes: u64) -> Result<Option<u64>, RestartError> {
        let about = self.file.metadata().map_err(io_error("inspect", &self.path))?;
        // Earlier versions wrote no mark.
        let without_mark = arena_size_bytes + GENERATION_SIZE_BYTES;
        if ![without_mark, file_size_bytes(arena_size_bytes)].contains(&about.len()) {
            return Ok(None);
        }
        let mut generation = NO_GENERATION;
        self.file
            .read_exact_at(&mut generation, arena_size_bytes)
            .and_then(|()| self.write_generation(arena_size_bytes, NO_GENERATION))
            .map_err(io_error("erase the generation number of", &self.path))?;
        Ok((generation != NO_GENERATION).then(|| u64::from_le_bytes(generation)))
    }

    /// Writes the arena to the disk, and then the generation number behind it. No thread may change the arena
    /// meanwhile.
    pub fn save(&self, arena_size_bytes: u64, generation: u64) -> Result<(), RestartError> {
        // The generation number confirms that the arena is complete, so the arena must be on the disk first.
        self.file
            .sync_all()
            .and_then(|()| self.write_generation(arena_size_bytes, generation.to_le_bytes()))
            .map_err(io_error("save", &self.path))
    }

    fn write_generation(&self, arena_size_bytes: u64, generation: [u8; 8]) -> io::Result<()> {
        // One call, so that the file never ends between the two.
        self.file.write_all_at(&[&generation[..], &MARK].concat(), arena_size_bytes)?;
        self.file.sync_data()
    }

    /// Writes the mark at the end of the file, after an arena of this size without a generation number.
    pub(super) fn mark(&self, arena_size_bytes: u64) -> io::Result<()> {
        self.write_generation(arena_size_bytes, NO_GENERATION)
    }

    /// Empties the file and allocates all blocks for an arena of this size. So a file system that is too full causes an
    /// error here, and not a signal when an item is written later.
    pub fn reset(&self, arena_size_bytes: u64) -> Result<(), RestartError> {
        self.file.set_len(0).map_err(io_error("empty", &self.path))?;
        // The mark is written first, because the allocation may take long and this process may be killed meanwhile.
        let allocated = self
            .mark(arena_size_bytes)
            .map_err(errno)
            .and_then(|()| self.check_room(arena_size_bytes))
            .and_then(|()| self.fill(0..arena_size_bytes));
        allocated.map_err(|error| {
            // Frees the blocks that were allocated. If that fails too, the error of the allocation is reported.
            let _ = self.file.set_len(0);
            self.allocation_error(file_size_bytes(arena_size_bytes), error)
        })
    }

    /// Allocates the blocks that a saved file lacks, before anything in it changes. `kept` are parts whose bytes must not
    /// change: a program that copied the file may have made holes of the zeros in them. `unused` are parts without contents,
    /// also beyond the end of the file. After an error the unused parts have no blocks, and the saved state is as before.
    ///
    /// On a file system without fallocate, `kept` gets no blocks, and the part beyond the end gets them later, by
    /// [`MemoryFile::lengthen`].
    ///
    /// `has_holes` is true if the file was saved with holes. A file without holes that has all blocks is left as it is.
    pub fn allocate_saved(
        &self,
        kept: &[Range<u64>],
        unused: &[Range<u64>],
        has_holes: bool,
    ) -> Result<(), RestartError> {
        let about = self.file.metadata().map_err(io_error("inspect", &self.path))?;
        // The unit of `blocks` does not depend on the file system.
        let present = about.blocks() * 512;
        let is_beyond = |part: &&Range<u64>| part.end > about.len();
        let is_longer = unused.iter().any(|part| is_beyond(&part));
        if !has_holes && !is_longer && present >= about.len() {
            return Ok(());
        }
        let parts = kept.iter().chain(unused);
        let needed: u64 = parts.clone().map(|part| part.end - part.start).sum();
        let allocated = self
            .check_room(needed.saturating_sub(present))
            .and_then(|()| parts.clone().try_for_each(|part| self.allocate(part)));
        match allocated {
            Ok(()) => Ok(()),
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                let within = unused.iter().filter(|part| !is_beyond(part));
                let written = within.cloned().try_for_each(|part| self.write_zeros(part));
                written.map_err(|error| self.allocation_error(needed, errno(error)))
            }
            Err(error) => {
                unused.iter().filter(|part| !is_beyond(part)).for_each(|part| self.free(part));
                // Frees the blocks beyond the end of the file, and keeps the generation number at its end.
                let _ = self.file.set_len(about.len());
                Err(self.allocation_error(needed.saturating_sub(present), error))
            }
        }
    }

    /// Gives blocks to parts of the file whose contents are not needed, and lengthens the file from an arena of
    /// `sizes.start` bytes to one of `sizes.end`. After an error the parts have no blocks, and the file has its old length.
    pub fn grow(&self, parts: &[Range<u64>], sizes: Range<u64>) -> Result<(), RestartError> {
        let in_holes: u64 = parts.iter().map(|part| part.end - part.start).sum();
        let needed = in_holes + (sizes.end - sizes.start);
        // The mark is first at the new end, so that the file always ends with a mark.
        let lengthen =
            || if sizes.is_empty() { Ok(()) } else { self.mark(sizes.end).map_err(errno) };
        let fill = || parts.iter().chain([&sizes]).try_for_each(|part| self.fill(part.clone()));
        let grown = self.check_room(needed).and_then(|()| lengthen()).and_then(|()| fill());
        grown.map_err(|error| {
            // If this fails too, the error of the allocation is reported.
            parts.iter().for_each(|part| self.free(part));
            if !sizes.is_empty() {
                self.free(&sizes);
                let _ = self.resize(sizes.start);
            }
            self.allocation_error(needed, error)
        })
    }

    /// Lengthens the file from an arena of `sizes.start` bytes to one of `sizes.end`. [`MemoryFile::allocate_saved`] has allocated
    /// the blocks, unless the file system has no fallocate.
    pub fn lengthen(&self, sizes: Range<u64>) -> Result<(), RestartError> {
        self.resize(sizes.end)?;
        let len = sizes.end - sizes.start;
        self.fill(sizes).map_err(|error| self.allocation_error(len, error))
    }

    /// Changes the length of the file to that of a file with an arena of this size and no generation number.
    pub fn resize(&self, arena_size_bytes: u64) -> Result<(), RestartError> {
        self.mark(arena_size_bytes)
            .and_then(|()| self.file.set_len(file_size_bytes(arena_size_bytes)))
            .map_err(io_error("resize", &self.path))
    }

    /// Frees the blocks of a part of the file, whose bytes are not needed. Has no effect on a file system that cannot do this.
    pub fn free(&self, part: &Range<u64>) {
        let _ = self.punch(part);
    }

    /// True if the file system can free the blocks of a part of the file.
    pub fn can_free(&self) -> bool {
        // The part is beyond the end of the file, where no bytes are.
        let len = self.file.metadata().map_or(0, |about| about.len());
        let start = len.next_multiple_of(ALLOCATED_BYTES_MAX);
        self.punch(&(start..start + ALLOCATED_BYTES_MAX)).is_ok()
    }

    fn punch(&self, part: &Range<u64>) -> Result<(), Errno> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let len = part.end - part.start;
        if len == 0 {
            return Ok(());
        }
        rustix::io::retry_on_intr(|| fallocate(&self.file, flags, part.start, len))
    }

    /// Fails if the file system reports that it has less room than this. So an allocation that must fail does not fill the
    /// file system first, on which other programs write, too.
    fn check_room(&self, needed_bytes: u64) -> Result<(), Errno> {
        let about = fstatvfs(&self.file)?;
        // A RAM disk without a limit has no blocks.
        let is_full = about.f_blocks > 0 && about.f_bfree * about.f_frsize < needed_bytes;
        if is_full { Err(Errno::NOSPC) } else { Ok(()) }
    }

    /// Allocates the blocks of a part of the file whose contents are not needed.
    fn fill(&self, part: Range<u64>) -> Result<(), Errno> {
        match self.allocate(&part) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => self.write_zeros(part).map_err(errno),
            result => result,
        }
    }

    /// Allocates the blocks of a part of the file. Changes neither the bytes nor the length of the file.
    fn allocate(&self, part: &Range<u64>) -> Result<(), Errno> {
        for start in part.clone().step_by(ALLOCATED_BYTES_MAX as usize) {
            let len = ALLOCATED_BYTES_MAX.min(part.end - start);
            #[cfg(test)]
            self.take_room(len)?;
            let allocate = || fallocate(&self.file, FallocateFlags::KEEP_SIZE, start, len);
            rustix::io::retry_on_intr(allocate)?;
        }
        Ok(())
    }

    /// Writes zeros to a part of the file, which allocates its blocks on a file system without fallocate.
    pub(super) fn write_zeros(&self, part: Range<u64>) -> io::Result<()> {
        let zeros = vec![0; 1 << 20];
        for offset in part.clone().step_by(zeros.len()) {
            let len = zeros.len().min((part.end - offset) as usize);
            self.file.write_all_at(&zeros[..len], offset)?;
        }
        // A file system on the network may report only now that it is full.
        self.file.sync_data()
    }

    /// Returns the error of a call that could not allocate blocks for `missing_bytes` bytes.
    fn allocation_error(&self, missing_bytes: u64, error: Errno) -> RestartError {
        if !matches!(error, Errno::NOSPC | Errno::DQUOT | Errno::FBIG) {
            return io_error("allocate memory for", &self.path)(error.into());
        }
        let free = fstatvfs(&self.file).map_or(0, |about| about.f_bavail * about.f_frsize);
        RestartError::NoRoom {
            path: self.path.clone(),
            missing_bytes,
            free_bytes: free,
            error: error.into(),
        }
    }

    /// Writes the .meta file atomically: a crash leaves the old file, the new file or no file, never a part of one.
    pub fn write_meta(&self, text: &str) -> Result<(), RestartError> {
        let (path, partial) = (self.meta_path(), self.path_with_suffix(".meta.tmp"));
        match std::fs::remove_file(&partial) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(io_error("remove", &partial)(error));
            }
            _ => {}
        }
        let write = || {
            let mut file =
                OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(&partial)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            std::fs::rename(&partial, &path)
        };
        write().map_err(io_error("write", &path))?;
        self.sync_directory()
    }

    fn sync_directory(&self) -> Result<(), RestartError> {
        let directory = match self.path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let synced = File::open(directory).and_then(|directory| directory.sync_all());
        synced.map_err(io_error("save", directory))
    }
}

fn errno(error: io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}

fn io_error<'p>(
    action: &'static str,
    path: &'p Path,
) -> impl Fn(io::Error) -> RestartError + use<'p> {
    move |error| RestartError::Io { action, path: path.to_owned(), error }
}
