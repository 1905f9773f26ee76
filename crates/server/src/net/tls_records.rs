//! Finds the ends of TLS records in ciphertext, without decrypting them.
//!
//! ```text
//!   record: | type 1 | version 2 | length 2 | body of `length` bytes |
//!           |<------- header: 5 bytes ----->|
//! ```
//!
//! The number of records limits the work of a round: most work of TLS is done per record, and a record may be short.

/// The length of a record's header, in bytes.
const HEADER_LEN: usize = 5;

/// A position in a stream of records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RecordCursor {
    /// The received part of the current record's header.
    header: [u8; HEADER_LEN],
    /// The number of bytes of the current record, with its header, that are before the position. It is 0 at the end of
    /// a record.
    passed: usize,
}

impl RecordCursor {
    /// Returns the number of bytes of the current record that are before the position; 0 at the end of a record.
    pub fn incomplete_bytes(&self) -> usize {
        self.passed
    }

    /// Moves forward over the bytes, but at most to the end of the record after which `records_left` is 0. Subtracts the
    /// completed records from `records_left`. Returns the number of passed bytes.
    pub fn advance(&mut self, bytes: &[u8], records_left: &mut usize) -> usize {
        let mut rest = bytes;
        while *records_left > 0 && !rest.is_empty() {
            if self.passed < HEADER_LEN {
                let count = rest.len().min(HEADER_LEN - self.passed);
                self.header[self.passed..][..count].copy_from_slice(&rest[..count]);
                self.passed += count;
                rest = &rest[count..];
                if self.passed < HEADER_LEN {
                    break;
                }
            }
            let [_, _, _, high, low] = self.header;
            let record_len = HEADER_LEN + usize::from(u16::from_be_bytes([high, low]));
            let count = rest.len().min(record_len - self.passed);
            self.passed += count;
            rest = &rest[count..];
            if self.passed == record_len {
                self.passed = 0;
                *records_left -= 1;
            }
        }
        bytes.len() - rest.len()
    }
}

#[cfg(test)]
mod tests {
    use super::RecordCursor;
    use slabwise_base::Random;

    /// Returns a record with a body of this length. The body contains bytes that look like headers.
    fn record(body_len: u16) -> Vec<u8> {
        let mut bytes = vec![23, 3, 3];
        bytes.extend(body_len.to_be_bytes());
        bytes.extend([23, 3, 3, 0, 1].iter().cycle().take(body_len.into()));
        bytes
    }

    #[test]
    fn a_cursor_stops_at_the_end_of_the_last_allowed_record() {
        let (first, second) = (record(20), record(0));
        let bytes = [&first[..], &second, &record(3)].concat();
        for (allowed, expected) in [(0, 0), (1, first.len()), (2, first.len() + second.len())] {
            let (mut cursor, mut left) = (RecordCursor::default(), allowed);
            assert_eq!(cursor.advance(&bytes, &mut left), expected);
            assert_eq!((left, cursor.incomplete_bytes()), (0, 0));
        }
        let (mut cursor, mut left) = (RecordCursor::default(), 4);
        assert_eq!(cursor.advance(&bytes, &mut left), bytes.len());
        assert_eq!((left, cursor.incomplete_bytes()), (1, 0));
    }

    #[test]
    fn the_position_does_not_depend_on_how_the_bytes_are_split() {
        for seed in 0..200 {
            let mut random = Random::new(seed);
            let lengths: Vec<u16> = (0..20).map(|_| random.below(40) as u16).collect();
            let bytes: Vec<u8> = lengths.iter().flat_map(|&len| record(len)).collect();
            let (mut cursor, mut passed) = (RecordCursor::default(), 0);
            while passed < bytes.len() {
                let part_len = 1 + random.below(30) as usize;
                let part = &bytes[passed..bytes.len().min(passed + part_len)];
                let mut left = random.below(4) as usize;
                passed += cursor.advance(part, &mut left);
                let mut start_of_record = 0;
                for &len in &lengths {
                    let end = start_of_record + 5 + usize::from(len);
                    start_of_record = if end <= passed { end } else { break };
                }
                let expected = passed - start_of_record;
                assert_eq!(cursor.incomplete_bytes(), expected, "seed {seed}, {passed} bytes");
            }
        }
    }
}
