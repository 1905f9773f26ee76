//! Parses the authentication of the text protocol: a client sends `set <any key> <any> <any> <length>` with the value
//! `user password`. Authentication has the form of a `set` so that a client without special support can authenticate.
//!
//! ```text
//!   set k 0 0 10\r\n         the server ignores the key and the two numbers after it
//!   ana secret\r\n           the user, a space, and the password
//! ```
//!
//! Any other input is refused line by line, and the value of another command is parsed as lines, too. The limits, the
//! texts and the conditions for closing the connection are memcached's. The parser has no state: the caller parses
//! incomplete input again from its start when more bytes have arrived.

use super::reply;
use crate::words::Words;

/// The maximum length of `user password` in bytes. This limit bounds the memory that the server uses for a client
/// before authentication.
const TOKEN_LEN_MAX: usize = 16_384;
/// The maximum length of a line in bytes, without `\n`. A longer line closes the connection.
const LINE_LEN_MAX: usize = 2_048;
/// The minimum length of a line in bytes, without `\n`. A shorter line closes the connection.
const LINE_LEN_MIN: usize = 6;
/// The minimum number of bytes that are parsed. The parser waits for this number, so that a line end alone does not
/// close the connection.
const INPUT_LEN_MIN: usize = 3;
/// The bytes after a value.
const VALUE_END: &[u8] = b"\r\n";

/// The result of parsing a login at the start of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Login<'a> {
    /// The end of the login has not arrived yet.
    Incomplete,
    /// The line is too short or too long for a login. The caller must close the connection.
    Hangup,
    /// The line is not a valid login.
    Refused {
        /// The error line to send.
        reply: &'static [u8],
        /// The number of input bytes that the parser has consumed.
        consumed: usize,
    },
    /// A user and a password, which the caller must check.
    Credentials {
        /// The part of the value before the first space.
        user: &'a [u8],
        /// The part of the value after the first space. It may contain spaces.
        password: &'a [u8],
        /// The number of input bytes that the parser has consumed.
        consumed: usize,
    },
}

/// Parses one login or one refused line at the start of `input`. The client has not authenticated yet.
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
    let Some(token_len) = parse_token_len(line) else {
        return Login::Refused { reply: reply::UNAUTHENTICATED, consumed };
    };
    if token_len > TOKEN_LEN_MAX {
        return Login::Refused { reply: reply::AUTH_TOKEN_TOO_LONG, consumed };
    }
    let value_len = token_len + VALUE_END.len();
    match input[consumed..].get(..value_len) {
        Some(value) => split_credentials(value, consumed + value_len),
        None => Login::Incomplete,
    }
}

/// Returns the length of the value of a `set`. Returns `None` if the line does not start with `set`, or has no valid
/// length. As in memcached, a longer command that starts with `set` is accepted, and words after the length are
/// ignored.
fn parse_token_len(line: &[u8]) -> Option<usize> {
    if !line.starts_with(b"set") {
        return None;
    }
    let digits = Words::of(line).at(4);
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    str::from_utf8(digits).ok()?.parse::<u32>().ok()?.try_into().ok()
}

/// Splits a value `user password` with its end.
fn split_credentials(value: &[u8], consumed: usize) -> Login<'_> {
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
            panic!("{:?} gave {:?}", String::from_utf8_lossy(input), parse(input));
        };
        assert_eq!(String::from_utf8_lossy(given), format!("CLIENT_ERROR {reply}\r\n"));
        assert_eq!(&input[consumed..], rest);
    }

    #[test]
    fn the_value_of_a_set_is_user_and_password() {
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
        assert_eq!(
            parse(&long_line),
            Login::Hangup,
            "a line that is too long closes the connection even if it arrives at once"
        );
    }

    /// Returns the number of input bytes consumed, or `None` if the login is incomplete. Closing the connection
    /// consumes the whole input.
    fn consumed_of(input: &[u8]) -> Option<usize> {
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
            let first = (0..=input.len()).find(|&len| consumed_of(&input[..len]).is_some());
            let Some(first) = first else { continue };
            let consumed = consumed_of(&input[..first]);
            assert!(consumed <= Some(first), "seed {seed}: {consumed:?} of {first} bytes");
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
