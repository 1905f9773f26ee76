//! Stores the results of an experiment next to the published values.
//!
//! ```text
//!   experiments/NAME.toml --> Spec: published values, figures of the report
//!                              '--> Outcome: rows and series --> table, result.json
//! ```
//!
//! This module uses no code of the experiments and of the reports.

pub mod outcome;
mod spec;

pub(crate) use outcome::measures;
pub use outcome::{
    COMMIT, Measure, Outcome, Row, Series, format_number, format_number_or_dash, maximum, mean,
    minimum,
};
pub use spec::{Draw, Figure, Spec};
