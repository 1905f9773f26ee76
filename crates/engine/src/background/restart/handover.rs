//! The handover of a running cache to another process, which has received the descriptor of the arena.
//!
//! ```text
//!   old process                      new process
//!   save    -> text of the state ->  adopt:   maps the arena read-only, builds index and queues
//!   (no thread uses the cache)       finish:  makes the arena writable, frees the chunks without items
//! ```
//!
//! Invariants:
//!
//! - READ-ONLY-UNTIL-FINISH: the new process changes no byte of the arena before [`Adopted::finish`]. The system enforces
//!   this: the arena is mapped without the permission to write. So until then the old process can continue to use its
//!   cache, whatever happens to the new process.
//! - After [`save`], the old process changes nothing in its cache until it knows that the new process has ended.
//!
//! The text of the state is that of the .meta file. The new process checks everything that it finds in the arena, as at a
//! start on a memory file.

use super::file::MemoryFile;
use super::outcome::{ColdReason, RestartError, Stop, Warm};
use super::{Rebuilt, collect_saved, meta, rebuild};
use crate::config::EngineConfig;
use crate::mem::{Arena, FileAccess, FileKind, Restore};
use crate::ops::Cache;
use rustix::fs::{MemfdFlags, fstat, ftruncate, memfd_create};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The name of a nameless arena, by which `/proc/PID/maps` shows it.
const ARENA_NAME: &str = "slabwise-arena";

/// The file that contains the arena.
#[derive(Debug)]
pub enum ArenaFile {
    /// The memory file of `-e`.
    Named(MemoryFile),
    /// A file without a name, which exists as long as a process has it open.
    Nameless(OwnedFd),
}

impl ArenaFile {
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        match self {
            ArenaFile::Named(file) => file.descriptor(),
            ArenaFile::Nameless(file) => file.as_fd(),
        }
    }
}

/// The reason why a process cannot use the cache of another one.
#[derive(Debug, thiserror::Error)]
pub enum AdoptError {
    /// The state or the arena cannot be used.
    #[error("the items of the running server cannot be used: {0}")]
    State(ColdReason),
    /// The arena cannot be used by this process.
    #[error(transparent)]
    Arena(#[from] RestartError),
    /// The running server has its items in another file, or in none.
    #[error("-e: the running server does not use this file{}: give the same -e as at its start", shown(.0))]
    OtherFile(Option<PathBuf>),
    /// The system cannot provide the arena.
    #[error("the arena of the running server: {0}")]
    System(io::Error),
}

fn shown(path: &Option<PathBuf>) -> String {
    path.as_ref().map_or(String::new(), |path| format!(" ({})", path.display()))
}

/// Creates an empty cache whose arena is in a file without a name. The file has room for a larger memory limit, and
/// takes memory only for the pages in use.
pub fn create(config: EngineConfig) -> Result<(Cache, ArenaFile), AdoptError> {
    let system = |errno: rustix::io::Errno| AdoptError::System(errno.into());
    let file = memfd_create(ARENA_NAME, MemfdFlags::CLOEXEC).map_err(system)?;
    let size_bytes = config.roomy_arena_size_bytes();
    ftruncate(&file, size_bytes).map_err(system)?;
    let (kind, access) = (FileKind::Nameless, FileAccess::Writable);
    let arena = Arena::of_file(file.as_fd(), size_bytes as usize, config.huge_pages, kind, access);
    let cache = arena.and_then(|arena| Cache::new(config, arena)).map_err(RestartError::from)?;
    Ok((cache, ArenaFile::Nameless(file)))
}

/// Returns the settings that a process needs in order to use the arena of a process with this configuration, and the
/// version of the format, as lines. Two processes with the same lines can hand over.
pub fn layout(config: &EngineConfig) -> String {
    meta::layout(config)
}

/// Returns the state of a cache as text. No thread changes the cache during the call. Afterwards the cache may continue, or
/// another process may [`adopt`] it.
pub fn save(cache: &Cache, stop: Stop) -> String {
    meta::compose(&cache.space.config, &collect_saved(cache, stop))
}

/// A cache of another process, which this process only reads until [`Adopted::finish`].
#[derive(Debug)]
pub struct Adopted(Rebuilt);

impl Adopted {
    /// Takes the cache over: from now on this process changes the arena. Returns the number of items.
    pub fn finish(self, cache: &Cache) -> Result<u64, RestartError> {
        Ok(self.0.finish(&cache.space)?)
    }
}

/// Maps the arena of another process, whose state is `text`, and builds the index and the queues. `path` is the file of
/// `-e`, and `unix_time` the time of the machine's clock.
pub fn adopt(
    config: EngineConfig,
    (arena, path): (OwnedFd, Option<&Path>),
    text: &[u8],
    unix_time: Duration,
) -> Result<(Cache, ArenaFile, Adopted, Warm), AdoptError> {
    let (file, kind) = match path {
        Some(path) => (ArenaFile::Named(MemoryFile::inherit(path, arena)?), FileKind::Named),
        None => (ArenaFile::Nameless(arena), FileKind::Nameless),
    };
    let size_bytes = match &file {
        ArenaFile::Named(_) => config.arena_size_bytes(),
        ArenaFile::Nameless(file) => {
            let about = fstat(file).map_err(|errno| AdoptError::System(errno.into()))?;
            if about.st_nlink > 0 {
                return Err(AdoptError::OtherFile(None));
            }
            let size_bytes = u64::try_from(about.st_size).unwrap_or(0);
            size_bytes - size_bytes % config.page_size_bytes as u64
        }
    };
    let saved = match meta::parse(text, &config, size_bytes) {
        Some(saved) => saved.map_err(AdoptError::State)?,
        None => {
            let damage = ColdReason::DamagedMeta("its first line is wrong".to_owned());
            return Err(AdoptError::State(damage));
        }
    };
    if size_bytes < config.arena_size_bytes() {
        return Err(AdoptError::State(ColdReason::OtherArena));
    }
    let elapsed = saved.stop.elapsed + unix_time.saturating_sub(saved.stop.unix_time);
    let access = FileAccess::ReadOnly;
    let huge_pages = config.huge_pages;
    let arena = Arena::of_file(file.descriptor(), size_bytes as usize, huge_pages, kind, access);
    let cache = arena.and_then(|arena| Cache::new(config, arena)).map_err(RestartError::from)?;
    let restore = Restore::read_only(&cache.space.memory);
    let rebuilt = rebuild(&cache, &saved, restore, &mut |_| {}).map_err(AdoptError::State)?;
    let items = rebuilt.items;
    Ok((cache, file, Adopted(rebuilt), Warm { items, elapsed }))
}
