//! Profiles of classes: miss-ratio curves, counts and miss costs, computed from a stream of accesses.
//!
//! ```text
//!   keys --> StackDistances --distance--> Distances --> Mrc: the misses at every size
//!            (exact, for comparison)      (counts)
//!
//!   distances in short windows --> CensoredDistances --> Mrc
//!
//!   Access --is_sampled--> Profiler --> ClassProfile: a curve and counts for each class
//!   misses, stores -------> MissClock: a miss cost for each class and key prefix
//!   keys of a sample of gets --> SpaceSaving: the most frequent keys
//! ```
//!
//! Each class has its own profile. Each item of a class takes one chunk, so the sizes of a curve are numbers of chunks.
//!
//! The crate uses no engine, no clock and no threads.
#![forbid(unsafe_code)]

mod censored_distances;
mod class_keys;
mod class_profile;
mod class_size;
mod cliff;
mod decay;
mod get_counts;
mod hazards;
mod histogram;
mod key_map;
mod key_table;
mod miss_clock;
mod mrc;
mod profiler;
mod recent_references;
mod reuse_times;
mod reuse_windows;
mod size_buckets;
mod space_saving;
mod stack;
mod stack_distances;
pub mod steps;
mod stored_before;

pub use censored_distances::{CensoredDistances, MeasuredCurve};
pub use class_profile::{Access, ClassProfile, Sample};
pub use class_size::ClassSize;
pub use cliff::Pointers;
pub use get_counts::RecentGets;
pub use hazards::{Hazards, UseOfKey};
pub use key_map::KeyMap;
pub use miss_clock::{MissClock, MissClockCounts, MissClockOptions};
pub use mrc::{Hits, Mrc, Point, lower_hull};
pub use profiler::{HISTORY_FACTOR, HISTORY_FACTOR_MIN, KEY_SIZE_BYTES, Profiler, ProfilerOptions};
pub use slabwise_base::AccessKind;
pub use slabwise_base::sampling::is_sampled;
pub use space_saving::{Frequency, SpaceSaving};
pub use stack_distances::{Distances, StackDistances};
