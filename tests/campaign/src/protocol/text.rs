//! The classic text protocol.

use super::{Decoded, append_value, first_line, malformed, number};
use crate::kinds::Kind;
use crate::operation::{Operation, Outcome, Verb};
use crate::value::Values;
use std::io::Write;

const APPEND_OK: &str = "a buffer accepts every byte";

pub(super) fn encode(operation: &Operation, key: &[u8], values: Values, out: &mut Vec<u8>) {
    let Operation { verb, flags, ttl_seconds: ttl, len, .. } = *operation;
    let noreply: &[u8] = if operation.quiet { b" noreply\r\n" } else { b"\r\n" };
    out.extend_from_slice(match (verb, Kind::of(operation.key)) {
        (Verb::Step | Verb::StepOrCreate, Kind::Down) => b"decr",
        (Verb::Step | Verb::StepOrCreate, _) => b"incr",
        _ => verb.name().as_bytes(),
    });
    if verb == Verb::Gat {
        // Half of the requests also ask for the CAS value.
        out.extend_from_slice(if operation.opaque.is_multiple_of(2) { b"" } else { b"s" });
        write!(out, " {ttl}").expect(APPEND_OK);
    }
    out.push(b' ');
    out.extend_from_slice(key);
    match verb {
        Verb::Get | Verb::Gets | Verb::Gat => return out.extend_from_slice(b"\r\n"),
        Verb::Touch => write!(out, " {ttl}").expect(APPEND_OK),
        Verb::Delete => {}
        Verb::Step | Verb::StepOrCreate => out.extend_from_slice(b" 1"),
        Verb::Set | Verb::Add | Verb::Replace | Verb::Cas | Verb::Append | Verb::Prepend => {
            write!(out, " {flags} {ttl} {len}").expect(APPEND_OK);
            if verb == Verb::Cas {
                write!(out, " {}", operation.cas.0).expect(APPEND_OK);
            }
            out.extend_from_slice(noreply);
            append_value(operation, values, out);
            return out.extend_from_slice(b"\r\n");
        }
    }
    out.extend_from_slice(noreply);
}

pub(super) fn decode<'a>(operation: &Operation, key: &[u8], bytes: &'a [u8]) -> Decoded<'a> {
    if operation.quiet {
        // The server sends nothing, so any byte belongs to a later reply.
        return match bytes.is_empty() {
            true => Decoded::Incomplete(1),
            false => Decoded::Quiet(Outcome::Silent),
        };
    }
    let (line, len) = match first_line(bytes) {
        Ok(line) => line,
        Err(other) => return other,
    };
    let outcome = match line {
        b"STORED" => Outcome::Stored(None),
        b"NOT_STORED" => Outcome::NotStored,
        b"EXISTS" => Outcome::Exists,
        b"NOT_FOUND" | b"END" => Outcome::Miss,
        b"DELETED" => Outcome::Deleted,
        b"TOUCHED" => Outcome::Touched,
        _ if line.starts_with(b"SERVER_ERROR ") => Outcome::Refused(line),
        _ if operation.verb.steps() && line.first().is_some_and(u8::is_ascii_digit) => {
            // A decrement that makes a number shorter keeps the length of the value, but not that of the reply.
            match number(line) {
                Some(number) => Outcome::Number(number),
                None => return malformed("invalid number", line),
            }
        }
        _ if line.starts_with(b"VALUE ") && operation.verb.reads() => {
            return decode_value(key, line, len, bytes);
        }
        _ => return malformed("unexpected line", line),
    };
    if (line == b"END") != (outcome == Outcome::Miss && operation.verb.reads()) {
        return malformed("the line belongs to another command", line);
    }
    Decoded::Reply(outcome, len)
}

/// Parses a reply that starts with the line `VALUE KEY FLAGS LENGTH [CAS]`.
fn decode_value<'a>(key: &[u8], line: &[u8], start: usize, bytes: &'a [u8]) -> Decoded<'a> {
    const AFTER: &[u8] = b"\r\nEND\r\n";
    let words: Vec<&[u8]> = line.split(|&byte| byte == b' ').collect();
    let (named_key, flags, value_len, cas) = match words[..] {
        [_, named, flags, len] => (named, number(flags), number::<usize>(len), Some(None)),
        [_, named, flags, len, cas] => (named, number(flags), number(len), number(cas).map(Some)),
        _ => return malformed("a VALUE line has the wrong number of words", line),
    };
    let (Some(flags), Some(value_len), Some(cas)) = (flags, value_len, cas) else {
        return malformed("a VALUE line has an invalid number", line);
    };
    if named_key != key {
        return malformed("the reply has another key", line);
    }
    let end = start + value_len;
    if bytes.len() < end + AFTER.len() {
        return Decoded::Incomplete(end + AFTER.len());
    }
    if &bytes[end..end + AFTER.len()] != AFTER {
        return malformed("wrong bytes follow the value", &bytes[end..end + AFTER.len()]);
    }
    let value = &bytes[start..end];
    Decoded::Reply(Outcome::Hit { flags: Some(flags), cas, value }, end + AFTER.len())
}
