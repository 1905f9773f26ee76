//! memcached's protocol as pure functions over bytes: no sockets, no storage, no clock.
//!
//! ```text
//!   socket bytes --> text::parse --> Request (borrows the bytes) --> the server acts
//!   socket bytes <-- text::compose <-- what it found
//! ```
//!
//! The classic text protocol is one folder, [`text`], and [`Request`] what it says; the meta protocol,
//! [`meta`], shares its connections and has requests of its own, told apart by a line's first bytes; the
//! binary one is [`binary`]. [`client`] is the other end of the wire, for the tools that
//! talk to servers.
//!
//! Laws, checked by `tests/parser_property.rs` and the fuzz target:
//! - no input makes a parser panic, and none consumes more than it was given;
//! - cutting the input into pieces anywhere gives the same requests;
//! - nothing on the way of a get or a set allocates.
#![forbid(unsafe_code)]

pub mod binary;
pub mod client;
mod limits;
pub mod meta;
mod number;
mod request;
pub mod text;
pub mod udp;
mod watch;

pub use limits::{LIMITS, Limits};
pub use request::{
    Admin, Automove, ChunkSizes, Classes, CrawlKind, Crawler, Debug, DetailMode, Direction,
    LruMode, LruRequest, Request, Retrieval, ShutdownMode, StatsRequest, StoreHeader, StoreVerb,
};
pub use watch::WatchKinds;
