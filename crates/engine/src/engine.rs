//! The engine: everything that workers share.

use crate::class::{CHAINED, Class, TABLE_NUMBERS};
use crate::class_change::Tables;
use crate::config::EngineConfig;
use crate::counters::HandleCounters;
use crate::evict::{ClassOrder, LruConfig, Segments};
use crate::flush_mark::FlushMark;
use crate::handle::Handle;
use crate::index::Index;
use crate::mem::{Arena, ChunkAddress, MappingError, ReadProof};
use crate::memory::Memory;
use crate::mover::Mover;
use crate::page_table::Pool;
use crate::restart::MemoryFile;
use crate::size_map::SizeMap;
use crate::tap::Tap;
use slabwise_base::sync::{Mutex, lock};
use slabwise_base::{ClassId, Expiry, KeyHasher, Now, Seconds};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed},
};

/// Address space reserved beyond the limit, so that `cache_memlimit` can raise it.
const RESERVE_FACTOR: u64 = 4;
/// At least this much is reserved where the system allows it.
const RESERVE_BYTES_MIN: u64 = 64 << 30;

/// More is reserved only if the limit itself asks for it.
const RESERVE_BYTES_MAX: u64 = 1 << 40;

/// What chunk addresses can reach.
const ARENA_SIZE_BYTES_MAX: u64 = (1 << (crate::mem::ADDRESS_BITS + 3)) - 16;

/// The shared cache. Workers use it through a [`Handle`] each.
pub struct Engine {
    pub(crate) config: EngineConfig,
    pub(crate) hasher: KeyHasher,
    pub(crate) memory: Memory,
    pub(crate) pool: Mutex<Pool>,
    /// A class for every number that the table may use.
    pub(crate) classes: Box<[Class]>,
    /// The class [`CHAINED`].
    chained: Class,
    /// The present table.
    pub(crate) tables: Mutex<Tables>,
    /// The same, for who stores.
    pub(crate) size_map: SizeMap,
    /// The class with the largest chunks: the same in every table.
    pub(crate) largest: ClassId,
    /// Whether a retired class may have pages left: the mover looks.
    pub(crate) retiring: AtomicBool,
    pub(crate) index: Index,
    pub(crate) mover: Mutex<Mover>,
    pub(crate) flush: Flush,
    /// The rules in force for hot, warm and cold.
    pub(crate) segments: Mutex<Segments>,
    pub(crate) registry: Mutex<Vec<Arc<HandleCounters>>>,
    /// [`LruConfig::temporary_ttl`] in seconds, for every store to read; `NO_TEMPORARY_TTL` for none.
    temporary_ttl: AtomicU32,
    /// Whether classes keep one queue in exact order of use.
    pub(crate) exact_order: AtomicBool,
    /// Whether a hit may move its item.
    pub(crate) acts_on_hits: AtomicBool,
    pub(crate) tap: Tap,
    pub(crate) cas: AtomicU64,
    /// What the arena lies in, if it is to outlive the process.
    pub(crate) memory_file: Option<MemoryFile>,
}

const NO_TEMPORARY_TTL: u32 = u32::MAX;

/// Which items a flush has ended: those whose CAS value is at or below a bound.
#[derive(Debug, Default)]
pub(crate) struct Flush {
    pub(crate) cas_bound: AtomicU64,
    /// The second at which a delayed flush takes effect; 0 for none.
    pub(crate) due_second: AtomicU32,
    /// The same for items whose CAS value a client chose.
    pub(crate) mark: FlushMark,
}

/// Why an engine could not be made or changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineError {
    /// The arena could not be reserved.
    Reserve(MappingError),
    /// A limit beyond the address space that was reserved at the start.
    LimitTooLarge {
        /// The limit asked for.
        bytes: u64,
        /// The most that is possible.
        bytes_max: u64,
    },
}

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EngineError::Reserve(error) => error.fmt(f),
            EngineError::LimitTooLarge { bytes, bytes_max } => write!(
                f,
                "a limit of {bytes} bytes is beyond the {bytes_max} bytes of address space reserved \
                 at the start: restart with a larger -m"
            ),
        }
    }
}

impl std::error::Error for EngineError {}

impl Engine {
    /// An empty cache.
    pub fn new(config: EngineConfig) -> Result<Engine, EngineError> {
        let arena = reserve(&config)?;
        Ok(Engine::in_arena(config, arena))
    }

    /// An empty cache in an arena that has room for it.
    pub(crate) fn in_arena(config: EngineConfig, arena: Arena) -> Engine {
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
        let memory = Memory::new(arena, page_size_bytes, config.size_model);
        let (kind, options) = (config.eviction, &config.eviction_options);
        let vacant = |number| Class::vacant(ClassId(number), ClassOrder::new(kind, options));
        let segments = Segments { limits: options.lru, is_exact: kind.is_exact() };
        let limit_pages = limit_in_pages(config.memory_limit_bytes, page_size_bytes);
        let engine = Engine {
            hasher: KeyHasher::new(config.hash_seed),
            memory,
            pool: Mutex::new(Pool::new(limit_pages)),
            classes: (0..TABLE_NUMBERS as u8).map(vacant).collect(),
            chained: vacant(CHAINED.0),
            tables: Mutex::new(Tables::new(config.classes.clone())),
            size_map: SizeMap::new(&config.classes),
            largest: config.classes.largest(),
            retiring: AtomicBool::new(false),
            index: Index::new(config.memory_limit_bytes),
            mover: Mutex::new(Mover::default()),
            flush: Flush::default(),
            segments: Mutex::new(segments),
            registry: Mutex::new(Vec::new()),
            temporary_ttl: AtomicU32::new(temporary_ttl_word(&options.lru)),
            exact_order: AtomicBool::new(kind.is_exact()),
            acts_on_hits: AtomicBool::new(kind.is_exact() || kind.acts_on_hits()),
            tap: Tap::default(),
            cas: AtomicU64::new(0),
            memory_file: None,
            config,
        };
        for (id, chunk_size_bytes) in engine.config.classes.classes() {
            engine.establish(&mut engine.class(id).lock(), chunk_size_bytes);
        }
        engine
    }

    /// What it was made with; the class table may have changed since ([`Engine::class_table`]).
    pub fn config(&self) -> &EngineConfig {
        &self.config
    }

    /// A worker's face of the engine. Its counters count in [`Engine::stats`] for ever.
    pub fn handle(&self) -> Handle<'_> {
        let counters = Arc::new(HandleCounters::new());
        lock(&self.registry).push(Arc::clone(&counters));
        Handle::new(self, counters)
    }

    /// Ends every item stored so far, at once or when `at` has come. A later call replaces a flush
    /// that is still to come.
    pub fn flush_all(&self, at: Option<Seconds>, now: Now) {
        self.settle_flush(now);
        match at {
            Some(second) if second > now.seconds => self.flush.due_second.store(second.0, Relaxed),
            _ => self.flush_now(now),
        }
    }

    fn flush_now(&self, now: Now) {
        self.flush.due_second.store(0, Relaxed);
        self.flush.mark.set(now);
        self.flush.cas_bound.fetch_max(self.cas.load(Relaxed), Relaxed);
    }

    /// Changes the memory limit. A lower one takes effect as the mover empties pages.
    pub fn set_memory_limit(&self, bytes: u64) -> Result<(), EngineError> {
        let bytes_max = self.memory.arena.size_bytes() as u64;
        if bytes > bytes_max {
            return Err(EngineError::LimitTooLarge { bytes, bytes_max });
        }
        lock(&self.pool).set_limit(limit_in_pages(bytes, self.config.page_size_bytes));
        Ok(())
    }

    /// The limits of the segmented LRU.
    pub fn lru(&self) -> LruConfig {
        lock(&self.segments).limits
    }

    /// Changes the limits of the segmented LRU.
    pub fn set_lru(&self, lru: LruConfig) {
        let mut segments = lock(&self.segments);
        segments.limits = lru;
        self.temporary_ttl.store(temporary_ttl_word(&lru), Relaxed);
        self.spread_segments(*segments);
    }

    /// Changes the order in which items leave to the segmented LRU or to the exact one. Bands of costs stay. Only
    /// for an eviction kind that [can switch](crate::EvictionKind::can_switch).
    pub fn set_segmented(&self, segmented: bool) {
        assert!(self.config.eviction.can_switch(), "this eviction kind has one order");
        let is_exact = !segmented;
        let mut segments = lock(&self.segments);
        segments.is_exact = is_exact;
        self.exact_order.store(is_exact, Relaxed);
        self.acts_on_hits.store(is_exact || self.config.eviction.acts_on_hits(), Relaxed);
        self.spread_segments(*segments);
    }

    fn spread_segments(&self, segments: Segments) {
        for class in self.queueing_classes() {
            class.lock().set_segments(segments);
        }
    }

    /// The class by its id.
    pub(crate) fn class(&self, id: ClassId) -> &Class {
        if id == CHAINED { &self.chained } else { &self.classes[id.index()] }
    }

    /// Every class that may have items: one a number, and [`CHAINED`].
    pub(crate) fn queueing_classes(&self) -> impl Iterator<Item = &Class> {
        self.classes.iter().chain([&self.chained])
    }

    /// The class in whose queue an item is.
    #[inline]
    pub(crate) fn queue_class(&self, address: ChunkAddress) -> ClassId {
        let chained = self.memory.header(address).state().load().chained();
        if chained { CHAINED } else { self.memory.class_of(address) }
    }

    /// The class that an item is shown in: a chained one in the class of the table with the largest chunks,
    /// where memcached has it, too.
    pub(crate) fn shown_class(&self, address: ChunkAddress) -> ClassId {
        match self.queue_class(address) {
            CHAINED => self.largest,
            class => class,
        }
    }

    /// The hash of an item's key; the proof is the caller's lock or pin.
    pub(crate) fn hash_of(&self, address: ChunkAddress, proof: ReadProof<'_>) -> u64 {
        self.hasher.hash(self.memory.key(address, proof))
    }

    /// Lets the index count against the memory limit, where the limit is meant to hold for the whole.
    pub(crate) fn charge_index(&self) {
        if self.config.index_within_limit {
            let pages = self.index.size_bytes() / self.config.page_size_bytes as u64;
            lock(&self.pool).set_charged(pages as u32);
        }
    }

    /// A CAS value above all before it.
    pub(crate) fn next_cas(&self) -> u64 {
        self.cas.fetch_add(1, Relaxed) + 1
    }

    /// Gives an item that the caller owns, or whose stripe it holds, a new CAS value: the next, or one
    /// that a client chose.
    pub(crate) fn give_cas(&self, address: ChunkAddress, given: Option<u64>, now: Now) {
        let header = self.memory.header(address);
        // In an order in which no step lets a living item look flushed; see `is_flushed`.
        match given {
            Some(cas) => {
                header.set_time(self.flush.mark.later(header.time(), now));
                header.state().set_given_cas(true);
                header.set_cas(cas);
            }
            None => {
                header.set_cas(self.next_cas());
                header.state().set_given_cas(false);
            }
        }
    }

    /// Carries a delayed flush out once its time has come. Every look-up begins with this: an item
    /// stored after that time must not be taken for one stored before.
    #[inline]
    pub(crate) fn settle_flush(&self, now: Now) {
        let due = self.flush.due_second.load(Acquire);
        if due == 0 || due > now.seconds.0 {
            return;
        }
        // The bound is read before the flush is claimed: whoever loses the claim may have been overtaken
        // by stores that the winner's bound does not end.
        let bound = self.cas.load(Relaxed);
        if self.flush.due_second.compare_exchange(due, 0, AcqRel, Acquire).is_ok() {
            self.flush.mark.set(now);
            self.flush.cas_bound.fetch_max(bound, Relaxed);
        }
    }

    /// Whether an item with this expiry belongs in the temp queue.
    pub(crate) fn is_short_lived(&self, expiry: Expiry, now: Now) -> bool {
        let ttl_max = self.temporary_ttl.load(Relaxed);
        let ttl = expiry.second().map(|end| end.0.saturating_sub(now.seconds.0));
        ttl_max != NO_TEMPORARY_TTL && ttl.is_some_and(|ttl| ttl <= ttl_max)
    }

    /// Whether a flush has ended an item. Who holds its class and not its stripe may meet it while it is
    /// given another CAS value: what is read counts only if it was of one kind from before to after.
    #[inline(always)]
    fn is_flushed(&self, address: ChunkAddress, now: Now) -> bool {
        let header = self.memory.header(address);
        loop {
            let given = header.state().load().has_given_cas();
            let flushed = if given {
                self.flush.mark.ends(header.time(), now)
            } else {
                header.cas() <= self.flush.cas_bound.load(Relaxed)
            };
            if !flushed || header.state().load().has_given_cas() == given {
                return flushed;
            }
        }
    }

    /// Why an item is gone though it is still linked, if it is.
    #[inline(always)]
    pub(crate) fn death_of(
        &self,
        address: ChunkAddress,
        now: Now,
        proof: ReadProof<'_>,
    ) -> Option<Death> {
        if self.is_flushed(address, now) {
            return Some(Death::Flushed);
        }
        let expired = self.memory.expiry(address, proof).is_past(now.seconds);
        expired.then_some(Death::Expired)
    }
}

/// Why an item that is still linked counts as gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Death {
    /// Its expiry has come.
    Expired,
    /// A flush ended it.
    Flushed,
}

fn temporary_ttl_word(lru: &LruConfig) -> u32 {
    lru.temporary_ttl.map_or(NO_TEMPORARY_TTL, |ttl| ttl.0.min(NO_TEMPORARY_TTL - 1))
}

/// Pages that may be granted beyond the limit: a first one for each class.
fn pages_beyond_limit(config: &EngineConfig) -> u32 {
    if config.first_page_beyond_limit { config.classes.count() as u32 } else { 0 }
}

/// Whole pages within a limit, at least one.
fn limit_in_pages(bytes: u64, page_size_bytes: usize) -> u32 {
    (bytes / page_size_bytes as u64).clamp(1, u64::from(u32::MAX)) as u32
}

/// Bytes of whole pages that the limit allows, first pages beyond it included.
pub(crate) fn arena_size_bytes(config: &EngineConfig) -> u64 {
    let limit_pages = limit_in_pages(config.memory_limit_bytes, config.page_size_bytes);
    let pages = u64::from(limit_pages) + u64::from(pages_beyond_limit(config));
    let size_bytes = pages * config.page_size_bytes as u64;
    assert!(
        size_bytes <= ARENA_SIZE_BYTES_MAX,
        "{size_bytes} bytes are beyond what addresses reach"
    );
    size_bytes
}

/// Reserves the arena: with room to raise the limit, or, where the system refuses, for the limit alone.
fn reserve(config: &EngineConfig) -> Result<Arena, EngineError> {
    let limit_bytes = arena_size_bytes(config);
    let roomy = (limit_bytes * RESERVE_FACTOR).clamp(RESERVE_BYTES_MIN, RESERVE_BYTES_MAX);
    Arena::reserve(roomy.max(limit_bytes) as usize, config.huge_pages)
        .or_else(|_| Arena::reserve(limit_bytes as usize, config.huge_pages))
        .map_err(EngineError::Reserve)
}
