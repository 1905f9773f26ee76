//! Parses the reply to one request, without copying its bytes. A `get` must have exactly one key; its reply ends with
//! the line `END`.

use memchr::memchr;

/// The maximum length of a line in bytes. The longest valid line is a `VALUE` line with a key of 250 bytes and three
/// numbers.
const LINE_LEN_MAX: usize = 2048;

const VALUE: &[u8] = b"VALUE ";
/// The bytes after the value of a hit.
const AFTER_VALUE: &[u8] = b"\r\nEND\r\n";

/// The reply to one request.
#[derive(Debug, PartialEq, Eq)]
pub enum Reply<'a> {
    /// The reply to a get that found an item.
    Hit {
        /// The key that the reply contains.
        key: &'a [u8],
        /// The value of the item.
        value: &'a [u8],
    },
    /// The reply to a get that found no item.
    Miss,
    /// The reply to a set that stored its item.
    Stored,
    /// The reply to a delete, whether there was an item or not.
    Deleted,
    /// A refused request: contains the line of the reply. The server refuses a request, for example, because the item
    /// is too large or memory is full.
    Refused(&'a [u8]),
    /// An invalid reply: contains its first bytes. The caller must not parse the bytes after it, because the start of
    /// the next reply is unknown.
    Malformed(&'a [u8]),
}

/// The result of parsing the reply at the start of the received bytes.
#[derive(Debug, PartialEq, Eq)]
pub enum Parsed<'a> {
    /// A complete reply, and its length in bytes.
    Reply(Reply<'a>, usize),
    /// The reply is not complete: contains a lower bound of its length in bytes.
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

/// Returns the key and the value length of a line `VALUE <key> <flags> <bytes>`.
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

/// Parses the value of a hit, which starts at `value_start`, and the line `END`.
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
    fn a_reply_is_incomplete_until_its_last_byte() {
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
                    Parsed::Incomplete(len_min) => {
                        assert!(
                            len_min > cut && len_min <= bytes.len(),
                            "a reply of {len_min} bytes"
                        )
                    }
                    other => panic!("{cut} bytes of {bytes:?} gave {other:?}"),
                }
            }
            let mut longer = bytes.to_vec();
            longer.extend_from_slice(b"END\r\n");
            assert_eq!(parse(&longer), Parsed::Reply(reply, bytes.len()));
        }
    }

    #[test]
    fn an_invalid_reply_is_malformed() {
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
