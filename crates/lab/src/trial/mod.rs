//! A trial: one run of a workload on one engine on virtual time, and what came of it.
//!
//! ```text
//!   setup: workload, cache, time --> run --execute--> course --> rows
//!                                      ^ divider: a tuner, or splits that are decided outside
//!   curves: each class's exact curve --> the best split, and what it misses
//!   served: an engine as a server has it, for as long as its clients go on
//! ```

pub mod course;
pub mod curves;
pub mod error;
pub mod execute;
pub mod run;
pub mod served;
pub mod setup;
