//! Warm restart: a cache whose arena lies in a file goes on where another process left it.
//!
//! ```text
//!   FILE        the arena, page by page, mapped; behind it the seal (8 bytes)
//!   FILE.meta   text: settings, seal, clock, CAS counter, flush, the class table in force and what is
//!               left of earlier ones, who owns each page, where each queue ends; a checksum
//!
//!   close:  seal the arena, then write FILE.meta          open:  take FILE.meta away, break the seal,
//!                                                                rebuild the rest by walking the arena
//! ```
//!
//! What is persistent is what lies in the arena anyhow: items, with their CAS values, times, states and
//! queue links. Chunks are named by their distance from its start, so it does not matter where it is
//! mapped. What can be told from that is rebuilt: index, free lists, counters (`rebuild.rs`). Which
//! chunks are in use follows from who is linked, so that an upload or a move that the stop cut short
//! leaves nothing behind.
//!
//! Laws:
//!
//! - ONE-LIFE: `FILE.meta` is there only while no process uses FILE. It is gone from the disk before the
//!   first byte of the arena changes, and the seal, a number that only the two share, is broken: after a
//!   crash, or beside a copy of an older FILE.meta, the arena is not believed.
//! - ALL-OR-NOTHING: every header, chain and queue is checked before it is followed, as if a stranger
//!   had written it. One that does not hold means that somebody else wrote to the file, so no value in it
//!   can be trusted: the cache starts cold. It may forget, but must not lie.
//! - ONE-PROCESS: FILE is locked as long as its process lives.
//!
//! Time: the clock of the new process goes on from where the old one's would be now ([`Warm::elapsed`]),
//! so that expiries and access times mean what they meant, and nothing is converted.
//!
//! Who may call it: the server, before the first and after the last handle. It reads no clock.

mod file;
mod meta;
mod rebuild;
#[cfg(all(test, not(loom)))]
mod tests;

use crate::class::{CLASS_NUMBERS, Standing};
use crate::config::EngineConfig;
use crate::engine::{Engine, arena_size_bytes};
use crate::evict::Place;
use crate::mem::{Arena, AtRest, MappingError, QueueKind};
use crate::page_table::Pool;
use meta::{Refusal, Saved};
use slabwise_base::sync::lock;
use slabwise_base::{KeyHasher, PageId};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

pub(crate) use file::MemoryFile;

/// How a cache over a memory file began.
#[derive(Debug)]
pub enum Start {
    /// With what the last process left.
    Warm(Warm),
    /// Empty.
    Cold(ColdReason),
}

/// What a warm start found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Warm {
    /// Items in the cache, those that have expired meanwhile included.
    pub items: u64,
    /// What the old process's clock would read now: the new one's must go on from there
    /// ([`Clock::resume`](slabwise_base::Clock::resume)).
    pub elapsed: Duration,
}

/// Why a cache began empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ColdReason {
    /// Nothing was saved: a first start, or the last process was not stopped gracefully.
    NothingSaved,
    /// memcached saved it.
    ByMemcached,
    /// Another version of slabwise saved it.
    OtherFormat(String),
    /// The file beside it is cut off or changed.
    Torn(String),
    /// It was saved under another setting.
    OtherSetting {
        /// Which.
        name: String,
        /// What it was.
        saved: String,
        /// What it is.
        present: String,
    },
    /// The memory file was used since, or is another one.
    OtherArena,
    /// The machine's date lies before the stop, so nobody knows what has expired.
    ClockBack,
    /// The memory file does not hold together.
    Damaged {
        /// The law that is broken.
        law: &'static str,
        /// Where, in bytes from its start.
        offset: u64,
    },
}

/// Longer values are not shown.
const LINE_LEN_MAX: usize = 80;

impl fmt::Display for ColdReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ColdReason::NothingSaved => write!(f, "nothing was saved (stop by SIGUSR1 to save)"),
            ColdReason::ByMemcached => write!(f, "it was saved by memcached"),
            ColdReason::OtherFormat(format) => {
                write!(f, "it was saved by another version, in format {format:?}")
            }
            ColdReason::Torn(what) => write!(f, "its .meta file is torn: {what}"),
            ColdReason::OtherSetting { name, saved, present }
                if saved.len() + present.len() > LINE_LEN_MAX =>
            {
                write!(f, "it was saved with another value of {name}")
            }
            ColdReason::OtherSetting { name, saved, present } => {
                write!(f, "it was saved with {name} {saved}, which is {present} now")
            }
            ColdReason::OtherArena => write!(f, "it is not the one that its .meta file is of"),
            ColdReason::ClockBack => {
                write!(f, "the machine's date lies before the stop, so what has ended is unknown")
            }
            ColdReason::Damaged { law, offset } => {
                write!(f, "it is damaged at byte {offset}: broken law: {law}")
            }
        }
    }
}

/// Why a memory file can be neither used nor begun anew, or not saved.
#[derive(Debug)]
pub enum RestartError {
    /// The .meta file is none, and so perhaps somebody's own; it is left as it is.
    MalformedMeta(PathBuf),
    /// Another process uses the file.
    InUse(PathBuf),
    /// It is a directory or a device.
    NotAFile(PathBuf),
    /// There is no room for it.
    NoRoom {
        /// The file.
        path: PathBuf,
        /// Bytes it must have.
        size_bytes: u64,
    },
    /// It cannot be mapped.
    Map(MappingError),
    /// The system refused.
    Io {
        /// What was to be done, as a verb.
        action: &'static str,
        /// To which file.
        path: PathBuf,
        /// The system's answer.
        error: io::Error,
    },
}

impl fmt::Display for RestartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RestartError::MalformedMeta(path) => write!(
                f,
                "-e: {} is no file of ours: remove it to start with an empty cache",
                path.display()
            ),
            RestartError::InUse(path) => write!(
                f,
                "-e {}: another process uses this file: stop it, or name another file",
                path.display()
            ),
            RestartError::NotAFile(path) => {
                write!(f, "-e {}: a plain file is needed: name another one", path.display())
            }
            RestartError::NoRoom { path, size_bytes } => write!(
                f,
                "-e {}: there is no room for its {size_bytes} bytes: free some, or lower -m",
                path.display()
            ),
            RestartError::Map(error) => error.fmt(f),
            RestartError::Io { action, path, error } => {
                write!(f, "-e: cannot {action} {}: {error}", path.display())
            }
        }
    }
}

impl std::error::Error for RestartError {}

/// How far a rebuild is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Pages walked.
    pub pages_done: usize,
    /// Of so many.
    pub pages: usize,
}

/// The moment of a stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop {
    /// The machine's date, as the time since 1970.
    pub unix_time: Duration,
    /// What the engine's clock reads, as the time since its start.
    pub elapsed: Duration,
}

impl Engine {
    /// A cache over the memory file at `path`, which is made if it is not there: as the last process left
    /// it if that one closed it, and empty otherwise. `unix_time` is the machine's date.
    pub fn open(
        config: EngineConfig,
        path: &Path,
        unix_time: Duration,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(Engine, Start), RestartError> {
        let file = MemoryFile::open(path)?;
        let size_bytes = arena_size_bytes(&config);
        let saved = judge(&file, &config, unix_time)?;
        file.take_meta_away()?;
        let sealed = file.break_seal(size_bytes)?;
        let reason = match saved {
            Ok(saved) if sealed == Some(saved.seal) => {
                let elapsed = saved.elapsed + (unix_time - saved.unix_time);
                let mut engine = Engine::over(config.clone(), &file)?;
                match engine.resume(&saved, progress) {
                    Ok(items) => {
                        engine.memory_file = Some(file);
                        return Ok((engine, Start::Warm(Warm { items, elapsed })));
                    }
                    Err(damage) => damage,
                }
            }
            Ok(_) => ColdReason::OtherArena,
            Err(reason) => reason,
        };
        file.begin_anew(size_bytes)?;
        let mut engine = Engine::over(config, &file)?;
        engine.memory_file = Some(file);
        Ok((engine, Start::Cold(reason)))
    }

    /// Ends a cache over a memory file so that the next [`Engine::open`] finds everything again. After an
    /// error it will find nothing.
    pub fn close(self, stop: Stop) -> Result<(), RestartError> {
        let file = self.memory_file.as_ref().expect("only a cache over a memory file is closed");
        let saved = self.saved(stop);
        file.seal(arena_size_bytes(&self.config), saved.seal)?;
        file.write_meta(&meta::compose(&self.config, &saved))
    }

    fn over(config: EngineConfig, file: &MemoryFile) -> Result<Engine, RestartError> {
        let size_bytes = arena_size_bytes(&config) as usize;
        let arena = Arena::of_file(file.descriptor(), size_bytes, config.huge_pages);
        Ok(Engine::in_arena(config, arena.map_err(RestartError::Map)?))
    }

    /// Fills an empty cache with what lies in its arena; returns the number of items.
    fn resume(
        &mut self,
        saved: &Saved,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<u64, ColdReason> {
        self.cas.store(saved.cas, Relaxed);
        self.flush.cas_bound.store(saved.flush_cas_bound, Relaxed);
        self.flush.due_second.store(saved.flush_due_second, Relaxed);
        self.flush.mark.restore(saved.flush_mark);
        self.index.presize(saved.index_buckets.min(self.index_buckets_max(saved)));
        self.restore_classes(saved.table.clone(), &saved.retired);
        {
            let pages = (0..saved.owners.len() as u32).map(PageId);
            let returned = pages.filter(|page| saved.owners[page.index()].is_none()).collect();
            let mut pool = lock(&self.pool);
            *pool = Pool::resumed(pool.limit(), saved.owners.len() as u32, returned);
        }
        let items = rebuild::rebuild(&AtRest::of(self), saved, progress)?;
        self.retire_restored(&saved.retired);
        self.charge_index();
        Ok(items)
    }

    /// The buckets that an index over an arena full of the least items has.
    fn index_buckets_max(&self, saved: &Saved) -> u64 {
        let classes = saved.table.classes().chain(saved.retired.iter().copied());
        let chunk_size_bytes = classes.map(|(_, size)| size as u64).min();
        self.memory.arena.size_bytes() as u64 / chunk_size_bytes.expect("a table has a class")
    }

    /// What the arena does not tell by itself. Slots that were never handed out are made to read as free.
    fn saved(&self, stop: Stop) -> Saved {
        let frontier = lock(&self.pool).frontier();
        let pages = || (0..frontier).map(PageId);
        let mut tails = vec![meta::Tails::new(); CLASS_NUMBERS];
        let mut rankings = vec![[0; 3]; CLASS_NUMBERS];
        let mut retired = Vec::new();
        for class in self.queueing_classes() {
            let mut state = class.lock();
            let tail = |lane, queue| state.lanes().queue(Place { lane, queue }).tail();
            let of_lane = |lane| QueueKind::ALL.map(|queue| tail(lane, queue));
            tails[state.id().index()] =
                state.lanes().all().map(|lane| (lane, of_lane(lane))).collect();
            rankings[state.id().index()] = state.saved_order();
            if state.standing() == Standing::Retired {
                retired.push((state.id(), state.chunk_size_bytes()));
            }
            if state.page_count() == 0 {
                continue;
            }
            let owner = Some(state.id());
            let own = |id: &PageId| self.memory.pages.page(*id).owner() == owner;
            pages().filter(own).for_each(|id| state.blank_fresh(&self.memory, id));
        }
        let nanos = (stop.unix_time.as_nanos() as u64).to_le_bytes();
        Saved {
            seal: KeyHasher::new(self.config.hash_seed).hash(&nanos),
            unix_time: stop.unix_time,
            elapsed: stop.elapsed,
            cas: self.cas.load(Relaxed),
            flush_cas_bound: self.flush.cas_bound.load(Relaxed),
            flush_due_second: self.flush.due_second.load(Relaxed),
            flush_mark: self.flush.mark.to_bits(),
            index_buckets: self.index.bucket_count(),
            table: self.class_table(),
            retired,
            owners: pages().map(|id| self.memory.pages.page(id).owner()).collect(),
            tails,
            rankings,
        }
    }
}

/// What was saved, or why it is of no use.
fn judge(
    file: &MemoryFile,
    config: &EngineConfig,
    unix_time: Duration,
) -> Result<Result<Saved, ColdReason>, RestartError> {
    let Some(text) = file.read_meta()? else { return Ok(Err(ColdReason::NothingSaved)) };
    match meta::parse(&text, config) {
        Ok(saved) if saved.unix_time > unix_time => Ok(Err(ColdReason::ClockBack)),
        Ok(saved) => Ok(Ok(saved)),
        Err(Refusal::Cold(reason)) => Ok(Err(reason)),
        Err(Refusal::Malformed) => Err(RestartError::MalformedMeta(file.meta_path())),
    }
}
