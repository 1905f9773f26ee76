//! The keys and values that a replay sends. A key of a workload is a number; the sent key is `k` and 16 hexadecimal
//! digits. The bytes of a value are computed from its key and length, so the replay can check the value of every hit:
//!
//! ```text
//! | 8 bytes: hash of key and length | bytes of a fixed pseudo-random ring, from a position given by the hash |
//! ```
//!
//! The first 8 bytes of two values differ if the keys or the lengths differ, except with a probability of 2^-64. Values
//! of less than 8 bytes are equal with a higher probability.

use slabwise_base::Random;
use slabwise_base::random::mix;

/// The length of every sent key in bytes.
pub const KEY_SIZE_BYTES: usize = 17;

/// Returns the bytes that the replay sends for a key.
pub fn key_bytes(key: u64) -> [u8; KEY_SIZE_BYTES] {
    let mut bytes = [b'k'; KEY_SIZE_BYTES];
    for (index, byte) in bytes[1..].iter_mut().enumerate() {
        *byte = b"0123456789abcdef"[(key >> (60 - 4 * index)) as usize & 15];
    }
    bytes
}

/// The size of the ring. The ring fits into the L2 cache of a core.
const RING_SIZE_BYTES: usize = 64 * 1024;
const HEAD_SIZE_BYTES: usize = 8;

/// Computes the values of keys.
#[derive(Debug)]
pub struct Values {
    /// Pseudo-random bytes. After its last byte, the ring continues with its first byte.
    ring: Vec<u8>,
}

impl Values {
    /// Fills the ring from a fixed seed. All replays have the same ring, so a replay can check values that another
    /// replay has stored.
    pub fn new() -> Values {
        const RING_SEED: u64 = 0x7661_6c75_6573;
        let mut random = Random::new(RING_SEED);
        let words = (0..RING_SIZE_BYTES / 8).flat_map(|_| random.next_u64().to_le_bytes());
        Values { ring: words.collect() }
    }

    /// Appends the value of `key` that has `value_len` bytes.
    pub fn append(&self, out: &mut Vec<u8>, key: u64, value_len: usize) {
        self.pieces(key, value_len, |piece| {
            out.extend_from_slice(piece);
            Match::Same
        });
    }

    /// Compares `value` with the value of `key` that has the same length.
    pub fn check(&self, key: u64, value: &[u8]) -> Match {
        let mut rest = value;
        self.pieces(key, value.len(), |piece| {
            let (front, back) = rest.split_at(piece.len());
            rest = back;
            if front == piece { Match::Same } else { Match::Differs }
        })
    }

    /// Calls `each` with one piece of the value after the other, until `each` returns [`Match::Differs`]. Returns the
    /// last result.
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

/// The result of comparing values.
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
    fn an_unchanged_value_matches() {
        let values = Values::new();
        for len in [0, 1, 7, 8, 9, 100, RING_SIZE_BYTES, 3 * RING_SIZE_BYTES + 5] {
            assert_eq!(values.check(77, &value(&values, 77, len)), Match::Same, "length {len}");
        }
    }

    #[test]
    fn the_value_of_another_key_or_length_or_with_a_changed_byte_differs() {
        let values = Values::new();
        let expected = value(&values, 77, 300);
        assert_eq!(values.check(78, &expected), Match::Differs);
        assert_eq!(values.check(77, &expected[..299]), Match::Differs);
        for at in 0..expected.len() {
            let mut changed = expected.clone();
            changed[at] ^= 1;
            assert_eq!(values.check(77, &changed), Match::Differs, "byte {at}");
        }
    }
}
