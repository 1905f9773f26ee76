//! Commands on one key: set and its kin, delete, incr, decr, touch.

use super::words::Words;
use super::{Refusal, reply};
use crate::{Direction, LIMITS, Request, StoreHeader, StoreVerb, number};

/// A storage command's name.
#[derive(Clone, Copy)]
pub(super) enum Verb {
    Set,
    Add,
    Replace,
    Append,
    Prepend,
    Cas,
}

/// `<key> <flags> <exptime> <bytes> [<cas>]`; whatever follows means nothing.
pub(super) fn store<'a>(verb: Verb, words: &Words<'a>) -> Result<Request<'a>, Refusal> {
    // Without a length nobody knows where the value ends: what follows is read as commands.
    let value_len = value_len(words.at(3)).ok_or(Refusal::aloud(reply::BAD_FORMAT))?;
    let skip_len = value_len + b"\r\n".len();
    let refusal = Refusal { skip_len, ..Refusal::new(reply::BAD_FORMAT) };
    let verb = match verb {
        Verb::Set => StoreVerb::Set,
        Verb::Add => StoreVerb::Add,
        Verb::Replace => StoreVerb::Replace,
        Verb::Append => StoreVerb::Append,
        Verb::Prepend => StoreVerb::Prepend,
        Verb::Cas => StoreVerb::Cas(number::exact_u64(words.at(4)).ok_or(refusal)?),
    };
    Ok(Request::Store(StoreHeader {
        verb,
        key: short(words.at(0)).ok_or(refusal)?,
        client_flags: number::unsigned_low_32(words.at(1)).ok_or(refusal)?,
        exptime: number::signed_low_32(words.at(2)).ok_or(refusal)?,
        value_len,
    }))
}

/// `<key> <delta>`.
pub(super) fn arithmetic<'a>(
    direction: Direction,
    words: &Words<'a>,
) -> Result<Request<'a>, Refusal> {
    let key = short(words.at(0)).ok_or(Refusal::new(reply::BAD_FORMAT))?;
    let delta = number::exact_u64(words.at(1)).ok_or(Refusal::new(reply::BAD_DELTA))?;
    Ok(Request::Arithmetic { key, direction, delta })
}

/// `<key> [0] [noreply]`: the 0 is what is left of a delay that old clients still send. Another delay is
/// refused, for it would not be kept.
pub(super) fn delete<'a>(words: &Words<'a>) -> Result<Request<'a>, Refusal> {
    let well_formed = matches!(
        (words.len(), words.at(1), words.at(2)),
        (1, _, _) | (2, b"0" | b"noreply", _) | (3, b"0", b"noreply")
    );
    if !well_formed {
        return Err(Refusal::new(reply::BAD_DELETE));
    }
    let key = short(words.at(0)).ok_or(Refusal::new(reply::BAD_FORMAT))?;
    Ok(Request::Delete { key })
}

/// `<key> <exptime>`.
pub(super) fn touch<'a>(words: &Words<'a>) -> Result<Request<'a>, Refusal> {
    let key = short(words.at(0)).ok_or(Refusal::new(reply::BAD_FORMAT))?;
    let exptime = number::exact_i32(words.at(1)).ok_or(Refusal::new(reply::BAD_EXPTIME))?;
    Ok(Request::Touch { key, exptime })
}

fn short(key: &[u8]) -> Option<&[u8]> {
    (key.len() <= LIMITS.key_len_max).then_some(key)
}

fn value_len(word: &[u8]) -> Option<usize> {
    let len = usize::try_from(number::exact_i32(word)?).ok()?;
    (len <= LIMITS.value_len_max).then_some(len)
}
