//! The state that all operations share: memory, pages, classes, index, flush and observers.
//!
//! Lock order: tables, stripe, class, pool (`docs/locking.md`). No lock is held across a system call.
//!
//! # Observers
//!
//! The engine reports evictions and accesses to observers ([`Observers`]).
//!
//! ```text
//!   evict: class locked, victim detached and pinned -> class unlocked -> REPORT -> stripe, free
//!   get, store, delete: hash, stripe locked, done, (stripe unlocked) -> is the key in the sample? -> REPORT
//! ```
//!
//! Invariants:
//! - a kind of event that is not observed costs a relaxed load and a branch; an access to a key outside the
//!   sample costs a multiplication more;
//! - an observer is called on the thread of the event, with no class or pool locked. During the report of an
//!   access a stripe may be locked; during the report of an eviction or a removal the mover may be. So an
//!   observer must not wait, call an operation of the engine or make a slow system call: it only buffers events;
//! - an evicted item is pinned, and its stripe is not locked;
//! - each get, store and delete of a key in the sample is reported once, for all commands and protocols. The
//!   accesses of two threads to one key may be reported in another order than they happened.
//!
//! # Flushes
//!
//! The engine's own CAS values rise with every store, so a flush invalidates all items at or below a bound.
//! CAS values that clients chose have no such order; of their items a flush invalidates those that were last
//! accessed before it ([`FlushMark`]).
//!
//! ```text
//!   time of last access -->        flush
//!   ------------------------------|-- margin --|mark
//!        ended                        ended        lives
//! ```
//!
//! Workers read the clock at different times, so the mark is a margin after the flush. Invariants: an item that
//! is stored, or gets a CAS value chosen by a client, gets an access time after the mark; its time never decreases.

use crate::class::{CHAINED, Class, TABLE_NUMBERS};
use crate::config::EngineConfig;
use crate::evict::{ClassOrder, LruConfig, Segments};
use crate::heap::Pool;
use crate::heap::SizeMap;
use crate::index::Index;
use crate::layout::ClassTable;
use crate::mem::{Arena, Item, Memory, ReadAccess, ReadsMeta};
use crate::stats::{ClassStats, HandleCounters, PageStats};
pub use slabwise_base::AccessKind;
use slabwise_base::sampling::{THRESHOLD_NONE, is_sampled};
use slabwise_base::sync::{Mutex, lock};
use slabwise_base::{ClassId, Expiry, KeyHasher, Now, Seconds, Ticks};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed},
};
use std::sync::{Arc, OnceLock};

const NO_TEMPORARY_TTL: u32 = u32::MAX;

/// The memory of a cache, and the structures that organise it; see the module's documentation.
pub struct Space {
    pub config: EngineConfig,
    pub hasher: KeyHasher,
    pub memory: Arc<Memory>,
    pub pool: Mutex<Pool>,
    /// A class for every number that the table may use.
    pub classes: Box<[Class]>,
    /// The class [`CHAINED`].
    chained: Class,
    pub tables: Mutex<Tables>,
    /// A copy of the current table that stores read without a lock.
    pub size_map: SizeMap,
    /// The class with the largest chunks, which is in every table.
    pub largest: ClassId,
    /// True if a retired class may own pages, which the mover then looks for.
    pub retiring: AtomicBool,
    pub index: Index,
    pub flush: Flush,
    /// The current rules for hot, warm, cold and temp.
    pub segments: Mutex<Segments>,
    /// The counters of all handles, dropped ones included.
    pub registry: Mutex<Vec<Arc<HandleCounters>>>,
    /// [`LruConfig::temporary_ttl`] in seconds, or `NO_TEMPORARY_TTL`.
    temporary_ttl: AtomicU32,
    /// True if classes keep one queue in exact LRU order.
    pub exact_order: AtomicBool,
    /// True if items store a rank.
    pub ranks_items: bool,
    /// True if a hit may move its item.
    pub acts_on_hits: AtomicBool,
    pub observers: Observers,
}

/// The data that the tables' lock protects.
#[derive(Debug)]
pub struct Tables {
    pub table: ClassTable,
    /// For each number that has been reused, its counters when its current class began.
    pub counted_before: BTreeMap<ClassId, Arc<ClassStats>>,
}

/// The reason why an item that is still linked is no longer valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndReason {
    Expired,
    Flushed,
}

impl Space {
    /// Creates an empty cache in an arena of sufficient size.
    pub fn new(config: EngineConfig, arena: Arena) -> Space {
        let page_size_bytes = config.page_size_bytes;
        assert!(
            page_size_bytes.is_power_of_two() && (4 << 10..=16 << 20).contains(&page_size_bytes),
            "page size {page_size_bytes}: must be a power of two from 4 KiB to 16 MiB"
        );
        let chunk_size_bytes_max = config.classes.chunk_size_bytes_max();
        assert!(
            chunk_size_bytes_max <= page_size_bytes,
            "chunk size {chunk_size_bytes_max}: must be at most the page size, {page_size_bytes} bytes"
        );
        let memory = Arc::new(Memory::new(arena, page_size_bytes, config.size_model));
        let (kind, options) = (config.eviction, &config.eviction_options);
        let order = || ClassOrder::new(kind, options);
        let segments = Segments { limits: options.lru, is_exact: kind.info().is_exact };
        let vacant = |number| Class::vacant(memory.class_token(ClassId(number)), order(), segments);
        let space = Space {
            hasher: KeyHasher::new(config.hash_seed),
            pool: Mutex::new(Pool::new(config.pages_within(config.memory_limit_bytes))),
            classes: (0..TABLE_NUMBERS as u8).map(vacant).collect(),
            chained: vacant(CHAINED.0),
            tables: Mutex::new(Tables {
                table: config.classes.clone(),
                counted_before: BTreeMap::new(),
            }),
            size_map: SizeMap::new(&config.classes),
            largest: config.classes.largest(),
            retiring: AtomicBool::new(false),
            index: Index::new(&memory, config.memory_limit_bytes),
            flush: Flush::default(),
            segments: Mutex::new(segments),
            registry: Mutex::new(Vec::new()),
            temporary_ttl: AtomicU32::new(temporary_ttl_word(&options.lru)),
            exact_order: AtomicBool::new(kind.info().is_exact),
            ranks_items: kind.info().stores_rank,
            acts_on_hits: AtomicBool::new(kind.info().is_exact || kind.info().acts_on_hits),
            observers: Observers::default(),
            memory,
            config,
        };
        for (id, chunk_size_bytes) in space.config.classes.classes() {
            space.class(id).lock().establish(chunk_size_bytes);
        }
        space
    }

    /// Creates the counters of a new handle, which stay registered after the handle is dropped.
    pub fn register(&self) -> Arc<HandleCounters> {
        let counters = Arc::new(HandleCounters::new());
        lock(&self.registry).push(Arc::clone(&counters));
        counters
    }

    /// The number of gets of all handles since the start, get-and-touch included; cheap.
    pub fn gets_ever(&self) -> u64 {
        lock(&self.registry).iter().map(|handle| handle.gets()).sum()
    }

    pub fn set_segments(&self, change: impl FnOnce(&mut Segments)) {
        let mut segments = lock(&self.segments);
        change(&mut segments);
        self.temporary_ttl.store(temporary_ttl_word(&segments.limits), Relaxed);
        self.exact_order.store(segments.is_exact, Relaxed);
        let acts_on_hits = segments.is_exact || self.config.eviction.info().acts_on_hits;
        self.acts_on_hits.store(acts_on_hits, Relaxed);
        self.queueing_classes().for_each(|class| class.lock().segments = *segments);
    }

    pub fn page_stats(&self) -> PageStats {
        let pool = lock(&self.pool);
        PageStats {
            held: u64::from(pool.allocated),
            free: u64::from(pool.free_count()),
            limit: u64::from(pool.limit),
            limit_for_items: u64::from(pool.limit_for_items()),
        }
    }

    pub fn class(&self, id: ClassId) -> &Class {
        if id == CHAINED { &self.chained } else { &self.classes[id.index()] }
    }

    /// Every class that may have queued items: one per number, and [`CHAINED`].
    pub fn queueing_classes(&self) -> impl Iterator<Item = &Class> {
        self.classes.iter().chain([&self.chained])
    }

    /// The class in which statistics show items queued in `class`: chained items are shown in the largest class,
    /// as in memcached.
    pub fn stats_class(&self, class: ClassId) -> ClassId {
        if class == CHAINED { self.largest } else { class }
    }

    /// The hash of an item's key.
    #[inline]
    pub fn hash_of<R: ReadAccess>(&self, item: Item<'_, R>) -> u64 {
        self.hasher.hash(item.key())
    }

    /// Counts the index against the memory limit, if the limit is configured to include it.
    pub fn charge_index(&self) {
        if self.config.index_within_limit {
            let pages = self.index.size_bytes() / self.config.page_size_bytes as u64;
            lock(&self.pool).charged = pages as u32;
        }
    }

    /// Reports an access to the key of this hash, if it is in the sample. The caller must hold no class or pool
    /// lock, and should hold no stripe lock.
    #[inline(always)]
    pub fn report_access(&self, hash: u64, kind: AccessKind, class: Option<ClassId>) {
        if self.observers.observes_access(hash) {
            let class = class.map(|class| self.stats_class(class));
            self.observers.report_access(&KeyAccess { hash, kind, class });
        }
    }

    /// True if an item with this expiry belongs in the temp queue.
    pub fn is_short_lived(&self, expiry: Expiry, now: Now) -> bool {
        let ttl_max = self.temporary_ttl.load(Relaxed);
        let ttl = expiry.second().map(|end| end.0.saturating_sub(now.seconds.0));
        ttl_max != NO_TEMPORARY_TTL && ttl.is_some_and(|ttl| ttl <= ttl_max)
    }

    /// The reason why a linked item is no longer valid, if it is not.
    #[inline(always)]
    pub fn end_reason<R: ReadsMeta>(&self, item: Item<'_, R>, now: Now) -> Option<EndReason> {
        if self.flush.ends(item, now) {
            return Some(EndReason::Flushed);
        }
        item.expiry().is_past(now.seconds).then_some(EndReason::Expired)
    }
}

fn temporary_ttl_word(lru: &LruConfig) -> u32 {
    lru.temporary_ttl.map_or(NO_TEMPORARY_TTL, |ttl| ttl.0.min(NO_TEMPORARY_TTL - 1))
}

/// An item that is evicted because its memory is needed.
#[derive(Clone, Copy, Debug)]
pub struct Eviction<'a> {
    /// The item's key.
    pub key: &'a [u8],
    /// The length of its value in bytes.
    pub value_len: usize,
    /// Its expiry.
    pub expiry: Expiry,
    /// The time of its last access.
    pub last_access: Ticks,
    /// True if it was ever hit.
    pub fetched: bool,
    /// The class that statistics show it in.
    pub class: ClassId,
    /// The time of the operation that needs the memory.
    pub now: Now,
}

/// An observer of evictions. It must not wait or call an operation of the engine.
pub trait EvictionObserver: Send + Sync {
    /// Called before an item is evicted.
    fn evicted(&self, eviction: &Eviction<'_>);
}

/// An access to a key in the sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyAccess {
    /// The key's hash, which identifies the key.
    pub hash: u64,
    /// The kind of access.
    pub kind: AccessKind,
    /// The class of the key's item, or of the item that was deleted; `None`: there was no item. A chained item
    /// counts in the class with the largest chunks.
    pub class: Option<ClassId>,
}

/// An observer of accesses. It must not wait or call an operation of the engine.
pub trait AccessObserver: Send + Sync {
    /// Called after a key in the sample was accessed.
    fn accessed(&self, access: &KeyAccess);
}

/// The observers of evictions and accesses, and the switches that enable them.
#[derive(Default)]
pub struct Observers {
    evictions_observed: AtomicBool,
    eviction_observer: OnceLock<Arc<dyn EvictionObserver>>,
    /// The threshold that determines the sampled keys ([`slabwise_base::sampling`]).
    sample_threshold: AtomicU64,
    access_observer: OnceLock<Arc<dyn AccessObserver>>,
}

impl fmt::Debug for Observers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observers")
            .field("evictions_observed", &self.evictions_observed)
            .field("sample_threshold", &self.sample_threshold)
            .finish_non_exhaustive()
    }
}

impl Observers {
    /// Sets the observer of evictions, once; [`Observers::observe_evictions`] enables it.
    pub fn set_eviction_observer(&self, observer: Arc<dyn EvictionObserver>) {
        assert!(
            self.eviction_observer.set(observer).is_ok(),
            "the observer of evictions is set only once"
        );
    }

    /// Sets the observer of accesses, once; [`Observers::sample_accesses`] enables it and selects the keys.
    pub fn set_access_observer(&self, observer: Arc<dyn AccessObserver>) {
        let is_first = self.access_observer.set(observer).is_ok();
        assert!(is_first, "the observer of accesses is set only once");
    }

    /// Reports accesses to keys below this threshold of [`slabwise_base::sampling`] from now on;
    /// [`THRESHOLD_NONE`] disables the observer.
    pub fn sample_accesses(&self, threshold: u64) {
        self.sample_threshold.store(threshold, Relaxed);
    }

    /// Enables or disables the observer of evictions.
    pub fn observe_evictions(&self, observed: bool) {
        self.evictions_observed.store(observed, Relaxed);
    }

    #[inline]
    pub(super) fn observes_evictions(&self) -> bool {
        self.evictions_observed.load(Relaxed)
    }

    #[inline(always)]
    pub(super) fn observes_access(&self, hash: u64) -> bool {
        let threshold = self.sample_threshold.load(Relaxed);
        threshold != THRESHOLD_NONE && is_sampled(hash, threshold)
    }

    #[cold]
    pub(super) fn report_access(&self, access: &KeyAccess) {
        if let Some(observer) = self.access_observer.get() {
            observer.accessed(access);
        }
    }

    #[cold]
    pub(super) fn report_eviction(&self, eviction: &Eviction<'_>) {
        if let Some(observer) = self.eviction_observer.get() {
            observer.evicted(eviction);
        }
    }
}

/// The source of CAS values, and the state of flushes.
#[derive(Debug, Default)]
pub struct Flush {
    /// The last CAS value that the engine assigned.
    last_cas: AtomicU64,
    /// Items at or below it are flushed, if the engine assigned their CAS value.
    cas_bound: AtomicU64,
    /// The second at which a delayed flush takes effect; 0 for none.
    due_second: AtomicU32,
    mark: FlushMark,
}

/// The state of a [`Flush`] that survives a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlushSaved {
    pub last_cas: u64,
    pub cas_bound: u64,
    pub due_second: u32,
    pub mark: u64,
}

impl Flush {
    /// Invalidates every item stored so far, at once or at second `at`. A later call replaces a pending flush.
    pub fn flush_all(&self, at: Option<Seconds>, now: Now) {
        self.settle(now);
        match at {
            Some(second) if second > now.seconds => self.due_second.store(second.0, Relaxed),
            _ => {
                self.due_second.store(0, Relaxed);
                self.mark.set(now);
                self.cas_bound.fetch_max(self.last_cas.load(Relaxed), Relaxed);
            }
        }
    }

    /// Assigns a CAS value to an item that the caller owns or whose stripe it has locked: the value that a client
    /// chose, or the next one.
    pub fn give_cas<R: ReadAccess>(&self, item: Item<'_, R>, chosen: Option<u64>, now: Now) {
        // In this order, `ends` never sees a valid item as flushed.
        match chosen {
            Some(cas) => {
                item.set_time(self.mark.later(item.time(), now));
                item.marks().set_given_cas(true);
                item.set_cas(cas);
            }
            None => {
                item.set_cas(self.last_cas.fetch_add(1, Relaxed) + 1);
                item.marks().set_given_cas(false);
            }
        }
    }

    /// Carries out a delayed flush that is due. Every lookup calls this first, so that an item stored after the
    /// due time is not flushed.
    #[inline]
    pub fn settle(&self, now: Now) {
        let due = self.due_second.load(Acquire);
        if due == 0 || due > now.seconds.0 {
            return;
        }
        // The bound is read before the flush is claimed, because other threads may store items after the claim,
        // which the flush must not invalidate.
        let bound = self.last_cas.load(Relaxed);
        if self.due_second.compare_exchange(due, 0, AcqRel, Acquire).is_ok() {
            self.mark.set(now);
            self.cas_bound.fetch_max(bound, Relaxed);
        }
    }

    /// True if a flush has invalidated an item. A thread that holds its class's lock but not its stripe's may read
    /// it while its CAS value changes, so a flushed result is valid only if the kind of value did not change.
    #[inline(always)]
    pub fn ends<R: ReadAccess>(&self, item: Item<'_, R>, now: Now) -> bool {
        loop {
            let is_chosen = item.state().has_given_cas();
            let flushed = if is_chosen {
                self.mark.ends(item.time(), now)
            } else {
                item.cas() <= self.cas_bound.load(Relaxed)
            };
            if !flushed || item.state().has_given_cas() == is_chosen {
                return flushed;
            }
        }
    }

    /// The state that survives a restart.
    pub fn saved(&self) -> FlushSaved {
        FlushSaved {
            last_cas: self.last_cas.load(Relaxed),
            cas_bound: self.cas_bound.load(Relaxed),
            due_second: self.due_second.load(Relaxed),
            mark: self.mark.0.load(Relaxed),
        }
    }

    /// Restores a saved state.
    pub fn restore(&self, saved: FlushSaved) {
        self.last_cas.store(saved.last_cas, Relaxed);
        self.cas_bound.store(saved.cas_bound, Relaxed);
        self.due_second.store(saved.due_second, Relaxed);
        self.mark.0.store(saved.mark, Relaxed);
    }
}

/// The largest difference between two workers' clock readings.
const MARGIN: Ticks = Ticks(Ticks::PER_SECOND);

/// The age at which a flush is ignored, since ticks wrap around. By then all items that it invalidated are gone.
const FORGOTTEN_AFTER_SECONDS: u32 = 365 * 24 * 60 * 60;

/// The time of the last flush, as seconds and ticks; 0 for none.
#[derive(Debug, Default)]
struct FlushMark(AtomicU64);

impl FlushMark {
    /// Records a flush. The new mark is after every access time that was moved past the previous mark.
    fn set(&self, now: Now) {
        let next = |_| {
            let ticks = self.later(Ticks(now.ticks.0.wrapping_add(MARGIN.0)), now);
            Some(u64::from(now.seconds.0) << 32 | u64::from(ticks.0))
        };
        let updated = self.0.fetch_update(Relaxed, Relaxed, next);
        debug_assert!(updated.is_ok());
    }

    /// True if the flush invalidated an item that was last accessed at `time`.
    fn ends(&self, time: Ticks, now: Now) -> bool {
        self.recent(now).is_some_and(|mark| !time.is_after(mark))
    }

    /// `time`, or the first moment after the mark if that is later.
    fn later(&self, time: Ticks, now: Now) -> Ticks {
        match self.recent(now) {
            Some(mark) if !time.is_after(mark) => Ticks(mark.0.wrapping_add(1)),
            _ => time,
        }
    }

    fn recent(&self, now: Now) -> Option<Ticks> {
        let word = self.0.load(Relaxed);
        let age_seconds = now.seconds.0.saturating_sub((word >> 32) as u32);
        (word != 0 && age_seconds < FORGOTTEN_AFTER_SECONDS).then_some(Ticks(word as u32))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{FORGOTTEN_AFTER_SECONDS, FlushMark};
    use slabwise_base::{Now, Seconds, Ticks};

    fn at(seconds: u32) -> Now {
        Now { seconds: Seconds(seconds), ticks: Ticks(seconds.wrapping_mul(Ticks::PER_SECOND)) }
    }

    #[test]
    fn a_flush_invalidates_only_items_accessed_before_its_mark() {
        let mark = FlushMark::default();
        assert!(!mark.ends(at(5).ticks, at(10)), "nothing was flushed");
        assert_eq!(mark.later(at(10).ticks, at(10)), at(10).ticks);
        mark.set(at(10));
        assert!(mark.ends(at(5).ticks, at(10)) && mark.ends(at(11).ticks, at(10)));
        let stored = mark.later(at(10).ticks, at(10));
        assert!(!mark.ends(stored, at(10)) && !mark.ends(stored, at(1000)));
        assert!(mark.ends(at(5).ticks, at(1000)));
        assert!(!mark.ends(at(12).ticks, at(1000)));
        mark.set(at(10));
        assert!(mark.ends(stored, at(10)), "flushed again within the same tick");
        assert!(!mark.ends(mark.later(at(10).ticks, at(10)), at(10)));
    }

    #[test]
    fn a_flush_survives_wrapping_ticks_and_expires_after_years() {
        let mark = FlushMark::default();
        let wrap_seconds = (1u64 << 32) as u32 / Ticks::PER_SECOND;
        let flushed = at(u32::MAX / Ticks::PER_SECOND);
        mark.set(flushed);
        let stored = mark.later(flushed.ticks, flushed);
        assert!(!mark.ends(stored, at(flushed.seconds.0 + 5)));
        assert!(mark.ends(at(flushed.seconds.0 - 5).ticks, at(flushed.seconds.0 + 5)));
        let much_later = at(flushed.seconds.0 + FORGOTTEN_AFTER_SECONDS + wrap_seconds);
        assert!(!mark.ends(much_later.ticks, much_later));
    }
}
