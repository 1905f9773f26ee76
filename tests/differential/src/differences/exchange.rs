//! A step with the replies of both servers, and the parts of the step that the rows look at.

use crate::compare::Mismatch;
use crate::player::{End, Reply};
use crate::step::{Dialect, Family, Step};
use slabwise_protocol::binary::opcode;

/// A step and the replies of both servers.
pub struct Exchange<'a> {
    pub step: &'a Step,
    /// The earlier steps since all items were removed.
    pub history: &'a [Step],
    pub memcached: &'a Reply,
    pub slabwise: &'a Reply,
    /// The kind of the difference; `None` if the replies are equal.
    pub mismatch: Option<Mismatch>,
    /// The bytes of the step, in which all CAS values are 0.
    pub request: Vec<u8>,
}

impl Exchange<'_> {
    /// Returns the words of the command line. They are empty if the step is a packet.
    pub fn words(&self) -> Vec<&[u8]> {
        match self.step.family.dialect() {
            Dialect::Text => words(&self.request),
            Dialect::Binary => Vec::new(),
        }
    }

    /// True if the step is a line with one of these commands.
    pub fn has_command(&self, names: &[&str]) -> bool {
        self.words().first().is_some_and(|word| names.iter().any(|name| name.as_bytes() == *word))
    }

    /// True if the line is a meta command with a flag of this letter.
    pub fn has_flag(&self, letter: u8) -> bool {
        self.step.family == Family::Meta && has_flag(&self.words(), letter)
    }

    /// True if an earlier step with the same key may have stored a value that is larger than a chunk.
    pub fn has_large_value_in_history(&self) -> bool {
        const LEN_MIN: usize = 100_000;
        self.history
            .iter()
            .any(|step| step.key == self.step.key && step.bytes(|_| 0).len() > LEN_MIN)
    }

    /// True if the last word of the line is `noreply`.
    pub fn has_noreply(&self) -> bool {
        self.words().last().is_some_and(|word| *word == b"noreply")
    }
}

/// Returns the words of a line.
pub fn words(line: &[u8]) -> Vec<&[u8]> {
    let end = line.iter().position(|&byte| byte == b'\n').unwrap_or(line.len());
    let line = line[..end].strip_suffix(b"\r").unwrap_or(&line[..end]);
    line.split(|&byte| byte == b' ').filter(|word| !word.is_empty()).collect()
}

/// True if the words of a meta command contain a flag of this letter.
pub fn has_flag(words: &[&[u8]], letter: u8) -> bool {
    let first_flag = if words.first() == Some(&&b"ms"[..]) { 3 } else { 2 };
    words.iter().skip(first_flag).any(|word| word[0] == letter)
}

/// memcached sends the error for a refused value after it has received the value, and slabwise sends the error at once.
/// So only slabwise sends the error if the client ends the connection before the end of the value.
pub fn is_early_error(exchange: &Exchange<'_>) -> bool {
    let Some(rest) = exchange.slabwise.bytes.strip_prefix(&exchange.memcached.bytes[..]) else {
        return false;
    };
    let is_error = match exchange.step.family.dialect() {
        Dialect::Text => rest.starts_with(b"CLIENT_ERROR ") || rest.starts_with(b"SERVER_ERROR "),
        Dialect::Binary => rest.len() > 24 && rest[6..8] != [0, 0],
    };
    is_error && exchange.memcached.end == End::Closed && exchange.slabwise.end == End::Closed
}

/// The size from which a value is nearly as large as the largest item, in bytes.
const LARGE_VALUE_LEN: usize = 1_000_000;

/// True if the step is an append or a prepend to an item that may be nearly as large as the largest one.
fn is_addition_to_large_value(exchange: &Exchange<'_>) -> bool {
    let is_addition = match exchange.step.family {
        Family::Text => exchange.has_command(&["append", "prepend"]),
        Family::Meta => exchange.has_command(&["ms"]) && exchange.has_flag(b'M'),
        Family::Binary => exchange.request.get(1).is_some_and(|opcode| {
            matches!(*opcode, opcode::APPEND | opcode::PREPEND | opcode::APPENDQ | opcode::PREPENDQ)
        }),
    };
    let is_large = exchange.request.len() > LARGE_VALUE_LEN;
    is_addition && (is_large || exchange.has_large_value_in_history())
}

/// True if only memcached refuses an append or prepend.
pub fn is_largest_addition(exchange: &Exchange<'_>) -> bool {
    let reply = &exchange.memcached.bytes;
    let is_refused = reply.starts_with(b"NOT_STORED")
        || reply.starts_with(b"NS")
        || reply.get(6..8) == Some(&[0, 5]);
    is_refused && is_addition_to_large_value(exchange)
}

pub fn is_silent_largest_addition(exchange: &Exchange<'_>) -> bool {
    exchange.memcached.bytes.is_empty() && is_addition_to_large_value(exchange)
}
