//! The keys of all commands. There are few of them, so most commands find an item.

/// The keys. Replies of different items are told apart by their keys, so no key is a part of another reply.
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
    b"line\n\0end",
    b"tab\there",
    b"\xff\xfe\x80",
    &[b'L'; 250],
    &[b'M'; 187],
];

/// The number of keys at the start of [`KEYS`] whose values are mostly numbers.
pub const NUMBER_KEYS: usize = 3;

/// A key that rarely has an item.
pub const MISSING: &[u8] = b"missing";

/// True if the key can be written in a line: it has no space and no line end.
pub fn is_word(key: &[u8]) -> bool {
    !key.iter().any(|&byte| byte == b' ' || byte == b'\n' || byte == b'\r')
}
