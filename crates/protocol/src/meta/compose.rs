//! Replies of the meta protocol that are not fixed, appended to the caller's buffer.

use super::line::encode;
use crate::request::Echo;
use crate::text::number;

/// Appends `VA <len>`, the start of a reply with a value.
#[inline]
pub fn value_code(out: &mut Vec<u8>, value_len: usize) {
    out.extend_from_slice(b"VA ");
    number(out, value_len);
}

/// Appends ` <letter>`.
#[inline]
pub fn flag(out: &mut Vec<u8>, letter: u8) {
    out.extend_from_slice(&[b' ', letter]);
}

/// Appends ` <letter><number>`.
pub fn flag_number(out: &mut Vec<u8>, letter: u8, value: impl itoa::Integer) {
    flag(out, letter);
    number(out, value);
}

/// Appends ` <letter><number>`, with -1 for `None`: no expiry, or an unknown cost.
pub fn flag_optional(out: &mut Vec<u8>, letter: u8, value: Option<u32>) {
    flag_number(out, letter, value.map_or(-1, i64::from));
}

/// Appends ` k<key>`, and ` b` after a key in base64.
pub fn flag_key(out: &mut Vec<u8>, is_base64: bool, bytes: &[u8]) {
    flag(out, b'k');
    key_bytes(out, is_base64, bytes);
    if is_base64 {
        flag(out, b'b');
    }
}

/// Appends a key, in base64 or as it is; `bytes` is the decoded key.
pub fn key_bytes(out: &mut Vec<u8>, is_base64: bool, bytes: &[u8]) {
    if is_base64 {
        encode(out, bytes);
    } else {
        out.extend_from_slice(bytes);
    }
}

/// Appends ` O<token>`.
pub fn flag_opaque(out: &mut Vec<u8>, opaque: &[u8]) {
    out.push(b' ');
    out.extend_from_slice(opaque);
}

/// Appends a line without an item's data: the code and, if requested, key and opaque token.
pub fn bare_line(out: &mut Vec<u8>, code: &[u8], echo: &Echo, bytes: &[u8]) {
    out.extend_from_slice(code);
    for &letter in echo.letters() {
        match letter {
            b'O' => flag_opaque(out, echo.opaque()),
            b'k' => flag_key(out, echo.key_is_base64, bytes),
            _ => {}
        }
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends `mg <key>`, the request that gets an item. The key is in base64 if it contains spaces or control characters.
pub fn get_line(out: &mut Vec<u8>, bytes: &[u8]) {
    let is_base64 = bytes.iter().any(|&byte| byte == b' ' || byte.is_ascii_control());
    out.extend_from_slice(b"mg ");
    key_bytes(out, is_base64, bytes);
    out.extend_from_slice(if is_base64 { b" b\r\n" } else { b"\r\n" });
}

#[cfg(test)]
mod tests {
    use super::get_line;

    #[test]
    fn a_dumped_line_is_a_valid_request() {
        let mut out = Vec::new();
        get_line(&mut out, b"plain:\xc3\xa9");
        get_line(&mut out, b"foo bar");
        get_line(&mut out, b"a\n");
        assert_eq!(out, b"mg plain:\xc3\xa9\r\nmg Zm9vIGJhcg== b\r\nmg YQo= b\r\n");
    }
}
