//! What every operation shares: memory, pages, classes, index, the flush and the tap.
//!
//! Lock order: tables, stripe, class, pool (`docs/locking.md`). No lock is held across a system call.
//!
//! # The tap
//!
//! The engine shows observers what happens to keys.
//!
//! ```text
//!   evict: class locked, victim detached and pinned -> class released -> TAP -> stripe, free
//!   get, store, delete: hash, stripe locked, done, (stripe released) -> is the key in the sample? -> TAP
//! ```
//!
//! Invariants:
//! - while nobody wants a kind of event it costs a relaxed load and a branch; an access to a key that is not
//!   in the sample costs a multiplication more;
//! - an observer is called on the thread where it happens, with no class or pool locked. A stripe may be
//!   locked where it is shown an access, and the mover where it is shown an eviction or an end. So it must not
//!   wait, must call no operation of the engine and make no system call that may take long: it puts what it is
//!   shown aside;
//! - an evicted item is pinned, and its stripe is not locked;
//! - accesses: whatever the command and the protocol, each get, store and delete of a key in the sample is
//!   shown once. Two threads' accesses to one key may be shown in another order than they happened.
//!
//! # Flushes
//!
//! The engine's own CAS values rise with every store, so a flush ends all items at or below a bound. A
//! value that a client chose says nothing of that; of these items a flush ends those that were last
//! accessed before it ([`FlushMark`]).
//!
//! ```text
//!   time of last access -->        flush
//!   ------------------------------|-- margin --|mark
//!        ended                        ended        lives
//! ```
//!
//! Workers read the clock at different moments of a turn, so the mark lies a margin behind the flush.
//! Invariants: an item that is stored, or given such a value, is dated after the mark; its date never goes back.

use crate::class::{CHAINED, Class, TABLE_NUMBERS};
use crate::config::EngineConfig;
use crate::evict::{ClassOrder, LruConfig, Segments};
use crate::heap::Pool;
use crate::heap::SizeMap;
use crate::index::Index;
use crate::layout::ClassTable;
use crate::mem::{Arena, Item, Memory, ReadsMeta, Right};
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

/// The memory of a cache and what finds its way in it; see the module's documentation.
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
    /// The present table again, read without a lock by stores.
    pub size_map: SizeMap,
    /// The class with the largest chunks, which is in every table.
    pub largest: ClassId,
    /// Whether a retired class may have pages left: the mover looks.
    pub retiring: AtomicBool,
    pub index: Index,
    pub flush: Flush,
    /// The rules in force for hot, warm and cold.
    pub segments: Mutex<Segments>,
    /// The counters of every handle that was ever made.
    pub registry: Mutex<Vec<Arc<HandleCounters>>>,
    /// [`LruConfig::temporary_ttl`] in seconds, for every store to read; `NO_TEMPORARY_TTL` for none.
    temporary_ttl: AtomicU32,
    /// Whether classes keep one queue in exact order of use.
    pub exact_order: AtomicBool,
    /// Whether items store a rank.
    pub ranks_items: bool,
    /// Whether a hit may move its item.
    pub acts_on_hits: AtomicBool,
    pub tap: Tap,
}

/// What the tables' lock protects.
#[derive(Debug)]
pub struct Tables {
    pub table: ClassTable,
    /// What numbers that stand for a second class, or a later one, had counted when it began.
    pub counted_before: BTreeMap<ClassId, Arc<ClassStats>>,
}

/// Why an item that is still linked counts as gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Death {
    /// Its expiry has come.
    Expired,
    Flushed,
}

impl Space {
    /// An empty cache in an arena that has room for it.
    pub fn new(config: EngineConfig, arena: Arena) -> Space {
        let page_size_bytes = config.page_size_bytes;
        assert!(
            page_size_bytes.is_power_of_two() && (4 << 10..=16 << 20).contains(&page_size_bytes),
            "page size {page_size_bytes}: a power of two from 4 KiB to 16 MiB is needed"
        );
        let chunk_size_bytes_max = config.classes.chunk_size_bytes_max();
        assert!(
            chunk_size_bytes_max <= page_size_bytes,
            "chunks of {chunk_size_bytes_max} bytes do not fit pages of {page_size_bytes}"
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
            tap: Tap::default(),
            memory,
            config,
        };
        for (id, chunk_size_bytes) in space.config.classes.classes() {
            space.class(id).lock().establish(chunk_size_bytes);
        }
        space
    }

    /// Counters for a new handle, which count until the cache ends.
    pub fn register(&self) -> Arc<HandleCounters> {
        let counters = Arc::new(HandleCounters::new());
        lock(&self.registry).push(Arc::clone(&counters));
        counters
    }

    /// Gets of all handles since the start, those that touched included; cheap.
    pub fn gets_ever(&self) -> u64 {
        lock(&self.registry).iter().map(|handle| handle.gets()).sum()
    }

    /// Changes the rules for hot, warm and cold.
    pub fn set_segments(&self, change: impl FnOnce(&mut Segments)) {
        let mut segments = lock(&self.segments);
        change(&mut segments);
        self.temporary_ttl.store(temporary_ttl_word(&segments.limits), Relaxed);
        self.exact_order.store(segments.is_exact, Relaxed);
        let acts_on_hits = segments.is_exact || self.config.eviction.info().acts_on_hits;
        self.acts_on_hits.store(acts_on_hits, Relaxed);
        self.queueing_classes().for_each(|class| class.lock().segments = *segments);
    }

    /// Where the pages are; cheap.
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

    /// Every class that may have items: one a number, and [`CHAINED`].
    pub fn queueing_classes(&self) -> impl Iterator<Item = &Class> {
        self.classes.iter().chain([&self.chained])
    }

    /// The class that items queued in `class` are shown in: chained ones in the class of the table with the
    /// largest chunks, where memcached has them, too.
    pub fn shown_class(&self, class: ClassId) -> ClassId {
        if class == CHAINED { self.largest } else { class }
    }

    /// The hash of an item's key.
    #[inline]
    pub fn hash_of<R: Right>(&self, item: Item<'_, R>) -> u64 {
        self.hasher.hash(item.key())
    }

    /// Lets the index count against the memory limit, where the limit is meant to hold for the whole.
    pub fn charge_index(&self) {
        if self.config.index_within_limit {
            let pages = self.index.size_bytes() / self.config.page_size_bytes as u64;
            lock(&self.pool).charged = pages as u32;
        }
    }

    /// Shows an access to the key of this hash, if it is in the sample. The caller has locked no class, no
    /// pool, and should hold no stripe.
    #[inline(always)]
    pub fn show_access(&self, hash: u64, kind: AccessKind, class: Option<ClassId>) {
        if self.tap.wants_access(hash) {
            let class = class.map(|class| self.shown_class(class));
            self.tap.show_access(&KeyAccess { hash, kind, class });
        }
    }

    /// Whether an item with this expiry belongs in the temp queue.
    pub fn is_short_lived(&self, expiry: Expiry, now: Now) -> bool {
        let ttl_max = self.temporary_ttl.load(Relaxed);
        let ttl = expiry.second().map(|end| end.0.saturating_sub(now.seconds.0));
        ttl_max != NO_TEMPORARY_TTL && ttl.is_some_and(|ttl| ttl <= ttl_max)
    }

    /// Why an item is gone though it is still linked, if it is.
    #[inline(always)]
    pub fn death_of<R: ReadsMeta>(&self, item: Item<'_, R>, now: Now) -> Option<Death> {
        if self.flush.ends(item, now) {
            return Some(Death::Flushed);
        }
        item.expiry().is_past(now.seconds).then_some(Death::Expired)
    }
}

fn temporary_ttl_word(lru: &LruConfig) -> u32 {
    lru.temporary_ttl.map_or(NO_TEMPORARY_TTL, |ttl| ttl.0.min(NO_TEMPORARY_TTL - 1))
}

/// An item that leaves because its memory is needed.
#[derive(Clone, Copy, Debug)]
pub struct Eviction<'a> {
    /// The key.
    pub key: &'a [u8],
    /// Bytes of the value.
    pub value_len: usize,
    /// When it would have ended.
    pub expiry: Expiry,
    /// When it was last accessed.
    pub last_access: Ticks,
    /// Whether it was ever hit.
    pub fetched: bool,
    /// The class it is in.
    pub class: ClassId,
    /// The time of the operation that needs the memory.
    pub now: Now,
}

/// An observer of evictions; the module's invariants say what it may do.
pub trait EvictionObserver: Send + Sync {
    /// An item is about to leave.
    fn evicted(&self, eviction: &Eviction<'_>);
}

/// An access to a key in the sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyAccess {
    /// The key's hash, which stands for the key.
    pub hash: u64,
    /// What happened.
    pub kind: AccessKind,
    /// The class of the key's item, of one that leaves the class it was in; `None` where there is none.
    /// A chained item counts as one of the class with the largest chunks.
    pub class: Option<ClassId>,
}

/// An observer of accesses; the module's invariants say what it may do.
pub trait AccessObserver: Send + Sync {
    /// A key in the sample was accessed.
    fn accessed(&self, access: &KeyAccess);
}

/// The observers, and when they are called.
#[derive(Default)]
pub struct Tap {
    evictions_wanted: AtomicBool,
    observer: OnceLock<Arc<dyn EvictionObserver>>,
    /// Which keys are in the sample ([`slabwise_base::sampling`]).
    sample_threshold: AtomicU64,
    access_observer: OnceLock<Arc<dyn AccessObserver>>,
}

impl fmt::Debug for Tap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tap")
            .field("evictions_wanted", &self.evictions_wanted)
            .field("sample_threshold", &self.sample_threshold)
            .finish_non_exhaustive()
    }
}

impl Tap {
    /// Sets the observer of evictions, once; [`Tap::want_evictions`] says when it is called.
    pub fn set_eviction_observer(&self, observer: Arc<dyn EvictionObserver>) {
        assert!(self.observer.set(observer).is_ok(), "an engine has one observer, set once");
    }

    /// Sets the observer of accesses, once; [`Tap::sample_accesses`] says to which keys.
    pub fn set_access_observer(&self, observer: Arc<dyn AccessObserver>) {
        let is_first = self.access_observer.set(observer).is_ok();
        assert!(is_first, "an engine has one observer of accesses, set once");
    }

    /// Shows accesses to keys below this threshold of [`slabwise_base::sampling`] from now on:
    /// [`THRESHOLD_NONE`] ends the calls of the observer.
    pub fn sample_accesses(&self, threshold: u64) {
        self.sample_threshold.store(threshold, Relaxed);
    }

    /// Starts or ends the calls of the observer of evictions.
    pub fn want_evictions(&self, wanted: bool) {
        self.evictions_wanted.store(wanted, Relaxed);
    }

    #[inline]
    pub(super) fn wants_evictions(&self) -> bool {
        self.evictions_wanted.load(Relaxed)
    }

    /// Whether accesses to the key of this hash are shown.
    #[inline(always)]
    pub(super) fn wants_access(&self, hash: u64) -> bool {
        let threshold = self.sample_threshold.load(Relaxed);
        threshold != THRESHOLD_NONE && is_sampled(hash, threshold)
    }

    #[cold]
    pub(super) fn show_access(&self, access: &KeyAccess) {
        if let Some(observer) = self.access_observer.get() {
            observer.accessed(access);
        }
    }

    #[cold]
    pub(super) fn show_eviction(&self, eviction: &Eviction<'_>) {
        if let Some(observer) = self.observer.get() {
            observer.evicted(eviction);
        }
    }
}

/// CAS values, and how far flushes have come.
#[derive(Debug, Default)]
pub struct Flush {
    /// The last CAS value that the engine gave.
    last_cas: AtomicU64,
    cas_bound: AtomicU64,
    /// The second at which a delayed flush takes effect; 0 for none.
    due_second: AtomicU32,
    mark: FlushMark,
}

/// What a restart keeps of a [`Flush`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlushSaved {
    pub last_cas: u64,
    pub cas_bound: u64,
    pub due_second: u32,
    pub mark: u64,
}

impl Flush {
    /// Ends every item stored so far, at once or when `at` has come. A later call replaces a flush
    /// that is still to come.
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

    /// Gives an item that the caller owns, or whose stripe it holds, a new CAS value: the next, or one
    /// that a client chose.
    pub fn give_cas<R: Right>(&self, item: Item<'_, R>, given: Option<u64>, now: Now) {
        // In an order in which no step lets a living item look flushed; see `ends`.
        match given {
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

    /// Carries a delayed flush out once its time has come. Every look-up begins with this: an item
    /// stored after that time must not be taken for one stored before.
    #[inline]
    pub fn settle(&self, now: Now) {
        let due = self.due_second.load(Acquire);
        if due == 0 || due > now.seconds.0 {
            return;
        }
        // The bound is read before the flush is claimed: a thread that loses the claim may have been
        // overtaken by stores that the winner's bound does not end.
        let bound = self.last_cas.load(Relaxed);
        if self.due_second.compare_exchange(due, 0, AcqRel, Acquire).is_ok() {
            self.mark.set(now);
            self.cas_bound.fetch_max(bound, Relaxed);
        }
    }

    /// Whether a flush has ended an item. A thread that holds its class and not its stripe may meet it while
    /// it is given another CAS value: a reading counts only if the value was of one kind before and after.
    #[inline(always)]
    pub fn ends<R: Right>(&self, item: Item<'_, R>, now: Now) -> bool {
        loop {
            let given = item.state().has_given_cas();
            let flushed = if given {
                self.mark.ends(item.time(), now)
            } else {
                item.cas() <= self.cas_bound.load(Relaxed)
            };
            if !flushed || item.state().has_given_cas() == given {
                return flushed;
            }
        }
    }

    /// The state to go on from after a restart.
    pub fn saved(&self) -> FlushSaved {
        FlushSaved {
            last_cas: self.last_cas.load(Relaxed),
            cas_bound: self.cas_bound.load(Relaxed),
            due_second: self.due_second.load(Relaxed),
            mark: self.mark.0.load(Relaxed),
        }
    }

    /// Goes on from a saved state.
    pub fn restore(&self, saved: FlushSaved) {
        self.last_cas.store(saved.last_cas, Relaxed);
        self.cas_bound.store(saved.cas_bound, Relaxed);
        self.due_second.store(saved.due_second, Relaxed);
        self.mark.0.store(saved.mark, Relaxed);
    }
}

/// How far one worker's reading of the clock may be ahead of another's.
const MARGIN: Ticks = Ticks(Ticks::PER_SECOND);

/// After so long ticks no longer tell before from after, and whatever the flush ended has long been met.
const FORGOTTEN_AFTER_SECONDS: u32 = 365 * 24 * 60 * 60;

/// The moment of the last flush, as seconds and ticks; 0 for none.
#[derive(Debug, Default)]
struct FlushMark(AtomicU64);

impl FlushMark {
    /// Notes a flush. The mark passes every date that was given because of the one before.
    fn set(&self, now: Now) {
        let next = |_| {
            let ticks = self.later(Ticks(now.ticks.0.wrapping_add(MARGIN.0)), now);
            Some(u64::from(now.seconds.0) << 32 | u64::from(ticks.0))
        };
        let updated = self.0.fetch_update(Relaxed, Relaxed, next);
        debug_assert!(updated.is_ok());
    }

    /// Whether the flush ended an item that was last accessed at `time`.
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
    fn what_was_dated_before_a_flush_ends_and_what_is_dated_after_it_lives() {
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
    fn ticks_may_wrap_but_a_flush_of_years_ago_ends_nothing() {
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
