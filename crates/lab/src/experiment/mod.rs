//! Published experiments that run on this engine, each in a file or folder of its own.
//!
//! An experiment is a type that is parsed from the set-up in its file (`experiments/NAME.toml`) and implements
//! [`Experiment`]. Experiments share `trial` and `result`, and do not depend on each other; the registry lists them.
//!
//! Invariants: everything except measured times is determined by commit, seed, scale and file; a figure that could not
//! be measured has a row with the reason.

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
