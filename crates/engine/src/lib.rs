//! The cache itself: mechanism only.
//!
//! What it is: an arena of pages divided into chunks, an index from keys to chunks, and for each
//! class of chunks the queues that decide what leaves first. It knows nothing of sockets, protocols
//! or policies. Time is an argument of every operation; background work is a bounded step that the
//! caller repeats.
//!
//! ```text
//!    Handle (one per worker: operations, counters)
//!       |
//!    Engine --- index: stripes, each a lock over its own growing table of cache-line buckets
//!       |           |  entry = tag + ChunkAddress
//!       |           v
//!       |--- arena: pages of chunks; a chunk = header (29 B) [flags] [expiry] key value
//!       |           ^
//!       |           | prev/next, free lists
//!       |--- classes: one lock each over its queues, its pages and their free chunks
//!       '--- page pool: one lock over the pages that no class owns
//! ```
//!
//! Lock order: stripe, then class, then page pool; see `docs/locking.md`. No lock is held across a
//! system call.
//!
//! Who may call it: any thread through a [`Handle`] of its own. What it does not do: choose which page
//! moves where (crate `policy`), wait, or read a clock.
#![deny(unsafe_code)]

mod access;
mod alloc;
mod arithmetic;
mod check;
mod class;
mod class_change;
mod class_table;
mod config;
mod counters;
mod crawler;
mod engine;
mod evict;
mod flush_mark;
mod handle;
mod index;
mod inspect;
mod invalidate;
mod item;
#[cfg(all(test, loom))]
mod loom_tests;
mod maintainer;
#[allow(unsafe_code)]
mod mem;
mod memory;
mod mover;
mod page_table;
mod reservation;
mod restart;
mod size_map;
mod spare;
mod stats;
mod store;
mod tap;

pub use access::{GetOptions, Met, Vivify};
pub use arithmetic::{ArithmeticConditions, ArithmeticOutcome, Delta, Initial};
pub use class_change::ClassChangeError;
pub use class_table::{
    CHUNK_ALIGN_BYTES, CHUNK_SIZE_BYTES_MIN, ClassTable, ClassTableError, SizeModel,
};
pub use config::{EngineConfig, MoverKind, page_size_default};
pub use counters::ClassCounters;
pub use crawler::{CrawlStep, CrawledItem, Crawler};
pub use engine::{Engine, EngineError};
pub use evict::{
    EvictionKind, EvictionOptions, GdWheelConfig, LruConfig, ReservedConfig, ReservedRank,
};
pub use handle::Handle;
pub use inspect::{Life, Seen};
pub use invalidate::{DeleteOutcome, Leave};
pub use item::{ItemView, Pinned};
pub use memory::{BODY_HEADER_SIZE_BYTES, CHAIN_LINK_SIZE_BYTES, chain_head_size_bytes};
pub use mover::{
    Busy, MOVE_RECORDS_MAX, MoveOutcome, MoveRecord, MoverCounters, MoverStep, ReassignError,
};
pub use reservation::{ItemMeta, Reservation, ReserveError};
pub use restart::{ColdReason, Progress, RestartError, Start, Stop, Warm};
pub use stats::{ClassStats, EngineStats, PageStats};
pub use store::{StoreConditions, StoreMode, StoreOutcome};
pub use tap::{AccessKind, AccessObserver, Eviction, EvictionObserver, KeyAccess};
