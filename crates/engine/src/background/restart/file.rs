//! The file operations on the memory file and its .meta file.

use super::outcome::RestartError;
use rustix::fs::{FallocateFlags, FlockOperation, fallocate, flock, fstatfs, fstatvfs};
use rustix::io::Errno;
use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
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
/// The access mode of both files: only their owner may read them, because they hold the contents of the cache.
const FILE_MODE: u32 = 0o600;

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
}

impl MemoryFile {
    /// Opens and locks the file at `path`, and creates it if it does not exist. Fails if another process keeps it locked
    /// for [`LOCK_WAIT_MAX`].
    pub fn open(path: &Path) -> Result<MemoryFile, RestartError> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(FILE_MODE);
        let opened = options.open(path).map_err(io_error("open", path))?;
        let memory_file = MemoryFile { path: path.to_owned(), file: opened };
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
        Ok(MemoryFile { path: path.to_owned(), file })
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

    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    pub fn meta_path(&self) -> PathBuf {
        self.path_with_suffix(".meta")
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
        let size_bytes = file_size_bytes(arena_size_bytes);
        self.file.set_len(0).map_err(io_error("empty", &self.path))?;
        let errno = |error| Errno::from_io_error(&error).unwrap_or(Errno::IO);
        // The mark is written first, because the allocation may take long and this process may be killed meanwhile.
        let marked = self.mark(arena_size_bytes).map_err(errno);
        let allocated =
            marked.and_then(|()| self.allocate(size_bytes)).or_else(|error| match error {
                Errno::OPNOTSUPP | Errno::NOSYS => {
                    self.write_blocks(arena_size_bytes).map_err(errno)
                }
                error => Err(error),
            });
        if let Err(error) = allocated {
            // Frees the blocks that were allocated. If that fails too, the error of the allocation is reported.
            let _ = self.file.set_len(0);
            return Err(self.allocation_error(size_bytes, error));
        }
        Ok(())
    }

    /// Allocates the blocks that a saved file lacks: a program that copied the file may have made holes of the zeros in
    /// it. If the file system cannot allocate blocks without changing the file, does nothing.
    pub fn fill_holes(&self) -> Result<(), RestartError> {
        let about = self.file.metadata().map_err(io_error("inspect", &self.path))?;
        // The unit of `blocks` does not depend on the file system.
        if about.blocks() * 512 >= about.len() {
            return Ok(());
        }
        match self.allocate(about.len()) {
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
            Err(error) => Err(self.allocation_error(about.len() - about.blocks() * 512, error)),
        }
    }

    /// Allocates the blocks of the first `size_bytes` bytes of the file, and keeps the bytes.
    fn allocate(&self, size_bytes: u64) -> Result<(), Errno> {
        let allocate = || fallocate(&self.file, FallocateFlags::empty(), 0, size_bytes);
        rustix::io::retry_on_intr(allocate)
    }

    /// Writes zeros before the mark, which allocates the blocks of the file on a file system without fallocate.
    pub(super) fn write_blocks(&self, arena_size_bytes: u64) -> io::Result<()> {
        let zeros = vec![0; 1 << 20];
        for offset in (0..arena_size_bytes).step_by(zeros.len()) {
            let len = zeros.len().min((arena_size_bytes - offset) as usize);
            self.file.write_all_at(&zeros[..len], offset)?;
        }
        // A file system on the network may report only now that it is full.
        self.file.sync_data()
    }

    /// Returns the error of a start that could not allocate blocks for `missing_bytes` bytes.
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

fn io_error<'p>(
    action: &'static str,
    path: &'p Path,
) -> impl Fn(io::Error) -> RestartError + use<'p> {
    move |error| RestartError::Io { action, path: path.to_owned(), error }
}
