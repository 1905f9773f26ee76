//! What a server would gain, each gain as a pure function of the observation.
//!
//! ```text
//!   Observation --Models--> pages:        another division of the pages
//!               |           memory:       more or less memory; what a lower miss ratio is worth in memory
//!               |---------> chunk_sizes:  other chunk sizes
//!               '---------> density:      a slabwise instead, simulated with the recorded accesses
//! ```

pub mod chunk_sizes;
pub mod density;
pub mod memory;
pub mod pages;

/// A change that saves a smaller share of the misses than this is not recommended.
pub const FEWER_MISSES_MIN: f64 = 0.01;
