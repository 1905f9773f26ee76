//! The engine: the cache that all workers share. Its owner calls the methods that configure it, report statistics, and
//! do background work in bounded steps.

mod handover;
mod locks;

use crate::background::{
    Adopted, ArenaFile, CrawlStep, CrawledItem, Crawler, LimitError, Progress, RestartError, Start,
    Stop, Sweep, check, maintain_step, restart,
};
use crate::class::{CHAINED, Class, ClassStatus};
use crate::config::EngineConfig;
use crate::evict::{LruConfig, QueueSplit};
use crate::layout::{ClassTable, HEADER_SIZE_BYTES, ItemMeta};
use crate::mem::{Arena, MappingError, QueueKind};
use crate::mover::{BegunMove, MoveRecord, MoverStep, PlannedMove, ReassignError};
use crate::ops::{Cache, Handle, class_of_size};
use crate::space::{ClassChangeError, HELP_UNITS, Observers, Space};
use crate::stats::MoverCounters;
use crate::stats::{ClassStats, EngineStats, HandleCounters, OwnedPage, PageStats};
use slabwise_base::density::Densities;
use slabwise_base::sync::{Mutex, lock};
use slabwise_base::{
    ClassId, KEY_SIZE_BYTES_MAX, Moment, Now, PageId, Seconds, SizeHistogram, WorkTime,
};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// An upper bound of the size of an item's key and optional fields, in bytes.
const KEY_AND_FIELDS_SIZE_BYTES_MAX: usize = KEY_SIZE_BYTES_MAX + 32;

pub use handover::{AdoptedEngine, Adoption, CounterOwner};

/// The shared cache. Each worker uses it through a [`Handle`] of its own.
pub struct Engine {
    /// The state that all handles share. It is on the heap, because loom's models have small stacks.
    cache: Box<Cache>,
    /// The state of [`Engine::sweep_step`].
    sweep: Mutex<Sweep>,
    /// The file that holds the arena; `None` if no other process can use the items.
    arena_file: Option<ArenaFile>,
    /// The rest of the work of [`Adoption::complete`]; `None` afterwards, and in an engine that was not adopted.
    adopted: Mutex<Option<Adopted>>,
}

/// The error of creating an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// The operating system refused to reserve the address space for the arena or the index.
    #[error(transparent)]
    Reserve(#[from] MappingError),
}

impl Engine {
    /// Creates an empty cache. Returns an error if the operating system refuses to reserve its address space.
    pub fn new(config: EngineConfig) -> Result<Engine, EngineError> {
        // First requests more address space than the memory limit needs, so that the limit can be raised later. If the
        // system refuses this, requests only the address space for the limit.
        let create = |size_bytes: u64| {
            let arena = Arena::reserve(size_bytes as usize, config.huge_pages)?;
            Cache::new(config.clone(), arena).map(Box::new)
        };
        let cache = create(config.roomy_arena_size_bytes())
            .or_else(|_| create(config.arena_size_bytes()))?;
        Ok(Engine::with(cache, None))
    }

    fn with(cache: Box<Cache>, arena_file: Option<ArenaFile>) -> Engine {
        Engine { cache, sweep: Mutex::default(), arena_file, adopted: Mutex::default() }
    }

    /// Opens a cache on the memory file at `path`, and creates the file if it does not exist. If the last process
    /// closed its cache by [`Engine::close`], and no [`ColdReason`](crate::ColdReason) applies, the new cache holds the
    /// items of that process. Otherwise the new cache is empty. `unix_time` is the time of the machine's clock, since
    /// 1970. Calls `progress` after the file was mapped, and after each page whose items it has checked.
    pub fn open(
        config: EngineConfig,
        path: &Path,
        unix_time: Duration,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(Engine, Start), RestartError> {
        let (cache, file, start) = restart::open(config, path, unix_time, progress)?;
        Ok((Engine::with(Box::new(cache), Some(ArenaFile::Named(file))), start))
    }

    /// Saves the cache to its memory file, so that the next [`Engine::open`] can restore all items. After an error, the
    /// next [`Engine::open`] returns an empty cache.
    ///
    /// Panics if the cache has no memory file.
    pub fn close(self, stop: Stop) -> Result<(), RestartError> {
        let Some(ArenaFile::Named(file)) = &self.arena_file else {
            panic!("the cache was opened on a memory file")
        };
        restart::close(&self.cache, file, stop)
    }

    pub(crate) fn space(&self) -> &Space {
        &self.cache.space
    }

    /// Returns the configuration with which the engine was created. The class table ([`Engine::class_table`]) and the
    /// memory limit may have changed since.
    pub fn config(&self) -> &EngineConfig {
        &self.space().config
    }

    /// Returns a handle for one worker. [`Engine::stats`] also includes the counters of handles that were dropped.
    pub fn handle(&self) -> Handle<'_> {
        Handle::new(&self.cache)
    }

    /// Invalidates every item in the cache: at once, or at second `at` if that is in the future. A later call replaces
    /// a flush that is pending.
    pub fn flush_all(&self, at: Option<Seconds>, now: Now) {
        let space = self.space();
        space.observe_time(now);
        match at {
            Some(second) if second > now.seconds => space.flush.set_due(Some(second)),
            _ => {
                space.flush.set_due(None);
                space.flush_all();
            }
        }
    }

    /// Changes the memory limit. After the limit was lowered, calls of [`Engine::mover_step`] empty pages until the
    /// cache is within the new limit, and return their memory to the system. With a memory file, a higher limit first gets
    /// its blocks from the file system, which takes a time that grows with their number. After an error the old limit stays.
    pub fn set_memory_limit(&self, bytes: u64) -> Result<(), LimitError> {
        let file = match &self.arena_file {
            Some(ArenaFile::Named(file)) => Some(file),
            _ => None,
        };
        restart::set_limit(self.space(), file, bytes)
    }

    /// Returns the number of bytes of the memory file that the file system keeps although the memory limit may be lower,
    /// because it cannot free a part of a file. `None`: there is no memory file, or its file system can do this.
    pub fn kept_bytes(&self) -> Option<u64> {
        let pool = self.space().lock_pool();
        let blocks = pool.blocks().filter(|blocks| !blocks.can_free)?;
        Some(u64::from(blocks.with_blocks()) * self.config().page_size_bytes as u64)
    }

    /// Returns the current memory limit in bytes.
    pub fn memory_limit_bytes(&self) -> u64 {
        u64::from(self.space().lock_pool().limit) * self.config().page_size_bytes as u64
    }

    /// Returns the limits of the segmented LRU.
    pub fn lru(&self) -> LruConfig {
        lock(&self.space().segments).limits
    }

    /// Changes the limits of the segmented LRU.
    pub fn set_lru(&self, lru: LruConfig) {
        self.space().set_segments(|rules| rules.limits = lru);
    }

    /// Switches between segmented and exact LRU order. The eviction kind `cost_bands` keeps its bands in both orders.
    ///
    /// Panics if the eviction kind has only one order ([`EvictionKind::info`](crate::EvictionKind::info)).
    pub fn set_segmented(&self, segmented: bool) {
        assert!(
            self.config().eviction.info().can_switch,
            "eviction={}: this kind cannot switch between segmented and exact LRU order",
            self.config().eviction.name()
        );
        self.space().set_segments(|rules| rules.is_exact = !segmented);
    }

    /// Divides the queue of a class in two parts, if the eviction kind is `split_lru`. Other kinds ignore the call.
    pub fn divide_queue(&self, class: ClassId, split: QueueSplit) {
        self.space().class(class).lock().divide_queue(split);
    }

    /// Returns the current class table.
    pub fn class_table(&self) -> ClassTable {
        self.space().class_table()
    }

    /// Returns every class of the current table and every retired class that owns pages, in ascending order of chunk
    /// sizes.
    pub fn class_ids(&self) -> Vec<ClassId> {
        let _tables = lock(&self.space().tables);
        self.space().non_vacant_classes().into_iter().map(|(id, ..)| id).collect()
    }

    /// Returns the class in which statistics would show an item with a key and a value of these lengths: the largest
    /// class if the item is chained. `None`: the item is too large, or the cache cannot hold it at its present memory
    /// limit. Locks the page pool if the item would be chained.
    pub fn class_of_size(
        &self,
        key_len: usize,
        value_len: usize,
        meta: ItemMeta,
    ) -> Option<ClassId> {
        class_of_size(self.space(), key_len, value_len, meta)
    }

    /// Replaces the class table by a table of these chunk sizes, which are in bytes and in ascending order. Each size
    /// is rounded up to a multiple of [`CHUNK_ALIGN_BYTES`](crate::CHUNK_ALIGN_BYTES). The largest size of the current
    /// table is added if it is missing. New items use the new table at once. Calls of [`Engine::mover_step`] drain the
    /// classes that are not in the new table.
    pub fn change_classes(&self, sizes: &[usize]) -> Result<(), ClassChangeError> {
        self.space().change_classes(|_| true, sizes)
    }

    /// Replaces the class table as [`Engine::change_classes`] does, but only if `present` is still the current table.
    pub fn change_classes_from(
        &self,
        present: &ClassTable,
        sizes: &[usize],
    ) -> Result<(), ClassChangeError> {
        self.space().change_classes(|table| table == present, sizes)
    }

    /// Begins to move a page of `victim` to `receiver` (`None`: the page pool). If `victim` is `None`, the mover
    /// chooses a class with a spare page, else a retired class, else the class that should evict an item first. Calls of
    /// [`Engine::mover_step`] carry the move out. The record of the move contains `reason`.
    pub fn reassign(
        &self,
        victim: Option<ClassId>,
        receiver: Option<ClassId>,
        reason: &'static str,
        now: Now,
    ) -> Result<(), ReassignError> {
        if self.space().is_moving.load(Relaxed) {
            return Err(ReassignError::Running);
        }
        self.cache.mover.lock().reassign(self.space(), victim, receiver, reason, now)
    }

    /// Begins to evict all items of a page, and then gives the page to `receiver`, which may be its present owner.
    /// Calls of [`Engine::mover_step`] carry this out. The record of the move contains `reason`.
    pub fn evict_page(
        &self,
        page: PageId,
        receiver: ClassId,
        reason: &'static str,
        now: Now,
    ) -> Result<(), ReassignError> {
        self.cache.mover.lock().evict_page(self.space(), page, receiver, reason, now)
    }

    /// Plans page moves, in this order, instead of the planned moves that have not begun. Calls of
    /// [`Engine::mover_step`] carry them out, and so do stores in the class that receives the page that is moving: each
    /// store that finds no free chunk visits some chunks of that page. A move that is no longer possible when its turn
    /// comes is dropped.
    pub fn plan_moves(&self, moves: Vec<PlannedMove>) {
        self.cache.mover.lock().plan(moves);
    }

    /// True if a page is moving, or a planned move has not begun.
    pub fn has_planned_moves(&self) -> bool {
        let mover = self.cache.mover.lock();
        mover.job.is_some() || !mover.planned.is_empty()
    }

    /// Returns the planned moves that have begun or were dropped since the last call, oldest first.
    pub fn take_begun_moves(&self) -> Vec<BegunMove> {
        std::mem::take(&mut self.cache.mover.lock().begun)
    }

    /// Sets the mean number of chunks of the moving page that a store in the receiver visits if it finds no free chunk,
    /// with a precision of a sixteenth. With 0, stores do not help the mover.
    pub fn set_help_chunks(&self, chunks: f64) {
        self.space().help_units.store((chunks * f64::from(HELP_UNITS)) as u32, Relaxed);
    }

    /// Starts or stops to record the last access of each page. At the start, every page counts as accessed now.
    pub fn note_page_accesses(&self, notes: bool, now: Now) {
        let space = self.space();
        if notes {
            space.owned_pages().for_each(|(_, page)| page.note_access(now.ticks));
        }
        space.notes_page_accesses.store(notes, Relaxed);
    }

    /// Returns all pages that classes own, except a page that is moving. The times of the last accesses are valid only
    /// while they are recorded ([`Engine::note_page_accesses`]).
    pub fn owned_pages(&self) -> Vec<OwnedPage> {
        let mut owned = Vec::new();
        self.for_each_owned_page(|page| owned.push(page));
        owned
    }

    /// Calls `visit` with each page of [`Engine::owned_pages`], in ascending order of the pages. Needs no memory.
    pub fn for_each_owned_page(&self, mut visit: impl FnMut(OwnedPage)) {
        for (id, page) in self.space().owned_pages() {
            if let Some(class) = page.owner() {
                visit(OwnedPage { id, class, accessed_at: page.accessed_at() });
            }
        }
    }

    /// Runs one step of the mover, which visits up to `budget_chunks` chunks of the page that is moving. If no page is
    /// moving, the step begins to empty a page of a retired class, or a page beyond a lowered memory limit.
    pub fn mover_step(&self, budget_chunks: usize, at: impl Into<Moment>) -> MoverStep {
        self.cache.mover.lock().step(self.space(), budget_chunks, at.into())
    }

    /// Returns the number of chunks of the page that is moving. `None`: no page is moving.
    pub fn chunks_of_moving_page(&self) -> Option<usize> {
        let mover = self.cache.mover.lock();
        mover.job.as_ref().map(|job| self.config().page_size_bytes / job.chunk_size_bytes)
    }

    /// Returns the number of gets since the move in progress began. `None`: no page is moving.
    pub fn gets_of_moving_page(&self) -> Option<u64> {
        let gets = self.gets_ever();
        let mover = self.cache.mover.lock();
        mover.job.as_ref().map(|job| gets.saturating_sub(job.start.gets))
    }

    /// Returns the mover's counters since the start.
    pub fn mover_counters(&self) -> MoverCounters {
        self.cache.mover.lock().counters
    }

    /// Returns the records of the last moves, oldest first. At most [`MOVE_RECORDS_MAX`](crate::MOVE_RECORDS_MAX) moves
    /// are recorded.
    pub fn move_log(&self) -> Vec<MoveRecord> {
        self.cache.mover.lock().log.iter().copied().collect()
    }

    /// Runs one step of the LRU maintainer: at most `budget` rounds for each class. A round removes one item, or moves
    /// at most one item from each queue. Returns the number of rounds that removed or moved an item, summed over all
    /// classes.
    pub fn maintain_step(&self, budget: usize, now: Now) -> usize {
        maintain_step(self.space(), budget, now)
    }

    /// Runs one step of the sweep, which limits the ages of all items and removes flushed items, and begins a sweep if
    /// it is due. The step visits up to `budget_chunks` chunks. Returns [`CrawlStep::Done`] if no sweep is in progress
    /// then. Unless each hour a call returns this, ages may wrap after days of heavy traffic, and old items seem to be
    /// new.
    pub fn sweep_step(&self, budget_chunks: usize, now: Now) -> CrawlStep {
        lock(&self.sweep).step(self.space(), budget_chunks, now)
    }

    /// Converts an age from units of the work clock to seconds: exactly if it is less than four hours. For higher ages,
    /// the result is an estimate between two seconds at most 64 seconds apart, or 4,096 seconds if the age is days.
    pub fn age_seconds(&self, age_work: u32, now: Now) -> u32 {
        let time = WorkTime(self.work_time().0.wrapping_sub(age_work));
        now.seconds.0.saturating_sub(self.space().work.second_of(time).0)
    }

    /// Returns the present time of the work clock, which gives the ages of items.
    pub fn work_time(&self) -> WorkTime {
        self.space().work.now()
    }

    /// Runs one step of a crawl, which visits up to `budget_chunks` chunks. Removes expired and flushed items, and
    /// calls `visit` with every other item of the selected classes. The step holds a lock while it calls `visit`, so
    /// `visit` must be short and must call no operation of the engine.
    pub fn crawl_step(
        &self,
        crawler: &mut Crawler,
        budget_chunks: usize,
        now: Now,
        visit: &mut dyn FnMut(CrawledItem<'_>),
    ) -> CrawlStep {
        crawler.step(self.space(), budget_chunks, now, visit)
    }

    /// Sets the hit densities of items, which `eviction=density` compares.
    pub fn set_densities(&self, densities: &Arc<Densities>) {
        self.space().set_densities(densities);
    }

    /// Returns the observers of evictions and accesses.
    pub fn observers(&self) -> &Observers {
        &self.space().observers
    }

    /// Returns the statistics of the whole cache.
    pub fn stats(&self, now: Now) -> EngineStats {
        let space = self.space();
        space.work.observe(now.seconds);
        let mut stats = EngineStats::default();
        {
            let registry = lock(&space.registry);
            for class in space.queueing_classes() {
                add_class(&mut stats.total, space, class, &registry);
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
        let mover = self.cache.mover.lock();
        (stats.mover, stats.mover_running) = (mover.counters, mover.job.is_some());
        stats
    }

    /// Returns the statistics of every class of the current table and of every retired class that owns pages, in
    /// ascending order of chunk sizes. Chained items are counted in the largest class, as in memcached.
    pub fn class_stats(&self, now: Now) -> Vec<ClassStats> {
        let space = self.space();
        space.work.observe(now.seconds);
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
            add_class(&mut stats, space, space.class(id), &registry);
            if id == space.largest {
                add_class(&mut stats, space, space.class(CHAINED), &registry);
            }
            if let Some(before) = tables.counted_before.get(&id) {
                stats = ClassStats { before: Some(Arc::clone(before)), ..stats.minus(before) };
            }
            stats
        };
        space.non_vacant_classes().into_iter().map(read).collect()
    }

    /// Returns the numbers of held and free pages, and their limits. This call takes much less time than
    /// [`Engine::stats`].
    pub fn page_stats(&self) -> PageStats {
        self.space().page_stats()
    }

    /// Returns the inflation of a class: the rank from which new items start, modulo 2^32. Always 0 if the eviction
    /// kind has no inflation.
    pub fn inflation(&self, class: ClassId) -> u32 {
        self.space().class(class).lock().inflation()
    }

    /// Returns an upper bound of the memory that an item with a value of this length takes, in bytes. A chained item
    /// may need a page of its own for its head, and one for its last body, if no other item has chunks of these sizes.
    pub fn item_bytes_max(&self, value_len: usize) -> u64 {
        let config = &self.space().config;
        let chunk_size_bytes_max = config.classes.chunk_size_bytes_max();
        let size_bytes = value_len + HEADER_SIZE_BYTES + KEY_AND_FIELDS_SIZE_BYTES_MAX;
        if let Some(choice) = self.space().size_map.class_for(size_bytes) {
            return choice.chunk_size_bytes as u64;
        }
        let bodies = value_len.div_ceil(chunk_size_bytes_max - HEADER_SIZE_BYTES);
        (bodies * chunk_size_bytes_max + 2 * config.page_size_bytes) as u64
    }

    /// Returns the memory that holds no item and that items with values of this length could take, in bytes: the free
    /// and spare chunks of the class that would store them, and the pages that no class owns.
    pub fn free_bytes(&self, value_len: usize) -> u64 {
        let space = self.space();
        let size_bytes = value_len.min(space.config.classes.chunk_size_bytes_max());
        let in_class = space.size_map.class_for(size_bytes).map_or(0, |choice| {
            let class = space.class(choice.id).lock();
            let free_count = class.pages.free_count() + space.spares.count(choice.id);
            free_count * choice.chunk_size_bytes as u64
        });
        let pages = space.page_stats();
        let free_pages = pages.limit_for_items.saturating_sub(pages.held) + pages.free;
        in_class + free_pages * space.config.page_size_bytes as u64
    }

    /// Returns the histogram of the sizes of all items, including chained items.
    pub fn item_sizes(&self) -> SizeHistogram {
        let mut histogram = SizeHistogram::default();
        let add = |class: &Class| class.lock_uncounted().sizes.add_to(&mut histogram);
        self.space().queueing_classes().for_each(add);
        histogram
    }

    /// Returns the number of gets by all handles since the start, including gets that touch. This call takes much less
    /// time than [`Engine::stats`].
    pub fn gets_ever(&self) -> u64 {
        self.space().gets_ever()
    }

    /// Returns the number of gets that missed since the start. A get that created the missing item (meta flag `N`)
    /// counts as a hit.
    pub fn misses_ever(&self) -> u64 {
        lock(&self.space().registry).iter().map(|handle| handle.misses()).sum()
    }

    /// Returns the number of items that all handles have stored since the start.
    pub fn stores_ever(&self) -> u64 {
        lock(&self.space().registry).iter().map(|handle| handle.items_total.get()).sum()
    }

    /// Returns the sum of the sizes of the items that all handles have stored since the start, in bytes.
    pub fn bytes_stored_ever(&self) -> u64 {
        lock(&self.space().registry).iter().map(|handle| handle.bytes_stored.get()).sum()
    }

    /// Returns the number of evictions since the start, except of items that the mover evicted for page moves, plus the
    /// number of allocations that found no memory in their class.
    pub fn evictions_ever(&self) -> u64 {
        let evictions = |class: &Class| {
            let counters = class.lock_uncounted().counters;
            let evicted = counters.evicted - counters.evicted_by_mover;
            evicted + counters.out_of_memory + counters.allocated_in_larger_class
        };
        self.space().queueing_classes().map(evictions).sum()
    }

    /// Checks all invariants, for tests. Panics with the name of a broken invariant, if there is one. No operation may
    /// run during the check, but pins and reservations may exist.
    pub fn check(&self) {
        check::check(self.space());
    }
}

/// Adds the statistics of a class to `stats`.
fn add_class(
    stats: &mut ClassStats,
    space: &Space,
    class: &Class,
    registry: &[Arc<HandleCounters>],
) {
    let state = class.lock_uncounted();
    let (spare_count, now) = (space.spares.count(state.id()), space.work.now());
    stats.pages += u64::from(state.pages.token.page_count());
    stats.used_chunks += state.pages.used_count().saturating_sub(spare_count);
    stats.free_chunks += state.pages.free_count() + spare_count;
    stats.item_bytes += state.item_bytes();
    stats.cost_held += state.costs.units;
    stats.counters += &state.counters;
    for kind in QueueKind::ALL {
        stats.items[kind.index()] += state.lanes.count(kind);
        let age = &mut stats.tail_age_work[kind.index()];
        *age = (*age).max(state.tail_age(kind, now));
    }
    registry.iter().for_each(|handle| stats.add_tallies(handle.class(state.id())));
}
