//! The meta text protocol: `mg`, `ms`, `md`, `ma`, `mn`, `me`.
//!
//! ```text
//!   mg <key> <flag>*            flag = a letter, some with a token: v  t  T30  Oabc
//!   ms <key> <datalen> <flag>*  then the value and its end of line
//! ```
//!
//! Flags select what a request does and what its reply contains; the reply has them in the order of the request. A line
//! is therefore parsed into the operation and an [`Echo`], the letters of the flags in order. Both text protocols can
//! be used on one connection: [`begins`] distinguishes them by the first bytes of a line, and costs classic commands
//! only that check.
//!
//! Replies and errors are those of memcached 1.6.45, with these exceptions:
//! - the value of a refused `ms` is skipped if its length is known, so that it is never parsed as commands;
//! - keys in base64 with other characters are refused;
//! - `k` returns the key in the form of the request;
//! - `me <key> b` decodes its key, as documented;
//! - `ma` with T also sets the expiry of a number that gets more digits; `t` of an item that has just expired is 0;
//! - a refused append, prepend or add keeps the existing item.
//!
//! Two flags are slabwise's own: `G<units>` of `ms` supplies the cost of an item, and `g` of `mg` returns it.

pub mod compose;
mod line;
pub mod reply;

pub use crate::request::{Echo, FLAG_COUNT_MAX, OPAQUE_LEN_MAX};
pub use crate::words::begins;
pub use line::{KEY_BUFFER_LEN, decode_key, parse};
