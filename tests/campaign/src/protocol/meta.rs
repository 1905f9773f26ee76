//! The meta protocol. Every request has the flags `k` and `O`, so that every reply names its request.

use super::{Decoded, append_value, describe, first_line, malformed, number};
use crate::kinds::Kind;
use crate::operation::{Operation, Outcome, Verb};
use crate::value::Values;
use std::io::Write;

/// The reply to the command after the last request of a batch.
pub(super) const END_OF_BATCH: &[u8] = b"MN\r\n";

const APPEND_OK: &str = "a buffer accepts every byte";

pub(super) fn encode(operation: &Operation, key: &[u8], values: Values, out: &mut Vec<u8>) {
    let Operation { verb, flags, ttl_seconds: ttl, len, opaque, .. } = *operation;
    let name: &[u8] = match verb {
        Verb::Get | Verb::Gets | Verb::Gat | Verb::Touch => b"mg ",
        Verb::Delete => b"md ",
        Verb::Step | Verb::StepOrCreate => b"ma ",
        Verb::Set | Verb::Add | Verb::Replace | Verb::Cas | Verb::Append | Verb::Prepend => b"ms ",
    };
    out.extend_from_slice(name);
    out.extend_from_slice(key);
    if verb.stores() {
        write!(out, " {len} F{flags} T{ttl} c").expect(APPEND_OK);
    }
    let is_down = Kind::of(operation.key) == Kind::Down;
    match verb {
        Verb::Append => write!(out, " {len} MA").expect(APPEND_OK),
        Verb::Prepend => write!(out, " {len} MP").expect(APPEND_OK),
        Verb::Step | Verb::StepOrCreate => {
            out.extend_from_slice(if is_down { b" MD v" } else { b" D1 v" });
            if verb == Verb::StepOrCreate {
                let first = Kind::of(operation.key).number(operation.version);
                write!(out, " N0 J{first}").expect(APPEND_OK);
            }
        }
        Verb::Get => out.extend_from_slice(b" v f"),
        Verb::Gets => out.extend_from_slice(b" f c v"),
        Verb::Gat => write!(out, " v T{ttl} f c").expect(APPEND_OK),
        Verb::Touch => write!(out, " T{ttl}").expect(APPEND_OK),
        Verb::Add => out.extend_from_slice(b" ME"),
        Verb::Replace => out.extend_from_slice(b" MR"),
        Verb::Cas => write!(out, " C{}", operation.cas.0).expect(APPEND_OK),
        Verb::Set | Verb::Delete => {}
    }
    write!(out, " k O{opaque}").expect(APPEND_OK);
    out.extend_from_slice(if operation.quiet { b" q\r\n" } else { b"\r\n" });
    if verb.stores() || verb.adds_part() {
        append_value(operation, values, out);
        out.extend_from_slice(b"\r\n");
    }
}

/// The flags of a reply line.
#[derive(Default)]
struct Flags<'a> {
    key: Option<&'a [u8]>,
    opaque: Option<u32>,
    client_flags: Option<u32>,
    cas: Option<u64>,
}

pub(super) fn decode<'a>(operation: &Operation, key: &[u8], bytes: &'a [u8]) -> Decoded<'a> {
    let (line, len) = match first_line(bytes) {
        Ok(line) => line,
        Err(other) => return other,
    };
    let verb = operation.verb;
    let is_get = verb.reads() || verb == Verb::Touch;
    if line.starts_with(b"SERVER_ERROR ") {
        return match operation.quiet {
            true => Decoded::Blurred(len),
            false => Decoded::Reply(Outcome::Refused(line), len),
        };
    }
    let mut words = line.split(|&byte| byte == b' ');
    let code = words.next().unwrap_or_default();
    let value_len = match code {
        b"VA" => match words.next().and_then(number::<usize>) {
            Some(len) => Some(len),
            None => return malformed("a VA line has no length", line),
        },
        _ => None,
    };
    let Some(flags) = parse_flags(words) else {
        return malformed("a reply has an invalid flag", line);
    };
    if flags.opaque != Some(operation.opaque) {
        return match operation.quiet {
            true => Decoded::Quiet(quiet_outcome(verb)),
            false => {
                Decoded::Skipped(describe("the reply has the opaque of another request", line))
            }
        };
    }
    if flags.key != Some(key) {
        return malformed("the reply has another key", line);
    }
    if let Some(value_len) = value_len {
        return decode_value(operation, &flags, value_len, len, bytes);
    }
    let outcome = match code {
        b"HD" if verb.stores() || verb.adds_part() => Outcome::Stored(flags.cas),
        b"HD" if verb == Verb::Delete => Outcome::Deleted,
        b"HD" if verb == Verb::Touch => Outcome::Touched,
        b"NS" if verb.stores() || verb.adds_part() => Outcome::NotStored,
        b"EX" if verb == Verb::Cas => Outcome::Exists,
        b"EN" if is_get => Outcome::Miss,
        b"NF" if !is_get => Outcome::Miss,
        _ => return malformed("unexpected line", line),
    };
    if operation.quiet && code == if is_get { b"EN" } else { b"HD" } {
        return malformed("a quiet request must not have this reply", line);
    }
    Decoded::Reply(outcome, len)
}

/// Returns the outcome of a quiet request without a reply.
fn quiet_outcome(verb: Verb) -> Outcome<'static> {
    match verb {
        Verb::Get | Verb::Gets | Verb::Gat | Verb::Touch => Outcome::Miss,
        Verb::Delete => Outcome::Deleted,
        _ => Outcome::Stored(None),
    }
}

fn parse_flags<'a>(words: impl Iterator<Item = &'a [u8]>) -> Option<Flags<'a>> {
    let mut flags = Flags::default();
    for word in words {
        let (letter, argument) = word.split_first()?;
        match letter {
            b'k' => flags.key = Some(argument),
            b'O' => flags.opaque = Some(number(argument)?),
            b'f' => flags.client_flags = Some(number(argument)?),
            b'c' => flags.cas = Some(number(argument)?),
            _ => return None,
        }
    }
    Some(flags)
}

fn decode_value<'a>(
    operation: &Operation,
    flags: &Flags<'_>,
    value_len: usize,
    start: usize,
    bytes: &'a [u8],
) -> Decoded<'a> {
    if !operation.verb.reads() && !operation.verb.steps() {
        return malformed("a value that was not requested", &bytes[..start]);
    }
    let end = start + value_len;
    if bytes.len() < end + 2 {
        return Decoded::Incomplete(end + 2);
    }
    if &bytes[end..end + 2] != b"\r\n" {
        return malformed("wrong bytes follow the value", &bytes[end..end + 2]);
    }
    let value = &bytes[start..end];
    if operation.verb.steps() {
        return match number(value) {
            Some(number) => Decoded::Reply(Outcome::Number(number), end + 2),
            None => malformed("invalid number", value),
        };
    }
    let has_cas = operation.verb != Verb::Get;
    if flags.client_flags.is_none() || flags.cas.is_some() != has_cas {
        return malformed("the reply does not have the requested flags", &bytes[..start]);
    }
    Decoded::Reply(Outcome::Hit { flags: flags.client_flags, cas: flags.cas, value }, end + 2)
}
