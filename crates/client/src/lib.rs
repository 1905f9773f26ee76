//! The client's side of memcached's protocol: what replay, advisor, lab, tests and benchmarks use to talk to a server.
//!
//! ```text
//!   Pipelines   many connections, requests pipelined, one thread       Connection   one dialogue, blocking,
//!       |       (replay)                                                   |        lines and rows of stats
//!       +--> reply: the reply that bytes begin with                        +--> Rows
//!       '--> ServerAddress --> a socket, TCP or Unix <--- Stream: timeouts of reads and replies
//!
//!   request     composes requests into a buffer        process   a server as a child process, on a free port
//! ```
//!
//! Invariants: no call waits longer than its timeouts allow; bytes that no server sends are an error, never a panic;
//! composing and parsing allocate nothing once the buffers have grown.
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
