//! The classic text protocol.
//!
//! [`parse`] reads one command line. A line is waited for until it is whole, up to
//! [`LIMITS`](crate::LIMITS)`.line_len_max` bytes; then every key on it has been checked, and a line with
//! a fault is answered with its error alone. Only a retrieval may be longer: its keys are then read
//! one by one with [`next_key`] as they arrive, so that no line needs a buffer of its size.
//!
//! Where memcached's releases differ, replies are those of 1.6.18 (what Debian and its clients run),
//! with two exceptions from later releases, because a value must never be taken for commands: a
//! length beyond 32 bits is refused, and the value of a refused storage command is skipped
//! whenever its length is known. What operators send (`watch`, `shutdown`, `slabs automove`, `stats`) is
//! answered as later releases answer it.
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
use words::Words;

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
}

impl Refusal {
    fn new(reply: &'static [u8]) -> Refusal {
        Refusal { reply, skip_len: 0 }
    }
}

/// Reads one command line.
pub fn parse(input: &[u8]) -> Parsed<'_> {
    let Some(newline) = memchr::memchr(b'\n', input) else {
        return match input.len() {
            len if len <= LIMITS.line_len_max => Parsed::Incomplete,
            _ => retrieval::parse_beginning(input),
        };
    };
    let consumed = newline + 1;
    let line = input[..newline].strip_suffix(b"\r").unwrap_or(&input[..newline]);
    let (name, rest) = words::split_first(line);
    let Some(command) = table::find(name) else {
        return unknown(line, consumed);
    };
    if let table::Shape::Retrieval(form) = command.shape {
        return retrieval::parse_line(form, line, rest, consumed);
    }
    let words = Words::of(rest);
    if !command.word_counts.contains(&words.len()) {
        return Parsed::Refused { reply: reply::ERROR, consumed, skip_len: 0 };
    }
    let noreply = words.len() >= command.noreply_from && words.last() == Some(b"noreply");
    match command.shape.request(&words) {
        Ok(request) => Parsed::Request { request, noreply, consumed },
        Err(Refusal { reply, skip_len }) => {
            Parsed::Refused { reply: if noreply { b"" } else { reply }, consumed, skip_len }
        }
    }
}

/// A line with no known command on it. Browsers and health checks speak HTTP to any port: they are
/// hung up on, so that they do not wait for more.
fn unknown(line: &[u8], consumed: usize) -> Parsed<'_> {
    let mut words = line.split(|&byte| byte == b' ').filter(|word| !word.is_empty());
    let speaks_http = words.next_back().is_some_and(|word| word.starts_with(b"HTTP/"));
    if speaks_http && words.next().is_some() {
        return Parsed::Hangup;
    }
    Parsed::Refused { reply: reply::ERROR, consumed, skip_len: 0 }
}

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;
