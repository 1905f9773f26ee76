//! Published experiments, run again on this engine, each in a file or folder of its own.
//!
//! An experiment is a set-up that is read from its file (`experiments/NAME.toml`) and implements [`Experiment`].
//! Experiments share what is in `trial` and `result`, and do not know one another; the registry lists them.
//!
//! Invariants: everything but measured times follows from commit, seed, scale and the file; what could not be measured
//! has a row that says why.

mod kind;

pub mod class_counts;
pub mod cost;
pub mod curves;
pub mod eviction_curves;
pub mod frontier;
pub mod learned_classes;
pub mod mover_speed;
pub mod overhead;
pub mod policies;
pub mod two_phase;

pub use kind::{Experiment, Job, Progress};

#[cfg(test)]
mod tests;
