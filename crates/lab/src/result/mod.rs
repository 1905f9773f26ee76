//! Stores the results of an experiment next to the published values.
//!
//! ```text
//!   experiments/NAME.toml --> Spec: published values, figures of the report
//!                              '--> Outcome: rows and series --> one per seed --> merged --> table, result.json
//!                                             '--> Verdict of each row with a published value
//! ```
//!
//! This module uses no code of the experiments and of the reports.

pub mod outcome;
mod seeds;
mod spec;
mod verdict;

pub(crate) use outcome::measures;
pub use outcome::{
    CHUNK_SIZES, Measure, Outcome, Row, SeedText, Series, format_number, format_number_or_dash,
    maximum, mean, minimum,
};
pub use seeds::merged;
pub use spec::{Draw, Figure, Spec};
pub use verdict::{Cause, Verdict, VerdictCounts};
#[cfg(test)]
pub use verdict::{Classification, ShownBy};
