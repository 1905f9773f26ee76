//! Parses requests of the meta protocol (`mg`, `ms`, `md`, `ma`, `mn`, `me`) and composes replies.
//!
//! ```text
//!   mg <key> <flag>*            a flag is a letter, and for some letters a token, such as: v  t  T30  Oabc
//!   ms <key> <datalen> <flag>*  the value and a line end follow
//! ```
//!
//! The flags of a request select its options and the data in its reply. The reply contains the data in the order of the
//! flags. The parser therefore returns the operation, and an [`Echo`] with the letters of the flags in order.
//!
//! A connection can use the classic text protocol and the meta protocol, line by line. [`begins`] distinguishes them by
//! the first bytes of a line.
//!
//! Replies and errors are those of memcached 1.6.45, with these exceptions:
//! - If the length of the value of a refused `ms` is known, the value is skipped and never parsed as commands.
//! - A key that should be in base64 but has other characters is refused.
//! - The flag `k` returns the key in base64 if the request has the key in base64.
//! - `me <key> b` decodes the key, as memcached documents.
//! - `ma` with the flag `T` sets the new expiry even if the number becomes longer by a digit.
//! - The flag `t` returns 0 for an item that has just expired.
//! - A refused append, prepend or add keeps the existing item.
//!
//! Two flags exist only in slabwise: `G<units>` of `ms` supplies the cost of an item, and `g` of `mg` returns the cost.

pub mod compose;
mod line;
pub mod reply;

pub use crate::request::{Echo, FLAG_COUNT_MAX, OPAQUE_LEN_MAX};
pub use crate::words::begins;
pub use line::{KEY_BUFFER_LEN, decode_key, parse};
