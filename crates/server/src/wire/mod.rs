//! Replies: the outcomes of operations in the client's dialect.
//!
//! ```text
//!   session: ops::get(..., show) --> text::hit, meta::Hit, binary::hit     while the item is locked
//!            outcome             --> text, meta, binary: a line or a packet
//! ```
//!
//! Everything is appended to the connection's output. Nothing here looks up or changes items.

pub(crate) mod binary;
pub(crate) mod meta;
pub(crate) mod rows;
pub(crate) mod text;

/// The version of the memcached whose protocol is implemented here. Clients choose features by it.
pub const VERSION: &str = "1.6.45";
