//! The meta text protocol: `mg`, `ms`, `md`, `ma`, `mn`, `me`.
//!
//! ```text
//!   mg <key> <flag>*            flag = a letter, for some with its token behind it: v  t  T30  Oabc
//!   ms <key> <datalen> <flag>*  then the value and its end of line
//! ```
//!
//! A client says by flags what it wants done and what it wants told; what it is told comes in the order of
//! its flags. So a line becomes two things: the operation, and its [`Echo`], the letters of the flags in
//! order. It shares its connection with the classic protocol: [`begins`] tells the two apart by a line's
//! first bytes, and no classic command is slowed down by more than that look.
//!
//! Replies and errors are those of memcached 1.6.45, with these exceptions:
//! - the value of a refused `ms` is skipped whenever its length is known, so that it is never taken for
//!   commands;
//! - keys in base64 hold the characters of base64 and no others;
//! - `k` names the key in the form that the request had;
//! - `me <key> b` decodes its key, as its documentation says;
//! - `ma` with T gives its lifetime to a number that grows, too; `t` of an item that has just been ended is 0;
//! - a refused append, prepend or add leaves the item that is there.
//!
//! Two flags are ours: `G<units>` of `ms` tells what an item costs to recompute, `g` of `mg` asks for it.

pub mod compose;
mod line;
pub mod reply;

pub use crate::request::{Echo, FLAG_COUNT_MAX, OPAQUE_LEN_MAX};
pub use crate::words::begins;
pub use line::{KEY_BUFFER_LEN, decode_key, parse};
