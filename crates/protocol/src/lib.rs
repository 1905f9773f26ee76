//! memcached's protocol as pure functions over bytes: no sockets, no storage, no clock.
//!
//! ```text
//!   socket bytes --> parse --> Request (borrows the bytes), Answer --> the server acts
//!   socket bytes <-- compose <-- what it found
//! ```
//!
//! A connection speaks one [`Dialect`]: lines, which are those of the classic text protocol ([`text`]) and of
//! the meta protocol ([`meta`]), or packets ([`binary`]). Each parses into the same [`Request`] and an
//! [`Answer`], which says how it is to be answered. The client's side is the crate
//! `slabwise-client`.
//!
//! Laws, checked by `tests/parser_property.rs` and the fuzz target:
//! - no input makes a parser panic, and none consumes more than it was given;
//! - cutting the input into pieces anywhere gives the same requests;
//! - nothing on the way of a get or a set allocates.
#![forbid(unsafe_code)]

mod admin;
mod answer;
pub mod binary;
mod dialect;
mod echo;
mod exptime;
mod fault;
mod head;
mod limits;
pub mod meta;
mod number;
mod parsed;
mod request;
mod stats;
mod status;
pub mod text;
pub mod udp;
mod watch;

pub use admin::{
    Admin, Automove, ChunkSizes, Classes, CrawlKind, Crawler, Debug, LruMode, LruRequest,
    ShutdownMode,
};
pub use answer::{Answer, TextAnswer};
pub use dialect::Dialect;
pub use exptime::Exptime;
pub use limits::{LIMITS, Limits};
pub use parsed::{Parsed, Refusal};
pub use request::{
    Arithmetic, Delete, Direction, Get, Initial, Leave, Request, Retrieval, Sasl, Store, StoreVerb,
    Vivify,
};
pub use stats::{DetailMode, StatsRequest};
pub use watch::WatchKinds;
