//! Lines of the classic text protocol.
//!
//! This module has the table of all commands, the parsers of commands about items, and functions that append variable
//! replies to the caller's buffer. The parsers of administrative commands are in `admin`, the fixed replies in `reply`.

use super::{admin, reply};
use crate::admin::{Admin, Debug};
use crate::request::{
    self, Answer, Arithmetic, Delete, Direction, Get, Parsed, Request, Store, StoreVerb, TextAnswer,
};
use crate::words::{
    self, Exptime, KEY_LEN_MAX, LINE_LEN_MAX, LineRefusal, VALUE_LEN_MAX, Words, split_first,
};
use slabwise_base::Cost;
use std::fmt::Display;
use std::io::Write;

/// The length of the shortest line in bytes, including its line end.
const LINE_LEN_MIN: usize = 4;

/// Parses one command line. The keys of a retrieval are checked, but not consumed.
pub fn parse(input: &[u8], cost_wire: CostWire) -> Parsed<'_> {
    let Some(newline) = memchr::memchr(b'\n', input) else {
        return match input.len() {
            len if len <= LINE_LEN_MAX => Parsed::Incomplete,
            _ => parse_unfinished(input),
        };
    };
    let consumed = newline + 1;
    if consumed < LINE_LEN_MIN {
        return refuse(reply::BAD_FORMAT, consumed, 0);
    }
    let line = input[..newline].strip_suffix(b"\r").unwrap_or(&input[..newline]);
    let (name, rest) = split_first(line);
    let is_indented = line.first() == Some(&b' ');
    let command = find_command(name);
    let command =
        command.filter(|command| !is_indented || command.rule == LineRule::Administrative);
    let Some(command) = command else {
        return refuse_unknown(name, rest, consumed);
    };
    if let CommandParser::Retrieval(form) = command.parser {
        return parse_retrieval(form, line, rest, consumed);
    }
    let words = Words::of(rest);
    let request = match command.rule {
        LineRule::ItemCommand { words_min } if words.len < words_min => {
            Err(LineRefusal::despite_noreply(reply::BAD_FORMAT))
        }
        _ => command.parser.parse(&words, cost_wire),
    };
    let noreply = command.rule != LineRule::AlwaysReplies && words.end_in_noreply();
    match request {
        Ok(request) => {
            let answer = Answer::Text(TextAnswer { noreply, with_cas: false });
            Parsed::Request { request, answer, consumed }
        }
        Err(LineRefusal { reply, skip_len, overrides_noreply }) => {
            let reply = if noreply && !overrides_noreply { b"" } else { reply };
            refuse(reply, consumed, skip_len)
        }
    }
}

/// Refuses a line with an unknown command. Closes the connection of an HTTP client (a browser or a health check),
/// because such a client would wait for an HTTP reply.
fn refuse_unknown<'a>(name: &[u8], rest: &'a [u8], consumed: usize) -> Parsed<'a> {
    let words = Words::of(rest);
    if words.last.starts_with(b"HTTP/") {
        return Parsed::Hangup;
    }
    let noreply = words.end_in_noreply() || (words.len == 0 && name == b"noreply");
    let reply = if noreply { b"" } else { reply::ERROR };
    refuse(reply, consumed, 0)
}

fn refuse<'a>(reply: &'static [u8], consumed: usize, skip_len: usize) -> Parsed<'a> {
    Parsed::Refused { refusal: request::Refusal::Line(reply), consumed, skip_len }
}

/// A command of the table [`COMMANDS`].
struct Command {
    name: &'static [u8],
    rule: LineRule,
    parser: CommandParser,
}

/// The rule for the line of a command, which the parser applies before it parses the arguments.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LineRule {
    /// A command about items. Its name must be at the start of the line. A line with too few words is refused, even
    /// with `noreply`. A last word `noreply` suppresses all other replies.
    ItemCommand {
        /// The minimum number of words after the name of the command.
        words_min: usize,
    },
    /// The name of the command must be at the start of the line, and `noreply` has no effect.
    AlwaysReplies,
    /// Spaces may precede the name of the command. A last word `noreply` suppresses all replies.
    Administrative,
}

/// The differences between the commands get, gets, gat and gats.
#[derive(Clone, Copy)]
struct RetrievalForm {
    /// True if the reply contains the CAS values.
    with_cas: bool,
    /// True if an exptime precedes the keys. The exptime becomes the new expiry of the items.
    touches: bool,
}

/// The parser of the words after the name of a command.
#[derive(Clone, Copy)]
enum CommandParser {
    Retrieval(RetrievalForm),
    /// A storage command. For `cas`, the table has the CAS value 0, and the parser returns the CAS value of the line.
    Storage(StoreVerb),
    Arithmetic(Direction),
    Other(for<'a> fn(&Words<'a>) -> Result<Request<'a>, LineRefusal>),
}

impl CommandParser {
    fn parse<'a>(self, words: &Words<'a>, cost_wire: CostWire) -> Result<Request<'a>, LineRefusal> {
        match self {
            CommandParser::Retrieval(_) => {
                unreachable!("`parse_retrieval` parses the retrievals")
            }
            CommandParser::Storage(verb) => parse_store(verb, words, cost_wire),
            CommandParser::Arithmetic(direction) => parse_arithmetic(direction, words),
            CommandParser::Other(parse) => parse(words),
        }
    }
}

const fn command(name: &'static str, rule: LineRule, parser: CommandParser) -> Command {
    Command { name: name.as_bytes(), rule, parser }
}

const fn retrieval(name: &'static str, form: RetrievalForm) -> Command {
    command(name, LineRule::AlwaysReplies, CommandParser::Retrieval(form))
}

const fn storage(name: &'static str, verb: StoreVerb) -> Command {
    command(name, LineRule::ItemCommand { words_min: 4 }, CommandParser::Storage(verb))
}

const fn administrative(
    name: &'static str,
    parse: for<'a> fn(&Words<'a>) -> Result<Request<'a>, LineRefusal>,
) -> Command {
    command(name, LineRule::Administrative, CommandParser::Other(parse))
}

/// All commands. The search is linear, so the most frequent commands are first.
static COMMANDS: [Command; 31] = [
    retrieval("get", RetrievalForm { with_cas: false, touches: false }),
    storage("set", StoreVerb::Set),
    retrieval("gets", RetrievalForm { with_cas: true, touches: false }),
    command("delete", LineRule::ItemCommand { words_min: 1 }, CommandParser::Other(parse_delete)),
    command(
        "incr",
        LineRule::ItemCommand { words_min: 2 },
        CommandParser::Arithmetic(Direction::Increment),
    ),
    command(
        "decr",
        LineRule::ItemCommand { words_min: 2 },
        CommandParser::Arithmetic(Direction::Decrement),
    ),
    storage("add", StoreVerb::Add),
    storage("cas", StoreVerb::Cas(0)),
    command("touch", LineRule::ItemCommand { words_min: 2 }, CommandParser::Other(parse_touch)),
    retrieval("gat", RetrievalForm { with_cas: false, touches: true }),
    retrieval("gats", RetrievalForm { with_cas: true, touches: true }),
    storage("replace", StoreVerb::Replace),
    storage("append", StoreVerb::Append),
    storage("prepend", StoreVerb::Prepend),
    command("version", LineRule::AlwaysReplies, CommandParser::Other(|_| Ok(Request::Version))),
    command("quit", LineRule::AlwaysReplies, CommandParser::Other(|_| Ok(Request::Quit))),
    command("stats", LineRule::AlwaysReplies, CommandParser::Other(admin::stats)),
    command("watch", LineRule::AlwaysReplies, CommandParser::Other(admin::watch)),
    administrative("flush_all", admin::flush_all),
    administrative("verbosity", admin::verbosity),
    administrative("cache_memlimit", admin::memory_limit),
    administrative("shutdown", admin::shutdown),
    administrative("slabs", admin::slabs),
    administrative("lru", admin::lru),
    administrative("lru_crawler", admin::crawler),
    administrative("refresh_certs", admin::refresh_certificates),
    administrative("debugtime", admin::debug_time),
    administrative("debugitem", admin::debug_item),
    administrative("debugcheck", |_| Ok(Request::Admin(Admin::Debug(Debug::Check)))),
    administrative("debugconfine", admin::debug_confine),
    administrative("misbehave", |_| Ok(Request::Admin(Admin::Debug(Debug::Misbehave)))),
];

fn find_command(name: &[u8]) -> Option<&'static Command> {
    COMMANDS.iter().find(|command| command.name == name)
}

/// Parses a retrieval whose line is complete. `rest` is the part of the line after the name. Checks every key, so that
/// the reply to a line with an invalid key is only an error.
fn parse_retrieval<'a>(
    form: RetrievalForm,
    line: &'a [u8],
    rest: &'a [u8],
    consumed: usize,
) -> Parsed<'a> {
    let refuse = |reply| refuse(reply, consumed, 0);
    let (exptime, keys) = if form.touches { split_first(rest) } else { (&b""[..], rest) };
    if keys.iter().all(|&byte| byte == b' ') {
        return refuse(reply::BAD_FORMAT);
    }
    let touch = words::exact_i32(exptime);
    if form.touches && touch.is_none() {
        return refuse(reply::BAD_EXPTIME);
    }
    if keys.len() > KEY_LEN_MAX && has_long_word(keys) {
        return refuse(reply::BAD_FORMAT);
    }
    retrieval_request(form, touch, line.len() - keys.len())
}

/// Parses the start of a line whose end has not arrived within the maximum length. Only a retrieval may be that long.
/// For any other line, the connection is closed, because no client of this protocol sends such a line.
fn parse_unfinished(input: &[u8]) -> Parsed<'_> {
    let (name, rest) = split_first(input);
    if input[0] == b' ' || rest.is_empty() {
        return Parsed::Hangup;
    }
    let form = match find_command(name).map(|command| command.parser) {
        Some(CommandParser::Retrieval(form)) => form,
        _ => return Parsed::Hangup,
    };
    if !form.touches {
        return retrieval_request(form, None, input.len() - rest.len());
    }
    let (exptime, keys) = split_first(rest);
    match words::exact_i32(exptime) {
        Some(exptime) if !keys.is_empty() => {
            retrieval_request(form, Some(exptime), input.len() - keys.len())
        }
        _ => Parsed::Hangup,
    }
}

fn retrieval_request<'a>(form: RetrievalForm, exptime: Option<i32>, consumed: usize) -> Parsed<'a> {
    let request = Request::Retrieve(exptime.map(Exptime::of_signed));
    let answer = Answer::Text(TextAnswer { noreply: false, with_cas: form.with_cas });
    Parsed::Request { request, answer, consumed }
}

/// True if a word is too long for a key.
fn has_long_word(words: &[u8]) -> bool {
    words.split(|&byte| byte == b' ').any(|word| word.len() > KEY_LEN_MAX)
}

/// The result of parsing the next key of a retrieval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextKey<'a> {
    /// A key of 1 to 250 bytes, and the position of its end in the input.
    Key(&'a [u8], usize),
    /// The line has no more keys. Contains the position of the end of the line in the input.
    End(usize),
    /// The end of the key has not arrived yet. Contains the number of leading spaces, which the caller can consume.
    Incomplete(usize),
    /// The key is too long. The caller must skip the rest of the line.
    TooLong,
}

/// Parses the next key of a retrieval at the start of `input`.
pub fn next_key(input: &[u8]) -> NextKey<'_> {
    let start = input.iter().position(|&byte| byte != b' ').unwrap_or(input.len());
    let rest = &input[start..];
    let Some(end) = memchr::memchr2(b' ', b'\n', rest) else {
        // The last byte may be the `\r` of the line end, and then it does not belong to the key.
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

/// Replaces a parsed retrieval that has only one key by a [`Request::Get`]. Does nothing if the retrieval has several
/// keys, or if its line is not complete in `input`.
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

/// Returns the only key of a retrieval, and the position of the end of the line in the input. Returns `None` if there
/// are several keys, or if the line is incomplete.
#[inline]
fn sole_key(input: &[u8]) -> Option<(&[u8], usize)> {
    let NextKey::Key(key, end) = next_key(input) else { return None };
    match &input[end..] {
        [b'\r', b'\n', ..] => Some((key, end + 2)),
        [b'\n', ..] => Some((key, end + 1)),
        _ => None,
    }
}

/// Parses `<key> <flags> <exptime> <bytes> [<cas>]`, and the form with a cost that [`has_cost_form`] describes. Further
/// words are ignored.
fn parse_store<'a>(
    verb: StoreVerb,
    words: &Words<'a>,
    cost_wire: CostWire,
) -> Result<Request<'a>, LineRefusal> {
    let has_cost = has_cost_form(verb, words);
    if has_cost && cost_wire == CostWire::Off {
        refuse_cost(words)?;
    }
    let has_cost = has_cost && cost_wire == CostWire::On;
    let flags_at = if has_cost { 2 } else { 1 };
    // If the length is invalid, the end of the value is unknown. The bytes of the value are then parsed as commands.
    let value_len = parse_value_len(words.at(flags_at + 2))
        .ok_or(LineRefusal::despite_noreply(reply::BAD_FORMAT))?;
    let refusal = LineRefusal::with_value(reply::BAD_FORMAT, value_len);
    let cost = match has_cost {
        true => Some(Cost::from_units(words::exact_u32(words.at(1)).ok_or(refusal)?)),
        false => None,
    };
    let verb = match verb {
        StoreVerb::Cas(_) => StoreVerb::Cas(words::exact_u64(words.at(4)).ok_or(refusal)?),
        verb => verb,
    };
    let key = parse_key(words).or(Err(refusal))?;
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

/// True if a set, add or replace has as many words as `<key> <cost> <flags> <exptime> <bytes> [noreply]`. Source of
/// this form: Coelho, "Cost-aware Memory Management of Memcached", 2018, section 4.2.
fn has_cost_form(verb: StoreVerb, words: &Words<'_>) -> bool {
    let has_cost = words.len == if words.end_in_noreply() { 6 } else { 5 };
    has_cost && matches!(verb, StoreVerb::Set | StoreVerb::Add | StoreVerb::Replace)
}

/// Refuses a line that is a valid storage command with a cost, because the server does not accept costs. Without the
/// refusal, the cost would be parsed as client flags and the value as commands. Accepts any other line: it has a word
/// more than needed, which is ignored.
fn refuse_cost(words: &Words<'_>) -> Result<(), LineRefusal> {
    let numbers = words::exact_u32(words.at(1)).is_some()
        && words::unsigned_low_32(words.at(2)).is_some()
        && words::signed_low_32(words.at(3)).is_some();
    match parse_value_len(words.at(4)) {
        Some(value_len) if numbers => Err(LineRefusal::with_value(reply::COST_WIRE_OFF, value_len)),
        _ => Ok(()),
    }
}

/// Parses `<key> <delta>`.
fn parse_arithmetic<'a>(
    direction: Direction,
    words: &Words<'a>,
) -> Result<Request<'a>, LineRefusal> {
    let key = parse_key(words)?;
    let delta = words::exact_u64(words.at(1)).ok_or(reply::BAD_DELTA)?;
    Ok(Request::Arithmetic(Arithmetic { key, direction, delta, ..Arithmetic::default() }))
}

/// Parses `<key> [0] [noreply]`. The 0 is a delay, which old clients still send. As in memcached, other delays are
/// refused.
fn parse_delete<'a>(words: &Words<'a>) -> Result<Request<'a>, LineRefusal> {
    let has_valid_words = matches!(
        (words.len, words.at(1), words.at(2)),
        (1, _, _) | (2, b"0" | b"noreply", _) | (3, b"0", b"noreply")
    );
    if !has_valid_words {
        return Err(reply::BAD_DELETE.into());
    }
    let key = parse_key(words)?;
    Ok(Request::Delete(Delete { key, ..Delete::default() }))
}

/// Parses `<key> <exptime>`.
fn parse_touch<'a>(words: &Words<'a>) -> Result<Request<'a>, LineRefusal> {
    let key = parse_key(words)?;
    let exptime = words::exact_i32(words.at(1)).ok_or(reply::BAD_EXPTIME)?;
    Ok(Request::Touch(key, Exptime::of_signed(exptime)))
}

/// Returns the first word as the key. Fails if the word is too long for a key.
fn parse_key<'a>(words: &Words<'a>) -> Result<&'a [u8], LineRefusal> {
    let key = words.at(0);
    if key.len() <= KEY_LEN_MAX { Ok(key) } else { Err(reply::BAD_FORMAT.into()) }
}

/// Parses the length of a value. Returns `None` if the length is invalid or above [`VALUE_LEN_MAX`].
fn parse_value_len(word: &[u8]) -> Option<usize> {
    let len = usize::try_from(words::exact_i32(word)?).ok()?;
    (len <= VALUE_LEN_MAX).then_some(len)
}

/// Selects the forms of storage commands that are valid (option `cost_wire`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CostWire {
    /// Only the forms of memcached are valid.
    Off,
    /// The form `set|add|replace <key> <cost> <flags> <exptime> <bytes> [noreply]` is valid, too.
    On,
}

/// The maximum length of a `VALUE` line in bytes, without the key.
const VALUE_LINE_LEN_MAX: usize = "VALUE  4294967295 2147483647 18446744073709551615\r\n".len();

/// Appends `VALUE <key> <flags> <bytes> [<cas>]\r\n`.
pub fn write_value_line(
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
        write_number(out, client_flags);
    }
    out.push(b' ');
    write_number(out, value_len);
    if let Some(cas) = cas {
        out.push(b' ');
        write_number(out, cas);
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends the reply to an incr or decr: the new number and a line end.
pub fn write_number_line(out: &mut Vec<u8>, value: u64) {
    write_number(out, value);
    out.extend_from_slice(b"\r\n");
}

/// Appends `STAT <name> <value>\r\n`.
pub fn write_stat_line(out: &mut Vec<u8>, name: impl Display, value: impl Display) {
    write!(out, "STAT {name} {value}\r\n").expect("writing to a Vec cannot fail");
}

/// Appends a key, percent-encoded as in URIs, so that the appended text contains no space.
pub fn write_percent_encoded(out: &mut Vec<u8>, key: &[u8]) {
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

/// Appends a number in decimal digits.
pub fn write_number(out: &mut Vec<u8>, value: impl itoa::Integer) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;
