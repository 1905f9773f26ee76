//! Parses the reply to one request in place. A `get` must have one key; its reply includes the line `END`.

use memchr::memchr;

/// The maximum length of a line. A `VALUE` line has at most a key of 250 B and three numbers.
const LINE_LEN_MAX: usize = 2048;

const VALUE: &[u8] = b"VALUE ";
const AFTER_VALUE: &[u8] = b"\r\nEND\r\n";

/// The reply to one request.
#[derive(Debug, PartialEq, Eq)]
pub enum Reply<'a> {
    /// A get found its key.
    Hit {
        /// The key in the reply.
        key: &'a [u8],
        /// The value.
        value: &'a [u8],
    },
    /// A get did not find its key.
    Miss,
    /// A set stored the item.
    Stored,
    /// A delete removed the item, or did not find it.
    Deleted,
    /// An error line, for example because the item is too large or memory is full.
    Refused(&'a [u8]),
    /// A line that is not a valid reply. The rest of the stream cannot be parsed.
    Malformed(&'a [u8]),
}

/// The result of parsing received bytes.
#[derive(Debug, PartialEq, Eq)]
pub enum Parsed<'a> {
    /// A complete reply and its length in bytes.
    Reply(Reply<'a>, usize),
    /// An incomplete reply and its minimum length in bytes.
    Incomplete(usize),
}

/// Parses the reply at the start of `bytes`.
pub fn parse(bytes: &[u8]) -> Parsed<'_> {
    let Some(newline) = memchr(b'\n', bytes) else {
        if bytes.len() > LINE_LEN_MAX {
            return Parsed::Reply(Reply::Malformed(&bytes[..LINE_LEN_MAX]), LINE_LEN_MAX);
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
            None => line_reply(Reply::Malformed(line)),
        },
    }
}

/// Returns the key and the value length of `VALUE <key> <flags> <bytes>`.
fn parse_value_line(line: &[u8]) -> Option<(&[u8], usize)> {
    let rest = line.strip_prefix(VALUE)?;
    let key_len = memchr(b' ', rest)?;
    let (key, rest) = (&rest[..key_len], &rest[key_len + 1..]);
    let digits = &rest[memchr(b' ', rest)? + 1..];
    if digits.is_empty() || digits.len() > 10 {
        return None;
    }
    let value_len = digits.iter().try_fold(0, |sum, digit| {
        digit.is_ascii_digit().then(|| sum * 10 + usize::from(digit - b'0'))
    });
    Some((key, value_len?))
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
    let reply = match &bytes[value_end..reply_end] {
        AFTER_VALUE => Reply::Hit { key, value: &bytes[value_start..value_end] },
        other => Reply::Malformed(other),
    };
    Parsed::Reply(reply, reply_end)
}

#[cfg(test)]
mod tests {
    use super::{Parsed, Reply, parse};

    #[test]
    fn parses_complete_replies_and_reports_incomplete_ones() {
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
    fn reports_malformed_replies() {
        let bad: [&[u8]; 6] = [
            b"HTTP/1.1 400 Bad Request\r\n",
            b"VALUE k1 0\r\n",
            b"VALUE k1 0 -1\r\n",
            b"VALUE k1 0 99999999999\r\n",
            b"VALUE k1 0 2\r\nabcd\r\nEND\r\n",
            &[b'x'; 4096],
        ];
        for bytes in bad {
            assert!(matches!(parse(bytes), Parsed::Reply(Reply::Malformed(_), _)), "{bytes:?}");
        }
    }
}
