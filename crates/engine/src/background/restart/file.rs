//! The memory file and the .meta file beside it: what is asked of the file system.

use super::outcome::RestartError;
use rustix::fs::{FallocateFlags, FlockOperation, fallocate, flock};
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The number behind the arena that only its own .meta file knows.
const SEAL_SIZE_BYTES: u64 = 8;
const BROKEN: [u8; SEAL_SIZE_BYTES as usize] = [0; SEAL_SIZE_BYTES as usize];
/// For the owner alone: who reads these files reads the cache.
const MODE: u32 = 0o600;

/// An open memory file, locked against other processes as long as it lives.
#[derive(Debug)]
pub struct MemoryFile {
    path: PathBuf,
    file: File,
}

impl MemoryFile {
    /// Opens the file, which is made if it is not there, and locks it.
    pub fn open(path: &Path) -> Result<MemoryFile, RestartError> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(MODE);
        let opened = options.open(path).map_err(failed("open", path))?;
        let memory_file = MemoryFile { path: path.to_owned(), file: opened };
        let about = memory_file.file.metadata().map_err(failed("look at", path))?;
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

    /// Where the .meta file is.
    pub fn meta_path(&self) -> PathBuf {
        self.beside(".meta")
    }

    fn beside(&self, suffix: &str) -> PathBuf {
        let mut name = self.path.as_os_str().to_owned();
        name.push(suffix);
        name.into()
    }

    /// The .meta file's bytes, if there is one.
    pub fn read_meta(&self) -> Result<Option<Vec<u8>>, RestartError> {
        let path = self.meta_path();
        match std::fs::read(&path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed("read", &path)(error)),
        }
    }

    /// Removes the .meta file, for good: it is gone from the disk when this returns (ONE-LIFE).
    pub fn take_meta_away(&self) -> Result<(), RestartError> {
        let path = self.meta_path();
        match std::fs::remove_file(&path) {
            Ok(()) => self.sync_directory(),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(failed("remove", &path)(error)),
        }
    }

    /// Breaks the seal behind an arena of this size and returns what it was. `None`: there is none, or
    /// the file is of another size.
    pub fn break_seal(&self, arena_size_bytes: u64) -> Result<Option<u64>, RestartError> {
        let about = self.file.metadata().map_err(failed("look at", &self.path))?;
        if about.len() != arena_size_bytes + SEAL_SIZE_BYTES {
            return Ok(None);
        }
        let mut seal = BROKEN;
        self.file
            .read_exact_at(&mut seal, arena_size_bytes)
            .and_then(|()| self.write_seal(arena_size_bytes, BROKEN))
            .map_err(failed("break the seal of", &self.path))?;
        Ok((seal != BROKEN).then(|| u64::from_le_bytes(seal)))
    }

    /// Seals an arena that changes no more.
    pub fn seal(&self, arena_size_bytes: u64, seal: u64) -> Result<(), RestartError> {
        // The arena is on the disk before the seal that vouches for it.
        self.file
            .sync_all()
            .and_then(|()| self.write_seal(arena_size_bytes, seal.to_le_bytes()))
            .map_err(failed("save", &self.path))
    }

    fn write_seal(&self, arena_size_bytes: u64, seal: [u8; 8]) -> io::Result<()> {
        self.file.write_all_at(&seal, arena_size_bytes)?;
        self.file.sync_data()
    }

    /// Empties the file and takes all memory for an arena of this size, so that a full file system is an error here
    /// and not a signal when an item is written.
    pub fn begin_anew(&self, arena_size_bytes: u64) -> Result<(), RestartError> {
        let size_bytes = arena_size_bytes + SEAL_SIZE_BYTES;
        let resize = |to| self.file.set_len(to).map_err(failed("resize", &self.path));
        resize(0)?;
        let take = || fallocate(&self.file, FallocateFlags::empty(), 0, size_bytes);
        match rustix::io::retry_on_intr(take) {
            Ok(()) => Ok(()),
            Err(rustix::io::Errno::NOSPC | rustix::io::Errno::FBIG) => {
                // What was taken before the end is given back; the error that counts is the first one.
                let _ = resize(0);
                Err(RestartError::NoRoom { path: self.path.clone(), size_bytes })
            }
            // A file system that cannot take memory ahead.
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => resize(size_bytes),
            Err(errno) => Err(failed("take memory for", &self.path)(errno.into())),
        }
    }

    /// Writes the .meta file: it appears whole, or not at all.
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
