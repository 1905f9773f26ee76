//! The classic text protocol.
//!
//! [`parse`] reads one command line. A line is waited for until it is whole, up to
//! [`LINE_LEN_MAX`](crate::LINE_LEN_MAX) bytes; then every key on it has been checked, and a line with
//! a fault is answered with its error alone. Only a retrieval may be longer: its keys are then read
//! one by one with [`next_key`] as they arrive, so that no line needs a buffer of its size.
//!
//! Replies and errors are those of memcached 1.6.45. Its rules:
//! - a line of fewer than four bytes, its end included, is no request;
//! - words beyond those that a command reads mean nothing, and words beyond the 23rd are not seen, but for
//!   keys;
//! - a last `noreply` silences errors too, but for two that come before it is looked at: too few words, and
//!   a value's length that is none;
//! - the value of a refused storage command is skipped whenever its length is known, so that it is not taken
//!   for commands.
//!
//! One form of a line is ours: a store with the item's cost, known from memcached's by the number of its words
//! ([`CostWire`]).

mod admin;
mod line;
pub mod login;
pub mod reply;

pub use line::{
    CostWire, NextKey, join_sole_key, next_key, number, number_line, parse, percent_encoded,
    stat_line, value_line,
};
