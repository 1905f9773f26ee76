//! How long things on the wire may be, in one place.

use slabwise_base::{ClassId, KEY_SIZE_BYTES_MAX};

/// The protocol's limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most bytes of a key.
    pub key_len_max: usize,
    /// How much of a line is waited for before its end must be in sight. Only the keys of a
    /// retrieval may go on beyond it.
    pub line_len_max: usize,
    /// The largest value that a storage command may announce, in bytes. memcached counts in 32 bits
    /// with a sign, and the value's `\r\n` is part of the count.
    pub value_len_max: usize,
    /// The largest body that a request of the binary protocol may announce, in bytes.
    pub body_len_max: usize,
    /// Class numbers on the wire are below this.
    pub class_number_max: u32,
}

/// memcached's limits, which its clients know.
pub const LIMITS: Limits = Limits {
    key_len_max: KEY_SIZE_BYTES_MAX,
    line_len_max: 2048,
    value_len_max: i32::MAX as usize - 2,
    body_len_max: 1 << 30,
    class_number_max: ClassId::COUNT_MAX as u32 + 1,
};
