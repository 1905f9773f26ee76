//! What an experiment found, beside what was published.
//!
//! ```text
//!   experiments/NAME.toml --> Spec: published figures, what to draw
//!                              '--> Outcome: rows and series --> table, result.json
//! ```
//!
//! Nothing here knows an experiment or a report.

mod figure;
pub mod measure;
mod outcome;
mod published;
mod row;
mod spec;
mod spread;
mod table;

pub use figure::{Draw, Figure};
pub use measure::Measure;
pub(crate) use measure::measures;
pub use outcome::{COMMIT, Outcome, Series};
pub use row::Row;
pub use spec::Spec;
pub use spread::{least, mean, most};
pub use table::number;
