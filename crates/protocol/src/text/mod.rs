//! The classic text protocol.
//!
//! [`parse`] reads one command line. A line is waited for until it is whole, up to
//! [`LIMITS`](crate::LIMITS)`.line_len_max` bytes; then every key on it has been checked, and a line with
//! a fault is answered with its error alone. Only a retrieval may be longer: its keys are then read
//! one by one with [`next_key`] as they arrive, so that no line needs a buffer of its size.
//!
//! Replies and errors are those of memcached 1.6.45. Its laws:
//! - a line of fewer than four bytes, its end included, is no request;
//! - words beyond those that a command reads mean nothing, and words beyond the 23rd are not seen, but for
//!   keys;
//! - a last `noreply` silences errors too, but for two that come before it is looked at: too few words, and
//!   a value's length that is none;
//! - the value of a refused storage command is skipped whenever its length is known, so that it is not taken
//!   for commands.
//!
//! One form of a line is ours: a store with the item's cost, told from memcached's by the number of its words
//! ([`CostWire`]).
//!
//! Who may call it: anyone with bytes. It keeps no state; whether keys or a value come next is the
//! caller's to remember.

mod admin;
pub mod compose;
mod keys;
pub mod login;
pub mod reply;
mod retrieval;
mod stats;
mod storage;
mod table;
mod words;

pub use keys::{NextKey, next_key};

use crate::{LIMITS, Request};
use table::Family;
use words::Words;

/// Whether storage lines may tell what their items cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CostWire {
    /// They are memcached's alone.
    Off,
    /// `set|add|replace <key> <cost> <flags> <exptime> <bytes> [noreply]` does.
    On,
}

/// What the beginning of some input is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Parsed<'a> {
    /// Not a whole line yet.
    Incomplete,
    /// A request.
    Request {
        /// What is asked for.
        request: Request<'a>,
        /// Whether the client wants no answer, not even an error.
        noreply: bool,
        /// Bytes of the input that the request took. A retrieval's keys or a storage command's value
        /// start there.
        consumed: usize,
    },
    /// A line that cannot be acted on.
    Refused {
        /// The answer, its end of line included; empty if the client wants none.
        reply: &'static [u8],
        /// Bytes of the input that the line took.
        consumed: usize,
        /// Bytes after it that belong to it and mean nothing.
        skip_len: usize,
    },
    /// Not a client of this protocol: close the connection.
    Hangup,
}

/// A line that cannot be acted on: the reply, and the length of the data that belongs to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Refusal {
    reply: &'static [u8],
    skip_len: usize,
    /// Whether the client is told even if it wants no answer.
    is_aloud: bool,
}

impl Refusal {
    fn new(reply: &'static [u8]) -> Refusal {
        Refusal { reply, skip_len: 0, is_aloud: false }
    }

    fn aloud(reply: &'static [u8]) -> Refusal {
        Refusal { is_aloud: true, ..Refusal::new(reply) }
    }
}

/// The length of the shortest line, its end included.
const LINE_LEN_MIN: usize = 4;

/// Reads one command line.
pub fn parse(input: &[u8], cost_wire: CostWire) -> Parsed<'_> {
    let Some(newline) = memchr::memchr(b'\n', input) else {
        return match input.len() {
            len if len <= LIMITS.line_len_max => Parsed::Incomplete,
            _ => retrieval::parse_beginning(input),
        };
    };
    let consumed = newline + 1;
    if consumed < LINE_LEN_MIN {
        return Parsed::Refused { reply: reply::BAD_FORMAT, consumed, skip_len: 0 };
    }
    let line = input[..newline].strip_suffix(b"\r").unwrap_or(&input[..newline]);
    let (name, rest) = words::split_first(line);
    let is_indented = line.first() == Some(&b' ');
    let command =
        table::find(name).filter(|command| !is_indented || command.family == Family::Order);
    let Some(command) = command else {
        return unknown(name, rest, consumed);
    };
    if let table::Shape::Retrieval(form) = command.shape {
        return retrieval::parse_line(form, line, rest, consumed);
    }
    let words = Words::of(rest);
    let request = match command.family {
        Family::Keyed { words_min } if words.len() < words_min => {
            Err(Refusal::aloud(reply::BAD_FORMAT))
        }
        _ => command.shape.request(&words, cost_wire),
    };
    let noreply = command.family != Family::Question && words.end_in_noreply();
    match request {
        Ok(request) => Parsed::Request { request, noreply, consumed },
        Err(Refusal { reply, skip_len, is_aloud }) => {
            let reply = if noreply && !is_aloud { b"" } else { reply };
            Parsed::Refused { reply, consumed, skip_len }
        }
    }
}

/// A line with no known command on it. Browsers and health checks speak HTTP to any port: they are
/// hung up on, so that they do not wait for more.
fn unknown<'a>(name: &[u8], rest: &'a [u8], consumed: usize) -> Parsed<'a> {
    let words = Words::of(rest);
    if words.last().starts_with(b"HTTP/") {
        return Parsed::Hangup;
    }
    let noreply = words.end_in_noreply() || (words.len() == 0 && name == b"noreply");
    let reply = if noreply { b"" } else { reply::ERROR };
    Parsed::Refused { reply, consumed, skip_len: 0 }
}

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;
