//! Parses requests of the binary protocol and composes replies. A request has this layout; in a reply, the first byte
//! is 0x81, and bytes 6 and 7 are the status:
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
//! All numbers are big-endian. A reply begins with 0x81. It repeats the opcode and the opaque bytes of the request, so
//! that clients can match replies with requests. A request with a quiet opcode has a reply only if the reply is an
//! error or, for a get, a hit.
//!
//! [`parse`] parses the head, the extras and the key, whose lengths are bounded. The caller reads the value of a store.
//! [`compose`] appends replies to a buffer.
//!
//! Invariants:
//! - The parser checks a length before it uses the bytes of this length.
//! - The parser never waits for more than [`LINE_LEN_MAX`](crate::LINE_LEN_MAX) bytes.
//! - If the connection stays open after an invalid request, the body of the request is skipped exactly once, so that no
//!   byte of the body is parsed as a request.
//!
//! memcached violates the last invariant in two cases. It skips the extras and the key of an unknown opcode twice. If a
//! body is too long for its command, memcached parses the excess bytes as a request; slabwise refuses the request.

pub mod compose;
mod frame;
pub mod opcode;

pub use crate::request::{Fault, HEAD_LEN, Head, REPLY_MAGIC, REQUEST_MAGIC, Status};
pub use frame::parse;
