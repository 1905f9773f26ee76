//! Replies: what came of an operation, in the bytes of the client's dialect.
//!
//! ```text
//!   session: ops::get(..., show) --> text::hit, meta::Hit, binary::hit     while the item stands still
//!            outcome             --> text, meta, binary: a line or a packet
//! ```
//!
//! Everything is appended to the connection's output. Nothing here calls the engine's handle.

pub(crate) mod binary;
pub(crate) mod meta;
pub(crate) mod rows;
pub(crate) mod text;

/// Clients read the numbers to know what they may ask for, so they
/// are those of the memcached whose classic protocol is spoken here.
pub const VERSION: &str = "1.6.45";
