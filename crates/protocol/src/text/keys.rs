//! The keys of a retrieval, one by one.

use crate::LIMITS;

/// What comes next on a retrieval's line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextKey<'a> {
    /// A key.
    Key {
        /// Its bytes, 1 to 250 of them.
        key: &'a [u8],
        /// Bytes of the input up to its end.
        consumed: usize,
    },
    /// The end of the line.
    End {
        /// Bytes of the input up to and with the end of the line.
        consumed: usize,
    },
    /// Perhaps a key, but its end is not in sight.
    Incomplete {
        /// Spaces before it, which can be forgotten.
        consumed: usize,
    },
    /// A key that is too long. The rest of its line means nothing.
    TooLong,
}

/// Reads the next key of a retrieval.
pub fn next_key(input: &[u8]) -> NextKey<'_> {
    let start = input.iter().position(|&byte| byte != b' ').unwrap_or(input.len());
    let rest = &input[start..];
    let Some(end) = memchr::memchr2(b' ', b'\n', rest) else {
        // The last byte may be the `\r` of the line's end.
        return match rest.len() {
            len if len > LIMITS.key_len_max + 1 => NextKey::TooLong,
            _ => NextKey::Incomplete { consumed: start },
        };
    };
    let mut key = &rest[..end];
    if rest[end] == b'\n' {
        key = key.strip_suffix(b"\r").unwrap_or(key);
        if key.is_empty() {
            return NextKey::End { consumed: start + end + 1 };
        }
    }
    if key.len() > LIMITS.key_len_max {
        return NextKey::TooLong;
    }
    NextKey::Key { key, consumed: start + key.len() }
}

/// The key of a retrieval that has one, and the length of its line; `None` if there are several, or if the end
/// of the line is not in sight.
#[inline]
pub fn sole_key(input: &[u8]) -> Option<(&[u8], usize)> {
    let NextKey::Key { key, consumed } = next_key(input) else { return None };
    match &input[consumed..] {
        [b'\r', b'\n', ..] => Some((key, consumed + 2)),
        [b'\n', ..] => Some((key, consumed + 1)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{NextKey, next_key, sole_key};

    #[test]
    fn a_sole_key_ends_with_its_line() {
        assert_eq!(sole_key(b" a\r\nget b"), Some((&b"a"[..], 4)));
        assert_eq!(sole_key(b" a\n"), Some((&b"a"[..], 3)));
        for several in [&b" a b\r\n"[..], b" a \r\n", b" a", b" a\r", b"\r\n", b""] {
            assert_eq!(sole_key(several), None, "{}", several.escape_ascii());
        }
    }

    #[test]
    fn reads_keys_up_to_the_end_of_the_line() {
        assert_eq!(next_key(b"  a b\r\n"), NextKey::Key { key: b"a", consumed: 3 });
        assert_eq!(next_key(b" b\r\nget"), NextKey::Key { key: b"b", consumed: 2 });
        assert_eq!(next_key(b"\r\nget"), NextKey::End { consumed: 2 });
        assert_eq!(next_key(b" \nget"), NextKey::End { consumed: 2 });
        assert_eq!(next_key(b"a\rb \n"), NextKey::Key { key: b"a\rb", consumed: 3 });
    }

    #[test]
    fn waits_for_the_end_of_a_key() {
        assert_eq!(next_key(b""), NextKey::Incomplete { consumed: 0 });
        assert_eq!(next_key(b"   ab"), NextKey::Incomplete { consumed: 3 });
        assert_eq!(next_key(b"ab\r"), NextKey::Incomplete { consumed: 0 });
    }

    #[test]
    fn gives_up_on_a_key_of_251_bytes() {
        let longest = [b'k'; 250];
        let line = [&longest[..], b"\r\n"].concat();
        assert_eq!(next_key(&line), NextKey::Key { key: &longest, consumed: 250 });
        assert_eq!(next_key(&[b'k'; 251]), NextKey::Incomplete { consumed: 0 });
        assert_eq!(next_key(&[b'k'; 252]), NextKey::TooLong);
        assert_eq!(next_key(&[&[b'k'; 251][..], b" "].concat()), NextKey::TooLong);
    }
}
