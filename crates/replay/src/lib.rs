//! Workloads, and a client that replays them against any server of memcached's protocol.
//!
//! ```text
//! workload: a seeded stream of requests --> drive: a client that checks every hit --> report
//!     trace readers, Zipf, mixtures            look_aside plans rounds of requests,
//!                                              client sends them and receives the replies
//! ```
//!
//! [`main`] is the command `slabwise replay`. Programs that replay a workload call [`drive`].
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
pub use drive::{Pace, drive, ignore_round};
pub use error::ReplayError;
pub use report::{Report, Window};
pub use values::{KEY_SIZE_BYTES, key_bytes};
