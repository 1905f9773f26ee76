//! Differences in the meta protocol.

use super::exchange::{Exchange, has_flag, words};
use crate::compare::Mismatch;
use crate::keys::{KEYS, base64};
use crate::normalise::normalise;
use crate::player::Reply;
use crate::step::{Dialect, Family, Step};
use memchr::memmem;

/// True if both servers refuse an `ms` with the same error, and interpret the bytes after the line differently.
pub fn is_value_of_refused_set(exchange: &Exchange<'_>) -> bool {
    let first_line = |reply: &[u8]| -> Vec<u8> {
        reply.split_inclusive(|&byte| byte == b'\n').next().unwrap_or_default().to_vec()
    };
    let error = first_line(&exchange.slabwise.bytes);
    exchange.has_command(&["ms"])
        && error.starts_with(b"CLIENT_ERROR ")
        && error == first_line(&exchange.memcached.bytes)
}

/// True if the key of the line is in base64, and has other characters.
pub fn is_bad_base64(exchange: &Exchange<'_>) -> bool {
    let is_base64 = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/=".contains(byte);
    exchange.has_flag(b'b')
        && exchange.words().get(1).is_some_and(|key| !key.iter().all(is_base64))
        && exchange.slabwise.bytes.starts_with(b"CLIENT_ERROR ")
}

/// True if only the form of the key differs.
pub fn is_key_flag(exchange: &Exchange<'_>) -> bool {
    if has_only_other_key_words(exchange) {
        return true;
    }
    let Some(key) = exchange.step.key.map(|key| KEYS[key]) else { return false };
    let (prefix, suffix) = match exchange.has_command(&["me"]) {
        true => (&b"ME "[..], &b""[..]),
        false => (&b" k"[..], &b" b"[..]),
    };
    let forms = [[prefix, &base64(key), suffix].concat(), [prefix, key].concat()];
    let without_key = |reply: &[u8]| {
        let position = |form: &Vec<u8>| Some((memmem::find(reply, form)?, form.len()));
        let (start, len) = forms.iter().find_map(position)?;
        let rest = [&reply[..start], prefix, b"#", &reply[start + len..]].concat();
        Some(normalise(Dialect::Text, &rest).bytes)
    };
    let rest = without_key(&exchange.memcached.bytes);
    rest.is_some() && rest == without_key(&exchange.slabwise.bytes)
}

/// True if the replies are equal without the words that begin with `k`, and the words `b`.
fn has_only_other_key_words(exchange: &Exchange<'_>) -> bool {
    let rest = |reply: &[u8]| -> Vec<Vec<u8>> {
        let normal = normalise(Dialect::Text, reply).bytes;
        let mut rest = words(&normal);
        rest.retain(|word| word[0] != b'k' && *word != b"b");
        rest.into_iter().map(<[u8]>::to_vec).collect()
    };
    exchange.has_flag(b'k') && rest(&exchange.memcached.bytes) == rest(&exchange.slabwise.bytes)
}

pub fn is_examine_of_base64(exchange: &Exchange<'_>) -> bool {
    exchange.has_command(&["me"]) && exchange.has_flag(b'b')
}

/// True if slabwise has decoded the key: it refuses the text, finds no item, or finds the item of the decoded key.
pub fn is_examined_as_base64(exchange: &Exchange<'_>) -> bool {
    let (words, reply) = (exchange.words(), &exchange.slabwise.bytes);
    let is_of_key = words.get(1).is_some_and(|key| words_of_hit(reply).get(1) == Some(key));
    let is_refused = reply == b"CLIENT_ERROR bad command line format\r\n";
    is_examine_of_base64(exchange) && (is_refused || reply == b"EN\r\n" || is_of_key)
}

/// Returns the words of a reply that is a line with `ME`.
fn words_of_hit(reply: &[u8]) -> Vec<&[u8]> {
    let mut words = words(reply);
    if words.first() != Some(&&b"ME"[..]) {
        words.clear();
    }
    words
}

/// True if memcached has lost the new TTL and CAS value: only these differ, or the item has expired.
pub fn is_expiry_of_longer_number(exchange: &Exchange<'_>) -> bool {
    let others = |reply: &Reply| -> Vec<Vec<u8>> {
        let is_other = |word: &&[u8]| !matches!(word[0], b't' | b'c');
        words(&reply.bytes).into_iter().filter(is_other).map(<[u8]>::to_vec).collect()
    };
    let has_other_words = others(exchange.memcached) != others(exchange.slabwise);
    if !exchange.has_command(&["mg"])
        || exchange.has_flag(b'v')
        || has_other_words && exchange.slabwise.bytes != b"EN\r\n"
    {
        return false;
    }
    let Some(last) = exchange.history.last().filter(|step| step.family == Family::Meta) else {
        return false;
    };
    let last = last.bytes(|_| 0);
    let last = words(&last);
    let changes_item = has_flag(&last, b'T') || has_flag(&last, b'E');
    last.first() == Some(&&b"ma"[..]) && changes_item && last.get(1) == exchange.words().get(1)
}

pub fn is_time_of_expired_item(exchange: &Exchange<'_>) -> bool {
    exchange.step.family.dialect() == Dialect::Text
        && exchange.mismatch == Some(Mismatch::Seconds)
        && (exchange.has_flag(b'T') || exchange.has_flag(b'N'))
        && exchange.has_flag(b't')
}

/// True if memcached has deleted the item of a refused append, prepend or add.
pub fn is_too_large_addition(exchange: &Exchange<'_>) -> bool {
    exchange.has_command(&["ms"])
        && exchange.memcached.bytes.starts_with(b"SERVER_ERROR object too large")
        && exchange.has_flag(b'M')
}

/// True if memcached reports another error before that of the opaque token.
pub fn is_error_before_opaque(exchange: &Exchange<'_>) -> bool {
    exchange.has_command(&["mg", "ms", "ma"])
        && exchange.slabwise.bytes.starts_with(b"CLIENT_ERROR opaque token too long")
}

/// True if memcached may have changed an item before it refused the opaque token.
pub fn is_change_despite_opaque(exchange: &Exchange<'_>) -> bool {
    exchange.has_command(&["mg", "ma"]) && is_error_before_opaque(exchange)
}

/// True if memcached shows the time of an item in the far future as a negative number.
pub fn is_far_expiry(exchange: &Exchange<'_>) -> bool {
    exchange.has_command(&["me"])
        && memmem::find(&exchange.memcached.bytes, b" exp=-").is_some()
        && memmem::find(&exchange.slabwise.bytes, b" exp=-").is_none()
}

/// True if memcached has given the CAS value of an earlier `ms` to the item of another command. The CAS value itself
/// differs, or it decides whether an `ms` with the flag `I` has an outdated CAS value.
pub fn is_misplaced_cas(exchange: &Exchange<'_>) -> bool {
    let is_refused_set = |step: &Step| {
        let bytes = step.bytes(|_| 0);
        let words = words(&bytes);
        let value_len = words.get(2).and_then(|word| std::str::from_utf8(word).ok()?.parse().ok());
        let value = memchr::memchr(b'\n', &bytes).map(|at| &bytes[at + 1..]);
        let end = value.zip(value_len).and_then(|(value, len): (_, usize)| value.get(len..));
        words.first() == Some(&&b"ms"[..]) && end.is_none_or(|end| !end.starts_with(b"\r\n"))
    };
    let replies = [&exchange.memcached.bytes, &exchange.slabwise.bytes];
    let decides = exchange.has_command(&["ms"])
        && exchange.has_flag(b'I')
        && replies.iter().all(|reply| reply.starts_with(b"EX") || reply.starts_with(b"HD"));
    (decides || exchange.mismatch == Some(Mismatch::Cas))
        && exchange.history.iter().any(is_refused_set)
}
