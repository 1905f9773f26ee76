//! Types that every other crate uses: ids, units, time, random numbers and the hash of keys.
//!
//! The crate contains no code for sockets, caches or policies, and it has no global state. Callers pass the time and
//! the random generator as values.
#![forbid(unsafe_code)]

pub mod access;
pub mod clock;
pub mod cost;
pub mod counts;
pub mod density;
pub mod ghosts;
pub mod ids;
pub mod memcached;
pub mod random;
pub mod size_histogram;
pub mod sync;
pub mod uses;

pub use access::AccessKind;
pub use clock::{Clock, Expiry, Moment, Now, Seconds, Ticks, WorkTime, timed};
pub use cost::Cost;
pub use ghosts::Ghosts;
pub use ids::{ClassId, HashedKey, KeyHasher, LookupKey, PageId, sampling};
pub use random::Random;
pub use size_histogram::{SizeBin, SizeHistogram};
pub use uses::Uses;

/// The maximum size of a key in bytes, as in memcached.
pub const KEY_SIZE_BYTES_MAX: usize = 250;
