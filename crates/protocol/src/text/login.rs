//! ASCII authentication: a client sends `set <any key> <any> <any> <length>` with the value `user password`. It has the
//! form of a `set` so that clients without support for authentication can send it.
//!
//! ```text
//!   set k 0 0 10\r\n         the key and the two numbers are ignored
//!   ana secret\r\n           the user, a space, and the password
//! ```
//!
//! Everything else is refused line by line; a value is parsed as lines, too. Limits, texts and the conditions for
//! closing the connection are memcached's. The parser has no state: incomplete input is parsed again from its start.

use super::reply;
use crate::words::Words;

/// The maximum length of `user password`. It bounds the memory of a client that is not authenticated.
const TOKEN_LEN_MAX: usize = 16_384;
/// The maximum length of a line; a longer one closes the connection.
const LINE_LEN_MAX: usize = 2_048;
/// The minimum length of a line; a shorter one closes the connection.
const LINE_LEN_MIN: usize = 6;
/// The parser waits for this number of bytes, so that a line end alone does not close the connection.
const INPUT_LEN_MIN: usize = 3;
const VALUE_END: &[u8] = b"\r\n";

/// The result of parsing the start of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Login<'a> {
    /// The login is not complete yet.
    Incomplete,
    /// The client does not use this protocol: close the connection.
    Hangup,
    /// The line is not a valid login.
    Refused {
        /// The error to send.
        reply: &'static [u8],
        /// The number of input bytes consumed.
        consumed: usize,
    },
    /// A user and a password to be checked.
    Credentials {
        /// The value up to the first space.
        user: &'a [u8],
        /// The value after the first space, which may contain spaces.
        password: &'a [u8],
        /// The number of input bytes consumed.
        consumed: usize,
    },
}

/// Parses input from a client that has not authenticated yet.
pub fn parse(input: &[u8]) -> Login<'_> {
    let Some(newline) = memchr::memchr(b'\n', input) else {
        let is_too_long = input.len() > LINE_LEN_MAX;
        return if is_too_long { Login::Hangup } else { Login::Incomplete };
    };
    if input.len() < INPUT_LEN_MIN {
        return Login::Incomplete;
    }
    if !(LINE_LEN_MIN..=LINE_LEN_MAX).contains(&newline) {
        return Login::Hangup;
    }
    let line = input[..newline].strip_suffix(b"\r").unwrap_or(&input[..newline]);
    let consumed = newline + 1;
    let Some(token_len) = token_len(line) else {
        return Login::Refused { reply: reply::UNAUTHENTICATED, consumed };
    };
    if token_len > TOKEN_LEN_MAX {
        return Login::Refused { reply: reply::AUTH_TOKEN_TOO_LONG, consumed };
    }
    let value_len = token_len + VALUE_END.len();
    match input[consumed..].get(..value_len) {
        Some(value) => credentials(value, consumed + value_len),
        None => Login::Incomplete,
    }
}

/// Returns the length of the value of a `set`, or `None` for another line. Only the first three letters of the command
/// are checked, and words after the length are ignored.
fn token_len(line: &[u8]) -> Option<usize> {
    if !line.starts_with(b"set") {
        return None;
    }
    let digits = Words::of(line).at(4);
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    str::from_utf8(digits).ok()?.parse::<u32>().ok()?.try_into().ok()
}

fn credentials(value: &[u8], consumed: usize) -> Login<'_> {
    let Some(token) = value.strip_suffix(VALUE_END) else {
        return Login::Refused { reply: reply::AUTH_BAD_TERMINATION, consumed };
    };
    match memchr::memchr(b' ', token) {
        Some(space) => {
            Login::Credentials { user: &token[..space], password: &token[space + 1..], consumed }
        }
        None => Login::Refused { reply: reply::AUTH_BAD_FORMAT, consumed },
    }
}

#[cfg(test)]
mod tests {
    use super::{Login, parse};
    use slabwise_base::Random;

    #[track_caller]
    fn check_refused(input: &[u8], reply: &str, rest: &[u8]) {
        let Login::Refused { reply: given, consumed } = parse(input) else {
            panic!("{:?} is {:?}", String::from_utf8_lossy(input), parse(input));
        };
        assert_eq!(String::from_utf8_lossy(given), format!("CLIENT_ERROR {reply}\r\n"));
        assert_eq!(&input[consumed..], rest);
    }

    #[test]
    fn a_set_has_user_and_password() {
        for line in [
            "set k 0 0 7\r\n",
            "set k 0 0 7\n",
            "settle a b c 7 d e f g h\r\n",
            "set  k 0  0 07\r\n",
        ] {
            let input = [line.as_bytes(), b"foo bar\r\nget a\r\n"].concat();
            let consumed = line.len() + 9;
            assert_eq!(
                parse(&input),
                Login::Credentials { user: b"foo", password: b"bar", consumed }
            );
            for len in 0..consumed {
                assert_eq!(parse(&input[..len]), Login::Incomplete, "{len} bytes of {line:?}");
            }
        }
        let spaces = parse(b"set k 0 0 5\r\na b c\r\n");
        assert_eq!(spaces, Login::Credentials { user: b"a", password: b"b c", consumed: 20 });
        let nothing = parse(b"set k 0 0 1\r\n \r\n");
        assert_eq!(nothing, Login::Credentials { user: b"", password: b"", consumed: 16 });
        let with_line_end = parse(b"set k 0 0 5\r\na \r\nb\r\n");
        assert_eq!(
            with_line_end,
            Login::Credentials { user: b"a", password: b"\r\nb", consumed: 20 }
        );
    }

    #[test]
    fn anything_else_is_refused_line_by_line() {
        for line in [
            "get foo",
            "mg foo v",
            "add k 0 0 7",
            " set k 0 0 7",
            "SET k 0 0 7",
            "set k 0 0",
            "set k 0 0 -1",
            "set k 0 0 +1",
            "set k 0 0 4294967296",
            "set k 0 0 x",
        ] {
            check_refused(
                format!("{line}\r\nfoo bar\r\n").as_bytes(),
                "unauthenticated",
                b"foo bar\r\n",
            );
        }
        for len in ["16385", "2147483646", "4294967295"] {
            check_refused(
                format!("set k 0 0 {len}\r\nfoo").as_bytes(),
                "auth token too long",
                b"foo",
            );
        }
        check_refused(b"set k 0 0 2\r\nhi\r\n.", "bad authentication token format", b".");
        check_refused(b"set k 0 0 0\r\n\r\n", "bad authentication token format", b"");
        check_refused(b"set k 0 0 6\r\nfoo bar\r\n", "bad command line termination", b"\n");
    }

    #[test]
    fn lines_that_are_too_short_or_too_long_close_the_connection() {
        assert_eq!(parse(b"quit\r\n"), Login::Hangup);
        assert_eq!(parse(b"\r\n"), Login::Incomplete);
        assert_eq!(parse(b"\r\n\r"), Login::Hangup);
        assert_eq!(parse(&[b'x'; 2_048]), Login::Incomplete);
        assert_eq!(parse(&[b'x'; 2_049]), Login::Hangup);
        assert_eq!(parse(&[0x80; 2_049]), Login::Hangup);
        let long_line = [&b"set k 0 0 7"[..], &[b' '; 2_039], b"\nfoo bar\r\n"].concat();
        assert_eq!(parse(&long_line), Login::Hangup, "even if it arrives at once");
    }

    /// Returns the number of input bytes consumed, or `None` if more are needed.
    fn done(input: &[u8]) -> Option<usize> {
        match parse(input) {
            Login::Incomplete => None,
            Login::Hangup => Some(input.len()),
            Login::Refused { consumed, .. } | Login::Credentials { consumed, .. } => Some(consumed),
        }
    }

    #[test]
    fn more_input_does_not_change_a_result() {
        const WORDS: [&[u8]; 10] = [
            b"set ",
            b"k ",
            b"0 ",
            b"7",
            b"7\r\n",
            b"\n",
            b"\r\n",
            b"a b",
            b"foo bar\r\n",
            b"\0\xff",
        ];
        for seed in 0..5_000 {
            let mut random = Random::new(seed);
            let words = (0..random.below(12)).map(|_| WORDS[random.below(10) as usize]);
            let input = words.collect::<Vec<_>>().concat();
            let first = (0..=input.len()).find(|&len| done(&input[..len]).is_some());
            let Some(first) = first else { continue };
            assert!(done(&input[..first]) <= Some(first), "seed {seed}");
            let at_first = parse(&input[..first]);
            let at_last = parse(&input);
            assert_eq!(at_first, at_last, "seed {seed}: {:?}", input.escape_ascii().to_string());
        }
    }

    #[test]
    fn the_longest_token_is_incomplete_until_its_end() {
        let input = [&b"set k 0 0 16384\r\n"[..], &[b'x'; 16_385]].concat();
        assert_eq!(parse(&input), Login::Incomplete);
    }
}
