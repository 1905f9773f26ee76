//! A client for memcached's protocol. `slabwise replay`, the advisor, the lab, tests and benchmarks use it.
//!
//! ```text
//!   Pipelines   one thread drives many connections                Connection   one blocking connection:
//!       |       with pipelined requests                               |        reads lines and rows of `stats`
//!       +--> reply: parses one reply                                  +--> Rows: the rows of one `stats` command
//!       |                                                             |
//!       |                                                           Stream: a socket with timeouts, with or without TLS
//!       |                                                             |
//!       |                                                           Connector: address, timeouts, TLS, credentials <-- ConnectArgs
//!       '--------> ServerAddress: connects a TCP or Unix socket <-----'
//!
//!   request   appends requests to a buffer        process   starts a server as a child process on a free port
//!                                                 supervisor   kills a server when the starter ends
//! ```
//!
//! Invariants:
//! - No call waits longer than the timeouts that its caller has set. Connecting has no timeout in
//!   [`Pipelines::connect`].
//! - Invalid bytes from a server cause an error, never a panic.
//! - Appending a request and parsing a reply allocate memory only when a buffer grows.
#![forbid(unsafe_code)]

mod address;
mod args;
mod connection;
mod connector;
mod error;
mod input;
mod pipelines;
pub mod process;
pub mod reply;
pub mod request;
mod rows;
mod stream;
pub mod supervisor;
mod tls;

pub use address::{DEFAULT_PORT, ServerAddress};
pub use args::{ConnectArgs, Security};
pub use connection::{Connection, LINE_LEN_MAX, is_refusal};
pub use connector::{Connector, Credentials};
pub use error::{ClientError, ROWS_MAX};
pub use pipelines::Pipelines;
pub use reply::Reply;
pub use rows::{Row, Rows, SlabClass};
pub use stream::{Stream, Timeouts};
pub use tls::{Tls, TlsOptions, Trust};
