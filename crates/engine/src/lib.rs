//! The cache engine: stores items in memory, finds them, and evicts them.
//!
//! The engine has an arena of pages, which are divided into chunks. An index finds the chunk of a key. Each class of
//! chunks has queues, which determine the item that is evicted next. The engine has no sockets and no protocol. It
//! moves pages between classes, but the caller decides which pages to move (crate `policy`).
//!
//! ```text
//!   Engine        the cache that all workers share (engine.rs)
//!     background  bounded background steps: maintainer, crawler, check of all invariants, restart
//!     ops         Handle: the operations of one worker, such as lookups and stores
//!     mover       moves pages between classes
//!     space       shared data, and steps that need several locks: eviction, change of the class table, flush
//!     class       one class: its pages, free chunks and queues, under one lock
//!     evict       eviction kinds, which choose the item that is evicted next
//!     index       the item of a key: stripes, each with its own lock and its own growing table
//!     heap        the class for a size; the pages and free chunks of a class
//!     pool        the pages that no class owns, the memory limit, the blocks of a memory file
//!     mem         the bytes of pages, chunks and items; the only unsafe code
//!     layout      addresses, offsets of the parts of an item, chunk sizes
//! ```
//!
//! A thread that needs several locks takes them in the order stripe, class, page pool (`docs/locking.md`). No thread
//! holds one of these locks during a system call.
//!
//! Every thread uses its own [`Handle`]. The caller passes the time to every operation: the engine reads a clock only
//! to measure how long a thread waits for a lock. The engine starts no threads: the caller repeats the background
//! steps, each of which takes a bounded time.
#![deny(unsafe_code)]

mod background;
mod class;
mod config;
mod counted_lock;
mod engine;
mod evict;
mod heap;
mod index;
mod layout;
#[cfg(all(test, loom))]
mod loom_tests;
#[allow(unsafe_code)]
mod mem;
mod mover;
mod ops;
mod pool;
mod space;
mod stats;

pub use background::{
    AdoptError, ColdReason, CrawlStep, CrawledItem, Crawler, LimitError, Progress, RestartError,
    Start, StateLens, Stop, Warm, saved_layout,
};
pub use config::{EngineConfig, MoverKind, SpareConfig, page_size_default};
pub use counted_lock::{LockCounts, LockKind, LockStats};
pub use engine::{AdoptedEngine, Adoption, CounterOwner, Engine, EngineError};
pub use evict::{
    EvictionKind, EvictionOptions, GdWheelConfig, LruConfig, QueueSplit, RankedHits,
    ReservedConfig, ReservedRank,
};
pub use layout::{
    CHAIN_SIZE_BYTES as CHAIN_LINK_SIZE_BYTES, CHUNK_ALIGN_BYTES, CHUNK_SIZE_BYTES_MIN, ClassTable,
    ClassTableError, HEADER_SIZE_BYTES as BODY_HEADER_SIZE_BYTES, ItemMeta, SizeModel,
};
pub use mem::HugePages;
pub use mover::{
    BegunMove, MOVE_RECORDS_MAX, MOVER_NAMES, MoveOutcome, MoveRecord, MoverStep, PlannedMove,
    ReassignError, mover_kind,
};
pub use ops::{
    ArithmeticConditions, ArithmeticOutcome, DeleteOutcome, Delta, GetEffects, GetOptions, Handle,
    Initial, ItemInfo, ItemView, Pinned, Replacement, Reservation, ReserveError, StoreConditions,
    StoreMode, StoreOutcome, Validity, Vivify,
};
pub use space::{
    AccessKind, AccessObserver, ClassChangeError, Eviction, EvictionObserver, KeyAccess, Observers,
};
pub use stats::{
    Busy, ClassCounters, ClassStats, EngineStats, MoverCounters, OwnedPage, PageStats, Waste,
};

/// Returns the number of bytes that a chained item needs in its first chunk, for a key of this length and an item
/// without optional fields.
pub fn chain_head_size_bytes(key_len: usize) -> usize {
    layout::chain_head_size_bytes(key_len, layout::ItemFields::default())
}
