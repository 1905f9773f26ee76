//! What is known of how often and how soon keys come again, and what a cache of any size makes of it.
//!
//! ```text
//!   keys --> StackDistances --distance--> Distances --> Mrc: misses at every size
//!            (exact: the oracle)          (counts)      ^
//!        --> Footprint: from reuse times, in one pass ---|
//!        --> LocalFootprint: the same, burst by burst ---|
//!        --> MiniatureSimulation<Eviction>: by sizes ----'
//!
//!   Access --is_sampled--> Profiler --> ClassProfile: a curve and counts, of every class
//!   misses, stores -------> MissClock: what misses cost, by class and key prefix
//! ```
//!
//! One profile is of one class: all its items take one chunk, so sizes are counted in chunks.
//!
//! Who may call it: anyone with a stream of keys. It knows nothing of engines, clocks or threads.
#![forbid(unsafe_code)]

mod access;
mod class_keys;
mod class_profile;
mod deviation;
mod distances;
mod eviction;
mod fading;
mod footprint;
mod gaps;
mod histogram;
mod hull;
mod key_map;
mod key_table;
mod lists;
mod local_footprint;
mod marks;
mod miniature;
mod miss_clock;
mod mrc;
mod profiler;
mod reuse_windows;
mod segmented;
mod stack;
mod stack_distances;
mod steps;

pub use access::{Access, AccessKind};
pub use class_keys::ClassSize;
pub use class_profile::ClassProfile;
pub use deviation::Sample;
pub use distances::Distances;
pub use eviction::{Eviction, Lru};
pub use footprint::Footprint;
pub use hull::lower_hull;
pub use local_footprint::LocalFootprint;
pub use miniature::MiniatureSimulation;
pub use miss_clock::{MissClock, MissClockCounts, MissClockOptions};
pub use mrc::{Hits, Mrc, Point};
pub use profiler::{HISTORY_FACTOR, HISTORY_FACTOR_MIN, KEY_SIZE_BYTES, Profiler, ProfilerOptions};
pub use segmented::Segmented;
pub use slabwise_base::sampling::is_sampled;
pub use stack_distances::StackDistances;
