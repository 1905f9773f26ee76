//! Values that describe themselves.
//!
//! ```text
//!   bytes   0..4      4..8                8..12   12..16   16..
//!           version   check of all four   key     length   pseudo-random bytes of (key, version, length)
//! ```
//!
//! So the bytes of a reply show to which key and version they belong, and whether they are complete. A value of fewer
//! than [`HEAD_LEN`] bytes has only the pseudo-random bytes, and is compared with the versions of its key instead.

use slabwise_base::random::mix;

/// The length of the part that names key, version and length.
pub const HEAD_LEN: usize = 16;

/// What the bytes of a value say about themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// The complete value of this version of the key.
    Version(u32),
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

    /// Appends the value of this version of the key.
    pub fn append(self, key: u32, version: u32, len: u32, out: &mut Vec<u8>) {
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
