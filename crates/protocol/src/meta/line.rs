//! One command line of the meta protocol.

use super::flags::{self, Echo, FLAG_COUNT_MAX, Flags, Options};
use super::{Key, OPAQUE_LEN_MAX, Parsed, Request, SetMode, Verb, reply};
use crate::{Direction, LIMITS, number};

/// Whether `input` begins with a command of the meta protocol. Needs three bytes, or four at the end of a
/// line; of fewer it says no. As in memcached a line of three bytes in all is no command.
#[inline]
pub fn begins(input: &[u8]) -> bool {
    input.len() > 2
        && input[0] == b'm'
        && matches!(input[1], b'g' | b's' | b'd' | b'a' | b'n' | b'e')
        && (input[2] == b' ' || input[2..].starts_with(b"\r\n"))
}

/// Reads one command line, of an input that [`begins`] with one.
pub fn parse(input: &[u8]) -> Parsed<'_> {
    let Some(newline) = memchr::memchr(b'\n', input) else {
        let waits = input.len() <= LIMITS.line_len_max;
        return if waits { Parsed::Incomplete } else { Parsed::Hangup };
    };
    let consumed = newline + 1;
    let line = input[..newline].strip_suffix(b"\r").unwrap_or(&input[..newline]);
    let (command, rest) = (line[1], &line[2..]);
    match read(command, rest) {
        Ok(request) => Parsed::Request { request, consumed },
        Err(Refusal { reply, skip_len }) => Parsed::Refused { reply, consumed, skip_len },
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

fn read(command: u8, rest: &[u8]) -> Result<Request<'_>, Refusal> {
    if command == b'n' {
        let (key, echo) = (Key::plain(b""), Echo::EMPTY);
        return Ok(Request { verb: Verb::NoOp, key, options: Options::NONE, echo });
    }
    let (key, rest) = split_first(rest);
    if command == b's' {
        let (word, rest) = split_first(rest);
        let value_len = number::exact_i32(word).and_then(|len| usize::try_from(len).ok());
        let value_len = value_len.filter(|&len| !word.is_empty() && len <= LIMITS.value_len_max);
        // Without a length nobody knows where the value ends: what follows is read as commands.
        let value_len = value_len.ok_or(Refusal::from(reply::BAD_FORMAT))?;
        return read_flags(key, rest, FLAG_COUNT_MAX - 1)
            .and_then(|flags| set(key, value_len, flags))
            .map_err(|reply| Refusal { reply, skip_len: value_len + b"\r\n".len() });
    }
    let flags = read_flags(key, rest, FLAG_COUNT_MAX)?;
    Ok(match command {
        b'g' => finish(Verb::Get, key, flags)?,
        b'd' => finish(Verb::Delete, key, flags)?,
        b'a' => arithmetic(key, flags)?,
        _ => debug(key, flags)?,
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

/// A request whose flags mean nothing to its verb.
fn finish<'a>(verb: Verb, key: &'a [u8], flags: Flags<'a>) -> Result<Request<'a>, &'static [u8]> {
    let Flags { options, echo, fault } = flags;
    let key = if options.has(b'b') {
        // F has no words of its own for its fault.
        let said = fault.filter(|&fault| fault != reply::BAD_FORMAT);
        Key::base64(key).ok_or(said.unwrap_or(reply::BAD_KEY))?
    } else {
        Key::plain(key)
    };
    match fault {
        Some(fault) => Err(fault),
        None if echo.opaque().len() > OPAQUE_LEN_MAX => Err(reply::OPAQUE_TOO_LONG),
        None => Ok(Request { verb, key, options, echo }),
    }
}

fn set<'a>(
    key: &'a [u8],
    value_len: usize,
    flags: Flags<'a>,
) -> Result<Request<'a>, &'static [u8]> {
    let mode = match flags.options.mode {
        None | Some(b'S') => Some(SetMode::Set),
        Some(b'E') => Some(SetMode::Add),
        Some(b'A') => Some(SetMode::Append),
        Some(b'P') => Some(SetMode::Prepend),
        Some(b'R') => Some(SetMode::Replace),
        Some(_) => None,
    };
    let verb = Verb::Set { value_len, mode: mode.unwrap_or(SetMode::Set) };
    let request = finish(verb, key, flags);
    match (mode, &request) {
        (None, Ok(_) | Err(reply::OPAQUE_TOO_LONG)) => Err(reply::BAD_SET_MODE),
        _ => request,
    }
}

fn arithmetic<'a>(key: &'a [u8], flags: Flags<'a>) -> Result<Request<'a>, &'static [u8]> {
    let direction = match flags.options.mode {
        None | Some(b'I' | b'+') => Some(Direction::Increment),
        Some(b'D' | b'-') => Some(Direction::Decrement),
        Some(_) => None,
    };
    let verb = Verb::Arithmetic(direction.unwrap_or(Direction::Increment));
    match (direction, finish(verb, key, flags)) {
        (None, Ok(_) | Err(reply::OPAQUE_TOO_LONG)) => Err(reply::BAD_ARITHMETIC_MODE),
        (_, Err(reply::OPAQUE_TOO_LONG)) => Err(reply::OPAQUE_TOO_LONG),
        (_, Err(_)) => Err(reply::BAD_ARITHMETIC_FLAG),
        (Some(_), request) => request,
    }
}

/// `me` looks at nothing but a `b` right behind the key.
fn debug<'a>(key: &'a [u8], flags: Flags<'a>) -> Result<Request<'a>, &'static [u8]> {
    let key = match flags.echo.letters().first() {
        Some(b'b') => Key::base64(key).ok_or(reply::BAD_FORMAT)?,
        _ => Key::plain(key),
    };
    Ok(Request { verb: Verb::Debug, key, options: Options::NONE, echo: Echo::EMPTY })
}
