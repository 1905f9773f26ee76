//! One command line of the classic text protocol.

use super::cost_wire::CostWire;
use super::refusal::Refusal;
use super::table::{self, Family, Shape};
use super::words::{self, Words};
use super::{reply, retrieval};
use crate::answer::{Answer, TextAnswer};
use crate::limits::LIMITS;
use crate::parsed::Parsed;

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
        return refused(reply::BAD_FORMAT, consumed, 0);
    }
    let line = input[..newline].strip_suffix(b"\r").unwrap_or(&input[..newline]);
    let (name, rest) = words::split_first(line);
    let is_indented = line.first() == Some(&b' ');
    let command =
        table::find(name).filter(|command| !is_indented || command.family == Family::Order);
    let Some(command) = command else {
        return unknown(name, rest, consumed);
    };
    if let Shape::Retrieval(form) = command.shape {
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
        Ok(request) => {
            let answer = Answer::Text(TextAnswer { noreply, with_cas: false });
            Parsed::Request { request, answer, consumed }
        }
        Err(Refusal { reply, skip_len, is_aloud }) => {
            let reply = if noreply && !is_aloud { b"" } else { reply };
            refused(reply, consumed, skip_len)
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
    refused(reply, consumed, 0)
}

fn refused<'a>(reply: &'static [u8], consumed: usize, skip_len: usize) -> Parsed<'a> {
    Parsed::Refused { refusal: crate::Refusal::Line(reply), consumed, skip_len }
}

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;
