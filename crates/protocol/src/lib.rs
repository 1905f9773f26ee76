//! The server's side of memcached's protocol: parses requests from bytes and appends replies to buffers. The crate has
//! no sockets, no storage and no clock.
//!
//! ```text
//!   received bytes --> parse --> Request, Answer --> the server executes the request
//!   bytes to send <-- compose <--------------------- outcome of the request
//! ```
//!
//! A connection uses one dialect. The text dialect has lines of the classic text protocol ([`text`]) and of the meta
//! protocol ([`meta`]). The binary dialect has packets ([`binary`]). All parsers return a [`Request`] and an
//! [`Answer`], which describes the form of the reply. The crate `slabwise-client` is the client's side of the protocol.
//!
//! Invariants, the first two checked by `tests/parser_property.rs` and the fuzz targets:
//! - No input makes a parser panic, and no parser consumes more bytes than its input has.
//! - The parsed requests do not depend on the pieces in which the input arrives, unless a line is longer than
//!   [`LINE_LEN_MAX`]. As in memcached, such a line is valid if its end arrives together with its start.
//! - Parsing a get or a set and composing its reply allocates no memory.
#![forbid(unsafe_code)]

mod admin;
pub mod binary;
pub mod meta;
mod request;
pub mod text;
pub mod udp;
mod words;

pub use admin::{
    Admin, Attempt, Automove, ChunkSizes, Classes, CrawlKind, Crawler, Debug, DetailMode, LruMode,
    LruRequest, ShutdownMode, StatsRequest,
};
pub use request::{
    Answer, Arithmetic, Delete, Direction, Get, Initial, Parsed, Refusal, Replacement, Request,
    Sasl, Store, StoreVerb, TextAnswer, Vivify,
};
pub use words::{BODY_LEN_MAX, Exptime, KEY_LEN_MAX, LINE_LEN_MAX, VALUE_LEN_MAX, WatchKinds};
