//! The classic text protocol.

use super::{Decoded, append_value, first_line, malformed, number};
use crate::kinds::Kind;
use crate::operation::{Operation, Outcome, Verb};
use crate::value::Values;
use std::io::Write;

const APPEND_OK: &str = "a buffer accepts every byte";

pub(super) fn encode(operation: &Operation, key: &[u8], values: Values, out: &mut Vec<u8>) {
    let Operation { verb, flags, ttl_seconds: ttl, len, .. } = *operation;
    if !operation.place.begins_line() {
        out.push(b' ');
        out.extend_from_slice(key);
        if operation.place.ends_line() {
            out.extend_from_slice(b"\r\n");
        }
        return;
    }
    let noreply: &[u8] = if operation.quiet { b" noreply\r\n" } else { b"\r\n" };
    out.extend_from_slice(match (verb, Kind::of(operation.key)) {
        (Verb::Step | Verb::StepOrCreate, Kind::Down) => b"decr",
        (Verb::Step | Verb::StepOrCreate, _) => b"incr",
        _ => verb.name().as_bytes(),
    });
    if verb == Verb::Gat {
        out.extend_from_slice(if asks_for_cas(operation) { b"s" } else { b"" });
        write!(out, " {ttl}").expect(APPEND_OK);
    }
    out.push(b' ');
    out.extend_from_slice(key);
    match verb {
        Verb::Get | Verb::Gets | Verb::Gat if operation.place.ends_line() => {}
        Verb::Get | Verb::Gets | Verb::Gat => return,
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
    // The server sends nothing for a missing key before the last one of a line.
    if !operation.place.ends_line() && !is_hit_of(key, line) {
        return match line == b"END" || line.starts_with(b"VALUE ") {
            true => Decoded::Quiet(Outcome::Miss),
            false => malformed("unexpected line in the reply for several keys", line),
        };
    }
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
            let after: &[u8] = if operation.place.ends_line() { b"\r\nEND\r\n" } else { b"\r\n" };
            return decode_value(key, asks_for_cas(operation), line, len, after, bytes);
        }
        _ => return malformed("unexpected line", line),
    };
    if (line == b"END") != (outcome == Outcome::Miss && operation.verb.reads()) {
        return malformed("the line belongs to another command", line);
    }
    Decoded::Reply(outcome, len)
}

/// True if the line starts the reply for an item with this key.
fn is_hit_of(key: &[u8], line: &[u8]) -> bool {
    let rest = line.strip_prefix(b"VALUE ").and_then(|rest| rest.strip_prefix(key));
    rest.is_some_and(|rest| rest.starts_with(b" "))
}

/// True if the command is gets or gats. Half of the requests that change the expiry are gats.
fn asks_for_cas(operation: &Operation) -> bool {
    match operation.verb {
        Verb::Gat => !operation.opaque.is_multiple_of(2),
        verb => verb == Verb::Gets,
    }
}

/// Parses a reply that starts with the line `VALUE KEY FLAGS LENGTH [CAS]`, and in which the bytes `after` follow the
/// value.
fn decode_value<'a>(
    key: &[u8],
    has_cas: bool,
    line: &[u8],
    start: usize,
    after: &[u8],
    bytes: &'a [u8],
) -> Decoded<'a> {
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
    if cas.is_some() != has_cas {
        return malformed("only the replies to gets and gats have a CAS value", line);
    }
    let end = start + value_len;
    if bytes.len() < end + after.len() {
        return Decoded::Incomplete(end + after.len());
    }
    if &bytes[end..end + after.len()] != after {
        return malformed("wrong bytes follow the value", &bytes[end..end + after.len()]);
    }
    let value = &bytes[start..end];
    Decoded::Reply(Outcome::Hit { flags: Some(flags), cas, value }, end + after.len())
}

#[cfg(test)]
mod tests {
    use super::{decode, encode};
    use crate::operation::{Operation, Outcome, Place, Verb};
    use crate::protocol::Decoded;
    use crate::value::Values;

    fn get(place: Place) -> Operation {
        Operation {
            verb: Verb::Get,
            key: 1,
            version: 0,
            len: 0,
            flags: 0,
            ttl_seconds: 0,
            cas: (0, 0),
            quiet: false,
            opaque: 0,
            place,
        }
    }

    #[test]
    fn only_gets_and_gats_have_a_cas_value() {
        let alone = get(Place::Alone);
        let gat = Operation { verb: Verb::Gat, ..alone };
        let cases = [
            (alone, false),
            (Operation { verb: Verb::Gets, ..alone }, true),
            (gat, false),
            (Operation { opaque: 1, ..gat }, true),
        ];
        for (operation, has_cas) in cases {
            let decoded = |bytes| decode(&operation, b"a", bytes);
            let with = decoded(b"VALUE a 7 1 9\r\nx\r\nEND\r\n");
            let without = decoded(b"VALUE a 7 1\r\nx\r\nEND\r\n");
            assert_eq!(matches!(with, Decoded::Reply(..)), has_cas, "{operation:?}");
            assert_eq!(matches!(without, Decoded::Reply(..)), !has_cas, "{operation:?}");
        }
    }

    #[test]
    fn the_reply_for_several_keys_leaves_out_missing_ones() {
        let keys = [("a", Place::First), ("ab", Place::Middle), ("c", Place::Last)];
        let mut line = Vec::new();
        for (key, place) in keys {
            encode(&get(place), key.as_bytes(), Values::new(1), &mut line);
        }
        assert_eq!(line, b"get a ab c\r\n");
        let hit =
            |value, len| Decoded::Reply(Outcome::Hit { flags: Some(7), cas: None, value }, len);
        let decoded = |index: usize, bytes: &'static [u8]| {
            let (key, place): (&str, Place) = keys[index];
            decode(&get(place), key.as_bytes(), bytes)
        };
        let miss = Decoded::Quiet(Outcome::Miss);
        assert_eq!(decoded(0, b"VALUE ab 7 1\r\nx\r\nEND\r\n"), miss);
        assert_eq!(decoded(1, b"VALUE ab 7 1\r\nx\r\nEND\r\n"), hit(b"x", 17));
        assert_eq!(decoded(2, b"END\r\n"), Decoded::Reply(Outcome::Miss, 5));
        assert_eq!(decoded(1, b"END\r\n"), miss);
        assert_eq!(decoded(2, b"VALUE c 7 1\r\nx\r\nEND\r\n"), hit(b"x", 21));
        assert!(matches!(decoded(2, b"VALUE ab 7 1\r\nx\r\nEND\r\n"), Decoded::Malformed(_)));
        assert!(matches!(decoded(0, b"STORED\r\n"), Decoded::Malformed(_)));
        assert!(matches!(decoded(1, b"VALUE ab 7 1\r\nx"), Decoded::Incomplete(_)));
    }
}
