//! Commands on one key: set and its kin, delete, incr, decr, touch.

use super::cost_wire::CostWire;
use super::refusal::Refusal;
use super::reply;
use super::words::Words;
use crate::exptime::Exptime;
use crate::limits::LIMITS;
use crate::number;
use crate::request::{Arithmetic, Delete, Direction, Request, Store, StoreVerb};
use slabwise_base::Cost;

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

/// `<key> <flags> <exptime> <bytes> [<cas>]`; whatever follows means nothing, but for [`has_cost_form`].
pub(super) fn store<'a>(
    verb: Verb,
    words: &Words<'a>,
    cost_wire: CostWire,
) -> Result<Request<'a>, Refusal> {
    if has_cost_form(verb, words) {
        match cost_wire {
            CostWire::On => return store_with_cost(verb, words),
            CostWire::Off => refuse_cost(words)?,
        }
    }
    store_words(verb, words, 1, None)
}

/// Whether a line is `<key> <cost> <flags> <exptime> <bytes> [noreply]`, by the number of its words. Source:
/// Coelho, "Cost-aware Memory Management of Memcached", 2018, section 4.2.
fn has_cost_form(verb: Verb, words: &Words<'_>) -> bool {
    let is_told = words.len() == if words.end_in_noreply() { 6 } else { 5 };
    is_told && matches!(verb, Verb::Set | Verb::Add | Verb::Replace)
}

fn store_with_cost<'a>(verb: Verb, words: &Words<'a>) -> Result<Request<'a>, Refusal> {
    let value_len = value_len(words.at(4)).ok_or(Refusal::aloud(reply::BAD_FORMAT))?;
    let units = number::exact_u32(words.at(1)).ok_or(bad_format(value_len))?;
    store_words(verb, words, 2, Some(Cost::from_units(units)))
}

/// Refuses what can be read as a store with a cost: memcached would take its cost for client flags and its
/// value for commands. What cannot is a line with a word too many, which means nothing.
fn refuse_cost(words: &Words<'_>) -> Result<(), Refusal> {
    let numbers = number::exact_u32(words.at(1)).is_some()
        && number::unsigned_low_32(words.at(2)).is_some()
        && number::signed_low_32(words.at(3)).is_some();
    match value_len(words.at(4)) {
        Some(value_len) if numbers => {
            let skip_len = bad_format(value_len).skip_len;
            Err(Refusal { skip_len, ..Refusal::new(reply::COST_WIRE_OFF) })
        }
        _ => Ok(()),
    }
}

/// A line with a fault, and a value of this length behind it.
fn bad_format(value_len: usize) -> Refusal {
    let skip_len = value_len + b"\r\n".len();
    Refusal { skip_len, ..Refusal::new(reply::BAD_FORMAT) }
}

/// A store whose client flags are the word at `flags_at`.
fn store_words<'a>(
    verb: Verb,
    words: &Words<'a>,
    flags_at: usize,
    cost: Option<Cost>,
) -> Result<Request<'a>, Refusal> {
    // Without a length nobody knows where the value ends: what follows is read as commands.
    let value_len = value_len(words.at(flags_at + 2)).ok_or(Refusal::aloud(reply::BAD_FORMAT))?;
    let refusal = bad_format(value_len);
    let verb = match verb {
        Verb::Set => StoreVerb::Set,
        Verb::Add => StoreVerb::Add,
        Verb::Replace => StoreVerb::Replace,
        Verb::Append => StoreVerb::Append,
        Verb::Prepend => StoreVerb::Prepend,
        Verb::Cas => StoreVerb::Cas(number::exact_u64(words.at(4)).ok_or(refusal)?),
    };
    let key = short(words.at(0)).ok_or(refusal)?;
    let client_flags = number::unsigned_low_32(words.at(flags_at)).ok_or(refusal)?;
    let exptime = number::signed_low_32(words.at(flags_at + 1)).ok_or(refusal)?;
    Ok(Request::Store(Store {
        client_flags,
        exptime: Exptime::of_signed(exptime),
        cost,
        ..Store::new(verb, key, value_len)
    }))
}

/// `<key> <delta>`.
pub(super) fn arithmetic<'a>(
    direction: Direction,
    words: &Words<'a>,
) -> Result<Request<'a>, Refusal> {
    let key = short(words.at(0)).ok_or(Refusal::new(reply::BAD_FORMAT))?;
    let delta = number::exact_u64(words.at(1)).ok_or(Refusal::new(reply::BAD_DELTA))?;
    Ok(Request::Arithmetic(Arithmetic::new(key, direction, delta)))
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
    Ok(Request::Delete(Delete::new(key)))
}

/// `<key> <exptime>`.
pub(super) fn touch<'a>(words: &Words<'a>) -> Result<Request<'a>, Refusal> {
    let key = short(words.at(0)).ok_or(Refusal::new(reply::BAD_FORMAT))?;
    let exptime = number::exact_i32(words.at(1)).ok_or(Refusal::new(reply::BAD_EXPTIME))?;
    Ok(Request::Touch { key, exptime: Exptime::of_signed(exptime) })
}

fn short(key: &[u8]) -> Option<&[u8]> {
    (key.len() <= LIMITS.key_len_max).then_some(key)
}

fn value_len(word: &[u8]) -> Option<usize> {
    let len = usize::try_from(number::exact_i32(word)?).ok()?;
    (len <= LIMITS.value_len_max).then_some(len)
}
