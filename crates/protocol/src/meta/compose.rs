//! Functions that append the variable parts of replies of the meta protocol to the caller's buffer. The fixed replies
//! are in `reply`.

use super::line::encode_base64;
use crate::request::Echo;
use crate::text::write_number;

/// Appends `VA <value_len>`, the start of a reply that contains a value.
#[inline]
pub fn write_value_code(out: &mut Vec<u8>, value_len: usize) {
    out.extend_from_slice(b"VA ");
    write_number(out, value_len);
}

/// Appends ` <letter>`.
#[inline]
pub fn write_flag(out: &mut Vec<u8>, letter: u8) {
    out.extend_from_slice(&[b' ', letter]);
}

/// Appends ` <letter><number>`.
pub fn write_flag_number(out: &mut Vec<u8>, letter: u8, value: impl itoa::Integer) {
    write_flag(out, letter);
    write_number(out, value);
}

/// Appends ` <letter><number>`. For `None`, which means no expiry or an unknown cost, the number is -1.
pub fn write_flag_optional(out: &mut Vec<u8>, letter: u8, value: Option<u32>) {
    write_flag_number(out, letter, value.map_or(-1, i64::from));
}

/// Appends ` k<key>`. If `is_base64`, encodes the key in base64 and appends ` b`.
pub fn write_flag_key(out: &mut Vec<u8>, is_base64: bool, bytes: &[u8]) {
    write_flag(out, b'k');
    write_key_bytes(out, is_base64, bytes);
    if is_base64 {
        write_flag(out, b'b');
    }
}

/// Appends a key, whose decoded bytes are `bytes`. If `is_base64`, encodes the key in base64.
pub fn write_key_bytes(out: &mut Vec<u8>, is_base64: bool, bytes: &[u8]) {
    if is_base64 {
        encode_base64(out, bytes);
    } else {
        out.extend_from_slice(bytes);
    }
}

/// Appends a space and the opaque token, which includes its letter `O`.
pub fn write_flag_opaque(out: &mut Vec<u8>, opaque: &[u8]) {
    out.push(b' ');
    out.extend_from_slice(opaque);
}

/// Appends a line that contains no data of an item: the code and, if the request has the flags `k` or `O`, the key and
/// the opaque token. `bytes` is the decoded key.
pub fn write_line_without_item(out: &mut Vec<u8>, code: &[u8], echo: &Echo, bytes: &[u8]) {
    out.extend_from_slice(code);
    for &letter in echo.letters() {
        match letter {
            b'O' => write_flag_opaque(out, echo.opaque()),
            b'k' => write_flag_key(out, echo.key_is_base64, bytes),
            _ => {}
        }
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends the request line `mg <key>`. Encodes the key in base64 if it contains spaces or control characters.
pub fn write_get_line(out: &mut Vec<u8>, bytes: &[u8]) {
    let is_base64 = bytes.iter().any(|&byte| byte == b' ' || byte.is_ascii_control());
    out.extend_from_slice(b"mg ");
    write_key_bytes(out, is_base64, bytes);
    out.extend_from_slice(if is_base64 { b" b\r\n" } else { b"\r\n" });
}

#[cfg(test)]
mod tests {
    use super::write_get_line;

    #[test]
    fn a_dumped_line_is_a_valid_request() {
        let mut out = Vec::new();
        write_get_line(&mut out, b"plain:\xc3\xa9");
        write_get_line(&mut out, b"foo bar");
        write_get_line(&mut out, b"a\n");
        assert_eq!(out, b"mg plain:\xc3\xa9\r\nmg Zm9vIGJhcg== b\r\nmg YQo= b\r\n");
    }
}
