//! The three protocols: requests as bytes, and replies as outcomes.
//!
//! Replies are parsed in the order of the requests. A protocol decides for the first request that has no outcome yet,
//! whether the received bytes start with its reply. If the request is quiet, they may start with the reply to a later
//! request instead; then the first request has the outcome that a quiet request does not report.

mod binary;
mod meta;
mod text;

use crate::operation::{Operation, Outcome, Verb};
use crate::value::Values;

/// A protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// The classic text protocol.
    Text,
    /// The meta protocol.
    Meta,
    /// The binary protocol.
    Binary,
}

/// The result of parsing the received bytes for the first request without an outcome.
#[derive(Debug, PartialEq, Eq)]
pub enum Decoded<'a> {
    /// The reply is not complete. At least this number of bytes is needed.
    Incomplete(usize),
    /// The reply, and its length in bytes.
    Reply(Outcome<'a>, usize),
    /// The bytes start with the reply to a later request. The outcome of this request follows from the silence.
    Quiet(Outcome<'static>),
    /// An error that does not say to which of the quiet requests it belongs, and the length of its line.
    Blurred(usize),
    /// The bytes start with the reply to a later request, although this request is not quiet. This is valid only after
    /// a [`Decoded::Blurred`]. Contains the problem.
    Skipped(String),
    /// The bytes are not a valid reply. Contains the reason.
    Malformed(String),
}

impl Protocol {
    /// Every protocol.
    pub const ALL: [Protocol; 3] = [Protocol::Text, Protocol::Meta, Protocol::Binary];

    /// Returns the name.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Text => "text",
            Protocol::Meta => "meta",
            Protocol::Binary => "binary",
        }
    }

    /// Appends a request.
    pub fn encode(self, operation: &Operation, key: &[u8], values: Values, out: &mut Vec<u8>) {
        match self {
            Protocol::Text => text::encode(operation, key, values, out),
            Protocol::Meta => meta::encode(operation, key, values, out),
            Protocol::Binary => binary::encode(operation, key, values, out),
        }
    }

    /// Parses the received bytes for the first request without an outcome.
    pub fn decode<'a>(self, operation: &Operation, key: &[u8], bytes: &'a [u8]) -> Decoded<'a> {
        match self {
            Protocol::Text => text::decode(operation, key, bytes),
            Protocol::Meta => meta::decode(operation, key, bytes),
            Protocol::Binary => binary::decode(operation, key, bytes),
        }
    }

    /// True if the protocol has this verb.
    pub fn has(self, verb: Verb) -> bool {
        self != Protocol::Text || verb != Verb::StepOrCreate
    }

    /// Appends the end of a batch, and returns the reply to it.
    pub fn encode_end(self, out: &mut Vec<u8>) -> &'static [u8] {
        match self {
            Protocol::Meta => {
                out.extend_from_slice(b"mn\r\n");
                meta::END_OF_BATCH
            }
            Protocol::Text | Protocol::Binary => b"",
        }
    }

    /// True if a request with this verb can be quiet.
    pub fn can_be_quiet(self, verb: Verb) -> bool {
        match self {
            Protocol::Text => !verb.reads() && verb != Verb::StepOrCreate,
            Protocol::Meta => !verb.steps(),
            Protocol::Binary => verb != Verb::Touch && !verb.steps(),
        }
    }
}

/// Appends the value of a store, or the part of an append or prepend.
fn append_value(operation: &Operation, values: Values, out: &mut Vec<u8>) {
    let Operation { verb, key, version, len, .. } = *operation;
    match verb {
        Verb::Append => values.append_part(key, version, true, len, out),
        Verb::Prepend => values.append_part(key, version, false, len, out),
        _ => values.append(key, version, len, out),
    }
}

/// The maximum length of the line of a reply in bytes.
const LINE_LEN_MAX: usize = 2048;

/// Returns the first line without its end, and its length with its end.
fn first_line(bytes: &[u8]) -> Result<(&[u8], usize), Decoded<'static>> {
    match bytes.iter().take(LINE_LEN_MAX).position(|&byte| byte == b'\n') {
        Some(at) => match bytes[..at].strip_suffix(b"\r") {
            Some(line) => Ok((line, at + 1)),
            None => Err(malformed("a line ends without CR", &bytes[..=at])),
        },
        None if bytes.len() >= LINE_LEN_MAX => Err(malformed("a line has no end", bytes)),
        None => Err(Decoded::Incomplete(bytes.len() + 1)),
    }
}

fn malformed(problem: &str, bytes: &[u8]) -> Decoded<'static> {
    Decoded::Malformed(describe(problem, bytes))
}

/// Returns the problem and the first bytes of the reply.
fn describe(problem: &str, bytes: &[u8]) -> String {
    format!("{problem}: {}", bytes[..bytes.len().min(200)].escape_ascii())
}

fn number<T: std::str::FromStr>(word: &[u8]) -> Option<T> {
    std::str::from_utf8(word).ok()?.parse().ok()
}
