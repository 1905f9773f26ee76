//! memcached's protocol as pure functions over bytes: no sockets, no storage, no clock.
//!
//! ```text
//!   socket bytes --> parse --> Request (borrows the bytes), Answer --> the server
//!   socket bytes <-- compose <-- outcome
//! ```
//!
//! A connection uses one dialect: either lines, of the classic text protocol ([`text`]) and the meta protocol
//! ([`meta`]), or packets ([`binary`]). Each dialect parses into the same [`Request`] and an [`Answer`], which says in
//! which form to reply. The client's side of the protocol is the crate `slabwise-client`.
//!
//! Invariants, checked by `tests/parser_property.rs` and the fuzz target:
//! - no input makes a parser panic, and no parser consumes more than its input;
//! - the requests do not depend on how the input is split;
//! - parsing and answering a get or a set does not allocate.
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
