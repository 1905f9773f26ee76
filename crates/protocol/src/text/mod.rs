//! The classic text protocol.
//!
//! [`parse`] parses one command line once it is complete, up to [`LINE_LEN_MAX`](crate::LINE_LEN_MAX) bytes. It checks
//! every key, so an invalid line is answered with an error alone. Only a retrieval may be longer: its keys are then
//! parsed one by one with [`next_key`] as they arrive, so that no line needs a buffer of its size.
//!
//! Replies and errors are those of memcached 1.6.45. Its rules:
//! - a line of fewer than four bytes, including its end, is not a request;
//! - words that a command does not need are ignored, and so are all words after the 23rd, except keys;
//! - a last word `noreply` suppresses errors too, except the two that are detected before it: too few words, and an
//!   invalid length of a value;
//! - the value of a refused storage command is skipped if its length is known, so that it is not parsed as commands.
//!
//! One form of a line is slabwise's own: a store with the item's cost, which differs from memcached's stores by its
//! number of words ([`CostWire`]).

mod admin;
mod line;
pub mod login;
pub mod reply;

pub use line::{
    CostWire, NextKey, join_sole_key, next_key, number, number_line, parse, percent_encoded,
    stat_line, value_line,
};
