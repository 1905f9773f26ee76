//! The engine: everything that workers share.

use crate::class::Class;
use crate::config::{EngineConfig, EvictionKind, LruConfig};
use crate::counters::HandleCounters;
use crate::flush_mark::FlushMark;
use crate::handle::Handle;
use crate::index::Index;
use crate::mem::{Arena, ChunkAddress, MappingError, ReadProof};
use crate::memory::Memory;
use crate::mover::Mover;
use crate::page_table::Pool;
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
    pub(crate) classes: Box<[Class]>,
    pub(crate) index: Index,
    pub(crate) mover: Mutex<Mover>,
    pub(crate) flush: Flush,
    pub(crate) order: Mutex<(EvictionKind, LruConfig)>,
    pub(crate) registry: Mutex<Vec<Arc<HandleCounters>>>,
    /// [`LruConfig::temporary_ttl`] in seconds, for every store to read; `NO_TEMPORARY_TTL` for none.
    temporary_ttl: AtomicU32,
    /// Whether every hit moves its item: [`EvictionKind::Lru`] in force.
    pub(crate) exact_order: AtomicBool,
    cas: AtomicU64,
}

const NO_TEMPORARY_TTL: u32 = u32::MAX;

/// Which items a flush has ended: those whose CAS value is at or below a bound.
#[derive(Debug, Default)]
pub(crate) struct Flush {
    cas_bound: AtomicU64,
    /// The second at which a delayed flush takes effect; 0 for none.
    due_second: AtomicU32,
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
        let page_size_bytes = config.page_size_bytes;
        assert!(
            page_size_bytes.is_power_of_two() && (4 << 10..=16 << 20).contains(&page_size_bytes),
            "page size {page_size_bytes}: a power of two from 4 KiB to 16 MiB is needed"
        );
        let chunk_size_bytes_max = config.classes.chunk_size_bytes(config.classes.largest());
        assert!(
            chunk_size_bytes_max <= page_size_bytes,
            "chunks of {chunk_size_bytes_max} bytes do not fit pages of {page_size_bytes}"
        );
        let limit_pages = limit_in_pages(config.memory_limit_bytes, page_size_bytes);
        let arena = reserve(&config, limit_pages)?;
        let memory = Memory::new(arena, page_size_bytes, config.size_model);
        let class = |id: ClassId| {
            let chunk_size_bytes = config.classes.chunk_size_bytes(id);
            Class::new(id, chunk_size_bytes, page_size_bytes, config.eviction, config.lru)
        };
        Ok(Engine {
            hasher: KeyHasher::new(config.hash_seed),
            memory,
            pool: Mutex::new(Pool::new(limit_pages)),
            classes: config.classes.ids().map(class).collect(),
            index: Index::new(config.memory_limit_bytes),
            mover: Mutex::new(Mover::default()),
            flush: Flush::default(),
            order: Mutex::new((config.eviction, config.lru)),
            registry: Mutex::new(Vec::new()),
            temporary_ttl: AtomicU32::new(temporary_ttl_word(&config.lru)),
            exact_order: AtomicBool::new(config.eviction == EvictionKind::Lru),
            cas: AtomicU64::new(0),
            config,
        })
    }

    /// What it was made with.
    pub fn config(&self) -> &EngineConfig {
        &self.config
    }

    /// A worker's face of the engine. Its counters count in [`Engine::stats`] for ever.
    pub fn handle(&self) -> Handle<'_> {
        let counters = Arc::new(HandleCounters::new(self.classes.len()));
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

    /// The segmented LRU's limits.
    pub fn lru(&self) -> LruConfig {
        lock(&self.order).1
    }

    /// Changes the segmented LRU's limits.
    pub fn set_lru(&self, lru: LruConfig) {
        let mut order = lock(&self.order);
        order.1 = lru;
        self.temporary_ttl.store(temporary_ttl_word(&lru), Relaxed);
        self.spread_order(*order);
    }

    /// Changes the order in which items leave.
    pub fn set_eviction(&self, eviction: EvictionKind) {
        let mut order = lock(&self.order);
        order.0 = eviction;
        self.exact_order.store(eviction == EvictionKind::Lru, Relaxed);
        self.spread_order(*order);
    }

    fn spread_order(&self, (eviction, lru): (EvictionKind, LruConfig)) {
        for class in &self.classes {
            class.lock().set_order(eviction, lru);
        }
    }

    /// The class by its id.
    pub(crate) fn class(&self, id: ClassId) -> &Class {
        &self.classes[id.index()]
    }

    /// The class in whose queue an item is.
    pub(crate) fn queue_class(&self, address: ChunkAddress) -> ClassId {
        let chained = self.memory.header(address).state().load().chained();
        if chained { self.config.classes.largest() } else { self.memory.class_of(address) }
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
        header.state().set_given_cas(given.is_some());
        header.set_cas(given.unwrap_or_else(|| self.next_cas()));
        if given.is_some() {
            header.set_time(self.flush.mark.later(header.time(), now));
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

    /// Why an item is gone though it is still linked, if it is.
    #[inline]
    pub(crate) fn death_of(
        &self,
        address: ChunkAddress,
        now: Now,
        proof: ReadProof<'_>,
    ) -> Option<Death> {
        let header = self.memory.header(address);
        let flushed = if header.state().load().has_given_cas() {
            self.flush.mark.ends(header.time(), now)
        } else {
            header.cas() <= self.flush.cas_bound.load(Relaxed)
        };
        if flushed {
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

/// Reserves the arena: with room to raise the limit, or, where the system refuses, for the limit alone.
fn reserve(config: &EngineConfig, limit_pages: u32) -> Result<Arena, EngineError> {
    let page_size_bytes = config.page_size_bytes as u64;
    let limit_bytes =
        (u64::from(limit_pages) + u64::from(pages_beyond_limit(config))) * page_size_bytes;
    assert!(
        limit_bytes <= ARENA_SIZE_BYTES_MAX,
        "{limit_bytes} bytes are beyond what addresses reach"
    );
    let roomy = (limit_bytes * RESERVE_FACTOR).clamp(RESERVE_BYTES_MIN, RESERVE_BYTES_MAX);
    Arena::reserve(roomy.max(limit_bytes) as usize, config.huge_pages)
        .or_else(|_| Arena::reserve(limit_bytes as usize, config.huge_pages))
        .map_err(EngineError::Reserve)
}
