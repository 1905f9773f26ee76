//! Values that describe themselves.
//!
//! ```text
//!   bytes   0..4      4..8                8..12   12..16   16..
//!           version   check of all four   key     length   pseudo-random bytes of (key, version, length)
//! ```
//!
//! A value of [`Kind::Parts`] is a sequence of such parts; the highest bits of the version name the side of a part. A
//! value of [`Kind::Up`] or [`Kind::Down`] is a decimal number, which names its version. So the bytes of a reply show to
//! which key and version they belong, and whether they are complete. A value of fewer than [`HEAD_LEN`] bytes has only
//! the pseudo-random bytes, and is compared with the versions of its key instead.

use crate::kinds::Kind;
use slabwise_base::random::mix;

/// The bits of the version that mark an appended and a prepended part.
const APPENDED: u32 = 1 << 31;
const PREPENDED: u32 = 1 << 30;
/// The largest length of a part of [`Kind::Parts`], in bytes.
const PART_LEN_MAX: u32 = 200;

/// The length of the part that names key, version and length.
pub const HEAD_LEN: usize = 16;

/// What the bytes of a value say about themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// The complete value of this version of the key.
    Version(u32),
    /// The number of this version, changed by this number of steps.
    Number {
        /// The version.
        version: u32,
        /// The number of steps.
        steps: u64,
    },
    /// The parts of a value.
    Parts {
        /// The version, which is named by the part of the store.
        version: u32,
        /// The numbers of the parts before it, in the order of the value.
        prepended: Vec<u32>,
        /// The numbers of the parts after it, in the order of the value.
        appended: Vec<u32>,
    },
    /// The value is too short to name its version.
    Short,
    /// The value names another key, or another length than it has.
    Foreign {
        /// The number of the key that the value names.
        key: u32,
        /// The version that the value names.
        version: u32,
        /// The length that the value names.
        len: u32,
    },
    /// The value names this version of the key, but from this offset on has other bytes.
    Torn {
        /// The version that the value names.
        version: u32,
        /// The offset of the first group of eight bytes with a wrong byte.
        offset: usize,
    },
    /// The value has no valid head.
    Garbage,
}

/// Makes values, and reads them. `salt` differs between campaigns, so that values of an earlier one are not valid.
#[derive(Clone, Copy, Debug)]
pub struct Values {
    salt: u64,
}

impl Values {
    /// Returns the values of a campaign.
    pub fn new(seed: u64) -> Values {
        Values { salt: mix(seed ^ 0x7661_6c75_6573) }
    }

    fn state(self, key: u32, version: u32, len: u32) -> u64 {
        let id = u64::from(key) << 32 | u64::from(version);
        mix(mix(self.salt ^ id).wrapping_add(u64::from(len)))
    }

    /// Returns the length of the value of this version, if a client would like to store `len` bytes.
    pub fn len(self, key: u32, version: u32, len: u32) -> u32 {
        match Kind::of(key) {
            Kind::Whole => len,
            Kind::Parts => len.clamp(HEAD_LEN as u32, PART_LEN_MAX),
            kind => kind.number(version).to_string().len() as u32,
        }
    }

    /// Appends the value of this version of the key. Its length must be that of [`Values::len`].
    pub fn append(self, key: u32, version: u32, len: u32, out: &mut Vec<u8>) {
        match Kind::of(key) {
            kind if kind.is_number() => {
                out.extend_from_slice(kind.number(version).to_string().as_bytes());
            }
            _ => self.append_bytes(key, version, len, out),
        }
    }

    /// Appends a part that is added at the end or at the start of a value.
    pub fn append_part(self, key: u32, id: u32, at_end: bool, len: u32, out: &mut Vec<u8>) {
        let mark = if at_end { APPENDED } else { PREPENDED };
        self.append_bytes(key, id | mark, len, out);
    }

    /// Appends bytes that describe themselves.
    fn append_bytes(self, key: u32, version: u32, len: u32, out: &mut Vec<u8>) {
        let state = self.state(key, version, len);
        let start = out.len();
        let end = start + len as usize;
        out.reserve(len as usize + 8);
        if len as usize >= HEAD_LEN {
            out.extend_from_slice(&version.to_le_bytes());
            out.extend_from_slice(&(state as u32).to_le_bytes());
            out.extend_from_slice(&key.to_le_bytes());
            out.extend_from_slice(&len.to_le_bytes());
        }
        let mut index = 0;
        while out.len() < end {
            out.extend_from_slice(&group(state, index));
            index += 1;
        }
        out.truncate(end);
    }

    /// Returns what the bytes say about themselves, if they are read as a value of `key`.
    pub fn read(self, key: u32, bytes: &[u8]) -> Content {
        match Kind::of(key) {
            Kind::Whole => self.read_bytes(key, bytes),
            Kind::Parts => self.read_parts(key, bytes),
            kind => read_number(kind, bytes),
        }
    }

    /// Reads a sequence of parts.
    fn read_parts(self, key: u32, mut bytes: &[u8]) -> Content {
        let (mut version, mut prepended, mut appended) = (None, Vec::new(), Vec::new());
        while !bytes.is_empty() {
            let named_len = bytes.get(12..HEAD_LEN).and_then(|word| word.first_chunk());
            let len = named_len.map_or(bytes.len(), |word| u32::from_le_bytes(*word) as usize);
            let (part, rest) = bytes.split_at(len.clamp(1, bytes.len()));
            let id = match self.read_bytes(key, part) {
                Content::Version(id) => id,
                other => return other,
            };
            bytes = rest;
            match (id & (APPENDED | PREPENDED), version) {
                (0, None) => version = Some(id),
                (PREPENDED, None) => prepended.push(id & !PREPENDED),
                (APPENDED, Some(_)) => appended.push(id & !APPENDED),
                _ => return Content::Garbage,
            }
        }
        match version {
            Some(version) => Content::Parts { version, prepended, appended },
            None => Content::Garbage,
        }
    }

    /// Reads bytes that describe themselves.
    fn read_bytes(self, key: u32, bytes: &[u8]) -> Content {
        let Some((head, body)) = bytes.split_at_checked(HEAD_LEN) else { return Content::Short };
        let word =
            |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (version, check, named_key, len) = (word(0), word(4), word(8), word(12));
        let state = self.state(named_key, version, len);
        if state as u32 != check {
            return Content::Garbage;
        }
        if named_key != key || len as usize != bytes.len() {
            return Content::Foreign { key: named_key, version, len };
        }
        for (index, piece) in body.chunks(8).enumerate() {
            if piece != &group(state, index as u64)[..piece.len()] {
                return Content::Torn { version, offset: HEAD_LEN + 8 * index };
            }
        }
        Content::Version(version)
    }

    /// True if the bytes are the value of this version of the key.
    pub fn is(self, key: u32, version: u32, bytes: &[u8]) -> bool {
        let mut expected = Vec::new();
        self.append(key, version, bytes.len() as u32, &mut expected);
        expected == bytes
    }

    /// Returns the client flags of this version of the key.
    pub fn flags(self, key: u32, version: u32) -> u32 {
        self.state(key, version, u32::MAX) as u32
    }
}

/// Reads a decimal number. A decrement keeps the length of the value, and fills it with spaces.
fn read_number(kind: Kind, bytes: &[u8]) -> Content {
    let digits = std::str::from_utf8(bytes).unwrap_or_default().trim_end_matches(' ');
    match digits.parse().ok().and_then(|number| kind.read_number(number)) {
        Some((version, steps)) => Content::Number { version, steps },
        None => Content::Garbage,
    }
}

/// Returns eight pseudo-random bytes.
fn group(state: u64, index: u64) -> [u8; 8] {
    let word = state.wrapping_add(index.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    (word ^ (word >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::{Content, HEAD_LEN, Values};

    fn value(key: u32, version: u32, len: u32) -> Vec<u8> {
        let mut bytes = Vec::new();
        Values::new(1).append(key, version, len, &mut bytes);
        bytes
    }

    #[test]
    fn a_value_names_its_version() {
        for len in [0, 1, 7, 8, 15, 16, 17, 31, 1000] {
            let bytes = value(7, 3, len);
            assert_eq!(bytes.len(), len as usize);
            assert!(Values::new(1).is(7, 3, &bytes));
            let expected = if len < HEAD_LEN as u32 { Content::Short } else { Content::Version(3) };
            assert_eq!(Values::new(1).read(7, &bytes), expected);
        }
    }

    #[test]
    fn every_wrong_byte_is_noticed() {
        for index in 0..100 {
            let mut bytes = value(7, 3, 100);
            bytes[index] ^= 1;
            assert_ne!(Values::new(1).read(7, &bytes), Content::Version(3), "byte {index}");
        }
    }

    #[test]
    fn parts_and_numbers_name_their_version() {
        let (values, key) = (Values::new(1), 8);
        let mut bytes = Vec::new();
        values.append_part(key, 4, false, 20, &mut bytes);
        values.append(key, 3, 40, &mut bytes);
        values.append_part(key, 5, true, 16, &mut bytes);
        let expected = Content::Parts { version: 3, prepended: vec![4], appended: vec![5] };
        assert_eq!(values.read(key, &bytes), expected);
        assert_eq!(values.read(key, &bytes[..20]), Content::Garbage, "no part of a store");
        bytes[70] ^= 1;
        assert!(!matches!(values.read(key, &bytes), Content::Parts { .. }));

        let mut number = Vec::new();
        values.append(5, 3, 0, &mut number);
        assert_eq!(values.read(5, &number), Content::Number { version: 3, steps: 0 });
        number.extend_from_slice(b"  ");
        assert_eq!(values.read(5, &number), Content::Number { version: 3, steps: 0 });
        assert_eq!(values.read(5, b"x"), Content::Garbage);
    }

    #[test]
    fn a_value_of_another_key_or_with_the_tail_of_another_version_is_noticed() {
        let foreign = Content::Foreign { key: 8, version: 3, len: 100 };
        assert_eq!(Values::new(1).read(7, &value(8, 3, 100)), foreign);
        let mut torn = value(7, 3, 100);
        torn[64..].copy_from_slice(&value(7, 4, 100)[64..]);
        assert_eq!(Values::new(1).read(7, &torn), Content::Torn { version: 3, offset: 64 });
        let cut = &value(7, 3, 100)[..99];
        assert!(matches!(Values::new(1).read(7, cut), Content::Foreign { len: 100, .. }));
        assert_eq!(Values::new(1).read(7, &[b'x'; 40]), Content::Garbage);
    }
}
