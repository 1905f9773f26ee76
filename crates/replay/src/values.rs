//! The keys and values that a replay sends. A key is a number in a workload, and `k` with 16 hexadecimal digits on the
//! wire. The bytes of a value are derived from its key and length, so every hit can be checked:
//!
//! ```text
//! | 8 bytes: mix of key and length | pieces of a fixed pseudo-random ring, from an offset by the same mix |
//! ```
//!
//! The value of another key or of another length differs in the first 8 bytes, except with a probability of 2^-64 (more
//! for values of less than 8 bytes).

use slabwise_base::Random;
use slabwise_base::random::mix;

/// The length of every key on the wire.
pub const KEY_SIZE_BYTES: usize = 17;

/// Returns a key as it is sent.
pub fn key_bytes(key: u64) -> [u8; KEY_SIZE_BYTES] {
    let mut bytes = [b'k'; KEY_SIZE_BYTES];
    for (index, byte) in bytes[1..].iter_mut().enumerate() {
        *byte = b"0123456789abcdef"[(key >> (60 - 4 * index)) as usize & 15];
    }
    bytes
}

/// Fits into the L2 cache of a core.
const RING_SIZE_BYTES: usize = 64 * 1024;
const HEAD_SIZE_BYTES: usize = 8;

#[derive(Debug)]
pub struct Values {
    ring: Vec<u8>,
}

impl Values {
    /// Returns the ring, which is equal in every run, so a run can verify the values of another.
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

    /// Compares `value` with the value of `key` that has the same length.
    pub fn check(&self, key: u64, value: &[u8]) -> Match {
        let mut rest = value;
        self.pieces(key, value.len(), |piece| {
            let (front, back) = rest.split_at(piece.len());
            rest = back;
            if front == piece { Match::Same } else { Match::Differs }
        })
    }

    /// Calls `each` with the pieces of the value until one differs.
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
    fn verifies_values_of_every_length() {
        let values = Values::new();
        for len in [0, 1, 7, 8, 9, 100, RING_SIZE_BYTES, 3 * RING_SIZE_BYTES + 5] {
            assert_eq!(values.check(77, &value(&values, 77, len)), Match::Same, "length {len}");
        }
    }

    #[test]
    fn detects_another_key_another_length_and_a_changed_byte() {
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
