//! Functions that append replies of the binary protocol to the caller's buffer.

use super::opcode;
use crate::request::{HEAD_LEN, Head, REPLY_MAGIC, Status};
use std::fmt::Display;
use std::io::Write;

/// The length in bytes of the extras of a hit. They contain the client flags.
const FLAGS_LEN: usize = 4;

/// Positions of the key length in a head.
const KEY_LEN_AT: std::ops::Range<usize> = 2..4;
/// Positions of the body length in a head.
const BODY_LEN_AT: std::ops::Range<usize> = 8..12;

/// Appends the head of the reply to `request`. `cas` is the CAS value of the item, or 0.
fn append_head(
    out: &mut Vec<u8>,
    request: &Head,
    status: Status,
    (extras_len, key_len, body_len): (u8, u16, u32),
    cas: u64,
) {
    let mut bytes = [0; HEAD_LEN];
    bytes[0] = REPLY_MAGIC;
    bytes[1] = request.opcode;
    bytes[KEY_LEN_AT].copy_from_slice(&key_len.to_be_bytes());
    bytes[4] = extras_len;
    bytes[6..8].copy_from_slice(&(status as u16).to_be_bytes());
    bytes[BODY_LEN_AT].copy_from_slice(&body_len.to_be_bytes());
    bytes[12..16].copy_from_slice(&request.opaque);
    bytes[16..24].copy_from_slice(&cas.to_be_bytes());
    out.extend_from_slice(&bytes);
}

/// Appends the reply to a successful request without a body. `cas` is the CAS value of the item, or 0.
pub fn write_success(out: &mut Vec<u8>, request: &Head, cas: u64) {
    append_head(out, request, Status::Success, (0, 0, 0), cas);
}

/// Appends a reply whose body is text.
pub fn write_text(out: &mut Vec<u8>, request: &Head, status: Status, text: &[u8]) {
    let body_len = u32::try_from(text.len()).expect("a text is shorter than 4 GiB");
    append_head(out, request, status, (0, 0, body_len), 0);
    out.extend_from_slice(text);
}

/// Appends an error whose body is the text of its status.
pub fn write_error(out: &mut Vec<u8>, request: &Head, status: Status) {
    write_text(out, request, status, status.message());
}

/// Appends a miss whose body is the key, not the text of the status.
pub fn write_miss_with_key(out: &mut Vec<u8>, request: &Head, key: &[u8]) {
    let key_len = key_len(key);
    append_head(out, request, Status::NotFound, (0, key_len, key_len.into()), 0);
    out.extend_from_slice(key);
}

/// Appends the start of a hit: head, client flags and key. The caller appends the value of `value_len` bytes.
pub fn write_hit(
    out: &mut Vec<u8>,
    request: &Head,
    client_flags: u32,
    key: &[u8],
    value_len: usize,
    cas: u64,
) {
    let body_len =
        u32::try_from(FLAGS_LEN + key.len() + value_len).expect("a value is shorter than 2 GiB");
    let lengths = (FLAGS_LEN as u8, key_len(key), body_len);
    out.reserve(HEAD_LEN + FLAGS_LEN + key.len());
    append_head(out, request, Status::Success, lengths, cas);
    out.extend_from_slice(&client_flags.to_be_bytes());
    out.extend_from_slice(key);
}

/// Appends the reply to an increment or decrement, whose body is the new number.
pub fn write_number(out: &mut Vec<u8>, request: &Head, value: u64, cas: u64) {
    append_head(out, request, Status::Success, (0, 0, size_of::<u64>() as u32), cas);
    out.extend_from_slice(&value.to_be_bytes());
}

/// Appends one statistic. The key of the reply is the name of the statistic.
pub fn write_stat(out: &mut Vec<u8>, opaque: [u8; 4], name: impl Display, value: impl Display) {
    write_stat_with(out, opaque, name, |out| {
        write!(out, "{value}").expect("writing to a Vec cannot fail");
    });
}

/// Appends one statistic. `write_value` must append the value.
pub fn write_stat_with(
    out: &mut Vec<u8>,
    opaque: [u8; 4],
    name: impl Display,
    write_value: impl FnOnce(&mut Vec<u8>),
) {
    let start = out.len();
    write_stats_end(out, opaque);
    let name_start = out.len();
    write!(out, "{name}").expect("writing to a Vec cannot fail");
    let name_len = u16::try_from(out.len() - name_start)
        .expect("the name of a statistic is shorter than 64 KiB");
    write_value(out);
    let body_len =
        u32::try_from(out.len() - name_start).expect("a statistic is shorter than 4 GiB");
    let reply = &mut out[start..];
    reply[KEY_LEN_AT].copy_from_slice(&name_len.to_be_bytes());
    reply[BODY_LEN_AT].copy_from_slice(&body_len.to_be_bytes());
}

/// Appends the reply that ends a list of statistics: a statistic without name and value.
pub fn write_stats_end(out: &mut Vec<u8>, opaque: [u8; 4]) {
    write_success(out, &stats_head(opaque), 0);
}

/// Appends the error for a `stat` request with an unknown subject.
pub fn write_stats_refused(out: &mut Vec<u8>, opaque: [u8; 4]) {
    write_error(out, &stats_head(opaque), Status::NotFound);
}

/// Returns the head of a `stat` request.
fn stats_head(opaque: [u8; 4]) -> Head {
    Head { opcode: opcode::STAT, opaque, cas: 0, quiet: false, with_key: false }
}

/// Returns the length of a key as the number in a head. Panics if the key is longer than 64 KiB.
fn key_len(key: &[u8]) -> u16 {
    u16::try_from(key.len()).expect("the parser has refused keys of more than 250 bytes")
}

#[cfg(test)]
mod tests {
    use super::{
        write_error, write_hit, write_miss_with_key, write_number, write_stat, write_stats_end,
        write_success, write_text,
    };
    use crate::binary::{Head, Status, opcode};

    const HEAD: Head =
        Head { opcode: 0x0d, opaque: *b"opaq", cas: 77, quiet: true, with_key: true };

    fn reply(compose: impl Fn(&mut Vec<u8>)) -> Vec<u8> {
        let mut out = b"before".to_vec();
        compose(&mut out);
        out.split_off("before".len())
    }

    #[test]
    fn the_head_of_a_hit_includes_the_length_of_its_value() {
        let expected = b"\x81\x0d\0\x01\x04\0\0\0\0\0\0\x0aopaq\0\0\0\0\0\0\0\x09\xde\xad\xbe\xefk";
        assert_eq!(reply(|out| write_hit(out, &HEAD, 0xdead_beef, b"k", 5, 9)), expected);
        let expected = b"\x81\x0d\0\0\x04\0\0\0\0\0\0\x09opaq\0\0\0\0\0\0\0\x09\0\0\0\0";
        assert_eq!(reply(|out| write_hit(out, &HEAD, 0, b"", 5, 9)), expected);
    }

    #[test]
    fn an_error_has_a_text_and_no_cas_value() {
        let expected = b"\x81\x0d\0\0\0\0\0\x01\0\0\0\x09opaq\0\0\0\0\0\0\0\0Not found";
        assert_eq!(reply(|out| write_error(out, &HEAD, Status::NotFound)), expected);
        let expected = b"\x81\x0d\0\x02\0\0\0\x01\0\0\0\x02opaq\0\0\0\0\0\0\0\0ab";
        assert_eq!(reply(|out| write_miss_with_key(out, &HEAD, b"ab")), expected);
    }

    #[test]
    fn a_success_has_a_cas_value_and_a_number_has_eight_bytes() {
        let expected = b"\x81\x0d\0\0\0\0\0\0\0\0\0\0opaq\0\0\0\0\0\0\x01\0";
        assert_eq!(reply(|out| write_success(out, &HEAD, 256)), expected);
        let expected = b"\x81\x0d\0\0\0\0\0\0\0\0\0\x08opaq\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x02";
        assert_eq!(reply(|out| write_number(out, &HEAD, 2, 1)), expected);
        let expected = b"\x81\x0d\0\0\0\0\0\x21\0\0\0\x02opaq\0\0\0\0\0\0\0\0hi";
        assert_eq!(reply(|out| write_text(out, &HEAD, Status::AuthContinue, b"hi")), expected);
    }

    #[test]
    fn the_key_of_a_statistic_is_its_name() {
        let expected = b"\x81\x10\0\x03\0\0\0\0\0\0\0\x05opaq\0\0\0\0\0\0\0\0pid42";
        assert_eq!(reply(|out| write_stat(out, *b"opaq", "pid", 42)), expected);
        let end = reply(|out| write_stats_end(out, *b"opaq"));
        assert_eq!(end[..2], [0x81, opcode::STAT]);
        assert_eq!(end[2..12], [0; 10]);
    }
}
