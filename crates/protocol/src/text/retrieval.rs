//! get, gets, gat, gats: where the keys begin.

use super::reply;
use super::table::{self, Form};
use super::words::split_first;
use crate::answer::{Answer, TextAnswer};
use crate::exptime::Exptime;
use crate::limits::LIMITS;
use crate::number;
use crate::parsed::{Parsed, Refusal};
use crate::request::{Request, Retrieval};

/// Reads a retrieval whose whole line is at hand; `rest` is what follows its name. Every key is
/// checked here, so that a line with a bad one is answered with the error alone.
pub(super) fn parse_line<'a>(
    form: Form,
    line: &'a [u8],
    rest: &'a [u8],
    consumed: usize,
) -> Parsed<'a> {
    let refused = |reply| Parsed::Refused { refusal: Refusal::Line(reply), consumed, skip_len: 0 };
    let (exptime, keys) = if form.touches { split_first(rest) } else { (&b""[..], rest) };
    if keys.iter().all(|&byte| byte == b' ') {
        return refused(reply::BAD_FORMAT);
    }
    let touch = number::exact_i32(exptime);
    if form.touches && touch.is_none() {
        return refused(reply::BAD_EXPTIME);
    }
    if keys.len() > LIMITS.key_len_max && has_long_word(keys) {
        return refused(reply::BAD_FORMAT);
    }
    request(form, touch, line.len() - keys.len())
}

/// Reads the beginning of a retrieval whose line is longer than the limit. Any other command that
/// long comes from no client of this protocol.
pub(super) fn parse_beginning(input: &[u8]) -> Parsed<'_> {
    let (name, rest) = split_first(input);
    if input[0] == b' ' || rest.is_empty() {
        return Parsed::Hangup;
    }
    let form = match table::find(name).map(|command| command.shape) {
        Some(table::Shape::Retrieval(form)) => form,
        _ => return Parsed::Hangup,
    };
    if !form.touches {
        return request(form, None, input.len() - rest.len());
    }
    let (exptime, keys) = split_first(rest);
    match number::exact_i32(exptime) {
        Some(exptime) if !keys.is_empty() => request(form, Some(exptime), input.len() - keys.len()),
        _ => Parsed::Hangup,
    }
}

fn request<'a>(form: Form, exptime: Option<i32>, consumed: usize) -> Parsed<'a> {
    let retrieval = Retrieval { touch: exptime.map(Exptime::of_signed) };
    let answer = Answer::Text(TextAnswer { noreply: false, with_cas: form.with_cas });
    Parsed::Request { request: Request::Retrieve(retrieval), answer, consumed }
}

fn has_long_word(words: &[u8]) -> bool {
    words.split(|&byte| byte == b' ').any(|word| word.len() > LIMITS.key_len_max)
}
