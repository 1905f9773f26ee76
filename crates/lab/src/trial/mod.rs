//! A trial: one run of a workload on one engine on virtual time, and what came of it.
//!
//! ```text
//!   setup: workload, cache, time --> run --execute--> course --> rows
//!                                      ^ divider: a tuner, or splits that are decided outside
//!   exact_curves: each class's curve --> class_curves: the best split, and what it misses
//!   served: an engine as a server has it, for as long as its clients go on
//! ```

pub mod class_curves;
pub mod course;
pub mod divider;
pub mod error;
pub mod exact_curves;
pub mod execute;
pub mod progress;
pub mod requests;
pub mod rows;
pub mod run;
pub mod served;
pub mod setup;
pub mod split;
pub mod steady;
pub mod streams;
