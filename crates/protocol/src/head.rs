//! What a packet of the binary protocol begins with.

/// The part of a request that every command has, and every reply repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The command's number.
    pub opcode: u8,
    /// The client's own four bytes.
    pub opaque: [u8; 4],
    /// The CAS value that the item must have; 0 if any will do.
    pub cas: u64,
    /// Whether the client wants no answer but an error, or but a hit.
    pub quiet: bool,
    /// Whether the answer to a get repeats the key.
    pub with_key: bool,
}
