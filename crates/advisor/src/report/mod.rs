//! The report: its data, and its three forms.
//!
//! ```text
//!   Observation --gains--> ServerReport --.               .--> text: for the terminal
//!   several ServerReports --> Fleet -------+--> Report ---+--> JSON, by serde
//!   errors --> Failed ---------------------'               '--> html: one page, with curves as SVG (chart)
//! ```
//!
//! The names of the fields are the names in the JSON document. Miss ratios are shares of the gets, from 0 to 1. Sizes are in
//! bytes, times in seconds.

mod actions;
mod chart;
mod data;
pub mod html;
mod numbers;
pub mod text;

pub use actions::{Action, Change, Verdict};
pub use data::{Failed, Report, ServerReport};
