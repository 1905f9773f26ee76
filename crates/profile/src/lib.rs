//! What is known of how often and how soon keys come again, and what a cache of any size makes of it.
//!
//! ```text
//!   keys --> StackDistances --distance--> Distances --> Mrc: misses at every size
//!            (exact: the oracle)          (counts)
//!
//!   Access --is_sampled--> Profiler --> ClassProfile: a curve and counts, of every class
//!   misses, stores -------> MissClock: what misses cost, by class and key prefix
//! ```
//!
//! One profile is of one class: all its items take one chunk, so sizes are counted in chunks.
//!
//! Who may call it: anyone with a stream of keys. It knows nothing of engines, clocks or threads.
#![forbid(unsafe_code)]

mod class_keys;
mod class_profile;
mod fading;
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
