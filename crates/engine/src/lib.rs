//! The cache itself: mechanism only.
//!
//! What it is: an arena of pages divided into chunks, an index from keys to chunks, and for each
//! class of chunks the queues that decide what leaves first. It knows nothing of sockets, protocols
//! or policies. Time is an argument of every operation; background work is a bounded step that the
//! caller repeats.
//!
//! ```text
//!   Engine        the facade, and the steps that its owner drives       engine.rs
//!     background  maintainer, crawler, check, restart
//!     ops         Handle (one per worker): look-ups and stores
//!     mover       moves pages between classes
//!     space       what operations share, and steps under several locks: evict, free, change, flush, tap
//!     class       a class: its pages, free chunks and queues, under one lock
//!     evict       eviction kinds: which item of a class leaves next
//!     index       stripes, each a lock over its own growing table
//!     heap, mem   the class of a size; pages, chunks and their bytes; the only unsafe code
//!     layout      addresses, the parts of an item, chunk sizes
//! ```
//!
//! Lock order: stripe, then class, then page pool; see `docs/locking.md`. No lock is held across a
//! system call.
//!
//! Any thread may call it through a [`Handle`] of its own. It does not choose which page
//! moves where (crate `policy`), wait, or read a clock.
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
    ArithmeticConditions, ArithmeticOutcome, DeleteOutcome, Delta, GetOptions, Handle, Initial,
    ItemView, Leave, Life, Met, Pinned, Reservation, ReserveError, Seen, StoreConditions,
    StoreMode, StoreOutcome, Vivify,
};
pub use space::{
    AccessKind, AccessObserver, ClassChangeError, Eviction, EvictionObserver, KeyAccess, Tap,
};
pub use stats::{Busy, ClassCounters, ClassStats, EngineStats, MoverCounters, PageStats};

/// Bytes of the head of a chained item with a key of this length, no client flags and no expiry.
pub fn chain_head_size_bytes(key_len: usize) -> usize {
    layout::chain_head_size_bytes(key_len, layout::ItemFields::default())
}
