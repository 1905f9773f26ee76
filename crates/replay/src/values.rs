//! Keys: numbers in a workload, `k` and 16 hexadecimal digits on the wire. Value bytes follow from key and length, so that
//! every hit can be checked:
//!
//! ```text
//! | 8 bytes: mix of key and length | pieces of a fixed pseudo-random ring, from an offset by the same mix |
//! ```
//!
//! A value of another key, or one cut or padded, differs from the right one in its first bytes already (but for a chance
//! of 2^-64, more for values under 8 bytes).

use slabwise_base::Random;
use slabwise_base::random::mix;

/// The length of every key on the wire.
pub const KEY_SIZE_BYTES: usize = 17;

/// A key as it goes over the wire.
pub fn key_bytes(key: u64) -> [u8; KEY_SIZE_BYTES] {
    let mut bytes = [b'k'; KEY_SIZE_BYTES];
    for (index, byte) in bytes[1..].iter_mut().enumerate() {
        *byte = b"0123456789abcdef"[(key >> (60 - 4 * index)) as usize & 15];
    }
    bytes
}

/// Small enough to stay in a core's second-level cache.
const RING_SIZE_BYTES: usize = 64 * 1024;
const HEAD_SIZE_BYTES: usize = 8;

#[derive(Debug)]
pub struct Values {
    ring: Vec<u8>,
}

impl Values {
    /// The ring is the same in every run, so a server filled by one run can serve another.
    pub fn new() -> Values {
        const RING_SEED: u64 = 0x7661_6c75_6573;
        let mut random = Random::new(RING_SEED);
        let words = (0..RING_SIZE_BYTES / 8).flat_map(|_| random.next_u64().to_le_bytes());
        Values { ring: words.collect() }
    }

    /// Appends the value of `key` with `value_len` bytes.
    pub fn append(&self, out: &mut Vec<u8>, key: u64, value_len: usize) {
        self.pieces(key, value_len, |piece| {
            out.extend_from_slice(piece);
            Match::Same
        });
    }

    /// Whether `value` is what [`Values::append`] makes of `key` and the value's own length.
    pub fn check(&self, key: u64, value: &[u8]) -> Match {
        let mut rest = value;
        self.pieces(key, value.len(), |piece| {
            let (front, back) = rest.split_at(piece.len());
            rest = back;
            if front == piece { Match::Same } else { Match::Differs }
        })
    }

    /// Hands out the value in pieces, until one is said to differ.
    fn pieces(&self, key: u64, value_len: usize, mut each: impl FnMut(&[u8]) -> Match) -> Match {
        let head = mix(key.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ mix(value_len as u64 + 1));
        let head_len = value_len.min(HEAD_SIZE_BYTES);
        if each(&head.to_le_bytes()[..head_len]) == Match::Differs {
            return Match::Differs;
        }
        let mut left = value_len - head_len;
        let mut offset = head as usize % RING_SIZE_BYTES;
        while left > 0 {
            let piece_len = left.min(RING_SIZE_BYTES - offset);
            if each(&self.ring[offset..offset + piece_len]) == Match::Differs {
                return Match::Differs;
            }
            left -= piece_len;
            offset = 0;
        }
        Match::Same
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Match {
    Same,
    Differs,
}

#[cfg(test)]
mod tests {
    use super::{Match, RING_SIZE_BYTES, Values};

    fn value(values: &Values, key: u64, len: usize) -> Vec<u8> {
        let mut out = Vec::new();
        values.append(&mut out, key, len);
        assert_eq!(out.len(), len);
        out
    }

    #[test]
    fn a_value_is_known_again_at_every_length() {
        let values = Values::new();
        for len in [0, 1, 7, 8, 9, 100, RING_SIZE_BYTES, 3 * RING_SIZE_BYTES + 5] {
            assert_eq!(values.check(77, &value(&values, 77, len)), Match::Same, "length {len}");
        }
    }

    #[test]
    fn another_key_another_length_or_one_changed_byte_shows() {
        let values = Values::new();
        let right = value(&values, 77, 300);
        assert_eq!(values.check(78, &right), Match::Differs);
        assert_eq!(values.check(77, &right[..299]), Match::Differs);
        for at in 0..right.len() {
            let mut wrong = right.clone();
            wrong[at] ^= 1;
            assert_eq!(values.check(77, &wrong), Match::Differs, "byte {at}");
        }
    }
}
