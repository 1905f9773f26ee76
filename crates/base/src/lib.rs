//! What every other crate stands on: ids, units, time, randomness and the key hash.
//!
//! Nothing here knows of sockets, caches or policies, and nothing is global: time and randomness
//! are values that a caller hands on.
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
pub use size_histogram::{SizeBar, SizeHistogram};

/// The most bytes a key may have, as in memcached.
pub const KEY_SIZE_BYTES_MAX: usize = 250;
