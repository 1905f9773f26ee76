//! Workloads, and the client that replays them to any server that speaks memcached's protocol.
//!
//! ```text
//! workload (seeded stream of requests) --> drive (look-aside over the wire, checks every hit) --> report
//!     trace readers, Zipf, mixtures           look_aside plans rounds, client exchanges them
//! ```
//!
//! This is an operator's tool: it needs a server's address and nothing else of slabwise. [`main`] is the
//! command `slabwise replay`; [`drive`] is the replay for other programs.
#![forbid(unsafe_code)]

mod client;
mod command;
mod drive;
mod error;
#[cfg(test)]
#[path = "../../../tests/support/exact_lru.rs"]
mod exact_lru;
mod look_aside;
mod report;
#[cfg(test)]
mod tests;
mod values;
pub mod workload;

pub use client::CostForm;
pub use command::main;
pub use drive::{Pace, drive, unwatched};
pub use error::ReplayError;
pub use report::{Report, Window};
pub use values::{KEY_SIZE_BYTES, key_bytes};
