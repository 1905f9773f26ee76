//! Requests, appended to a buffer that the caller keeps.

use crate::text::compose::number;

/// Appends `get <key> ...\r\n`.
pub fn get<'a>(out: &mut Vec<u8>, keys: impl IntoIterator<Item = &'a [u8]>) {
    out.extend_from_slice(b"get");
    for key in keys {
        out.push(b' ');
        out.extend_from_slice(key);
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends a whole set: its line, the value and the value's end.
pub fn set(out: &mut Vec<u8>, key: &[u8], client_flags: u32, exptime: i32, value: &[u8]) {
    out.extend_from_slice(b"set ");
    out.extend_from_slice(key);
    out.push(b' ');
    number(out, client_flags);
    out.push(b' ');
    number(out, exptime);
    out.push(b' ');
    number(out, value.len());
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}
