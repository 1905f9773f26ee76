//! The client's side of memcached's text protocol, as far as a look-aside replay needs it: one-key
//! gets, sets and deletes out, their replies in.
//!
//! Keys are numbers on the inside and `k` with 16 hexadecimal digits on the wire. No call allocates
//! once the buffers have grown.

use crate::key::key_bytes;
use memchr::memchr;
use slabwise_base::Cost;

/// How a store tells what its value costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum CostForm {
    /// By a word of the set's line, which slabwise takes with `-o cost_wire`.
    Wire,
    /// By slabwise's flag of the meta protocol.
    Meta,
    /// Not at all.
    None,
}

/// The longest line that a server may send: a `VALUE` line has at most a 250 B key and three numbers.
const LINE_LEN_MAX: usize = 2048;

const VALUE: &[u8] = b"VALUE ";
const AFTER_VALUE: &[u8] = b"\r\nEND\r\n";

/// Appends a get of one key.
pub fn compose_get(out: &mut Vec<u8>, key: u64) {
    compose(out, b"get ", key);
    out.extend_from_slice(b"\r\n");
}

/// Appends a delete.
pub fn compose_delete(out: &mut Vec<u8>, key: u64) {
    compose(out, b"delete ", key);
    out.extend_from_slice(b"\r\n");
}

/// Appends all of a set but the value: the caller appends `value_len` bytes and [`compose_set_end`].
pub fn compose_set_start(out: &mut Vec<u8>, key: u64, value_len: u32) {
    compose(out, b"set ", key);
    out.extend_from_slice(b" 0 0 ");
    number(out, value_len);
    out.extend_from_slice(b"\r\n");
}

/// The same, telling what the value costs.
pub fn compose_priced_set_start(
    out: &mut Vec<u8>,
    key: u64,
    value_len: u32,
    cost: Cost,
    form: CostForm,
) {
    match form {
        CostForm::None => return compose_set_start(out, key, value_len),
        CostForm::Wire => {
            compose(out, b"set ", key);
            out.push(b' ');
            number(out, cost.units());
            out.extend_from_slice(b" 0 0 ");
            number(out, value_len);
        }
        CostForm::Meta => {
            compose(out, b"ms ", key);
            out.push(b' ');
            number(out, value_len);
            out.extend_from_slice(b" G");
            number(out, cost.units());
        }
    }
    out.extend_from_slice(b"\r\n");
}

fn number(out: &mut Vec<u8>, number: u32) {
    let mut digits = [0; 10];
    let mut start = digits.len();
    let mut rest = number;
    loop {
        start -= 1;
        digits[start] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[start..]);
}

/// Ends a set after its value.
pub fn compose_set_end(out: &mut Vec<u8>) {
    out.extend_from_slice(b"\r\n");
}

fn compose(out: &mut Vec<u8>, command: &[u8], key: u64) {
    out.extend_from_slice(command);
    out.extend_from_slice(&key_bytes(key));
}

/// What a server answered to one request.
#[derive(Debug, PartialEq, Eq)]
pub enum Reply<'a> {
    /// A get found its key.
    Hit {
        /// The key as the server sent it.
        key: &'a [u8],
        /// The value's bytes.
        value: &'a [u8],
    },
    /// A get did not find its key.
    Miss,
    /// A set was stored.
    Stored,
    /// A delete was done, or had nothing to do.
    Deleted,
    /// The server would not do it (too large, out of memory); its line says why.
    Refused(&'a [u8]),
}

/// What the bytes received so far begin with.
#[derive(Debug, PartialEq, Eq)]
pub enum Parsed<'a> {
    /// A whole reply and the bytes it took.
    Reply(Reply<'a>, usize),
    /// Not a whole reply yet; it takes at least this many bytes in all.
    Incomplete(usize),
    /// No reply of this protocol; the line that shows it.
    Malformed(&'a [u8]),
}

/// Parses the reply that `bytes` begin with.
pub fn parse(bytes: &[u8]) -> Parsed<'_> {
    let Some(newline) = memchr(b'\n', bytes) else {
        if bytes.len() > LINE_LEN_MAX {
            return Parsed::Malformed(&bytes[..LINE_LEN_MAX]);
        }
        return Parsed::Incomplete(bytes.len() + 1);
    };
    let line = bytes[..newline].strip_suffix(b"\r").unwrap_or(&bytes[..newline]);
    let line_reply = |reply| Parsed::Reply(reply, newline + 1);
    match line {
        b"END" => line_reply(Reply::Miss),
        b"STORED" | b"HD" => line_reply(Reply::Stored),
        b"DELETED" | b"NOT_FOUND" => line_reply(Reply::Deleted),
        b"NOT_STORED" => line_reply(Reply::Refused(line)),
        _ if line.starts_with(b"SERVER_ERROR") => line_reply(Reply::Refused(line)),
        _ => match parse_value_line(line) {
            Some((key, value_len)) => parse_value(bytes, newline + 1, key, value_len),
            None => Parsed::Malformed(line),
        },
    }
}

/// The key and the value length of `VALUE <key> <flags> <bytes>`.
fn parse_value_line(line: &[u8]) -> Option<(&[u8], usize)> {
    let rest = line.strip_prefix(VALUE)?;
    let key_len = memchr(b' ', rest)?;
    let (key, rest) = (&rest[..key_len], &rest[key_len + 1..]);
    let digits = &rest[memchr(b' ', rest)? + 1..];
    if digits.is_empty() || digits.len() > 10 {
        return None;
    }
    let mut value_len = 0;
    for &digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        value_len = value_len * 10 + usize::from(digit - b'0');
    }
    Some((key, value_len))
}

fn parse_value<'a>(
    bytes: &'a [u8],
    value_start: usize,
    key: &'a [u8],
    value_len: usize,
) -> Parsed<'a> {
    let value_end = value_start + value_len;
    let reply_end = value_end + AFTER_VALUE.len();
    if bytes.len() < reply_end {
        return Parsed::Incomplete(reply_end);
    }
    if &bytes[value_end..reply_end] != AFTER_VALUE {
        return Parsed::Malformed(&bytes[value_end..reply_end]);
    }
    Parsed::Reply(Reply::Hit { key, value: &bytes[value_start..value_end] }, reply_end)
}

#[cfg(test)]
mod tests {
    use super::{CostForm, Parsed, Reply, compose_delete, compose_get, compose_priced_set_start};
    use super::{compose_set_end, compose_set_start, key_bytes, parse};
    use slabwise_base::Cost;

    #[test]
    fn requests_are_lines_of_the_protocol() {
        let mut out = Vec::new();
        compose_get(&mut out, 0x1f);
        compose_set_start(&mut out, u64::MAX, 0);
        compose_set_end(&mut out);
        compose_set_start(&mut out, 0, u32::MAX);
        compose_delete(&mut out, 1 << 60);
        let lines = "get k000000000000001f\r\nset kffffffffffffffff 0 0 0\r\n\r\n\
                     set k0000000000000000 0 0 4294967295\r\ndelete k1000000000000000\r\n";
        assert_eq!(String::from_utf8_lossy(&out), lines);
        assert_eq!(&key_bytes(0xabc), b"k0000000000000abc");
    }

    #[test]
    fn a_set_tells_its_cost_in_any_form() {
        for (form, line) in [
            (CostForm::Wire, "set k000000000000000a 450 0 0 7\r\n"),
            (CostForm::Meta, "ms k000000000000000a 7 G450\r\n"),
            (CostForm::None, "set k000000000000000a 0 0 7\r\n"),
        ] {
            let mut out = Vec::new();
            compose_priced_set_start(&mut out, 10, 7, Cost::from_units(450), form);
            assert_eq!(String::from_utf8_lossy(&out), line);
        }
    }

    #[test]
    fn every_reply_parses_and_every_part_of_one_is_incomplete() {
        let hit = Reply::Hit { key: b"k1", value: b"a\r\nEND\r\nb" };
        let replies: [(&[u8], Reply); 8] = [
            (b"VALUE k1 7 9\r\na\r\nEND\r\nb\r\nEND\r\n", hit),
            (b"VALUE k1 0 0\r\n\r\nEND\r\n", Reply::Hit { key: b"k1", value: b"" }),
            (b"END\r\n", Reply::Miss),
            (b"STORED\r\n", Reply::Stored),
            (b"HD\r\n", Reply::Stored),
            (b"DELETED\r\n", Reply::Deleted),
            (b"NOT_FOUND\r\n", Reply::Deleted),
            (b"SERVER_ERROR no room\r\n", Reply::Refused(b"SERVER_ERROR no room")),
        ];
        for (bytes, reply) in replies {
            for cut in 0..bytes.len() {
                match parse(&bytes[..cut]) {
                    Parsed::Incomplete(needed) => assert!(needed > cut && needed <= bytes.len()),
                    other => panic!("{cut} bytes of {bytes:?} gave {other:?}"),
                }
            }
            let mut longer = bytes.to_vec();
            longer.extend_from_slice(b"END\r\n");
            assert_eq!(parse(&longer), Parsed::Reply(reply, bytes.len()));
        }
    }

    #[test]
    fn what_is_no_reply_is_told_apart() {
        let bad: [&[u8]; 6] = [
            b"HTTP/1.1 400 Bad Request\r\n",
            b"VALUE k1 0\r\n",
            b"VALUE k1 0 -1\r\n",
            b"VALUE k1 0 99999999999\r\n",
            b"VALUE k1 0 2\r\nabcd\r\nEND\r\n",
            &[b'x'; 4096],
        ];
        for bytes in bad {
            assert!(matches!(parse(bytes), Parsed::Malformed(_)), "{bytes:?}");
        }
    }
}
