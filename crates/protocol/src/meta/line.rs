//! Parses one command line of the meta protocol: the command, the key, which may be in base64, and the flags.

use super::reply;
use crate::request::{
    self, Answer, Arithmetic, Delete, Direction, Echo, FLAG_COUNT_MAX, Get, Initial, Parsed,
    Replacement, Request, Store, StoreVerb, Vivify, bit,
};
use crate::words::{
    self, Exptime, KEY_LEN_MAX, LINE_LEN_MAX, LineRefusal, VALUE_LEN_MAX, split_first,
};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::{Engine as _, alphabet};
use slabwise_base::Cost;

/// Parses one command line. The caller has checked that [`begins`](super::begins) is true for the input.
pub fn parse(input: &[u8]) -> Parsed<'_> {
    let Some(newline) = memchr::memchr(b'\n', input) else {
        let may_be_complete_later = input.len() <= LINE_LEN_MAX;
        return if may_be_complete_later { Parsed::Incomplete } else { Parsed::Hangup };
    };
    let consumed = newline + 1;
    let line = input[..newline].strip_suffix(b"\r").unwrap_or(&input[..newline]);
    let (command, rest) = (line[1], &line[2..]);
    match parse_command(command, rest) {
        Ok((request, echo)) => Parsed::Request { request, answer: Answer::Meta(echo), consumed },
        Err(LineRefusal { reply, skip_len, .. }) => {
            Parsed::Refused { refusal: request::Refusal::Line(reply), consumed, skip_len }
        }
    }
}

/// A request, and the flags that its reply depends on.
type ParsedLine<'a> = (Request<'a>, Echo);

/// Parses the words after the letters of the command. `command` is the second letter.
fn parse_command(command: u8, rest: &[u8]) -> Result<ParsedLine<'_>, LineRefusal> {
    if command == b'n' {
        return Ok((Request::NoOp, Echo::EMPTY));
    }
    let (key, rest) = split_first(rest);
    if command == b's' {
        let (word, rest) = split_first(rest);
        let value_len = words::exact_i32(word).and_then(|len| usize::try_from(len).ok());
        let value_len = value_len.filter(|&len| !word.is_empty() && len <= VALUE_LEN_MAX);
        // If the length is invalid, the end of the value is unknown. The bytes of the value are then parsed as
        // commands.
        let value_len = value_len.ok_or(LineRefusal::new(reply::BAD_FORMAT))?;
        return read_flags(key, rest, FLAG_COUNT_MAX - 1)
            .map_err(FlagsError::reply)
            .and_then(|flags| parse_set(key, value_len, flags))
            .map_err(|reply| LineRefusal::with_value(reply, value_len));
    }
    let flags = read_flags(key, rest, FLAG_COUNT_MAX).map_err(|error| match (command, error) {
        (b'a', FlagsError::KeyTooLong | FlagsError::TooMany) => reply::BAD_ARITHMETIC_FLAG,
        _ => error.reply(),
    })?;
    Ok(match command {
        b'g' => parse_get(key, flags)?,
        b'd' => parse_delete(key, flags)?,
        b'a' => parse_arithmetic(key, flags)?,
        _ => parse_examine(key, flags)?,
    })
}

/// The values of the flags of a request. `None` means that the request does not have the flag, or that its value is
/// invalid.
#[derive(Clone, Copy, Default)]
struct Options {
    /// Flag T: the new expiry of the item.
    exptime: Option<Exptime>,
    /// Flag N: the expiry of an item that is created on a miss.
    vivify: Option<Exptime>,
    /// Flag R: if the item expires before this time, one client is asked to recompute its value.
    recache: Option<Exptime>,
    /// Flag C: the CAS value that the item must have.
    expected_cas: Option<u64>,
    /// Flag E: the new CAS value of the item.
    new_cas: Option<u64>,
    /// Flag F: the client flags of the item.
    client_flags: Option<u32>,
    /// Flag G: the cost of the item.
    cost: Option<Cost>,
    /// Flag M: the first byte of the mode; a space if the mode is empty.
    mode: Option<u8>,
    /// Flag J: the initial value of a number that is created on a miss.
    initial: Option<u64>,
    /// Flag D: the amount to add or subtract.
    delta: Option<u64>,
}

/// The valid letters of flags, as a set with one bit per letter.
const VALID_LETTERS: u64 = {
    let letters = b"bNTRlOPLkstcfvhuqxFCEMJDIgG";
    let (mut bits, mut index) = (0, 0);
    while index < letters.len() {
        bits |= bit(letters[index]);
        index += 1;
    }
    bits
};

/// The flags of a request.
struct Flags<'a> {
    options: Options,
    echo: Echo,
    /// The opaque token with its letter `O`. It is empty if the request has none.
    opaque: &'a [u8],
    /// The last error; `None` if all flags are valid.
    fault: Option<FlagFault>,
}

/// An invalid flag.
#[derive(Clone, Copy)]
struct FlagFault {
    /// The error to send.
    reply: &'static [u8],
    /// The number of flags up to this one.
    flag_count: usize,
}

/// The reason why the key and the words after it are refused as a whole.
#[derive(Clone, Copy)]
enum FlagsError {
    /// There is no key.
    NoKey,
    KeyTooLong,
    /// A word does not begin with a letter or a digit.
    NotAFlag,
    /// There are too many flags.
    TooMany,
}

impl FlagsError {
    /// Returns the error to send. `ma` has other errors for some reasons.
    fn reply(self) -> &'static [u8] {
        match self {
            FlagsError::NoKey | FlagsError::KeyTooLong | FlagsError::NotAFlag => reply::BAD_FORMAT,
            FlagsError::TooMany => reply::TOO_MANY_FLAGS,
        }
    }
}

/// The number of words after the maximum number of flags that are still checked to be flags, as in memcached.
const SURPLUS_COUNT_MAX: usize = 3;

/// True if the first letter of a word is that of a flag, which may be unknown.
fn is_flag_letter(letter: u8) -> bool {
    matches!(letter, b'A'..=b'z' | b'0'..=b'9')
}

/// Returns `NotAFlag` if one of the first words is not a flag, and otherwise `error`.
#[cold]
fn unless_not_a_flag(error: FlagsError, words: &[u8], count_max: usize) -> FlagsError {
    let words = words.split(|&byte| byte == b' ').filter(|word| !word.is_empty());
    match words.take(count_max).all(|word| is_flag_letter(word[0])) {
        true => error,
        false => FlagsError::NotAFlag,
    }
}

/// Checks the length of the key, and parses the words after the key. Fails if a word is not a flag, or if there are
/// more than `count_max` flags.
fn read_flags<'a>(key: &[u8], words: &'a [u8], count_max: usize) -> Result<Flags<'a>, FlagsError> {
    if key.is_empty() {
        return Err(FlagsError::NoKey);
    }
    if key.len() > KEY_LEN_MAX {
        let words_max = count_max + SURPLUS_COUNT_MAX;
        return Err(unless_not_a_flag(FlagsError::KeyTooLong, words, words_max));
    }
    let (options, echo) = (Options::default(), Echo::EMPTY);
    let mut flags = Flags { options, echo, opaque: b"", fault: None };
    // As in memcached, flags after an unknown or duplicate flag are counted, but not parsed.
    let mut parses_flags = true;
    let mut rest = words;
    while let Some((&letter, after)) = rest.split_first() {
        if letter == b' ' {
            rest = after;
            continue;
        }
        let end = after.iter().position(|&byte| byte == b' ').unwrap_or(after.len());
        let word = &rest[..=end];
        rest = &after[end..];
        if !is_flag_letter(letter) {
            return Err(FlagsError::NotAFlag);
        }
        if !flags.echo.push_letter(letter, count_max) {
            return Err(unless_not_a_flag(FlagsError::TooMany, rest, SURPLUS_COUNT_MAX - 1));
        }
        if parses_flags && let Err(reply) = flags.parse_flag(letter, word) {
            flags.set_fault(reply);
            parses_flags = false;
        }
    }
    Ok(flags)
}

impl<'a> Flags<'a> {
    /// Parses one flag. Fails if the flag is unknown or a duplicate. Does not fail for an invalid token, but stores its
    /// error in `fault`, because an error in a later flag can replace this error.
    #[inline]
    fn parse_flag(&mut self, letter: u8, word: &'a [u8]) -> Result<(), &'static [u8]> {
        if letter < b'A' || VALID_LETTERS & bit(letter) == 0 {
            return Err(reply::INVALID_FLAG);
        }
        if !self.echo.add_to_set(letter) {
            return Err(reply::DUPLICATE_FLAG);
        }
        // A flag with a capital letter has a token. The tokens of `I`, `P` and `L` are ignored.
        if letter < b'a' {
            self.parse_token(letter, word);
        }
        Ok(())
    }

    /// Parses the token of a flag, and stores its value or a fault.
    fn parse_token(&mut self, letter: u8, word: &'a [u8]) {
        let token = &word[1..];
        let options = &mut self.options;
        let exptime = || words::exact_i32(token).map(Exptime::of_signed);
        let mut fault = reply::BAD_TOKEN;
        let is_valid = match letter {
            b'T' => set_option(&mut options.exptime, exptime()),
            b'N' => set_option(&mut options.vivify, exptime()),
            b'R' => set_option(&mut options.recache, exptime()),
            b'C' => set_option(&mut options.expected_cas, words::exact_u64(token)),
            b'E' => set_option(&mut options.new_cas, words::exact_u64(token)),
            b'G' => set_option(&mut options.cost, words::exact_u32(token).map(Cost::from_units)),
            b'J' => {
                fault = reply::BAD_INITIAL;
                set_option(&mut options.initial, words::exact_u64(token))
            }
            b'D' => {
                fault = reply::BAD_DELTA;
                set_option(&mut options.delta, words::exact_u64(token))
            }
            b'F' => {
                fault = reply::BAD_FORMAT;
                set_option(&mut options.client_flags, words::exact_u32(token))
            }
            // As in memcached, a mode that is a zero byte has no effect.
            b'M' => {
                options.mode =
                    Some(token.first().copied().unwrap_or(b' ')).filter(|&mode| mode != 0);
                true
            }
            b'O' => {
                self.opaque = word;
                true
            }
            _ => true,
        };
        // As in memcached, the error of an invalid flag F does not replace an earlier error.
        if !is_valid && (letter != b'F' || self.fault.is_none()) {
            self.set_fault(fault);
        }
    }

    /// Stores the error of the last flag.
    #[cold]
    fn set_fault(&mut self, reply: &'static [u8]) {
        self.fault = Some(FlagFault { reply, flag_count: self.echo.letters().len() });
    }
}

/// Sets an option to the value of a token. Returns false if the token is invalid, so that there is no value.
fn set_option<T>(place: &mut Option<T>, value: Option<T>) -> bool {
    *place = value;
    place.is_some()
}

/// Checks the key and the flags. Returns the options and the echo if both are valid, and otherwise the reply for the
/// error.
#[inline]
fn check_flags(key: &[u8], flags: Flags<'_>) -> Result<(Options, Echo), &'static [u8]> {
    let Flags { options, mut echo, opaque, fault } = flags;
    if echo.has(b'b') {
        if !is_base64(key) {
            return Err(bad_key_or(fault, &echo));
        }
        echo.key_is_base64 = true;
    }
    if let Some(fault) = fault {
        return Err(fault.reply);
    }
    if !echo.set_opaque(opaque) {
        return Err(reply::OPAQUE_TOO_LONG);
    }
    echo.unless_cas = options.expected_cas;
    Ok((options, echo))
}

/// Returns the error of a key that is not valid base64, or the error of another flag. As in memcached, the key is
/// decoded when the flag b is parsed. Its error replaces the errors of earlier flags and the error of an invalid flag F.
#[cold]
fn bad_key_or(fault: Option<FlagFault>, echo: &Echo) -> &'static [u8] {
    let flags_to_b = echo.letters().iter().position(|&letter| letter == b'b').map(|at| at + 1);
    let is_later = |fault: &FlagFault| Some(fault.flag_count) > flags_to_b;
    let later_fault = fault.filter(|fault| fault.reply != reply::BAD_FORMAT && is_later(fault));
    later_fault.map_or(reply::BAD_KEY, |fault| fault.reply)
}

/// Returns the expiry of an item that is created on a miss. If the flag T follows the flag N, it replaces the expiry.
fn created_exptime(vivify: Exptime, options: &Options, echo: &Echo) -> Exptime {
    let exptime = options.exptime.filter(|_| echo.has_before(b'N', b'T'));
    exptime.unwrap_or(vivify)
}

fn parse_get<'a>(key: &'a [u8], flags: Flags<'a>) -> Result<ParsedLine<'a>, &'static [u8]> {
    let (options, echo) = check_flags(key, flags)?;
    let get = Get {
        key,
        touch: options.exptime,
        vivify: options.vivify.map(|first_exptime| Vivify {
            first_exptime,
            exptime: created_exptime(first_exptime, &options, &echo),
            cas: options.new_cas,
        }),
        recache: options.recache,
        keeps_access_time: echo.has(b'u'),
    };
    Ok((Request::Get(get), echo))
}

fn parse_set<'a>(
    key: &'a [u8],
    value_len: usize,
    flags: Flags<'a>,
) -> Result<ParsedLine<'a>, &'static [u8]> {
    let verb = match flags.options.mode {
        None | Some(b'S') => Some(StoreVerb::Set),
        Some(b'E') => Some(StoreVerb::Add),
        Some(b'A') => Some(StoreVerb::Append),
        Some(b'P') => Some(StoreVerb::Prepend),
        Some(b'R') => Some(StoreVerb::Replace),
        Some(_) => None,
    };
    let (options, echo, verb) = match (verb, check_flags(key, flags)) {
        (None, Ok(_) | Err(reply::OPAQUE_TOO_LONG)) => return Err(reply::BAD_SET_MODE),
        (verb, checked_flags) => {
            let (options, echo) = checked_flags?;
            (options, echo, verb.unwrap_or(StoreVerb::Set))
        }
    };
    // A CAS value of 0 is a condition that no item meets for set and replace, and no condition for append and prepend.
    let extends_value = matches!(verb, StoreVerb::Append | StoreVerb::Prepend);
    let (verb, expected_cas) = match (verb, options.expected_cas) {
        (StoreVerb::Set | StoreVerb::Replace, Some(cas)) => (StoreVerb::Cas(cas), None),
        (verb, cas) => (verb, cas.filter(|&cas| extends_value && cas != 0)),
    };
    let vivify = extends_value && options.vivify.is_some();
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

fn parse_delete<'a>(key: &'a [u8], flags: Flags<'a>) -> Result<ParsedLine<'a>, &'static [u8]> {
    let (options, echo) = check_flags(key, flags)?;
    let Options { exptime, new_cas, expected_cas, .. } = options;
    let stale = echo.has(b'I');
    let replacement = match (echo.has(b'x'), stale) {
        (true, _) => Replacement::Empty {
            client_flags: options.client_flags.unwrap_or_default(),
            exptime: exptime.unwrap_or_default(),
            stale,
            new_cas,
        },
        (false, true) => Replacement::Stale { exptime, new_cas },
        (false, false) => Replacement::Nothing,
    };
    Ok((Request::Delete(Delete { key, expected_cas, replacement }), echo))
}

fn parse_arithmetic<'a>(key: &'a [u8], flags: Flags<'a>) -> Result<ParsedLine<'a>, &'static [u8]> {
    let direction = match flags.options.mode {
        None | Some(b'I' | b'+') => Some(Direction::Increment),
        Some(b'D' | b'-') => Some(Direction::Decrement),
        Some(_) => None,
    };
    let (options, echo, direction) = match (direction, check_flags(key, flags)) {
        (None, Ok(_) | Err(reply::OPAQUE_TOO_LONG)) => return Err(reply::BAD_ARITHMETIC_MODE),
        (_, Err(reply::OPAQUE_TOO_LONG)) => return Err(reply::OPAQUE_TOO_LONG),
        (_, Err(_)) => return Err(reply::BAD_ARITHMETIC_FLAG),
        (Some(direction), Ok((options, echo))) => (options, echo, direction),
    };
    let change = Arithmetic {
        key,
        direction,
        delta: options.delta.unwrap_or(1),
        // A CAS value of 0 is no condition.
        expected_cas: options.expected_cas.filter(|&cas| cas != 0),
        new_cas: options.new_cas,
        touch: options.exptime,
        initial: options.vivify.map(|first_exptime| Initial {
            value: options.initial.unwrap_or_default(),
            first_exptime,
            exptime: created_exptime(first_exptime, &options, &echo),
        }),
    };
    Ok((Request::Arithmetic(change), echo))
}

/// Parses `me`. As in memcached, all flags are ignored, except a `b` directly after the key.
fn parse_examine<'a>(key: &'a [u8], flags: Flags<'a>) -> Result<ParsedLine<'a>, &'static [u8]> {
    let key_is_base64 = flags.echo.letters().first() == Some(&b'b');
    if key_is_base64 && !is_base64(key) {
        return Err(reply::BAD_FORMAT);
    }
    let mut echo = Echo::EMPTY;
    echo.key_is_base64 = key_is_base64;
    Ok((Request::Examine(key), echo))
}

/// The size in bytes of a buffer for any decoded key. The maximum length of a key applies to its encoded form.
pub const KEY_BUFFER_LEN: usize = KEY_LEN_MAX / 4 * 3 + 3;

/// Base64 as memcached decodes it: padding is required, and the unused bits of the last character can have any value.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical),
);

/// True if a key is valid base64 and not empty.
#[cold]
fn is_base64(encoded: &[u8]) -> bool {
    let mut buffer = [0; KEY_BUFFER_LEN];
    BASE64.decode_slice(encoded, &mut buffer).is_ok_and(|len| len > 0)
}

/// Decodes a key from base64 into `buffer`, and returns the decoded bytes. Panics if the key is not valid base64, which
/// the parser has checked.
#[cold]
pub fn decode_key<'b>(encoded: &[u8], buffer: &'b mut [u8; KEY_BUFFER_LEN]) -> &'b [u8] {
    let len =
        BASE64.decode_slice(encoded, buffer).expect("the parser has checked the base64 of the key");
    &buffer[..len]
}

/// Encodes bytes in base64, and appends the result.
pub(super) fn encode_base64(out: &mut Vec<u8>, bytes: &[u8]) {
    let start = out.len();
    out.resize(start + bytes.len().div_ceil(3) * 4, 0);
    let written = BASE64.encode_slice(bytes, &mut out[start..]);
    debug_assert_eq!(written, Ok(out.len() - start));
}

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;
