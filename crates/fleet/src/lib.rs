//! The servers of a fleet: where they are listed, and which of them differ from the others.
//!
//! ```text
//!   arguments --> Target --> servers: a file, name servers --> addresses       (targets)
//!   one measurement per server --> the median, and the servers far from it     (outliers)
//! ```
//!
//! `targets` reads files and asks name servers; `outliers` is a pure function.
#![forbid(unsafe_code)]

pub mod outliers;
mod target_file;
mod targets;

pub use target_file::{parse_document, parse_lines};
pub use targets::{SERVERS_MAX, Target, TargetError, servers};
