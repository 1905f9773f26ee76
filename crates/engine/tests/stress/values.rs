//! Values that contain their key and their writer, so that a wrong byte in an answer is detected.

use slabwise_base::random::mix;

const REGISTER_HEADER_BYTES: usize = 20;
pub const RECORD_BYTES: usize = 16;

/// Writes the value of a register to `out`: the key, the length, the writer, the start stamp of the write, and bytes
/// that are computed from these numbers.
pub fn compose_register(key: u32, writer: u32, begin: u64, len: usize, out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(&key.to_le_bytes());
    out.extend_from_slice(&(len as u32).to_le_bytes());
    out.extend_from_slice(&writer.to_le_bytes());
    out.extend_from_slice(&begin.to_le_bytes());
    let mut word = begin;
    while out.len() < len {
        word = mix(word.wrapping_add(u64::from(writer)));
        out.extend_from_slice(&word.to_le_bytes());
    }
    out.truncate(len.max(REGISTER_HEADER_BYTES));
}

/// Checks that `value` is one complete value of the register `key`. Returns the start stamp of the write. `scratch` is
/// a buffer for the expected value.
pub fn parse_register(key: u32, value: &[u8], scratch: &mut Vec<u8>) -> u64 {
    assert!(
        value.len() >= REGISTER_HEADER_BYTES,
        "invariant WHOLE: the value of a register has only {} B",
        value.len()
    );
    assert_eq!(word(value, 0), key, "invariant OWN-BYTES: the value belongs to another register");
    let begin = u64::from(word(value, 12)) | u64::from(word(value, 16)) << 32;
    compose_register(key, word(value, 8), begin, word(value, 4) as usize, scratch);
    assert!(
        value == scratch.as_slice(),
        "invariant WHOLE: register {key}, write {begin}: the value has wrong bytes"
    );
    begin
}

/// Returns one record of a log: the key, the writer, and the number of the record among all records of the writer.
pub fn compose_record(key: u32, writer: u32, sequence: u64) -> [u8; RECORD_BYTES] {
    let mut record = [0; RECORD_BYTES];
    record[..4].copy_from_slice(&key.to_le_bytes());
    record[4..8].copy_from_slice(&writer.to_le_bytes());
    record[8..].copy_from_slice(&sequence.to_le_bytes());
    record
}

/// Returns the last sequence number of each writer in a log; `None` for a writer without a record. Checks that the log
/// holds only complete records of the log `key`, and that the records of each writer are consecutive, because each
/// append takes effect once and in order.
pub fn parse_log<const WRITERS: usize>(key: u32, value: &[u8]) -> [Option<u64>; WRITERS] {
    let mut last = [None; WRITERS];
    let (records, rest) = value.as_chunks::<RECORD_BYTES>();
    assert!(rest.is_empty(), "invariant WHOLE: log {key} ends within a record ({} B)", value.len());
    for record in records {
        assert_eq!(word(record, 0), key, "invariant OWN-BYTES: the record belongs to another log");
        let sequence = u64::from(word(record, 8)) | u64::from(word(record, 12)) << 32;
        let before: &mut Option<u64> = &mut last[word(record, 4) as usize];
        assert!(
            before.is_none_or(|before| before + 1 == sequence),
            "invariant ONCE: log {key}, writer {}: record {sequence} follows record {before:?}",
            word(record, 4)
        );
        *before = Some(sequence);
    }
    last
}

/// Returns the number that a counter holds. It consists of the key, the life and the count. `life` is another number at
/// each creation of the counter; `count` is the number of increments since the creation.
pub fn counter(key: u32, life: u64, count: u64) -> u64 {
    u64::from(key) << 48 | life << 24 | count
}

/// Returns the key, the life and the count that a counter's number consists of.
pub fn split_counter(number: u64) -> (u32, u64, u64) {
    ((number >> 48) as u32, number >> 24 & 0xff_ffff, number & 0xff_ffff)
}

/// Returns the 32-bit word at an offset.
fn word(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}
