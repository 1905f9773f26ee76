//! The state that all operations share, and the steps that take several of its locks.
//!
//! ```text
//!   Space --- index: the stripes; each stripe has a lock and a growing table of buckets, one cache line each
//!     |           |  an entry of a bucket has a tag and the address of a chunk
//!     |           v
//!     |--- memory: the pages; a page is divided into chunks; a used chunk = header (30 B) [other fields] key value
//!     |           ^
//!     |           |  the links of queues and free lists refer to chunks
//!     |--- classes: the classes; each class has a lock over its queues, its pages and their free chunks
//!     '--- pool: the pages that no class owns, and their lock
//! ```

mod change;
mod evict;
mod flush;
mod observers;
mod recall;
mod shared;
mod spares;
mod work_clock;

pub use change::ClassChangeError;
pub use evict::{DetachedBatch, DetachedVictim, Evicted, Evictor};
pub use flush::FlushSaved;
pub use observers::{AccessObserver, Eviction, EvictionObserver, KeyAccess, Observers};
pub use shared::{AccessKind, HELP_UNITS, InvalidReason, Space};
pub use work_clock::{AGE_MAX, WORK_CLOCK_LENS, WorkClock, WorkSaved};
