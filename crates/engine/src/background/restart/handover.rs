//! The handover of a running cache to another process, which has received the descriptor of the arena.
//!
//! ```text
//!   old process                            new process
//!   (threads use the cache)                prepare:  maps the arena read-only, commits memory for the index
//!   save    -> state: text and image    -> complete: makes index and queues from the image, or rebuilds them
//!   (no thread uses the cache)             finish:   makes the arena writable, frees what the old process held
//! ```
//!
//! Invariants:
//!
//! - READ-ONLY-UNTIL-FINISH: the new process changes no byte of the arena before [`Adopted::finish`]. The system enforces
//!   this: the arena is mapped without the permission to write. So until then the old process can continue to use its
//!   cache, whatever happens to the new process.
//! - NO-EARLY-READ: the new process reads no byte of the arena before [`Adoption::complete`], which the caller calls when no
//!   thread of the old process uses the cache any more. So no read is a race, and nothing that was read has to be checked
//!   for a later change.
//! - After [`save`], the old process changes nothing in its cache until it knows that the new process has ended.
//!
//! The state is in a file without a name: the text of the .meta file, and the image (`image.rs`) from the next multiple of
//! 4,096 bytes on. If the image cannot be used, the new process rebuilds the index and the queues from the arena, with the
//! checks of a start on a memory file.

use super::file::MemoryFile;
use super::image::{self, ImagePlace, Resumed};
use super::meta::Saved;
use super::outcome::{ColdReason, RestartError, Stop, Warm};
use super::resize::all_blocks;
use super::{Rebuilt, collect_saved, meta, rebuild};
use crate::config::EngineConfig;
use crate::mem::{Arena, FileAccess, MappingError, Restore, Takeover};
use crate::ops::Cache;
use rustix::fs::{MemfdFlags, fstat, ftruncate, memfd_create};
use slabwise_base::Moment;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::slice;
use std::time::Duration;

pub use image::FORMAT as IMAGE_FORMAT;

/// The name of a nameless arena, by which `/proc/PID/maps` shows it.
const ARENA_NAME: &str = "slabwise-arena";
/// The image begins at a multiple of this number of bytes.
const IMAGE_ALIGN_BYTES: u64 = 4096;
/// The largest length of the text of a state, in bytes.
const TEXT_LEN_MAX: u64 = 1 << 30;

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
    System(#[from] io::Error),
}

fn shown(path: &Option<PathBuf>) -> String {
    path.as_ref().map_or(String::new(), |path| format!(" ({})", path.display()))
}

/// The lengths of the parts of a state, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateLens {
    /// The length of the text.
    pub text: u64,
    /// The length of the words of the image; 0 if there is no image.
    pub image_words: u64,
}

/// Creates an empty cache whose arena is in a file without a name. The file has room for a larger memory limit, and
/// takes memory only for the pages in use.
pub fn create(config: EngineConfig) -> Result<(Cache, ArenaFile), AdoptError> {
    let system = |errno: rustix::io::Errno| AdoptError::System(errno.into());
    let file = memfd_create(ARENA_NAME, MemfdFlags::CLOEXEC).map_err(system)?;
    let size_bytes = config.roomy_arena_size_bytes();
    ftruncate(&file, size_bytes).map_err(system)?;
    let (sizes, access) = ((size_bytes as usize, size_bytes), FileAccess::Writable);
    let arena = Arena::of_file(file.as_fd(), sizes, config.huge_pages, access);
    let cache = arena.and_then(|arena| Cache::new(config, arena)).map_err(RestartError::from)?;
    Ok((cache, ArenaFile::Nameless(file)))
}

/// Returns the settings that a process needs in order to use the arena of a process with this configuration, and the
/// version of the format, as lines. Two processes with the same lines can hand over.
pub fn layout(config: &EngineConfig) -> String {
    meta::layout(config)
}

/// Returns the page size in lines of [`layout`] or [`saved_layout`](super::saved_layout).
pub fn layout_page_size_bytes(lines: &str) -> Option<usize> {
    meta::page_size_bytes(lines)
}

/// True if the lines have the settings that [`layout`] returns for this configuration.
pub fn has_layout(lines: &str, config: &EngineConfig) -> bool {
    meta::has_settings(lines, config)
}

/// Returns the number of bytes that the state of a cache takes in a file, with some room for growth.
pub fn state_len_estimate(cache: &Cache) -> u64 {
    let index = &cache.space.index;
    let len = index.image_len(index.buckets_max());
    let pages = u64::from(cache.space.lock_pool().frontier);
    len + len / 16 + pages * 64 + (4 << 20)
}

/// Writes the state of a cache to a file. No thread uses the cache during the call. Afterwards the cache may continue, or
/// another process may adopt it. `at` is the time of the clock.
pub fn save(cache: &Cache, stop: Stop, at: Moment, file: &File) -> io::Result<StateLens> {
    image::settle(cache, at);
    let text = meta::compose(&cache.space.config, &collect_saved(cache, stop));
    file.write_all_at(text.as_bytes(), 0)?;
    let text = text.len() as u64;
    let place = image::write(cache, file, text.next_multiple_of(IMAGE_ALIGN_BYTES))?;
    Ok(StateLens { text, image_words: place.map_or(0, |place| place.words_len) })
}

/// A cache of another process, whose threads may still use it.
pub struct Adoption {
    config: EngineConfig,
    cache: Cache,
    file: ArenaFile,
    size_bytes: u64,
}

/// A cache of another process, which this process only reads until [`Adopted::finish`].
#[derive(Debug)]
pub enum Adopted {
    /// The cache was made from the image.
    Resumed(Resumed),
    /// The index and the queues were rebuilt.
    Rebuilt(Box<RebuiltCache>),
    /// The cache is empty, and the arena has the bytes of the other process.
    Empty(Takeover),
}

/// A cache whose index and queues were rebuilt.
#[derive(Debug)]
pub struct RebuiltCache(Rebuilt);

impl Adopted {
    /// Takes the cache over: from now on this process changes the arena.
    pub fn finish(self, cache: &Cache) -> Result<(), RestartError> {
        match self {
            Adopted::Resumed(resumed) => resumed.finish(&cache.space)?,
            Adopted::Rebuilt(rebuilt) => rebuilt.0.finish(&cache.space).map(|_| ())?,
            Adopted::Empty(takeover) => takeover.allow_writes()?,
        }
        Ok(())
    }
}

/// A cache that this process has adopted.
pub struct AdoptedCache {
    pub cache: Cache,
    pub file: ArenaFile,
    pub adopted: Adopted,
    pub warm: Warm,
    /// The reason why the index was rebuilt, if it was.
    pub rebuilt_because: Option<String>,
}

/// Maps the arena of another process without a read of its bytes, and commits memory for these numbers of buckets and of
/// overflow buckets of each stripe. `path` is the file of `-e`. The threads of the other process may use the cache.
pub fn prepare(
    config: EngineConfig,
    (arena, path): (OwnedFd, Option<&Path>),
    buckets: [u32; 2],
) -> Result<Adoption, AdoptError> {
    let file = match path {
        Some(path) => ArenaFile::Named(MemoryFile::inherit(path, arena)?),
        None => ArenaFile::Nameless(arena),
    };
    let size_bytes = match &file {
        // The file has the pages that the present limit of the other process needs, which may be lower than `-m`.
        ArenaFile::Named(file) => file.arena_size_bytes(config.page_size_bytes)?,
        ArenaFile::Nameless(file) => {
            let about = fstat(file).map_err(io::Error::from)?;
            if about.st_nlink > 0 {
                return Err(AdoptError::OtherFile(None));
            }
            let size_bytes = u64::try_from(about.st_size).unwrap_or(0);
            if size_bytes < config.arena_size_bytes() {
                return Err(AdoptError::State(ColdReason::OtherArena));
            }
            size_bytes - size_bytes % config.page_size_bytes as u64
        }
    };
    let cache = map(&config, &file, size_bytes).map_err(RestartError::from)?;
    cache.space.index.populate(buckets.map(|count| count.saturating_add(count / 16)));
    Ok(Adoption { config, cache, file, size_bytes })
}

/// Returns an empty cache whose arena is the file, which is mapped read-only.
fn map(config: &EngineConfig, file: &ArenaFile, size_bytes: u64) -> Result<Cache, MappingError> {
    let access = FileAccess::ReadOnly;
    match file {
        ArenaFile::Named(file) => {
            let blocks = all_blocks(config, file, size_bytes);
            let arena = super::map(config, file, size_bytes, access)?;
            let cache = Cache::new(config.clone(), arena)?;
            cache.space.lock_pool().count_blocks(blocks);
            Ok(cache)
        }
        ArenaFile::Nameless(file) => {
            let sizes = (size_bytes as usize, size_bytes);
            let arena = Arena::of_file(file.as_fd(), sizes, config.huge_pages, access)?;
            Cache::new(config.clone(), arena)
        }
    }
}

impl Adoption {
    /// Returns an empty cache in the arena, without a read of its bytes.
    pub fn empty(self) -> Result<(Cache, ArenaFile, Adopted), AdoptError> {
        if let ArenaFile::Named(file) = &self.file {
            // It is unknown where the other process has left holes.
            file.allocate_saved(slice::from_ref(&(0..self.size_bytes)), &[], true)?;
            self.cache.space.lock_pool().lower_limit_to_blocks();
        }
        let takeover = Takeover::new(&self.cache.space.memory, 0);
        Ok((self.cache, self.file, Adopted::Empty(takeover)))
    }

    /// Makes the index and the queues from the state in a file. No thread of the other process uses the cache any more.
    /// `unix_time` is the time of the machine's clock.
    pub fn complete(
        self,
        (state, lens): (&File, StateLens),
        unix_time: Duration,
    ) -> Result<AdoptedCache, AdoptError> {
        let Adoption { config, cache, file, size_bytes } = self;
        let saved = read_text(state, lens.text, &config, size_bytes)?;
        let elapsed = saved.stop.elapsed + unix_time.saturating_sub(saved.stop.unix_time);
        let place = ImagePlace {
            offset: lens.text.next_multiple_of(IMAGE_ALIGN_BYTES),
            words_len: lens.image_words,
        };
        let reason = if lens.image_words == 0 {
            "the running server has sent no image of its index".to_owned()
        } else {
            match image::adopt(&cache, &saved, state, place) {
                Ok(resumed) => {
                    let warm = Warm { items: resumed.items, elapsed };
                    let adopted = Adopted::Resumed(resumed);
                    return Ok(AdoptedCache { cache, file, adopted, warm, rebuilt_because: None });
                }
                Err(error) => error.to_string(),
            }
        };
        // The attempt may have made a part of the index. The file can be mapped only once.
        drop(cache);
        let cache = map(&config, &file, size_bytes).map_err(RestartError::from)?;
        let restore = Restore::read_only(&cache.space.memory);
        let rebuilt = rebuild(&cache, &saved, restore, &mut |_| {}).map_err(AdoptError::State)?;
        let warm = Warm { items: rebuilt.items, elapsed };
        let adopted = Adopted::Rebuilt(Box::new(RebuiltCache(rebuilt)));
        Ok(AdoptedCache { cache, file, adopted, warm, rebuilt_because: Some(reason) })
    }
}

fn read_text(
    state: &File,
    len: u64,
    config: &EngineConfig,
    size_bytes: u64,
) -> Result<Saved, AdoptError> {
    let damaged = |text: &str| AdoptError::State(ColdReason::DamagedMeta(text.to_owned()));
    if len > TEXT_LEN_MAX {
        return Err(damaged("it is too long"));
    }
    let mut text = vec![0; len as usize];
    state.read_exact_at(&mut text, 0)?;
    match meta::parse(&text, config, size_bytes) {
        Some(saved) => saved.map_err(AdoptError::State),
        None => Err(damaged("its first line is wrong")),
    }
}
