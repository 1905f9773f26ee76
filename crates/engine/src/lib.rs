//! The cache: mechanism without policy.
//!
//! It consists of an arena of pages divided into chunks, an index from keys to chunks, and for each class of
//! chunks the queues that determine which item is evicted first. It has no sockets, protocols or policies.
//! Time is an argument of every operation; background work is a bounded step that the caller repeats.
//!
//! ```text
//!   Engine        the facade, and the background steps                  engine.rs
//!     background  maintainer, crawler, check, restart
//!     ops         Handle (one per worker): lookups and stores
//!     mover       moves pages between classes
//!     space       shared state, and steps under several locks: evict, free, change classes, flush, observers
//!     class       a class: its pages, free chunks and queues, under one lock
//!     evict       eviction kinds: which item of a class is evicted next
//!     index       stripes, each a lock over its own growing table
//!     heap, mem   the class of a size; pages, chunks and their bytes; the only unsafe code
//!     layout      addresses, the parts of an item, chunk sizes
//! ```
//!
//! Lock order: stripe, then class, then page pool; see `docs/locking.md`. No lock is held across a
//! system call.
//!
//! Every thread uses its own [`Handle`]. The engine never waits or reads a clock, and it does not choose
//! which page moves where (crate `policy`).
#![deny(unsafe_code)]

mod background;
mod class;
mod config;
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
mod space;
mod stats;

pub use background::{
    ColdReason, CrawlStep, CrawledItem, Crawler, Progress, RestartError, Start, Stop, Warm,
};
pub use config::{EngineConfig, MoverKind, page_size_default};
pub use engine::{Engine, EngineError};
pub use evict::{
    EvictionKind, EvictionOptions, GdWheelConfig, LruConfig, ReservedConfig, ReservedRank,
};
pub use layout::{
    CHAIN_SIZE_BYTES as CHAIN_LINK_SIZE_BYTES, CHUNK_ALIGN_BYTES, CHUNK_SIZE_BYTES_MIN, ClassTable,
    ClassTableError, HEADER_SIZE_BYTES as BODY_HEADER_SIZE_BYTES, ItemMeta, SizeModel,
};
pub use mover::{
    MOVE_RECORDS_MAX, MOVER_NAMES, MoveOutcome, MoveRecord, MoverStep, ReassignError, mover_kind,
};
pub use ops::{
    ArithmeticConditions, ArithmeticOutcome, DeleteOutcome, Delta, GetEffects, GetOptions, Handle,
    Initial, ItemInfo, ItemView, Leave, Pinned, Reservation, ReserveError, StoreConditions,
    StoreMode, StoreOutcome, Validity, Vivify,
};
pub use space::{
    AccessKind, AccessObserver, ClassChangeError, Eviction, EvictionObserver, KeyAccess, Observers,
};
pub use stats::{Busy, ClassCounters, ClassStats, EngineStats, MoverCounters, PageStats};

/// The size in bytes of the head of a chained item with this key length, without client flags and expiry.
pub fn chain_head_size_bytes(key_len: usize) -> usize {
    layout::chain_head_size_bytes(key_len, layout::ItemFields::default())
}
