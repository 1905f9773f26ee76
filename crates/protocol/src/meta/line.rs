//! One command line of the meta protocol: its key, which may be in base64, and its flags.

use super::reply;
use crate::request::{
    self, Answer, Arithmetic, Delete, Direction, Echo, FLAG_COUNT_MAX, Get, Initial, Leave, Parsed,
    Request, Store, StoreVerb, Vivify, bit,
};
use crate::words::{self, Exptime, KEY_LEN_MAX, LINE_LEN_MAX, Refusal, VALUE_LEN_MAX, split_first};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::{Engine as _, alphabet};
use slabwise_base::Cost;

/// Parses one command line, for an input for which [`begins`](super::begins) is true.
pub fn parse(input: &[u8]) -> Parsed<'_> {
    let Some(newline) = memchr::memchr(b'\n', input) else {
        let waits = input.len() <= LINE_LEN_MAX;
        return if waits { Parsed::Incomplete } else { Parsed::Hangup };
    };
    let consumed = newline + 1;
    let line = input[..newline].strip_suffix(b"\r").unwrap_or(&input[..newline]);
    let (command, rest) = (line[1], &line[2..]);
    match read(command, rest) {
        Ok((request, echo)) => Parsed::Request { request, answer: Answer::Meta(echo), consumed },
        Err(Refusal { reply, skip_len, .. }) => {
            Parsed::Refused { refusal: request::Refusal::Line(reply), consumed, skip_len }
        }
    }
}

/// A parsed line.
type Read<'a> = (Request<'a>, Echo);

fn read(command: u8, rest: &[u8]) -> Result<Read<'_>, Refusal> {
    if command == b'n' {
        return Ok((Request::NoOp, Echo::EMPTY));
    }
    let (key, rest) = split_first(rest);
    if command == b's' {
        let (word, rest) = split_first(rest);
        let value_len = words::exact_i32(word).and_then(|len| usize::try_from(len).ok());
        let value_len = value_len.filter(|&len| !word.is_empty() && len <= VALUE_LEN_MAX);
        // Without a length the end of the value is unknown, so its bytes are parsed as commands.
        let value_len = value_len.ok_or(Refusal::new(reply::BAD_FORMAT))?;
        return read_flags(key, rest, FLAG_COUNT_MAX - 1)
            .and_then(|flags| set(key, value_len, flags))
            .map_err(|reply| Refusal::with_value(reply, value_len));
    }
    let flags = read_flags(key, rest, FLAG_COUNT_MAX)?;
    Ok(match command {
        b'g' => get(key, flags)?,
        b'd' => delete(key, flags)?,
        b'a' => arithmetic(key, flags)?,
        _ => examine(key, flags)?,
    })
}

/// The values of a request's flags, by their letters.
#[derive(Clone, Copy, Default)]
struct Options {
    /// T: the expiry to set.
    exptime: Option<Exptime>,
    /// N: the expiry of an item created on a miss.
    vivify: Option<Exptime>,
    /// R: one client is asked to recache an item that expires before this.
    recache: Option<Exptime>,
    /// C: the CAS value that the item must have.
    expected_cas: Option<u64>,
    /// E: the new CAS value of the item.
    new_cas: Option<u64>,
    /// F: the client's own 32 bits.
    client_flags: Option<u32>,
    /// G: the item's cost to recompute.
    cost: Option<Cost>,
    /// M: the first letter of the token.
    mode: Option<u8>,
    /// J: the initial value of a created number.
    initial: Option<u64>,
    /// D: the amount by which a number changes.
    delta: Option<u64>,
}

/// The letters that are accepted as flags.
const KNOWN: u64 = {
    let letters = b"bNTRlOPLkstcfvhuqxFCEMJDIgG";
    let (mut known, mut index) = (0, 0);
    while index < letters.len() {
        known |= bit(letters[index]);
        index += 1;
    }
    known
};

/// The parsed flags of a request.
struct Flags<'a> {
    options: Options,
    echo: Echo,
    /// O, with its letter.
    opaque: &'a [u8],
    /// The error in the flags, as memcached's reply.
    fault: Option<&'static [u8]>,
}

/// Checks the key's length and parses the words after it. Fails if they are not flags, or more than `count_max`.
fn read_flags<'a>(
    key: &[u8],
    words: &'a [u8],
    count_max: usize,
) -> Result<Flags<'a>, &'static [u8]> {
    if key.is_empty() || key.len() > KEY_LEN_MAX {
        return Err(reply::BAD_FORMAT);
    }
    let (options, echo) = (Options::default(), Echo::EMPTY);
    let mut flags = Flags { options, echo, opaque: b"", fault: None };
    // After an unknown or repeated letter, words are only counted.
    let mut is_readable = true;
    let mut rest = words;
    while let Some((&letter, after)) = rest.split_first() {
        if letter == b' ' {
            rest = after;
            continue;
        }
        let end = after.iter().position(|&byte| byte == b' ').unwrap_or(after.len());
        let word = &rest[..=end];
        rest = &after[end..];
        if !matches!(letter, b'A'..=b'z' | b'0'..=b'9') {
            return Err(reply::BAD_FORMAT);
        }
        if !flags.echo.push(letter, count_max) {
            return Err(reply::TOO_MANY_FLAGS);
        }
        if is_readable && let Err(fault) = flags.note(letter, word) {
            flags.fault = Some(fault);
            is_readable = false;
        }
    }
    Ok(flags)
}

impl<'a> Flags<'a> {
    /// Records one flag. Fails if it is unknown or a duplicate. An invalid token is only recorded as a fault, because
    /// an error in a later flag replaces it.
    #[inline]
    fn note(&mut self, letter: u8, word: &'a [u8]) -> Result<(), &'static [u8]> {
        if letter < b'A' || KNOWN & bit(letter) == 0 {
            return Err(reply::INVALID_FLAG);
        }
        if !self.echo.note(letter) {
            return Err(reply::DUPLICATE_FLAG);
        }
        // Capital letters have tokens; those of `I`, `P` and `L` are ignored.
        if letter < b'a' {
            self.token(letter, word);
        }
        Ok(())
    }

    fn token(&mut self, letter: u8, word: &'a [u8]) {
        let token = &word[1..];
        let options = &mut self.options;
        let exptime = || words::exact_i32(token).map(Exptime::of_signed);
        let mut fault = reply::BAD_TOKEN;
        let is_good = match letter {
            b'T' => put(&mut options.exptime, exptime()),
            b'N' => put(&mut options.vivify, exptime()),
            b'R' => put(&mut options.recache, exptime()),
            b'C' => put(&mut options.expected_cas, words::exact_u64(token)),
            b'E' => put(&mut options.new_cas, words::exact_u64(token)),
            b'G' => put(&mut options.cost, words::exact_u32(token).map(Cost::from_units)),
            b'J' => {
                fault = reply::BAD_INITIAL;
                put(&mut options.initial, words::exact_u64(token))
            }
            b'D' => {
                fault = reply::BAD_DELTA;
                put(&mut options.delta, words::exact_u64(token))
            }
            b'F' => {
                // An earlier fault is kept.
                fault = self.fault.unwrap_or(reply::BAD_FORMAT);
                put(&mut options.client_flags, words::exact_u32(token))
            }
            b'M' => put(&mut options.mode, Some(token.first().copied().unwrap_or(b' '))),
            b'O' => {
                self.opaque = word;
                true
            }
            _ => true,
        };
        if !is_good {
            self.fault = Some(fault);
        }
    }
}

/// Sets an option; returns false if there is no value.
fn put<T>(place: &mut Option<T>, value: Option<T>) -> bool {
    *place = value;
    place.is_some()
}

/// Returns the options and the echo of flags without a fault.
#[inline]
fn checked(key: &[u8], flags: Flags<'_>) -> Result<(Options, Echo), &'static [u8]> {
    let Flags { options, mut echo, opaque, fault } = flags;
    if echo.has(b'b') {
        // As in memcached, an invalid key takes precedence over an invalid F.
        let specific_fault = fault.filter(|&fault| fault != reply::BAD_FORMAT);
        if !is_base64(key) {
            return Err(specific_fault.unwrap_or(reply::BAD_KEY));
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

/// Returns the expiry of an item created on a miss: that of the last of N and T.
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
    // For set and replace, every CAS value must match, and no item has 0. For append and prepend, 0 is no condition.
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
        client_flags: options.client_flags.unwrap_or_default(),
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
    let Options { exptime, new_cas, expected_cas, .. } = options;
    let stale = echo.has(b'I');
    let leaves = match (echo.has(b'x'), stale) {
        (true, _) => Leave::Empty {
            client_flags: options.client_flags.unwrap_or_default(),
            exptime: exptime.unwrap_or_default(),
            stale,
            new_cas,
        },
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
        delta: options.delta.unwrap_or(1),
        // 0 is no condition.
        expected_cas: options.expected_cas.filter(|&cas| cas != 0),
        new_cas: options.new_cas,
        touch: options.exptime,
        initial: exptime
            .map(|exptime| Initial { value: options.initial.unwrap_or_default(), exptime }),
    };
    Ok((Request::Arithmetic(change), echo))
}

/// Parses `me`, which ignores all flags except a `b` right after the key.
fn examine<'a>(key: &'a [u8], flags: Flags<'a>) -> Result<Read<'a>, &'static [u8]> {
    let key_is_base64 = flags.echo.letters().first() == Some(&b'b');
    if key_is_base64 && !is_base64(key) {
        return Err(reply::BAD_FORMAT);
    }
    let mut echo = Echo::EMPTY;
    echo.key_is_base64 = key_is_base64;
    Ok((Request::Examine(key), echo))
}

/// The maximum length of a decoded key in bytes. The limit for keys applies to the encoded form.
pub const KEY_BUFFER_LEN: usize = KEY_LEN_MAX / 4 * 3 + 3;

/// Base64 as memcached decodes it: padded, with any trailing bits.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical),
);

/// True if a key is valid base64 and not empty.
#[cold]
fn is_base64(wire: &[u8]) -> bool {
    let mut buffer = [0; KEY_BUFFER_LEN];
    BASE64.decode_slice(wire, &mut buffer).is_ok_and(|len| len > 0)
}

/// Decodes a key in base64, which the parser has checked, into `buffer`.
#[cold]
pub fn decode_key<'b>(wire: &[u8], buffer: &'b mut [u8; KEY_BUFFER_LEN]) -> &'b [u8] {
    let len = BASE64.decode_slice(wire, buffer).expect("the parser has decoded the key");
    &buffer[..len]
}

/// Appends bytes in base64.
pub(super) fn encode(out: &mut Vec<u8>, bytes: &[u8]) {
    let start = out.len();
    out.resize(start + bytes.len().div_ceil(3) * 4, 0);
    let written = BASE64.encode_slice(bytes, &mut out[start..]);
    debug_assert_eq!(written, Ok(out.len() - start));
}

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;
