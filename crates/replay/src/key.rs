//! Keys: numbers in a workload, `k` and 16 hexadecimal digits on the wire.

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
