//! Replies that are not fixed. Everything is appended to a buffer that the caller keeps.

/// The most bytes of a `VALUE` line beside its key: three numbers and the words around them.
const VALUE_LINE_LEN_MAX: usize = "VALUE  4294967295 2147483647 18446744073709551615\r\n".len();

/// Appends `VALUE <key> <flags> <bytes> [<cas>]\r\n`, with room for the value after it.
pub fn value_line(
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
        number(out, client_flags);
    }
    out.push(b' ');
    number(out, value_len);
    if let Some(cas) = cas {
        out.push(b' ');
        number(out, cas);
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends a number and the end of the line: the answer to incr and decr.
pub fn number_line(out: &mut Vec<u8>, value: u64) {
    number(out, value);
    out.extend_from_slice(b"\r\n");
}

/// Appends `STAT <name> <value>\r\n`.
pub fn stat_line(out: &mut Vec<u8>, name: &str, value: impl std::fmt::Display) {
    stat_line_of(out, format_args!("{name}"), value);
}

/// Appends `STAT <name> <value>\r\n` for a name that is put together.
pub fn stat_line_of(
    out: &mut Vec<u8>,
    name: std::fmt::Arguments<'_>,
    value: impl std::fmt::Display,
) {
    use std::io::Write;
    write!(out, "STAT {name} {value}\r\n").expect("a Vec takes every write");
}

/// Appends a key as a URI has it, so that spaces part the fields of a line.
pub fn percent_encoded(out: &mut Vec<u8>, key: &[u8]) {
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

/// Appends a number.
pub fn number(out: &mut Vec<u8>, value: impl itoa::Integer) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::{number_line, stat_line, value_line};

    #[test]
    fn value_lines_have_a_cas_only_when_asked() {
        let mut out = Vec::new();
        value_line(&mut out, b"k", 0, 5, None);
        value_line(&mut out, b"k", u32::MAX, 0, Some(u64::MAX));
        let expected = "VALUE k 0 5\r\nVALUE k 4294967295 0 18446744073709551615\r\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn numbers_and_stats_end_their_line() {
        let mut out = Vec::new();
        number_line(&mut out, 10);
        stat_line(&mut out, "pid", 7);
        assert_eq!(out, b"10\r\nSTAT pid 7\r\n");
    }
}
