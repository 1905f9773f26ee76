//! Parses requests of the classic text protocol and composes replies.
//!
//! [`parse`] parses one complete command line of up to [`LINE_LEN_MAX`](crate::LINE_LEN_MAX) bytes. It checks every key
//! of a retrieval, so the reply to a line with an invalid key is only an error. The line of a retrieval may be longer
//! than the limit. The caller then parses the keys one by one with [`next_key`] as they arrive, so that it needs no
//! buffer for the whole line.
//!
//! Replies and errors are those of memcached 1.6.45. memcached's rules for lines are:
//! - A line of fewer than four bytes, including its line end, is not a request.
//! - Most commands ignore words that they do not need. All words after the 23rd are ignored, except keys.
//! - A last word `noreply` suppresses the reply, even if the reply is an error. Two errors are sent nevertheless: too
//!   few words, and an invalid length of a value.
//! - If the length of the value of a refused storage command is known, the value is skipped, so that it is not parsed
//!   as commands.
//!
//! One form of a line exists only in slabwise: a storage command with the item's cost. Its line has one word more than
//! memcached's storage commands ([`CostWire`]).

mod admin;
mod line;
pub mod login;
pub mod reply;

pub use line::{
    CostWire, NextKey, join_sole_key, next_key, parse, write_number, write_number_line,
    write_percent_encoded, write_stat_line, write_value_line,
};
