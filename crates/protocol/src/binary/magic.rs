//! What packets begin with.

/// What every request begins with.
pub const REQUEST_MAGIC: u8 = 0x80;
/// What every reply begins with.
pub const REPLY_MAGIC: u8 = 0x81;
/// Bytes of a request before its extras, and of a reply.
pub const HEAD_LEN: usize = 24;
