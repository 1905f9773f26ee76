//! A client for memcached's protocol, which replay, advisor, lab, tests and benchmarks use.
//!
//! ```text
//!   Pipelines   many connections, requests pipelined, one thread       Connection   one blocking connection,
//!       |       (replay)                                                   |        lines and rows of stats
//!       +--> reply: parses one reply                                       +--> Rows
//!       '--> ServerAddress --> a socket, TCP or Unix <--- Stream: timeouts of reads and replies
//!
//!   request     composes requests into a buffer        process   a server as a child process, on a free port
//! ```
//!
//! Invariants:
//! - No call waits longer than its timeouts.
//! - Invalid bytes from a server are an error, never a panic.
//! - Composing and parsing do not allocate once the buffers have grown.
#![forbid(unsafe_code)]

mod address;
mod connection;
mod error;
mod input;
mod pipelines;
pub mod process;
pub mod reply;
pub mod request;
mod rows;
mod stream;

pub use address::ServerAddress;
pub use connection::{Connection, LINE_LEN_MAX, ROWS_MAX, is_refusal};
pub use error::ClientError;
pub use pipelines::Pipelines;
pub use reply::Reply;
pub use rows::{Row, Rows, SlabClass};
pub use stream::{Stream, Timeouts};
