//! The fixed replies of the meta protocol, including their line ends, and the codes at the start of other replies.
#![expect(missing_docs, reason = "the text of a reply is its explanation")]

pub use crate::text::reply::{
    BAD_DATA, BAD_FORMAT, NO_MEMORY, NO_MEMORY_STORING, NOT_NUMERIC, TOO_LARGE,
};

pub const NO_OP: &[u8] = b"MN\r\n";
// The reply to a `me` of a missing item.
pub const MISS: &[u8] = b"EN\r\n";

pub const CODE_DONE: &[u8] = b"HD";
pub const CODE_NOT_STORED: &[u8] = b"NS";
pub const CODE_EXISTS: &[u8] = b"EX";
pub const CODE_NOT_FOUND: &[u8] = b"NF";
// The code of an `mg` of a missing item.
pub const CODE_MISS: &[u8] = b"EN";

pub const TOO_MANY_FLAGS: &[u8] = b"CLIENT_ERROR options flags are too long\r\n";
pub const DUPLICATE_FLAG: &[u8] = b"CLIENT_ERROR duplicate flag\r\n";
pub const INVALID_FLAG: &[u8] = b"CLIENT_ERROR invalid flag\r\n";
pub const BAD_TOKEN: &[u8] = b"CLIENT_ERROR bad token in command line format\r\n";
pub const BAD_INITIAL: &[u8] = b"CLIENT_ERROR invalid numeric initial value\r\n";
pub const BAD_DELTA: &[u8] = b"CLIENT_ERROR invalid numeric delta value\r\n";
pub const BAD_KEY: &[u8] = b"CLIENT_ERROR error decoding key\r\n";
pub const OPAQUE_TOO_LONG: &[u8] = b"CLIENT_ERROR opaque token too long\r\n";
pub const BAD_ARITHMETIC_FLAG: &[u8] = b"CLIENT_ERROR invalid or duplicate flag\r\n";
pub const BAD_SET_MODE: &[u8] = b"CLIENT_ERROR invalid mode for ms M token\r\n";
pub const BAD_ARITHMETIC_MODE: &[u8] = b"CLIENT_ERROR invalid mode for ma M token\r\n";
pub const TOO_MANY_READERS: &[u8] = b"SERVER_ERROR refcount overflow during fetch\r\n";
pub const NO_MEMORY_FOR_NUMBER: &[u8] = b"SERVER_ERROR Out of memory allocating new item\r\n";
