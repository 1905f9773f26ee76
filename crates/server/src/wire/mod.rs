//! Writes replies: the outcomes of operations in the client's dialect.
//!
//! ```text
//!   session: ops::get(..., show) --> text::write_hit, meta::Hit, binary::write_hit   while the item is locked
//!            outcome             --> text, meta, binary: a line or a packet
//! ```
//!
//! All functions append to the connection's output. No function here looks up or changes items.

pub(crate) mod binary;
pub(crate) mod meta;
pub(crate) mod rows;
pub(crate) mod text;

/// The version of memcached whose protocol slabwise implements. Clients read this version and select features by it.
pub const VERSION: &str = "1.6.45";
