//! The base of every other crate: ids, units, time, randomness and the key hash.
//!
//! The crate does not know sockets, caches or policies, and it has no global state: callers pass time and
//! randomness as values.
#![forbid(unsafe_code)]

pub mod access;
pub mod clock;
pub mod cost;
pub mod counts;
pub mod ids;
pub mod memcached;
pub mod random;
pub mod size_histogram;
pub mod sync;

pub use access::AccessKind;
pub use clock::{Clock, Expiry, Moment, Now, Seconds, Ticks};
pub use cost::Cost;
pub use ids::{ClassId, HashedKey, KeyHasher, LookupKey, PageId, sampling};
pub use random::Random;
pub use size_histogram::{SizeBin, SizeHistogram};

/// The largest size of a key, as in memcached.
pub const KEY_SIZE_BYTES_MAX: usize = 250;
