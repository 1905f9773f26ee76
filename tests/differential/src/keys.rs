//! The keys of all commands. There are few of them, so most commands find an item.

use slabwise_protocol::KEY_LEN_MAX;
use slabwise_protocol::meta::compose::write_key_bytes;

/// The keys. Keys distinguish the replies of different items, so no key is a part of another reply.
pub const KEYS: [&[u8]; 14] = [
    // The values of the first three keys are mostly numbers.
    b"num",
    b"count",
    b"n3",
    b"text",
    b"page:1",
    b"page:2",
    b"a",
    b"kkk",
    // Base64 of these keys has one and two padding characters.
    b"foo bar",
    KEY_WITH_LINE_END,
    b"tab\there",
    b"\xff\xfe\x80",
    &[b'L'; 250],
    &[b'M'; 187],
];

/// The number of keys at the start of [`KEYS`] whose values are mostly numbers.
pub const NUMBER_KEYS: usize = 3;

/// The key in [`KEYS`] that contains a line end.
pub const KEY_WITH_LINE_END: &[u8] = b"line\n\0end";

/// A key that rarely has an item.
pub const MISSING: &[u8] = b"missing";

/// Keys that are invalid or unusual in base64.
pub const ODD_BASE64: [&[u8]; 6] =
    [b"not*base64", b"!!", b"Zm9=", b"Zm9vIGJhcg", b"Zm9v====", b"===="];

/// The keys that base64 decoders read from `Zm9=` and from the key `text`.
const DECODED: [&[u8]; 2] = [b"fo", b"\xb5\xec\x6d"];

/// Returns all keys for which a generated command may store an item: also those of commands whose key is in base64
/// without a flag that says so, and those of commands with such a flag whose key is not in base64.
pub fn all() -> impl Iterator<Item = Vec<u8>> {
    let raw =
        KEYS.into_iter().chain([MISSING]).chain(ODD_BASE64).chain(DECODED).map(<[u8]>::to_vec);
    raw.chain(KEYS.map(base64)).filter(|key| key.len() <= KEY_LEN_MAX)
}

/// Returns the base64 of a key.
pub fn base64(key: &[u8]) -> Vec<u8> {
    let mut encoded = Vec::new();
    write_key_bytes(&mut encoded, true, key);
    encoded
}

/// True if the key can be written in a line: it has no space and no line end.
pub fn is_word(key: &[u8]) -> bool {
    !key.iter().any(|&byte| byte == b' ' || byte == b'\n' || byte == b'\r')
}
