//! The client's end of the classic text protocol: requests out, replies in.
//!
//! ```text
//!   compose::get / compose::set --> bytes to the server
//!   bytes from the server --> Replies::next --> Reply, one at a time, values in parts
//! ```
//!
//! A [`Replies`] keeps only how much of a value is still to come, so replies may be cut anywhere and
//! values of any size need no buffer. Matching replies to requests is the caller's: the protocol
//! answers in order.

mod compose;

pub use compose::{get, set};

use crate::{LIMITS, number};

/// One piece of what a server says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply<'a> {
    /// A hit. Its value follows as [`Reply::ValuePart`]s that sum up to `value_len`.
    Value {
        /// Which key.
        key: &'a [u8],
        /// The client's own 32 bits.
        client_flags: u32,
        /// Bytes of the value.
        value_len: usize,
        /// Its CAS value, if it was asked for.
        cas: Option<u64>,
    },
    /// Some bytes of the value, at least one.
    ValuePart(&'a [u8]),
    /// `END`: a retrieval or a list is over.
    End,
    /// `STORED`.
    Stored,
    /// `NOT_STORED`.
    NotStored,
    /// `EXISTS`.
    Exists,
    /// `NOT_FOUND`.
    NotFound,
    /// `STAT <name> <value>`.
    Stat {
        /// Which counter or setting.
        name: &'a [u8],
        /// Its value, which may hold spaces.
        value: &'a [u8],
    },
    /// `ERROR`, `CLIENT_ERROR ...` or `SERVER_ERROR ...`, without its end of line.
    Failed(&'a [u8]),
    /// Any other line, without its end: `DELETED`, `OK`, a number, a version.
    Line(&'a [u8]),
}

/// The server does not speak this protocol: nothing after this can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyError {
    /// A line longer than any reply.
    LineTooLong,
    /// A `VALUE` line that does not read as one.
    BadValueLine,
    /// A value that does not end where its length says.
    BadValueEnd,
}

impl std::fmt::Display for ReplyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            ReplyError::LineTooLong => "the server sent a line of more than 2,048 bytes",
            ReplyError::BadValueLine => "the server sent a VALUE line without flags or length",
            ReplyError::BadValueEnd => "the server sent a value longer than it announced",
        })
    }
}

impl std::error::Error for ReplyError {}

/// Reads replies as their bytes arrive.
#[derive(Debug, Default)]
pub struct Replies {
    /// Bytes of a value that are still to come, its `\r\n` included.
    value_rest_len: usize,
}

const LINE_END: &[u8] = b"\r\n";

impl Replies {
    /// Reads from the beginning of a conversation.
    pub fn new() -> Replies {
        Replies::default()
    }

    /// Whether the last reply is complete, so that nothing of the next has been read.
    pub fn is_between_replies(&self) -> bool {
        self.value_rest_len == 0
    }

    /// Takes the next reply off the front of `input`; `None` when more bytes are needed.
    pub fn next<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<Reply<'a>>, ReplyError> {
        if self.value_rest_len > LINE_END.len() && !input.is_empty() {
            let part_len = input.len().min(self.value_rest_len - LINE_END.len());
            self.value_rest_len -= part_len;
            return Ok(Some(Reply::ValuePart(take(input, part_len))));
        }
        if self.value_rest_len == LINE_END.len() {
            if input.len() < LINE_END.len() {
                return Ok(None);
            }
            if take(input, LINE_END.len()) != LINE_END {
                return Err(ReplyError::BadValueEnd);
            }
            self.value_rest_len = 0;
        }
        let Some(newline) = memchr::memchr(b'\n', input) else {
            let too_long = input.len() > LIMITS.line_len_max;
            return if too_long { Err(ReplyError::LineTooLong) } else { Ok(None) };
        };
        let line = take(input, newline + 1);
        let line = &line[..newline];
        let reply = read_line(line.strip_suffix(b"\r").unwrap_or(line))?;
        if let Reply::Value { value_len, .. } = reply {
            self.value_rest_len = value_len + LINE_END.len();
        }
        Ok(Some(reply))
    }
}

fn take<'a>(input: &mut &'a [u8], len: usize) -> &'a [u8] {
    let (taken, rest) = input.split_at(len);
    *input = rest;
    taken
}

fn read_line(line: &[u8]) -> Result<Reply<'_>, ReplyError> {
    Ok(match line {
        b"END" => Reply::End,
        b"STORED" => Reply::Stored,
        b"NOT_STORED" => Reply::NotStored,
        b"EXISTS" => Reply::Exists,
        b"NOT_FOUND" => Reply::NotFound,
        _ if line.starts_with(b"VALUE ") => {
            return read_value_line(&line[6..]).ok_or(ReplyError::BadValueLine);
        }
        _ if line.starts_with(b"STAT ") => {
            let mut halves = line[5..].splitn(2, |&byte| byte == b' ');
            let name = halves.next().unwrap_or_default();
            Reply::Stat { name, value: halves.next().unwrap_or_default() }
        }
        _ if line.starts_with(b"ERROR")
            || line.starts_with(b"CLIENT_ERROR")
            || line.starts_with(b"SERVER_ERROR") =>
        {
            Reply::Failed(line)
        }
        _ => Reply::Line(line),
    })
}

fn read_value_line(words: &[u8]) -> Option<Reply<'_>> {
    let mut words = words.split(|&byte| byte == b' ');
    let key = words.next()?;
    let client_flags = number::unsigned(words.next()?)?.try_into().ok()?;
    let value_len: usize = number::unsigned(words.next()?)?.try_into().ok()?;
    let cas = match words.next() {
        Some(word) => Some(number::unsigned(word)?),
        None => None,
    };
    (value_len <= LIMITS.value_len_max).then_some(Reply::Value {
        key,
        client_flags,
        value_len,
        cas,
    })
}

#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;
