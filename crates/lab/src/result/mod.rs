//! The results of an experiment, next to the published figures.
//!
//! ```text
//!   experiments/NAME.toml --> Spec: published figures, report figures
//!                              '--> Outcome: rows and series --> table, result.json
//! ```
//!
//! This module depends on no experiment and no report.

pub mod outcome;
mod spec;

pub(crate) use outcome::measures;
pub use outcome::{COMMIT, Measure, Outcome, Row, Series, least, mean, most, number, shown};
pub use spec::{Draw, Figure, Spec};
