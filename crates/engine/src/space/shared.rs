//! The state that all operations of a cache share ([`Space`]).
//!
//! Lock order: tables, stripe, class, pool (`docs/locking.md`). None of these locks is held across a system call.

use super::flush::Flush;
use super::observers::{KeyAccess, Observers};
use super::spares::Spares;
use super::work_clock::WorkClock;
use crate::class::{CHAINED, Class, TABLE_NUMBERS};
use crate::config::EngineConfig;
use crate::counted_lock::{CountedGuard, CountedLock, LockCounts};
use crate::evict::{ClassOrder, ItemCosts, LruConfig, Segments};
use crate::heap::SizeMap;
use crate::index::Index;
use crate::layout::{ChunkAddress, ClassTable};
use crate::mem::{
    Arena, Item, Linked, MappingError, Memory, Page, PageState, ReadAccess, ReadsMeta, prefetch,
};
use crate::pool::Pool;
use crate::stats::{ClassStats, HandleCounters, PageStats};
pub use slabwise_base::AccessKind;
use slabwise_base::density::Densities;
use slabwise_base::sync::{Mutex, OwnLines, lock, try_lock};
use slabwise_base::{ClassId, Expiry, Ghosts, KeyHasher, Now, PageId, Seconds, Uses};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::Relaxed};

/// The value of [`Space::temporary_ttl`] if no item enters the temp queue.
const NO_TEMPORARY_TTL: u32 = u32::MAX;

/// The number of units of [`Space::help_units`] in a chunk.
pub const HELP_UNITS: u32 = 16;

/// The default number of visits and evictions that a store pays for. The page that a class receives has about as many
/// chunks as the page that the victim gives, and a chunk of the latter needs a visit and an eviction. So pages arrive
/// at twice the rate at which the class evicts pages of items.
const HELP_CHUNKS_DEFAULT: u32 = 4;

/// The memory of a cache, and all data structures over this memory.
pub struct Space {
    /// The configuration with which the engine was created. The class table and the memory limit may have changed
    /// since.
    pub config: EngineConfig,
    /// The hash function for keys.
    pub hasher: KeyHasher,
    /// The arena and the pages in it.
    pub memory: Arc<Memory>,
    /// The spare chunks of all handles.
    pub spares: Spares,
    /// The pages that no class owns.
    pool: OwnLines<CountedLock<Pool>>,
    /// The right to change the memory limit, and to allocate or free blocks of a memory file (ONE-RESIZE in `pool.rs`). It is
    /// held during system calls.
    pub resize: Mutex<()>,
    /// One class per number that a class table may use, indexed by the number.
    pub classes: Box<[Class]>,
    /// The class [`CHAINED`], which queues all chained items.
    pub chained: Class,
    /// The current class table. The lock is held while the table changes.
    pub tables: Mutex<Tables>,
    /// A copy of the current class table, which stores read without a lock.
    pub size_map: SizeMap,
    /// The class with the largest chunks, which is in every class table.
    pub largest: ClassId,
    /// True if a retired class may still own pages. The mover then searches for such a class.
    pub retiring: AtomicBool,
    /// The index from keys to items.
    pub index: Index,
    /// The clock of accesses to items.
    pub work: WorkClock,
    /// The source of CAS values, and the state of flushes.
    pub flush: Flush,
    /// True if items count the requests for them. This depends only on the eviction kind.
    pub counts_uses: bool,
    /// The requests for evicted and deleted keys.
    pub ghosts: Ghosts,
    /// The current rules for the queues hot, warm, cold and temp. Every class has a copy.
    pub segments: Mutex<Segments>,
    /// The counters of all handles, including handles that were dropped.
    pub registry: Mutex<Vec<Arc<HandleCounters>>>,
    /// The longest TTL of items in the temp queue ([`LruConfig::temporary_ttl`]) in seconds, or [`NO_TEMPORARY_TTL`].
    temporary_ttl: AtomicU32,
    /// True if classes are in exact LRU order, with one queue per lane.
    pub exact_order: AtomicBool,
    /// True if every item stores a rank. This depends only on the eviction kind.
    pub ranks_items: bool,
    /// True if a hit may move its item. A hit then takes the lock of the item's class.
    pub acts_on_hits: AtomicBool,
    /// True if the last access of each page is recorded.
    pub notes_page_accesses: AtomicBool,
    /// True if a page is moving, so that a request can be refused without waiting for the mover's lock.
    pub is_moving: AtomicBool,
    /// The number of the class that receives the moving page and whose stores help the mover, plus one; 0 if there is
    /// no such class.
    receiver: AtomicU32,
    /// The number of chunks of the moving page that a store in the receiver pays for, if it finds no free chunk, in
    /// units of 1/[`HELP_UNITS`].
    pub help_units: AtomicU32,
    /// No item in a smaller chunk than this, in bytes, has ever had a pin of a [`Pinned`](crate::Pinned), except chained
    /// items. So a handover searches for pinned items only in the classes of larger chunks.
    pinned_chunk_size_bytes_min: AtomicUsize,
    /// The observers of evictions and accesses.
    pub observers: Observers,
}

/// The data that the lock of the class table protects.
#[derive(Debug)]
pub struct Tables {
    /// The current class table.
    pub table: ClassTable,
    /// For each class number that a change of the table gave to a new class: the number's counters when that class was
    /// established.
    pub counted_before: BTreeMap<ClassId, Arc<ClassStats>>,
}

/// The reason why an item in the index is no longer valid, so that a lookup must miss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidReason {
    /// The item has expired.
    Expired,
    /// A flush has invalidated the item.
    Flushed,
}

impl Space {
    /// Creates an empty cache. The arena must have at least the size that the configuration requires. Returns an error
    /// if the system refuses to reserve the address space for the index.
    ///
    /// Panics if the page size or the largest chunk size is not allowed.
    pub fn new(config: EngineConfig, arena: Arena) -> Result<Space, MappingError> {
        let page_size_bytes = config.page_size_bytes;
        assert!(
            page_size_bytes.is_power_of_two() && (4 << 10..=16 << 20).contains(&page_size_bytes),
            "page size of {page_size_bytes} bytes: must be a power of two from 4 KiB to 16 MiB"
        );
        let chunk_size_bytes_max = config.classes.chunk_size_bytes_max();
        assert!(
            chunk_size_bytes_max <= page_size_bytes,
            "chunk size of {chunk_size_bytes_max} bytes: must be at most the page size, {page_size_bytes} bytes"
        );
        let memory = Arc::new(Memory::new(arena, page_size_bytes, config.size_model));
        let (kind, options) = (config.eviction, &config.eviction_options);
        let order = || ClassOrder::new(kind, options);
        let segments = Segments { limits: options.lru, is_exact: kind.info().is_exact };
        let spares = Spares::new(&config, &memory);
        let vacant = |number| {
            let (token, limits) = (memory.class_token(ClassId(number)), Arc::clone(&spares.limits));
            Class::vacant(token, order(), segments, limits)
        };
        let space = Space {
            hasher: KeyHasher::new(config.hash_seed),
            pool: OwnLines(CountedLock::new(Pool::new(
                config.pages_within(config.memory_limit_bytes),
            ))),
            resize: Mutex::new(()),
            classes: (0..TABLE_NUMBERS as u8).map(vacant).collect(),
            chained: vacant(CHAINED.0),
            tables: Mutex::new(Tables {
                table: config.classes.clone(),
                counted_before: BTreeMap::new(),
            }),
            size_map: SizeMap::new(&config.classes),
            largest: config.classes.largest(),
            retiring: AtomicBool::new(false),
            index: Index::new(&memory, config.memory_limit_bytes, config.huge_pages)?,
            work: WorkClock::new(config.memory_limit_bytes),
            flush: Flush::default(),
            counts_uses: kind.info().counts_uses,
            ghosts: Ghosts::new(config.memory_limit_bytes, kind.info().counts_uses),
            segments: Mutex::new(segments),
            registry: Mutex::new(Vec::new()),
            temporary_ttl: AtomicU32::new(temporary_ttl_word(&options.lru)),
            exact_order: AtomicBool::new(kind.info().is_exact),
            ranks_items: kind.info().stores_rank,
            acts_on_hits: AtomicBool::new(kind.info().is_exact || kind.info().acts_on_hits),
            notes_page_accesses: AtomicBool::new(false),
            is_moving: AtomicBool::new(false),
            receiver: AtomicU32::new(0),
            help_units: AtomicU32::new(HELP_CHUNKS_DEFAULT * HELP_UNITS),
            pinned_chunk_size_bytes_min: AtomicUsize::new(usize::MAX),
            observers: Observers::default(),
            spares,
            memory,
            config,
        };
        for (id, chunk_size_bytes) in space.config.classes.classes() {
            space.class(id).lock_uncounted().establish(chunk_size_bytes);
        }
        space.charge_tables();
        Ok(space)
    }

    /// Creates the counters of a new handle. They stay in the registry after the handle is dropped.
    pub fn register(&self) -> Arc<HandleCounters> {
        let counters = Arc::new(HandleCounters::new());
        lock(&self.registry).push(Arc::clone(&counters));
        counters
    }

    /// Returns the number of gets by all handles since the start, including gets that touch.
    pub fn gets_ever(&self) -> u64 {
        lock(&self.registry).iter().map(|handle| handle.gets()).sum()
    }

    /// Changes the rules for the queues hot, warm, cold and temp in all classes.
    pub fn set_segments(&self, change: impl FnOnce(&mut Segments)) {
        let mut segments = lock(&self.segments);
        let was_exact = segments.is_exact;
        change(&mut segments);
        self.temporary_ttl.store(temporary_ttl_word(&segments.limits), Relaxed);
        self.exact_order.store(segments.is_exact, Relaxed);
        let acts_on_hits = segments.is_exact || self.config.eviction.info().acts_on_hits;
        self.acts_on_hits.store(acts_on_hits, Relaxed);
        self.queueing_classes().for_each(|class| class.lock().set_segments(*segments));
        if segments.is_exact != was_exact {
            self.recall_all();
        }
    }

    /// Locks the page pool.
    pub fn lock_pool(&self) -> CountedGuard<'_, Pool> {
        self.pool.0.lock()
    }

    /// Returns the counts of the lock of the page pool.
    pub fn pool_lock_counts(&self) -> LockCounts {
        self.pool.0.counts()
    }

    /// Returns a page that no class owns to the operating system, if too many pages hold memory. Returns false if there is
    /// no such page, or if the memory limit is changing.
    pub fn release_page(&self) -> bool {
        if !self.lock_pool().has_release() {
            return false;
        }
        let Some(_resize) = try_lock(&self.resize) else { return false };
        let taken = self.lock_pool().take_for_release(&self.memory);
        let Some(release) = taken else { return false };
        let is_freed = release.frees_memory && self.memory.release(&release.page);
        self.lock_pool().put_released(release, is_freed);
        true
    }

    /// Returns the numbers of held and free pages, and the limits.
    pub fn page_stats(&self) -> PageStats {
        let pool = self.lock_pool();
        PageStats {
            held: u64::from(pool.allocated),
            free: u64::from(pool.free_count()),
            limit: u64::from(pool.limit),
            limit_for_items: u64::from(pool.limit_for_items()),
        }
    }

    /// Returns all pages that classes own, except pages that drain.
    pub fn owned_pages(&self) -> impl Iterator<Item = (PageId, &Page)> {
        let frontier = self.lock_pool().frontier;
        let pages = (0..frontier).map(PageId).map(|id| (id, self.memory.page(id)));
        pages.filter(|(_, page)| page.state() == PageState::Owned)
    }

    /// Records an access to the pages of an item's chunks, which `chunks` returns, if accesses of pages are recorded.
    #[inline(always)]
    pub fn note_page_access<I: Iterator<Item = ChunkAddress>>(
        &self,
        chunks: impl FnOnce() -> I,
        now: Now,
    ) {
        if self.notes_page_accesses.load(Relaxed) {
            self.note_access_to(chunks(), now);
        }
    }

    /// Records an access to the pages of these chunks. Not inlined, because few page policies need the records.
    #[cold]
    fn note_access_to(&self, chunks: impl Iterator<Item = ChunkAddress>, now: Now) {
        let pages = chunks.map(|chunk| self.memory.page(self.memory.page_of(chunk)));
        pages.for_each(|page| page.note_access(now.ticks));
    }

    /// Sets the class whose stores help the mover.
    pub fn set_receiver(&self, receiver: Option<ClassId>) {
        let word = receiver.map_or(0, |class| u32::from(class.0) + 1);
        if self.receiver.load(Relaxed) != word {
            self.receiver.store(word, Relaxed);
        }
    }

    /// True if stores in this class help the mover.
    #[inline]
    pub fn is_receiver(&self, class: ClassId) -> bool {
        self.receiver.load(Relaxed) == u32::from(class.0) + 1
    }

    /// Returns the class with this number.
    pub fn class(&self, id: ClassId) -> &Class {
        if id == CHAINED { &self.chained } else { &self.classes[id.index()] }
    }

    /// Returns every class that may hold queued items: the class of every number, and [`CHAINED`].
    pub fn queueing_classes(&self) -> impl Iterator<Item = &Class> {
        self.classes.iter().chain([&self.chained])
    }

    /// Returns the class in which statistics show the items that are queued in `class`. Chained items are shown in the
    /// largest class, as in memcached.
    pub fn stats_class(&self, class: ClassId) -> ClassId {
        if class == CHAINED { self.largest } else { class }
    }

    /// Records that an item gets a pin that outlasts the operation.
    #[inline]
    pub fn note_value_pin(&self, item: Linked<'_>) {
        let size_bytes = item.size_in_first_chunk_bytes();
        if size_bytes < self.pinned_chunk_size_bytes_min.load(Relaxed) {
            self.pinned_chunk_size_bytes_min.fetch_min(size_bytes, Relaxed);
        }
    }

    /// Returns a size such that only chained items, and items in chunks of at least this size in bytes, can have pins that
    /// outlast an operation.
    pub fn pinned_chunk_size_bytes_min(&self) -> usize {
        self.pinned_chunk_size_bytes_min.load(Relaxed)
    }

    /// Returns the hash of an item's key.
    #[inline]
    pub fn hash_of<R: ReadAccess>(&self, item: Item<'_, R>) -> u64 {
        self.hasher.hash(item.key())
    }

    /// Prefetches the entries of [`Space::ghosts`] for the key with this hash.
    #[inline]
    pub fn prefetch_ghosts(&self, hash: u64) {
        if self.counts_uses {
            self.ghosts.address_of_set(hash).into_iter().for_each(prefetch);
        }
    }

    /// Reduces the memory for items by the table of ghosts and, if the memory limit includes the index, by the present size
    /// of the index.
    pub fn charge_tables(&self) {
        let index = if self.config.index_within_limit { self.index.size_bytes() } else { 0 };
        let size_bytes = index + self.ghosts.size_bytes();
        if size_bytes == 0 {
            return;
        }
        self.lock_pool().charged = (size_bytes / self.config.page_size_bytes as u64) as u32;
    }

    /// Reports an access to the key with this hash, if the key is in the sample. The caller must hold no class lock and
    /// no pool lock, and should hold no stripe lock.
    #[inline(always)]
    pub fn report_access(&self, hash: u64, kind: AccessKind, class: Option<ClassId>) {
        if self.observers.observes_access(hash) {
            let class = class.map(|class| self.stats_class(class));
            let work_time = self.work.now();
            let access =
                KeyAccess { hash, kind, class, size_bytes: 0, work_time, uses: Uses::FIRST };
            self.observers.report_access(&access);
        }
    }

    /// Returns an access to this item, if its key is in the sample. The caller reports the access with
    /// [`Space::report`] after it has unlocked the stripe of the item.
    #[inline(always)]
    pub fn access_to<R: ReadAccess>(
        &self,
        hash: u64,
        kind: AccessKind,
        item: Item<'_, R>,
    ) -> Option<KeyAccess> {
        self.observers.observes_access(hash).then(|| self.describe_access(hash, kind, item))
    }

    #[cold]
    #[inline(never)]
    fn describe_access<R: ReadAccess>(
        &self,
        hash: u64,
        kind: AccessKind,
        item: Item<'_, R>,
    ) -> KeyAccess {
        let class = Some(self.stats_class(item.queue_class()));
        let size_bytes = u32::try_from(item.counted_size_bytes()).unwrap_or(u32::MAX);
        KeyAccess { hash, kind, class, size_bytes, work_time: self.work.now(), uses: item.uses() }
    }

    /// Reports an access. The caller must hold no class lock and no pool lock, and should hold no stripe lock.
    #[inline(always)]
    pub fn report(&self, access: Option<KeyAccess>) {
        if let Some(access) = access {
            self.observers.report_access(&access);
        }
    }

    /// True if the TTL of an item with this expiry is short enough for the temp queue.
    pub fn is_short_lived(&self, expiry: Expiry, now: Now) -> bool {
        let ttl_max = self.temporary_ttl.load(Relaxed);
        let ttl = expiry.second().map(|end| end.0.saturating_sub(now.seconds.0));
        ttl_max != NO_TEMPORARY_TTL && ttl.is_some_and(|ttl| ttl <= ttl_max)
    }

    /// Sets the hit densities by which the classes rank items, if the eviction kind does so.
    pub fn set_densities(&self, densities: &Arc<Densities>) {
        let mut costs = ItemCosts::default();
        self.queueing_classes().for_each(|class| costs.append(class.lock().costs));
        let mean_cost_units = (costs.count > 0).then(|| costs.mean());
        self.queueing_classes()
            .for_each(|class| class.lock().set_densities(densities, mean_cost_units));
    }

    /// Invalidates every item in the cache. The caller holds no lock of a stripe.
    pub fn flush_all(&self) {
        self.flush.invalidate_all(&self.work, || self.index.await_operations());
    }

    /// Does what is due at this time: advances the work clock, and carries out a delayed flush. Every lookup calls this
    /// function before it locks a stripe.
    #[inline]
    pub fn observe_time(&self, now: Now) {
        self.work.observe(now.seconds);
        if let Some(due) = self.flush.due(now) {
            self.carry_out_flush(due);
        }
    }

    #[cold]
    fn carry_out_flush(&self, due: Seconds) {
        if self.flush.claim(due) {
            self.flush_all();
        }
    }

    /// Returns the reason why an item in the index is no longer valid. `None`: the item is valid.
    #[inline(always)]
    pub fn invalid_reason<R: ReadsMeta>(
        &self,
        item: Item<'_, R>,
        now: Now,
    ) -> Option<InvalidReason> {
        if self.flush.has_invalidated(item, &self.work) {
            return Some(InvalidReason::Flushed);
        }
        item.expiry().is_past(now.seconds).then_some(InvalidReason::Expired)
    }
}

/// Returns the value of [`Space::temporary_ttl`] for these limits.
fn temporary_ttl_word(lru: &LruConfig) -> u32 {
    lru.temporary_ttl.map_or(NO_TEMPORARY_TTL, |ttl| ttl.0.min(NO_TEMPORARY_TTL - 1))
}
