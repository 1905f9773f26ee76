//! One command line of the meta protocol.

use super::flags::{Flags, Options};
use super::{flags, key, reply};
use crate::echo::{Echo, FLAG_COUNT_MAX};
use crate::fields::{Exptime, LIMITS};
use crate::request::{
    Answer, Arithmetic, Delete, Direction, Get, Initial, Leave, Parsed, Request, Store, StoreVerb,
    Vivify,
};
use crate::{request, words};

/// Reads one command line, of an input that [`begins`](super::begins) with one.
pub fn parse(input: &[u8]) -> Parsed<'_> {
    let Some(newline) = memchr::memchr(b'\n', input) else {
        let waits = input.len() <= LIMITS.line_len_max;
        return if waits { Parsed::Incomplete } else { Parsed::Hangup };
    };
    let consumed = newline + 1;
    let line = input[..newline].strip_suffix(b"\r").unwrap_or(&input[..newline]);
    let (command, rest) = (line[1], &line[2..]);
    match read(command, rest) {
        Ok((request, echo)) => Parsed::Request { request, answer: Answer::Meta(echo), consumed },
        Err(Refusal { reply, skip_len }) => {
            Parsed::Refused { refusal: request::Refusal::Line(reply), consumed, skip_len }
        }
    }
}

/// A line that cannot be acted on: the reply, and the length of the data that belongs to it.
struct Refusal {
    reply: &'static [u8],
    skip_len: usize,
}

impl From<&'static [u8]> for Refusal {
    fn from(reply: &'static [u8]) -> Refusal {
        Refusal { reply, skip_len: 0 }
    }
}

/// The next word, empty if there is none, and what follows it.
#[inline]
fn split_first(line: &[u8]) -> (&[u8], &[u8]) {
    let start = line.iter().position(|&byte| byte != b' ').unwrap_or(line.len());
    let line = &line[start..];
    line.split_at(memchr::memchr(b' ', line).unwrap_or(line.len()))
}

/// What a line asks for, and how it is answered.
type Read<'a> = (Request<'a>, Echo);

fn read(command: u8, rest: &[u8]) -> Result<Read<'_>, Refusal> {
    if command == b'n' {
        return Ok((Request::NoOp, Echo::EMPTY));
    }
    let (key, rest) = split_first(rest);
    if command == b's' {
        let (word, rest) = split_first(rest);
        let value_len = words::exact_i32(word).and_then(|len| usize::try_from(len).ok());
        let value_len = value_len.filter(|&len| !word.is_empty() && len <= LIMITS.value_len_max);
        // Without a length nobody knows where the value ends: what follows is read as commands.
        let value_len = value_len.ok_or(Refusal::from(reply::BAD_FORMAT))?;
        return read_flags(key, rest, FLAG_COUNT_MAX - 1)
            .and_then(|flags| set(key, value_len, flags))
            .map_err(|reply| Refusal { reply, skip_len: value_len + b"\r\n".len() });
    }
    let flags = read_flags(key, rest, FLAG_COUNT_MAX)?;
    Ok(match command {
        b'g' => get(key, flags)?,
        b'd' => delete(key, flags)?,
        b'a' => arithmetic(key, flags)?,
        _ => examine(key, flags)?,
    })
}

fn read_flags<'a>(
    key: &[u8],
    words: &'a [u8],
    count_max: usize,
) -> Result<Flags<'a>, &'static [u8]> {
    if key.is_empty() || key.len() > LIMITS.key_len_max {
        return Err(reply::BAD_FORMAT);
    }
    flags::read(words, count_max)
}

/// Flags without a fault.
#[inline]
fn checked(key: &[u8], flags: Flags<'_>) -> Result<(Options, Echo), &'static [u8]> {
    let Flags { options, mut echo, opaque, fault } = flags;
    if echo.has(b'b') {
        // F has no words of its own for its fault.
        let said = fault.filter(|&fault| fault != reply::BAD_FORMAT);
        if !key::is_base64(key) {
            return Err(said.unwrap_or(reply::BAD_KEY));
        }
        echo.key_is_base64 = true;
    }
    if let Some(fault) = fault {
        return Err(fault);
    }
    if !echo.keep_opaque(opaque) {
        return Err(reply::OPAQUE_TOO_LONG);
    }
    echo.unless_cas = options.expected_cas;
    Ok((options, echo))
}

/// The lifetime of an item that is made where there was none: by the last of N and T.
fn vivify_exptime(options: &Options, echo: &Echo) -> Option<Exptime> {
    let vivify = options.vivify?;
    let exptime = options.exptime.filter(|_| echo.has_before(b'N', b'T'));
    Some(exptime.unwrap_or(vivify))
}

fn get<'a>(key: &'a [u8], flags: Flags<'a>) -> Result<Read<'a>, &'static [u8]> {
    let (options, echo) = checked(key, flags)?;
    let vivify = vivify_exptime(&options, &echo);
    let get = Get {
        key,
        touch: options.exptime,
        vivify: vivify.map(|exptime| Vivify { exptime, cas: options.new_cas }),
        recache: options.recache,
        leaves_no_mark: echo.has(b'u'),
    };
    Ok((Request::Get(get), echo))
}

fn set<'a>(key: &'a [u8], value_len: usize, flags: Flags<'a>) -> Result<Read<'a>, &'static [u8]> {
    let verb = match flags.options.mode {
        None | Some(b'S') => Some(StoreVerb::Set),
        Some(b'E') => Some(StoreVerb::Add),
        Some(b'A') => Some(StoreVerb::Append),
        Some(b'P') => Some(StoreVerb::Prepend),
        Some(b'R') => Some(StoreVerb::Replace),
        Some(_) => None,
    };
    let (options, echo, verb) = match (verb, checked(key, flags)) {
        (None, Ok(_) | Err(reply::OPAQUE_TOO_LONG)) => return Err(reply::BAD_SET_MODE),
        (verb, checked) => {
            let (options, echo) = checked?;
            (options, echo, verb.unwrap_or(StoreVerb::Set))
        }
    };
    // To set and replace, a CAS value is one to match, and no item has 0; to append and prepend, 0 is none.
    let joins = matches!(verb, StoreVerb::Append | StoreVerb::Prepend);
    let (verb, expected_cas) = match (verb, options.expected_cas) {
        (StoreVerb::Set | StoreVerb::Replace, Some(cas)) => (StoreVerb::Cas(cas), None),
        (verb, cas) => (verb, cas.filter(|&cas| joins && cas != 0)),
    };
    let vivify = joins && options.vivify.is_some();
    let exptime = if vivify { options.vivify } else { options.exptime };
    let store = Store {
        verb,
        key,
        client_flags: options.client_flags,
        exptime: exptime.unwrap_or_default(),
        cost: options.cost,
        value_len,
        expected_cas,
        new_cas: options.new_cas.filter(|&cas| cas != 0),
        stale_allowed: echo.has(b'I') && options.expected_cas.is_some_and(|cas| cas != 0),
        vivify,
    };
    Ok((Request::Store(store), echo))
}

fn delete<'a>(key: &'a [u8], flags: Flags<'a>) -> Result<Read<'a>, &'static [u8]> {
    let (options, echo) = checked(key, flags)?;
    let Options { exptime, new_cas, client_flags, expected_cas, .. } = options;
    let stale = echo.has(b'I');
    let leaves = match (echo.has(b'x'), stale) {
        (true, _) => {
            Leave::Empty { client_flags, exptime: exptime.unwrap_or_default(), stale, new_cas }
        }
        (false, true) => Leave::Stale { exptime, new_cas },
        (false, false) => Leave::Nothing,
    };
    Ok((Request::Delete(Delete { key, expected_cas, leaves }), echo))
}

fn arithmetic<'a>(key: &'a [u8], flags: Flags<'a>) -> Result<Read<'a>, &'static [u8]> {
    let direction = match flags.options.mode {
        None | Some(b'I' | b'+') => Some(Direction::Increment),
        Some(b'D' | b'-') => Some(Direction::Decrement),
        Some(_) => None,
    };
    let (options, echo, direction) = match (direction, checked(key, flags)) {
        (None, Ok(_) | Err(reply::OPAQUE_TOO_LONG)) => return Err(reply::BAD_ARITHMETIC_MODE),
        (_, Err(reply::OPAQUE_TOO_LONG)) => return Err(reply::OPAQUE_TOO_LONG),
        (_, Err(_)) => return Err(reply::BAD_ARITHMETIC_FLAG),
        (Some(direction), Ok((options, echo))) => (options, echo, direction),
    };
    let exptime = vivify_exptime(&options, &echo);
    let change = Arithmetic {
        key,
        direction,
        delta: options.delta,
        // 0 asks for nothing.
        expected_cas: options.expected_cas.filter(|&cas| cas != 0),
        new_cas: options.new_cas,
        touch: options.exptime,
        initial: exptime.map(|exptime| Initial { value: options.initial, exptime }),
    };
    Ok((Request::Arithmetic(change), echo))
}

/// `me` looks at nothing but a `b` right behind the key.
fn examine<'a>(key: &'a [u8], flags: Flags<'a>) -> Result<Read<'a>, &'static [u8]> {
    let key_is_base64 = flags.echo.letters().first() == Some(&b'b');
    if key_is_base64 && !key::is_base64(key) {
        return Err(reply::BAD_FORMAT);
    }
    let mut echo = Echo::EMPTY;
    echo.key_is_base64 = key_is_base64;
    Ok((Request::Examine { key }, echo))
}

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;
