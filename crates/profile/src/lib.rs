//! What is known of how often and how soon keys come again, and what a cache of any size makes of it.
//!
//! ```text
//!   keys --> StackDistances --distance--> Distances --> Mrc: misses at every size
//!            (exact: the oracle)          (counts)
//! ```
//!
//! One profile is of one class: all its items take one chunk, so sizes are counted in chunks.
//!
//! Who may call it: anyone with a stream of keys. It knows nothing of engines, clocks or threads.
#![forbid(unsafe_code)]

mod access;
mod class_profile;
mod distances;
mod marks;
mod mrc;
mod stack_distances;

pub use access::{Access, AccessKind};
pub use class_profile::ClassProfile;
pub use distances::Distances;
pub use mrc::{Mrc, Point};
pub use stack_distances::StackDistances;
