//! memcached's protocol as pure functions over bytes: no sockets, no storage, no clock.
//!
//! ```text
//!   socket bytes --> text::parse --> Request (borrows the bytes) --> the server acts
//!   socket bytes <-- text::compose <-- what it found
//! ```
//!
//! [`Request`] knows no dialect: the classic text protocol is one folder, [`text`]; others can stand
//! beside it and give the same requests. [`client`] is the other end of the wire, for the tools that
//! talk to servers.
//!
//! Laws, checked by `tests/text_property.rs` and the fuzz target:
//! - no input makes a parser panic, and none consumes more than it was given;
//! - cutting the input into pieces anywhere gives the same requests;
//! - nothing on the way of a get or a set allocates.
#![forbid(unsafe_code)]

pub mod client;
mod limits;
mod number;
mod request;
pub mod text;
pub mod udp;
mod watch;

pub use limits::{LIMITS, Limits};
pub use request::{
    Admin, Automove, CrawlKind, Crawler, Debug, DetailMode, Direction, LruMode, LruRequest,
    Request, Retrieval, ShutdownMode, StatsRequest, StoreHeader, StoreVerb,
};
pub use watch::WatchKinds;
