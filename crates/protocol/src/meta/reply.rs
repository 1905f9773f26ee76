//! Every fixed answer of the meta protocol, end of line included, and the codes that others begin with.

pub use crate::text::reply::{
    BAD_DATA, BAD_FORMAT, NO_MEMORY, NO_MEMORY_STORING, NOT_NUMERIC, TOO_LARGE,
};

/// `mn`.
pub const NO_OP: &[u8] = b"MN\r\n";
/// `me` of what is not there.
pub const MISS: &[u8] = b"EN\r\n";

/// Done; of `mg`, without the value.
pub const CODE_DONE: &[u8] = b"HD";
/// Not stored.
pub const CODE_NOT_STORED: &[u8] = b"NS";
/// The item has another CAS value.
pub const CODE_EXISTS: &[u8] = b"EX";
/// There is no such item.
pub const CODE_NOT_FOUND: &[u8] = b"NF";
/// The same, of `mg`.
pub const CODE_MISS: &[u8] = b"EN";

/// More words than there are flags.
pub const TOO_MANY_FLAGS: &[u8] = b"CLIENT_ERROR options flags are too long\r\n";
/// A flag twice.
pub const DUPLICATE_FLAG: &[u8] = b"CLIENT_ERROR duplicate flag\r\n";
/// A flag that is none.
pub const INVALID_FLAG: &[u8] = b"CLIENT_ERROR invalid flag\r\n";
/// A flag whose token is no number.
pub const BAD_TOKEN: &[u8] = b"CLIENT_ERROR bad token in command line format\r\n";
/// `J` without a number.
pub const BAD_INITIAL: &[u8] = b"CLIENT_ERROR invalid numeric initial value\r\n";
/// `D` without a number.
pub const BAD_DELTA: &[u8] = b"CLIENT_ERROR invalid numeric delta value\r\n";
/// `b` with a key that is not in base64.
pub const BAD_KEY: &[u8] = b"CLIENT_ERROR error decoding key\r\n";
/// `O` with more than fits.
pub const OPAQUE_TOO_LONG: &[u8] = b"CLIENT_ERROR opaque token too long\r\n";
/// `ma` with any flag that is wrong.
pub const BAD_ARITHMETIC_FLAG: &[u8] = b"CLIENT_ERROR invalid or duplicate flag\r\n";
/// `ms M?`.
pub const BAD_SET_MODE: &[u8] = b"CLIENT_ERROR invalid mode for ms M token\r\n";
/// `ma M?`.
pub const BAD_ARITHMETIC_MODE: &[u8] = b"CLIENT_ERROR invalid mode for ma M token\r\n";
/// Too many clients are being sent the value already.
pub const TOO_MANY_READERS: &[u8] = b"SERVER_ERROR refcount overflow during fetch\r\n";
/// No memory for a number that `ma` was to make.
pub const NO_MEMORY_FOR_NUMBER: &[u8] = b"SERVER_ERROR Out of memory allocating new item\r\n";
