//! The state that operations share (memory, classes, index), and the steps on it that take several locks.
//!
//! ```text
//!   Space --- index: stripes, each a lock over its own growing table of cache-line buckets
//!     |           |  entry = tag + ChunkAddress
//!     |           v
//!     |--- memory: pages of chunks; a chunk = header (29 B) [flags] [expiry] key value
//!     |           ^
//!     |           | prev/next, free lists
//!     |--- classes: one lock each over its queues, its pages and their free chunks
//!     '--- pool: one lock over the pages that no class owns
//! ```

mod change;
mod evict;
mod shared;

pub use change::ClassChangeError;
pub use evict::Evicted;
pub use shared::{
    AccessKind, AccessObserver, EndReason, Eviction, EvictionObserver, FlushSaved, KeyAccess,
    Observers, Space,
};
