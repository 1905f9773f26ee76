//! The advisor: recommends how a running memcached or slabwise would use its memory better.
//!
//! ```text
//!   chunk_sizes: the command `slabwise classes`, which recommends chunk sizes for a server or a histogram
//!
//!   run: the command `slabwise advise`
//!     observe (I/O, a thread per server) --> Observation --> model --> gains, fleet (pure) --> report: text, JSON, HTML
//! ```
//!
//! Invariants:
//! - The advisor changes nothing on a server.
//! - Every connection has timeouts. A server that is slow or sends garbage costs one line of the log.
//! - The gains are functions of the observation, without I/O, clock and random numbers.
#![forbid(unsafe_code)]

mod args;
pub mod chunk_sizes;
mod estimate;
mod fleet;
mod gains;
mod model;
mod observation;
mod observe;
mod report;
mod run;
#[cfg(test)]
mod testing;

pub use run::main;
