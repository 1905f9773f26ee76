//! How often and how soon keys are reused, and the misses of a cache of any size that follow from it.
//!
//! ```text
//!   keys --> StackDistances --distance--> Distances --> Mrc: the misses at every size
//!            (exact: the oracle)          (counts)
//!
//!   Access --is_sampled--> Profiler --> ClassProfile: a curve and counts, of every class
//!   misses, stores -------> MissClock: miss costs, by class and key prefix
//! ```
//!
//! A profile is of one class. All items of a class take one chunk, so sizes are counted in chunks.
//!
//! The crate needs only a stream of keys. It has no engine, clock or threads.
#![forbid(unsafe_code)]

mod class_keys;
mod class_profile;
mod decay;
mod histogram;
mod key_map;
mod key_table;
mod miss_clock;
mod mrc;
mod profiler;
mod reuse_windows;
mod stack;
mod stack_distances;
pub mod steps;

pub use class_keys::ClassSize;
pub use class_profile::{Access, ClassProfile, Sample};
pub use key_map::KeyMap;
pub use miss_clock::{MissClock, MissClockCounts, MissClockOptions};
pub use mrc::{Hits, Mrc, Point, lower_hull};
pub use profiler::{HISTORY_FACTOR, HISTORY_FACTOR_MIN, KEY_SIZE_BYTES, Profiler, ProfilerOptions};
pub use slabwise_base::AccessKind;
pub use slabwise_base::sampling::is_sampled;
pub use stack_distances::{Distances, StackDistances};
