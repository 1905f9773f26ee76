//! The engine: the cache that all workers share, and the steps that its owner drives.

use crate::background::{
    CrawlStep, CrawledItem, Crawler, MemoryFile, Progress, RestartError, Start, Stop, check,
    maintain_step, restart,
};
use crate::class::{CHAINED, Class, ClassStatus};
use crate::config::EngineConfig;
use crate::evict::LruConfig;
use crate::layout::{ClassTable, ItemMeta};
use crate::mem::{Arena, MappingError, QueueKind};
use crate::mover::{MoveRecord, MoverStep, ReassignError};
use crate::ops::{Cache, Handle, class_of_size};
use crate::space::{ClassChangeError, Observers, Space};
use crate::stats::MoverCounters;
use crate::stats::{ClassStats, EngineStats, HandleCounters, PageStats};
use slabwise_base::sync::lock;
use slabwise_base::{ClassId, Moment, Now, Seconds, SizeHistogram};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The shared cache. Workers use it through a [`Handle`] each.
pub struct Engine {
    cache: Cache,
    /// The file that holds the arena, if the cache survives restarts.
    memory_file: Option<MemoryFile>,
}

/// Why an engine could not be created or changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// The arena could not be reserved.
    #[error(transparent)]
    Reserve(#[from] MappingError),
    /// A limit beyond the address space that was reserved at the start.
    #[error(
        "a limit of {bytes} bytes is beyond the {bytes_max} bytes of address space reserved at the start: \
         restart with a larger -m"
    )]
    LimitTooLarge {
        /// The requested limit.
        bytes: u64,
        /// The largest possible limit.
        bytes_max: u64,
    },
}

impl Engine {
    /// Creates an empty cache.
    pub fn new(config: EngineConfig) -> Result<Engine, EngineError> {
        // Address space to raise the limit later; if the system refuses that, for the limit alone.
        let reserve = |size_bytes: u64| Arena::reserve(size_bytes as usize, config.huge_pages);
        let arena = reserve(config.roomy_arena_size_bytes())
            .or_else(|_| reserve(config.arena_size_bytes()))?;
        Ok(Engine { cache: Cache::new(config, arena), memory_file: None })
    }

    /// Opens a cache over the memory file at `path`, which is created if it does not exist. The cache has the
    /// items of the last process if that closed it properly, and is empty otherwise.
    /// `unix_time` is the system time.
    pub fn open(
        config: EngineConfig,
        path: &Path,
        unix_time: Duration,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(Engine, Start), RestartError> {
        let (cache, file, start) = restart::open(config, path, unix_time, progress)?;
        Ok((Engine { cache, memory_file: Some(file) }, start))
    }

    /// Closes a cache over a memory file so that the next [`Engine::open`] restores all items. After an error
    /// the next cache is empty.
    pub fn close(self, stop: Stop) -> Result<(), RestartError> {
        let file =
            self.memory_file.as_ref().expect("only a cache over a memory file can be closed");
        restart::close(&self.cache, file, stop)
    }

    pub(crate) fn space(&self) -> &Space {
        &self.cache.space
    }

    /// The configuration at its creation; the class table may have changed since ([`Engine::class_table`]).
    pub fn config(&self) -> &EngineConfig {
        &self.space().config
    }

    /// Returns a handle for one worker. Its counters stay in [`Engine::stats`] after it is dropped.
    pub fn handle(&self) -> Handle<'_> {
        Handle::new(&self.cache)
    }

    /// Invalidates every item stored so far, at once or at second `at`. A later call replaces a pending flush.
    pub fn flush_all(&self, at: Option<Seconds>, now: Now) {
        self.space().flush.flush_all(at, now);
    }

    /// Changes the memory limit. A lower limit takes effect as the mover empties pages.
    pub fn set_memory_limit(&self, bytes: u64) -> Result<(), EngineError> {
        let bytes_max = self.space().memory.size_bytes() as u64;
        if bytes > bytes_max {
            return Err(EngineError::LimitTooLarge { bytes, bytes_max });
        }
        lock(&self.space().pool).limit = self.config().pages_within(bytes);
        Ok(())
    }

    /// The segmented LRU's limits.
    pub fn lru(&self) -> LruConfig {
        lock(&self.space().segments).limits
    }

    /// Changes the segmented LRU's limits.
    pub fn set_lru(&self, lru: LruConfig) {
        self.space().set_segments(|rules| rules.limits = lru);
    }

    /// Switches between segmented and exact LRU; cost bands stay. Only for eviction kinds whose
    /// [info](crate::EvictionKind::info) says that they can switch.
    pub fn set_segmented(&self, segmented: bool) {
        assert!(
            self.config().eviction.info().can_switch,
            "this eviction kind cannot switch its order"
        );
        self.space().set_segments(|rules| rules.is_exact = !segmented);
    }

    /// The current class table.
    pub fn class_table(&self) -> ClassTable {
        self.space().class_table()
    }

    /// Returns every class of the table and every retired class that owns pages, smallest chunks first.
    pub fn class_ids(&self) -> Vec<ClassId> {
        let _tables = lock(&self.space().tables);
        self.space().non_vacant_classes().into_iter().map(|(id, ..)| id).collect()
    }

    /// Returns the class for an item of this size; for a chained item, the largest. `None`: it is too large, or no
    /// class is large enough at the moment. Takes no lock.
    pub fn class_of_size(
        &self,
        key_len: usize,
        value_len: usize,
        meta: ItemMeta,
    ) -> Option<ClassId> {
        class_of_size(self.space(), key_len, value_len, meta)
    }

    /// Replaces the class table by one of these chunk sizes, in bytes, ascending, each rounded up to
    /// [`CHUNK_ALIGN_BYTES`](crate::CHUNK_ALIGN_BYTES); the largest size of the current table is added if it is
    /// missing. New items use the new table at once; [`Engine::mover_step`] drains the classes that it lacks.
    pub fn change_classes(&self, sizes: &[usize]) -> Result<(), ClassChangeError> {
        self.space().change_classes(|_| true, sizes)
    }

    /// Replaces the class table as [`Engine::change_classes`] does, if `present` is still the current table.
    pub fn change_classes_from(
        &self,
        present: &ClassTable,
        sizes: &[usize],
    ) -> Result<(), ClassChangeError> {
        self.space().change_classes(|table| table == present, sizes)
    }

    /// Requests the move of a page of `victim` (`None`: the class with the oldest tail) to `receiver`
    /// (`None`: the pool). The move's record shows `reason`. [`Engine::mover_step`] carries it out.
    pub fn reassign(
        &self,
        victim: Option<ClassId>,
        receiver: Option<ClassId>,
        reason: &'static str,
        now: Now,
    ) -> Result<(), ReassignError> {
        lock(&self.cache.mover).reassign(self.space(), victim, receiver, reason, now)
    }

    /// Visits up to `budget_chunks` chunks of the page that is moving. Also empties retired classes and shrinks
    /// the cache to a lowered memory limit, one page at a time.
    pub fn mover_step(&self, budget_chunks: usize, at: impl Into<Moment>) -> MoverStep {
        lock(&self.cache.mover).step(self.space(), budget_chunks, at.into())
    }

    /// The number of chunks of the page that is moving; `None`: no page is moving.
    pub fn chunks_of_moving_page(&self) -> Option<usize> {
        let mover = lock(&self.cache.mover);
        mover.job.as_ref().map(|job| self.config().page_size_bytes / job.chunk_size_bytes)
    }

    /// The mover's counters.
    pub fn mover_counters(&self) -> MoverCounters {
        lock(&self.cache.mover).counters
    }

    /// The records of the last moves, oldest first.
    pub fn move_log(&self) -> Vec<MoveRecord> {
        lock(&self.cache.mover).log.iter().copied().collect()
    }

    /// Runs one step of the LRU maintainer, for at most `budget` items per class. Returns the number of items
    /// moved or removed.
    pub fn maintain_step(&self, budget: usize, now: Now) -> usize {
        maintain_step(self.space(), budget, now)
    }

    /// Crawls up to `budget_chunks` chunks. Expired and flushed items are removed; `visit` is called for each live
    /// item under its class's lock, so it must be short and call no operation.
    pub fn crawl_step(
        &self,
        crawler: &mut Crawler,
        budget_chunks: usize,
        now: Now,
        visit: &mut dyn FnMut(CrawledItem<'_>),
    ) -> CrawlStep {
        crawler.step(self.space(), budget_chunks, now, visit)
    }

    /// The observers of evictions and accesses.
    pub fn observers(&self) -> &Observers {
        &self.space().observers
    }

    /// The statistics of the whole cache.
    pub fn stats(&self, now: Now) -> EngineStats {
        let space = self.space();
        let mut stats = EngineStats::default();
        {
            let registry = lock(&space.registry);
            for class in space.queueing_classes() {
                add_class(&mut stats.total, class, &registry, now);
            }
            registry.iter().for_each(|handle| stats.add_tallies(handle));
        }
        stats.items = stats.total.items.iter().sum();
        stats.bytes = stats.total.item_bytes;
        stats.page_size_bytes = space.config.page_size_bytes as u64;
        space
            .index
            .for_each_stripe(|stripe| stats.index_buckets += stripe.table().bucket_count() as u64);
        stats.index_bytes = space.index.size_bytes();
        let pages = space.page_stats();
        (stats.pages, stats.pages_free) = (pages.held, pages.free);
        stats.memory_limit_bytes = pages.limit * stats.page_size_bytes;
        let mover = lock(&self.cache.mover);
        (stats.mover, stats.mover_running) = (mover.counters, mover.job.is_some());
        stats
    }

    /// The statistics of every class of the table and of every retired class that owns pages, smallest chunks
    /// first. Chained items count in the largest class, as in memcached.
    pub fn class_stats(&self, now: Now) -> Vec<ClassStats> {
        let space = self.space();
        let tables = lock(&space.tables);
        let registry = lock(&space.registry);
        let read = |(id, chunk_size_bytes, status): (ClassId, usize, ClassStatus)| {
            let mut stats = ClassStats {
                class: Some(id),
                retired: status == ClassStatus::Retired,
                chunk_size_bytes,
                chunks_per_page: space.config.page_size_bytes / chunk_size_bytes,
                ..ClassStats::default()
            };
            add_class(&mut stats, space.class(id), &registry, now);
            if id == space.largest {
                add_class(&mut stats, space.class(CHAINED), &registry, now);
            }
            if let Some(before) = tables.counted_before.get(&id) {
                stats = ClassStats { before: Some(Arc::clone(before)), ..stats.minus(before) };
            }
            stats
        };
        space.non_vacant_classes().into_iter().map(read).collect()
    }

    /// The numbers of held and free pages, and the limits; cheap.
    pub fn page_stats(&self) -> PageStats {
        self.space().page_stats()
    }

    /// The histogram of counted item sizes, chained items included.
    pub fn item_sizes(&self) -> SizeHistogram {
        let mut histogram = SizeHistogram::default();
        let add = |class: &Class| class.lock().sizes.add_to(&mut histogram);
        self.space().queueing_classes().for_each(add);
        histogram
    }

    /// The number of gets of all handles since the start, get-and-touch included; cheap.
    pub fn gets_ever(&self) -> u64 {
        self.space().gets_ever()
    }

    /// The number of gets that missed since the start; a get that vivified counts as a hit.
    pub fn misses_ever(&self) -> u64 {
        lock(&self.space().registry).iter().map(|handle| handle.misses()).sum()
    }

    /// The number of items that all handles have stored since the start.
    pub fn stores_ever(&self) -> u64 {
        lock(&self.space().registry).iter().map(|handle| handle.items_total.get()).sum()
    }

    /// The number of evictions, and of stores that found no memory in their class, since the start.
    pub fn evictions_ever(&self) -> u64 {
        let evictions = |class: &Class| {
            let counters = class.lock().counters;
            counters.evicted + counters.out_of_memory + counters.allocated_in_larger_class
        };
        self.space().queueing_classes().map(evictions).sum()
    }

    /// Panics with the name of a broken invariant, if there is one. No operation may be running; pins and
    /// reservations may exist.
    pub fn check(&self) {
        check::check(self.space());
    }
}

fn add_class(stats: &mut ClassStats, class: &Class, registry: &[Arc<HandleCounters>], now: Now) {
    let state = class.lock();
    stats.pages += u64::from(state.pages.token.page_count());
    stats.used_chunks += state.pages.used_count();
    stats.free_chunks += state.pages.free_count();
    stats.item_bytes += state.item_bytes();
    stats.cost_held += state.costs.units;
    stats.counters += &state.counters;
    for kind in QueueKind::ALL {
        stats.items[kind.index()] += state.lanes.count(kind);
        let age = &mut stats.tail_age_ticks[kind.index()];
        *age = (*age).max(state.tail_age(kind, now.ticks));
    }
    registry.iter().for_each(|handle| stats.add_tallies(handle.class(state.id())));
}
