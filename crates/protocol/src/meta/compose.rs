//! Replies that are not fixed. Everything is appended to a buffer that the caller keeps.

use super::line::encode;
use crate::echo::Echo;
use crate::text::number;
use slabwise_base::Cost;

/// What a value begins with: `VA <len>`.
#[inline]
pub fn value_code(out: &mut Vec<u8>, value_len: usize) {
    out.extend_from_slice(b"VA ");
    number(out, value_len);
}

/// ` <letter>`.
#[inline]
pub fn flag(out: &mut Vec<u8>, letter: u8) {
    out.extend_from_slice(&[b' ', letter]);
}

/// ` <letter><number>`.
pub fn flag_number(out: &mut Vec<u8>, letter: u8, value: impl itoa::Integer) {
    flag(out, letter);
    number(out, value);
}

/// ` t<seconds>`; -1 for an item that does not end.
pub fn flag_ttl(out: &mut Vec<u8>, ttl_seconds: Option<u32>) {
    match ttl_seconds {
        Some(seconds) => flag_number(out, b't', seconds),
        None => out.extend_from_slice(b" t-1"),
    }
}

/// ` g<units>`; -1 for an item whose cost nobody has told.
pub fn flag_cost(out: &mut Vec<u8>, cost: Option<Cost>) {
    match cost {
        Some(cost) => flag_number(out, b'g', cost.units()),
        None => out.extend_from_slice(b" g-1"),
    }
}

/// ` k<key>`, and ` b` behind a key that is told in base64; `bytes` is the key decoded.
pub fn flag_key(out: &mut Vec<u8>, is_base64: bool, bytes: &[u8]) {
    flag(out, b'k');
    key_bytes(out, is_base64, bytes);
    if is_base64 {
        flag(out, b'b');
    }
}

/// A key in the form that it was asked for in.
fn key_bytes(out: &mut Vec<u8>, is_base64: bool, bytes: &[u8]) {
    if is_base64 {
        encode(out, bytes);
    } else {
        out.extend_from_slice(bytes);
    }
}

/// ` O<token>`.
pub fn flag_opaque(out: &mut Vec<u8>, opaque: &[u8]) {
    out.push(b' ');
    out.extend_from_slice(opaque);
}

/// A whole line that says nothing of an item: the code, the key and the opaque token as asked for.
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

/// `mg <key>`: the request that gets an item. Its key is in base64 if it could not stand on a line.
pub fn get_line(out: &mut Vec<u8>, bytes: &[u8]) {
    let is_base64 = bytes.iter().any(|&byte| byte == b' ' || byte.is_ascii_control());
    out.extend_from_slice(b"mg ");
    key_bytes(out, is_base64, bytes);
    out.extend_from_slice(if is_base64 { b" b\r\n" } else { b"\r\n" });
}

/// What `me` tells of an item.
#[derive(Clone, Copy, Debug)]
pub struct DebugLine {
    /// Seconds until it ends.
    pub ttl_seconds: Option<u32>,
    /// Seconds since it was last used.
    pub idle_seconds: u32,
    /// Its CAS value.
    pub cas: u64,
    /// Whether it was ever hit.
    pub fetched: bool,
    /// Its class's number on the wire.
    pub class_number: u32,
    /// Bytes that it takes.
    pub size_bytes: u64,
}

/// `ME <key> <name>=<value>*`.
pub fn debug_line(out: &mut Vec<u8>, is_base64: bool, bytes: &[u8], item: &DebugLine) {
    use std::io::Write;
    out.extend_from_slice(b"ME ");
    key_bytes(out, is_base64, bytes);
    let DebugLine { ttl_seconds, idle_seconds, cas, class_number, size_bytes, .. } = item;
    let exp = ttl_seconds.map_or(-1, i64::from);
    let fetch = if item.fetched { "yes" } else { "no" };
    write!(
        out,
        " exp={exp} la={idle_seconds} cas={cas} fetch={fetch} cls={class_number} size={size_bytes}\r\n"
    )
    .expect("a Vec takes every write");
}

#[cfg(test)]
mod tests {
    use super::get_line;

    #[test]
    fn a_dumped_key_can_be_sent_as_it_stands() {
        let mut out = Vec::new();
        get_line(&mut out, b"plain:\xc3\xa9");
        get_line(&mut out, b"foo bar");
        get_line(&mut out, b"a\n");
        assert_eq!(out, b"mg plain:\xc3\xa9\r\nmg Zm9vIGJhcg== b\r\nmg YQo= b\r\n");
    }
}
