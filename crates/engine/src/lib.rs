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
//!    Engine --- index: 1,024 stripes, each a lock over its own growing table of cache-line buckets
//!       |           |  entry = tag + ChunkAddress
//!       |           v
//!       |--- arena: pages of chunks; a chunk = header (29 B) [flags] [expiry] key value
//!       |           ^
//!       |           | prev/next, free lists
//!       |--- classes: one lock each over its queues, its pages and their free chunks
//!       '--- page pool: one lock over the pages that no class owns
//! ```
//!
//! Lock order: stripe, then class, then page pool; see `docs/locking.md`. Under a class lock a stripe
//! is only ever tried. No lock is held across a system call.
//!
//! Who may call it: any thread through a [`Handle`] of its own. What it does not do: choose which page
//! moves where (crate `policy`), wait, or read a clock.
#![deny(unsafe_code)]

mod class_table;
mod config;

pub use class_table::{
    CHUNK_ALIGN_BYTES, CHUNK_SIZE_BYTES_MIN, ClassTable, ClassTableError, SizeModel,
};
pub use config::{EngineConfig, EvictionKind, LruConfig, page_size_default};

mod mem {
    pub const HEADER_SIZE_BYTES: usize = 29;
}
mod stub;
pub use stub::{
    ArithmeticOutcome, ClassStats, CrawledItem, Crawler, Delta, Engine, EngineError, EngineStats,
    Handle, ItemMeta, ItemView, MoverStep, Pinned, ReassignError, Reservation, ReserveError,
    StoreMode, StoreOutcome,
};
