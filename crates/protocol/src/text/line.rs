//! Lines of the classic text protocol: the table of commands, the parsers of item commands, and the replies that are
//! not fixed, which are appended to the caller's buffer. The parsers of administrative commands are in `admin`.

use super::{admin, reply};
use crate::admin::{Admin, Debug};
use crate::request::{
    self, Answer, Arithmetic, Delete, Direction, Get, Parsed, Request, Store, StoreVerb, TextAnswer,
};
use crate::words::{
    self, Exptime, KEY_LEN_MAX, LINE_LEN_MAX, Refusal, VALUE_LEN_MAX, Words, split_first,
};
use slabwise_base::Cost;
use std::fmt::Display;
use std::io::Write;

/// The length of the shortest line, including its end.
const LINE_LEN_MIN: usize = 4;

/// Parses one command line.
pub fn parse(input: &[u8], cost_wire: CostWire) -> Parsed<'_> {
    let Some(newline) = memchr::memchr(b'\n', input) else {
        return match input.len() {
            len if len <= LINE_LEN_MAX => Parsed::Incomplete,
            _ => parse_beginning(input),
        };
    };
    let consumed = newline + 1;
    if consumed < LINE_LEN_MIN {
        return refused(reply::BAD_FORMAT, consumed, 0);
    }
    let line = input[..newline].strip_suffix(b"\r").unwrap_or(&input[..newline]);
    let (name, rest) = split_first(line);
    let is_indented = line.first() == Some(&b' ');
    let command = find(name).filter(|command| !is_indented || command.family == Family::Order);
    let Some(command) = command else {
        return unknown(name, rest, consumed);
    };
    if let Shape::Retrieval(form) = command.shape {
        return parse_retrieval(form, line, rest, consumed);
    }
    let words = Words::of(rest);
    let request = match command.family {
        Family::Keyed { words_min } if words.len < words_min => {
            Err(Refusal::forced(reply::BAD_FORMAT))
        }
        _ => command.shape.request(&words, cost_wire),
    };
    let noreply = command.family != Family::Question && words.end_in_noreply();
    match request {
        Ok(request) => {
            let answer = Answer::Text(TextAnswer { noreply, with_cas: false });
            Parsed::Request { request, answer, consumed }
        }
        Err(Refusal { reply, skip_len, is_forced }) => {
            let reply = if noreply && !is_forced { b"" } else { reply };
            refused(reply, consumed, skip_len)
        }
    }
}

/// Refuses a line with an unknown command. HTTP clients (browsers, health checks) are disconnected, so that they do not
/// wait for more.
fn unknown<'a>(name: &[u8], rest: &'a [u8], consumed: usize) -> Parsed<'a> {
    let words = Words::of(rest);
    if words.last.starts_with(b"HTTP/") {
        return Parsed::Hangup;
    }
    let noreply = words.end_in_noreply() || (words.len == 0 && name == b"noreply");
    let reply = if noreply { b"" } else { reply::ERROR };
    refused(reply, consumed, 0)
}

fn refused<'a>(reply: &'static [u8], consumed: usize, skip_len: usize) -> Parsed<'a> {
    Parsed::Refused { refusal: request::Refusal::Line(reply), consumed, skip_len }
}

struct Command {
    name: &'static [u8],
    family: Family,
    shape: Shape,
}

/// The rules for a command's line that are checked before its arguments.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Family {
    /// The name is at the start of the line. A line with too few words is refused; a last word `noreply` suppresses all
    /// other replies.
    Keyed {
        /// The minimum number of words after the name.
        words_min: usize,
    },
    /// The name is at the start of the line, and `noreply` has no effect.
    Question,
    /// Spaces may precede the name; a last word `noreply` suppresses replies.
    Order,
}

/// get, gets, gat or gats.
#[derive(Clone, Copy)]
struct Form {
    with_cas: bool,
    /// True if an exptime precedes the keys.
    touches: bool,
}

/// The parser of a command's words.
#[derive(Clone, Copy)]
enum Shape {
    Retrieval(Form),
    /// The CAS value of `cas` is a placeholder for that of the line.
    Storage(StoreVerb),
    Arithmetic(Direction),
    Other(for<'a> fn(&Words<'a>) -> Result<Request<'a>, Refusal>),
}

impl Shape {
    fn request<'a>(self, words: &Words<'a>, cost_wire: CostWire) -> Result<Request<'a>, Refusal> {
        match self {
            Shape::Retrieval(_) => unreachable!("a retrieval's keys are parsed one by one"),
            Shape::Storage(verb) => store(verb, words, cost_wire),
            Shape::Arithmetic(direction) => arithmetic(direction, words),
            Shape::Other(read) => read(words),
        }
    }
}

const fn row(name: &'static str, family: Family, shape: Shape) -> Command {
    Command { name: name.as_bytes(), family, shape }
}

const fn retrieval(name: &'static str, form: Form) -> Command {
    row(name, Family::Question, Shape::Retrieval(form))
}

const fn storage(name: &'static str, verb: StoreVerb) -> Command {
    row(name, Family::Keyed { words_min: 4 }, Shape::Storage(verb))
}

const fn order(
    name: &'static str,
    read: for<'a> fn(&Words<'a>) -> Result<Request<'a>, Refusal>,
) -> Command {
    row(name, Family::Order, Shape::Other(read))
}

/// The commands, the most frequent first, because the search is linear.
static COMMANDS: [Command; 29] = [
    retrieval("get", Form { with_cas: false, touches: false }),
    storage("set", StoreVerb::Set),
    retrieval("gets", Form { with_cas: true, touches: false }),
    row("delete", Family::Keyed { words_min: 1 }, Shape::Other(delete)),
    row("incr", Family::Keyed { words_min: 2 }, Shape::Arithmetic(Direction::Increment)),
    row("decr", Family::Keyed { words_min: 2 }, Shape::Arithmetic(Direction::Decrement)),
    storage("add", StoreVerb::Add),
    storage("cas", StoreVerb::Cas(0)),
    row("touch", Family::Keyed { words_min: 2 }, Shape::Other(touch)),
    retrieval("gat", Form { with_cas: false, touches: true }),
    retrieval("gats", Form { with_cas: true, touches: true }),
    storage("replace", StoreVerb::Replace),
    storage("append", StoreVerb::Append),
    storage("prepend", StoreVerb::Prepend),
    row("version", Family::Question, Shape::Other(|_| Ok(Request::Version))),
    row("quit", Family::Question, Shape::Other(|_| Ok(Request::Quit))),
    row("stats", Family::Question, Shape::Other(admin::stats)),
    row("watch", Family::Question, Shape::Other(admin::watch)),
    order("flush_all", admin::flush_all),
    order("verbosity", admin::verbosity),
    order("cache_memlimit", admin::memory_limit),
    order("shutdown", admin::shutdown),
    order("slabs", admin::slabs),
    order("lru", admin::lru),
    order("lru_crawler", admin::crawler),
    order("refresh_certs", admin::refresh_certificates),
    order("debugtime", admin::debug_time),
    order("debugitem", admin::debug_item),
    order("misbehave", |_| Ok(Request::Admin(Admin::Debug(Debug::Misbehave)))),
];

fn find(name: &[u8]) -> Option<&'static Command> {
    COMMANDS.iter().find(|command| command.name == name)
}

/// Parses a retrieval whose line is complete; `rest` follows its name. Checks every key, so that a line with an invalid
/// key is answered with the error alone.
fn parse_retrieval<'a>(form: Form, line: &'a [u8], rest: &'a [u8], consumed: usize) -> Parsed<'a> {
    let refused = |reply| refused(reply, consumed, 0);
    let (exptime, keys) = if form.touches { split_first(rest) } else { (&b""[..], rest) };
    if keys.iter().all(|&byte| byte == b' ') {
        return refused(reply::BAD_FORMAT);
    }
    let touch = words::exact_i32(exptime);
    if form.touches && touch.is_none() {
        return refused(reply::BAD_EXPTIME);
    }
    if keys.len() > KEY_LEN_MAX && has_long_word(keys) {
        return refused(reply::BAD_FORMAT);
    }
    retrieve(form, touch, line.len() - keys.len())
}

/// Parses the start of a retrieval whose line is longer than the limit. No client of this protocol sends any other
/// command of that length.
fn parse_beginning(input: &[u8]) -> Parsed<'_> {
    let (name, rest) = split_first(input);
    if input[0] == b' ' || rest.is_empty() {
        return Parsed::Hangup;
    }
    let form = match find(name).map(|command| command.shape) {
        Some(Shape::Retrieval(form)) => form,
        _ => return Parsed::Hangup,
    };
    if !form.touches {
        return retrieve(form, None, input.len() - rest.len());
    }
    let (exptime, keys) = split_first(rest);
    match words::exact_i32(exptime) {
        Some(exptime) if !keys.is_empty() => {
            retrieve(form, Some(exptime), input.len() - keys.len())
        }
        _ => Parsed::Hangup,
    }
}

fn retrieve<'a>(form: Form, exptime: Option<i32>, consumed: usize) -> Parsed<'a> {
    let request = Request::Retrieve(exptime.map(Exptime::of_signed));
    let answer = Answer::Text(TextAnswer { noreply: false, with_cas: form.with_cas });
    Parsed::Request { request, answer, consumed }
}

fn has_long_word(words: &[u8]) -> bool {
    words.split(|&byte| byte == b' ').any(|word| word.len() > KEY_LEN_MAX)
}

/// The next part of a retrieval's line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextKey<'a> {
    /// A key of 1 to 250 bytes, and its end in the input.
    Key(&'a [u8], usize),
    /// The end of the line, as a position in the input.
    End(usize),
    /// No complete key yet, and the number of leading spaces that can be consumed.
    Incomplete(usize),
    /// A key that is too long. The rest of its line is to be skipped.
    TooLong,
}

/// Parses the next key of a retrieval.
pub fn next_key(input: &[u8]) -> NextKey<'_> {
    let start = input.iter().position(|&byte| byte != b' ').unwrap_or(input.len());
    let rest = &input[start..];
    let Some(end) = memchr::memchr2(b' ', b'\n', rest) else {
        // The last byte may be the `\r` of the line's end.
        return match rest.len() {
            len if len > KEY_LEN_MAX + 1 => NextKey::TooLong,
            _ => NextKey::Incomplete(start),
        };
    };
    let mut key = &rest[..end];
    if rest[end] == b'\n' {
        key = key.strip_suffix(b"\r").unwrap_or(key);
        if key.is_empty() {
            return NextKey::End(start + end + 1);
        }
    }
    if key.len() > KEY_LEN_MAX {
        return NextKey::TooLong;
    }
    NextKey::Key(key, start + key.len())
}

/// Turns a parsed retrieval of one key into a [`Request::Get`], if the line is complete in `input`.
#[inline]
pub fn join_sole_key<'a>(parsed: &mut Parsed<'a>, input: &'a [u8]) {
    if let Parsed::Request { request, consumed, .. } = parsed
        && let Request::Retrieve(touch) = *request
        && let Some((key, len)) = sole_key(&input[*consumed..])
    {
        *request = Request::Get(Get { key, touch, ..Get::default() });
        *consumed += len;
    }
}

/// Returns the only key of a retrieval and the length of its line; `None` if there are several keys or the line is
/// incomplete.
#[inline]
fn sole_key(input: &[u8]) -> Option<(&[u8], usize)> {
    let NextKey::Key(key, end) = next_key(input) else { return None };
    match &input[end..] {
        [b'\r', b'\n', ..] => Some((key, end + 2)),
        [b'\n', ..] => Some((key, end + 1)),
        _ => None,
    }
}

/// `<key> <flags> <exptime> <bytes> [<cas>]`, or the form of [`has_cost_form`]. Further words are ignored.
fn store<'a>(
    verb: StoreVerb,
    words: &Words<'a>,
    cost_wire: CostWire,
) -> Result<Request<'a>, Refusal> {
    let has_cost = has_cost_form(verb, words);
    if has_cost && cost_wire == CostWire::Off {
        refuse_cost(words)?;
    }
    let has_cost = has_cost && cost_wire == CostWire::On;
    let flags_at = if has_cost { 2 } else { 1 };
    // Without a length the end of the value is unknown, so its bytes are parsed as commands.
    let value_len = value_len(words.at(flags_at + 2)).ok_or(Refusal::forced(reply::BAD_FORMAT))?;
    let refusal = Refusal::with_value(reply::BAD_FORMAT, value_len);
    let cost = match has_cost {
        true => Some(Cost::from_units(words::exact_u32(words.at(1)).ok_or(refusal)?)),
        false => None,
    };
    let verb = match verb {
        StoreVerb::Cas(_) => StoreVerb::Cas(words::exact_u64(words.at(4)).ok_or(refusal)?),
        verb => verb,
    };
    let key = key(words).or(Err(refusal))?;
    let client_flags = words::unsigned_low_32(words.at(flags_at)).ok_or(refusal)?;
    let exptime = words::signed_low_32(words.at(flags_at + 1)).ok_or(refusal)?;
    Ok(Request::Store(Store {
        client_flags,
        exptime: Exptime::of_signed(exptime),
        cost,
        verb,
        key,
        value_len,
        ..Store::default()
    }))
}

/// True if a line has the number of words of `<key> <cost> <flags> <exptime> <bytes> [noreply]`. Source: Coelho,
/// "Cost-aware Memory Management of Memcached", 2018, section 4.2.
fn has_cost_form(verb: StoreVerb, words: &Words<'_>) -> bool {
    let has_cost = words.len == if words.end_in_noreply() { 6 } else { 5 };
    has_cost && matches!(verb, StoreVerb::Set | StoreVerb::Add | StoreVerb::Replace)
}

/// Refuses a line that is valid as a store with a cost: memcached would parse its cost as client flags and its value as
/// commands. Otherwise the line is a normal store with an extra word, which is ignored.
fn refuse_cost(words: &Words<'_>) -> Result<(), Refusal> {
    let numbers = words::exact_u32(words.at(1)).is_some()
        && words::unsigned_low_32(words.at(2)).is_some()
        && words::signed_low_32(words.at(3)).is_some();
    match value_len(words.at(4)) {
        Some(value_len) if numbers => Err(Refusal::with_value(reply::COST_WIRE_OFF, value_len)),
        _ => Ok(()),
    }
}

/// `<key> <delta>`.
fn arithmetic<'a>(direction: Direction, words: &Words<'a>) -> Result<Request<'a>, Refusal> {
    let key = key(words)?;
    let delta = words::exact_u64(words.at(1)).ok_or(reply::BAD_DELTA)?;
    Ok(Request::Arithmetic(Arithmetic { key, direction, delta, ..Arithmetic::default() }))
}

/// `<key> [0] [noreply]`. The 0 is a delay that old clients still send. Other delays are refused because they are not
/// supported.
fn delete<'a>(words: &Words<'a>) -> Result<Request<'a>, Refusal> {
    let well_formed = matches!(
        (words.len, words.at(1), words.at(2)),
        (1, _, _) | (2, b"0" | b"noreply", _) | (3, b"0", b"noreply")
    );
    if !well_formed {
        return Err(reply::BAD_DELETE.into());
    }
    let key = key(words)?;
    Ok(Request::Delete(Delete { key, ..Delete::default() }))
}

/// `<key> <exptime>`.
fn touch<'a>(words: &Words<'a>) -> Result<Request<'a>, Refusal> {
    let key = key(words)?;
    let exptime = words::exact_i32(words.at(1)).ok_or(reply::BAD_EXPTIME)?;
    Ok(Request::Touch(key, Exptime::of_signed(exptime)))
}

/// Returns the first word, if it is not too long for a key.
fn key<'a>(words: &Words<'a>) -> Result<&'a [u8], Refusal> {
    let key = words.at(0);
    if key.len() <= KEY_LEN_MAX { Ok(key) } else { Err(reply::BAD_FORMAT.into()) }
}

fn value_len(word: &[u8]) -> Option<usize> {
    let len = usize::try_from(words::exact_i32(word)?).ok()?;
    (len <= VALUE_LEN_MAX).then_some(len)
}

/// The forms of storage lines that are valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CostWire {
    /// Only memcached's forms are valid.
    Off,
    /// `set|add|replace <key> <cost> <flags> <exptime> <bytes> [noreply]` is valid, too.
    On,
}

/// The maximum length of a `VALUE` line without its key.
const VALUE_LINE_LEN_MAX: usize = "VALUE  4294967295 2147483647 18446744073709551615\r\n".len();

/// Appends `VALUE <key> <flags> <bytes> [<cas>]\r\n`.
pub fn value_line(
    out: &mut Vec<u8>,
    key: &[u8],
    client_flags: u32,
    value_len: usize,
    cas: Option<u64>,
) {
    out.reserve(VALUE_LINE_LEN_MAX + key.len());
    out.extend_from_slice(b"VALUE ");
    out.extend_from_slice(key);
    out.push(b' ');
    if client_flags == 0 {
        out.push(b'0');
    } else {
        number(out, client_flags);
    }
    out.push(b' ');
    number(out, value_len);
    if let Some(cas) = cas {
        out.push(b' ');
        number(out, cas);
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends a number and a line end, the reply to incr and decr.
pub fn number_line(out: &mut Vec<u8>, value: u64) {
    number(out, value);
    out.extend_from_slice(b"\r\n");
}

/// Appends `STAT <name> <value>\r\n`.
pub fn stat_line(out: &mut Vec<u8>, name: impl Display, value: impl Display) {
    write!(out, "STAT {name} {value}\r\n").expect("a Vec takes every write");
}

/// Appends a key percent-encoded as in URIs, so that it contains no space.
pub fn percent_encoded(out: &mut Vec<u8>, key: &[u8]) {
    const HEX_DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in key {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(byte);
        } else {
            let digits = [byte >> 4, byte & 15].map(|digit| HEX_DIGITS[usize::from(digit)]);
            out.push(b'%');
            out.extend_from_slice(&digits);
        }
    }
}

/// Appends a number.
pub fn number(out: &mut Vec<u8>, value: impl itoa::Integer) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;
