//! memcached's protocol as pure functions over bytes: no sockets, no storage, no clock.
//!
//! ```text
//!   socket bytes --> parse --> Request (borrows the bytes), Answer --> the server acts
//!   socket bytes <-- compose <-- what it found
//! ```
//!
//! A connection speaks one dialect: lines, which are those of the classic text protocol ([`text`]) and of
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
pub mod binary;
pub mod meta;
mod request;
pub mod text;
pub mod udp;
mod words;

pub use admin::{
    Admin, Automove, ChunkSizes, Classes, CrawlKind, Crawler, Debug, DetailMode, LruMode,
    LruRequest, ShutdownMode, StatsRequest,
};
pub use request::{
    Answer, Arithmetic, Delete, Direction, Get, Initial, Leave, Parsed, Refusal, Request, Sasl,
    Store, StoreVerb, TextAnswer, Vivify,
};
pub use words::{BODY_LEN_MAX, Exptime, KEY_LEN_MAX, LINE_LEN_MAX, VALUE_LEN_MAX, WatchKinds};
