//! The types of experiments, each in its own file or folder.
//!
//! A type is parsed from the set-up in the file of an experiment (`experiments/NAME.toml`) and implements
//! [`Experiment`]. The types use the modules `trial` and `result`, and do not use each other. The registry lists the
//! type of each file.
//!
//! Invariants:
//! - Commit, seed, scale and file determine all results except measured times, results that depend on measured times,
//!   and results of real servers.
//! - A value that could not be measured has a row with the reason.

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
pub mod what_if;

pub use kind::{Experiment, Job, Progress};

#[cfg(test)]
mod tests;
