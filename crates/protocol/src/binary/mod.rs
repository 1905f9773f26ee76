//! The binary protocol.
//!
//! ```text
//!   byte  0      1       2 3      4       5     6 7       8..12   12..16  16..24
//!        +------+-------+--------+-------+-----+--------+-------+-------+-------+--------+-----+-------+
//!        | 0x80 |opcode |key len |extras | 0   |reserved| body  |opaque | CAS   | extras | key | value |
//!        |      |       |        | len   |     |/ status| len   |       | value |        |     |       |
//!        +------+-------+--------+-------+-----+--------+-------+-------+-------+--------+-----+-------+
//!        |<------------------------- 24 bytes: the head ------------------------>|<------ body ------->|
//! ```
//!
//! All numbers are big-endian. A reply begins with 0x81 and repeats the request's opcode and opaque, by which clients
//! match replies with requests. A quiet opcode is answered only with an error, or for a retrieval only with a hit.
//!
//! [`parse`] parses head, extras and key, whose lengths are bounded; the caller reads the value of a store. [`compose`]
//! appends replies.
//!
//! Invariants: lengths are checked before the bytes that they describe are used. The parser never waits for more than
//! [`LINE_LEN_MAX`](crate::LINE_LEN_MAX) bytes. If a refused request leaves the connection open, its body is skipped
//! exactly once, so that no byte of it is parsed as a request.
//!
//! memcached violates the last invariant in two cases. It skips extras and key of an unknown opcode twice; here the
//! body is skipped once. It parses the excess of a body that is too long for its command as a request; here the request
//! is refused.

pub mod compose;
mod frame;
pub mod opcode;

pub use crate::request::{Fault, HEAD_LEN, Head, REPLY_MAGIC, REQUEST_MAGIC, Status};
pub use frame::parse;
