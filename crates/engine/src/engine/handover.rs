//! The methods of [`Engine`] for the handover of a running cache to another process (`background/restart/handover.rs`).

use super::Engine;
use crate::background::{
    AdoptError, AdoptedCache, ArenaFile, MappedCache, RestartError, StateLens, Stop, Warm, handover,
};
use crate::class::TABLE_NUMBERS;
use crate::config::EngineConfig;
use crate::stats::HandleCounters;
use slabwise_base::sync::lock;
use slabwise_base::{ClassId, Moment};
use std::fs::File;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The cache of another process, which still uses it. This process has only mapped its memory.
pub struct Adoption(MappedCache);

/// The result of [`Adoption::complete`].
pub struct AdoptedEngine {
    /// The cache. The arena is only read until [`Engine::take_over`], which the caller calls before any other use of the
    /// engine that changes items.
    pub engine: Engine,
    /// The number of items, and the time of the clock.
    pub warm: Warm,
    /// The reason why the index was rebuilt from the items. `None`: it was handed over.
    pub rebuilt_because: Option<String>,
}

impl Adoption {
    /// Maps the arena of another process. `arena` is the descriptor that [`Engine::arena`] returned there, `path` the
    /// memory file of `-e`, and `buckets` what [`Engine::index_buckets_max`] returned there.
    pub fn prepare(
        config: EngineConfig,
        arena: OwnedFd,
        path: Option<&Path>,
        buckets: [u32; 2],
    ) -> Result<Adoption, AdoptError> {
        Ok(Adoption(handover::prepare(config, (arena, path), buckets)?))
    }

    /// Returns an empty cache with the memory of the other process, which must not use it after [`Engine::take_over`].
    pub fn empty(self) -> Result<Engine, AdoptError> {
        let (cache, file, adopted) = self.0.empty()?;
        let engine = Engine::with(Box::new(cache), Some(file));
        *lock(&engine.adopted) = Some(adopted);
        Ok(engine)
    }

    /// Opens the cache with the state that [`Engine::save`] has written to a file. No thread of the other process uses the
    /// cache any more. `unix_time` is the time of the machine's clock.
    pub fn complete(
        self,
        state: &File,
        lens: StateLens,
        unix_time: Duration,
    ) -> Result<AdoptedEngine, AdoptError> {
        let adopted = self.0.complete((state, lens), unix_time)?;
        let AdoptedCache { cache, file, adopted, warm, rebuilt_because } = adopted;
        let engine = Engine::with(Box::new(cache), Some(file));
        *lock(&engine.adopted) = Some(adopted);
        Ok(AdoptedEngine { engine, warm, rebuilt_because })
    }
}

impl Engine {
    /// The version of the format in which an index is handed over. If the version differs, the index is rebuilt.
    pub const INDEX_FORMAT: u32 = handover::IMAGE_FORMAT;

    /// Creates an empty cache whose arena is in a file without a name, so that another process can take it over.
    pub fn new_nameless(config: EngineConfig) -> Result<Engine, AdoptError> {
        let (cache, file) = handover::create(config)?;
        Ok(Engine::with(Box::new(cache), Some(file)))
    }

    /// Ends the adoption of a cache: from now on this process may change the arena, and the other process must not use it
    /// any more. Does nothing in an engine that was not adopted.
    pub fn take_over(&self) -> Result<(), RestartError> {
        let adopted = lock(&self.adopted).take();
        adopted.map_or(Ok(()), |adopted| adopted.finish(&self.cache))
    }

    /// Returns the descriptor of the file that holds the arena, or `None` if no other process can use the items.
    pub fn arena(&self) -> Option<BorrowedFd<'_>> {
        self.arena_file.as_ref().map(ArenaFile::descriptor)
    }

    /// Returns the largest number of buckets, and of overflow buckets, of a stripe of the index.
    pub fn index_buckets_max(&self) -> [u32; 2] {
        self.space().index.buckets_max()
    }

    /// Returns the number of bytes that [`Engine::save`] will write, with some room for growth.
    pub fn state_len_estimate(&self) -> u64 {
        handover::state_len_estimate(&self.cache)
    }

    /// Writes the state of the cache to a file, for [`Adoption::complete`] in another process. `at` is the time of the
    /// clock. No thread uses the cache during the call, or later unless the other process has ended or has not taken over.
    /// A page move in progress is given up.
    pub fn save(&self, stop: Stop, at: Moment, file: &File) -> io::Result<StateLens> {
        handover::save(&self.cache, stop, at, file)
    }

    /// Returns lines that are the same in two versions and configurations of which one can adopt the cache of the other.
    pub fn layout(config: &EngineConfig) -> String {
        handover::layout(config)
    }

    /// Returns the page size in lines that [`Engine::layout`] or [`saved_layout`](crate::saved_layout) has returned.
    pub fn layout_page_size_bytes(lines: &str) -> Option<usize> {
        handover::layout_page_size_bytes(lines)
    }

    /// True if the lines have the settings that [`Engine::layout`] returns for this configuration.
    pub fn has_layout(lines: &str, config: &EngineConfig) -> bool {
        handover::has_layout(lines, config)
    }

    /// Adds to counters of the statistics, which another process has counted: that of the whole cache with this name, or
    /// that of a class.
    pub fn add_counters<'n>(&self, counters: impl Iterator<Item = (CounterOwner, &'n str, u64)>) {
        let handle = HandleCounters::new();
        for (owner, name, count) in counters {
            match owner {
                CounterOwner::Cache => handle.add_named(name, count),
                CounterOwner::Mover => {
                    self.cache.mover.lock().counters.add_named(name, count);
                }
                CounterOwner::Class(id) if id.index() < TABLE_NUMBERS => {
                    handle.class(id).add_named(name, count);
                    self.space().class(id).lock().counters.add_named(name, count);
                }
                CounterOwner::Class(_) => {}
            }
        }
        lock(&self.space().registry).push(Arc::new(handle));
    }
}

/// What a counter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterOwner {
    /// Operations on the whole cache, as in [`EngineStats::named`](crate::EngineStats::named).
    Cache,
    /// The work of the mover, as in [`MoverCounters::named`](crate::MoverCounters::named).
    Mover,
    /// Operations on the items of a class, as in [`ClassStats::named`](crate::ClassStats::named) and
    /// [`ClassCounters::named`](crate::ClassCounters::named).
    Class(ClassId),
}
