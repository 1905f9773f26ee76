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
//! All numbers are big-endian. A reply begins with 0x81 and repeats the request's opcode and opaque
//! bytes, by which clients tell their replies apart. A quiet opcode wants no answer but an error, or
//! for a retrieval but a hit.
//!
//! [`parse`] reads head, extras and key, which have bounds; a value to be stored is the caller's to
//! read. [`compose`] writes replies.
//!
//! Invariants: lengths are checked before what they measure is looked at; a request is never waited for
//! beyond [`LINE_LEN_MAX`](crate::LINE_LEN_MAX) bytes; the body of a request that is refused but leaves the
//! connection open is skipped once and whole, so that no byte of it is taken for a request.
//!
//! Two bodies that memcached misreads are held to the last invariant here: that of an unknown opcode, whose
//! extras and key it skips twice, and one that is longer than its command asks for, which it goes on
//! reading as a request. The first is skipped, the second refused.

pub mod compose;
mod frame;
pub mod opcode;

pub use crate::request::{Fault, HEAD_LEN, Head, REPLY_MAGIC, REQUEST_MAGIC, Status};
pub use frame::parse;
