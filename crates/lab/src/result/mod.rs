//! What an experiment found, beside what was published.
//!
//! ```text
//!   experiments/NAME.toml --> Spec: published figures, what to draw
//!                              '--> Outcome: rows and series --> table, result.json
//! ```
//!
//! Nothing here knows an experiment or a report.

pub mod outcome;
mod spec;

pub(crate) use outcome::measures;
pub use outcome::{COMMIT, Measure, Outcome, Row, Series, least, mean, most, number, shown};
pub use spec::{Draw, Figure, Spec};
