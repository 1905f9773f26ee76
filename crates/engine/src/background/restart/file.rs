//! The file operations on the memory file and its .meta file.

use super::outcome::RestartError;
use rustix::fs::{FallocateFlags, FlockOperation, fallocate, flock};
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The size of the generation number after the arena. The .meta file has the same number.
const GENERATION_SIZE_BYTES: u64 = 8;
const NO_GENERATION: [u8; GENERATION_SIZE_BYTES as usize] = [0; GENERATION_SIZE_BYTES as usize];
/// Only for the owner, because the files hold the contents of the cache.
const MODE: u32 = 0o600;

/// An open memory file, locked against other processes until it is dropped.
#[derive(Debug)]
pub struct MemoryFile {
    path: PathBuf,
    file: File,
}

impl MemoryFile {
    /// Opens the file, creates it if it does not exist, and locks it.
    pub fn open(path: &Path) -> Result<MemoryFile, RestartError> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(MODE);
        let opened = options.open(path).map_err(failed("open", path))?;
        let memory_file = MemoryFile { path: path.to_owned(), file: opened };
        let about = memory_file.file.metadata().map_err(failed("inspect", path))?;
        if !about.is_file() {
            return Err(RestartError::NotAFile(path.to_owned()));
        }
        match flock(&memory_file.file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(memory_file),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(RestartError::InUse(path.to_owned())),
            Err(errno) => Err(failed("lock", path)(errno.into())),
        }
    }

    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    pub fn meta_path(&self) -> PathBuf {
        self.beside(".meta")
    }

    fn beside(&self, suffix: &str) -> PathBuf {
        let mut name = self.path.as_os_str().to_owned();
        name.push(suffix);
        name.into()
    }

    /// Reads the .meta file; `None` if there is none.
    pub fn read_meta(&self) -> Result<Option<Vec<u8>>, RestartError> {
        let path = self.meta_path();
        match std::fs::read(&path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed("read", &path)(error)),
        }
    }

    /// Removes the .meta file and syncs its directory (ONE-LIFE).
    pub fn remove_meta(&self) -> Result<(), RestartError> {
        let path = self.meta_path();
        match std::fs::remove_file(&path) {
            Ok(()) => self.sync_directory(),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(failed("remove", &path)(error)),
        }
    }

    /// Erases the generation number after an arena of this size and returns it. `None` if it was erased before or the
    /// file has another size.
    pub fn take_generation(&self, arena_size_bytes: u64) -> Result<Option<u64>, RestartError> {
        let about = self.file.metadata().map_err(failed("inspect", &self.path))?;
        if about.len() != arena_size_bytes + GENERATION_SIZE_BYTES {
            return Ok(None);
        }
        let mut generation = NO_GENERATION;
        self.file
            .read_exact_at(&mut generation, arena_size_bytes)
            .and_then(|()| self.write_generation(arena_size_bytes, NO_GENERATION))
            .map_err(failed("erase the generation number of", &self.path))?;
        Ok((generation != NO_GENERATION).then(|| u64::from_le_bytes(generation)))
    }

    /// Syncs an arena that no longer changes, and writes its generation number.
    pub fn save(&self, arena_size_bytes: u64, generation: u64) -> Result<(), RestartError> {
        // The number is valid only for the bytes of the arena, so these are on the disk first.
        self.file
            .sync_all()
            .and_then(|()| self.write_generation(arena_size_bytes, generation.to_le_bytes()))
            .map_err(failed("save", &self.path))
    }

    fn write_generation(&self, arena_size_bytes: u64, generation: [u8; 8]) -> io::Result<()> {
        self.file.write_all_at(&generation, arena_size_bytes)?;
        self.file.sync_data()
    }

    /// Empties the file and allocates all memory for an arena of this size, so that a full file system is an error
    /// here and not a signal when an item is written.
    pub fn reset(&self, arena_size_bytes: u64) -> Result<(), RestartError> {
        let size_bytes = arena_size_bytes + GENERATION_SIZE_BYTES;
        let resize = |to| self.file.set_len(to).map_err(failed("resize", &self.path));
        resize(0)?;
        let take = || fallocate(&self.file, FallocateFlags::empty(), 0, size_bytes);
        match rustix::io::retry_on_intr(take) {
            Ok(()) => Ok(()),
            Err(rustix::io::Errno::NOSPC | rustix::io::Errno::FBIG) => {
                // Returns the part that was allocated. An error here matters less than the first one.
                let _ = resize(0);
                Err(RestartError::NoRoom { path: self.path.clone(), size_bytes })
            }
            // The file system does not support fallocate.
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => resize(size_bytes),
            Err(errno) => Err(failed("allocate memory for", &self.path)(errno.into())),
        }
    }

    /// Writes the .meta file atomically.
    pub fn write_meta(&self, text: &str) -> Result<(), RestartError> {
        let (path, partial) = (self.meta_path(), self.beside(".meta.tmp"));
        match std::fs::remove_file(&partial) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(failed("remove", &partial)(error));
            }
            _ => {}
        }
        let write = || {
            let mut file =
                OpenOptions::new().write(true).create_new(true).mode(MODE).open(&partial)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            std::fs::rename(&partial, &path)
        };
        write().map_err(failed("write", &path))?;
        self.sync_directory()
    }

    fn sync_directory(&self) -> Result<(), RestartError> {
        let directory = match self.path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let synced = File::open(directory).and_then(|directory| directory.sync_all());
        synced.map_err(failed("save", directory))
    }
}

fn failed<'p>(
    action: &'static str,
    path: &'p Path,
) -> impl Fn(io::Error) -> RestartError + use<'p> {
    move |error| RestartError::Io { action, path: path.to_owned(), error }
}
