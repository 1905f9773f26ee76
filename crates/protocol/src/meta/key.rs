//! Keys in base64.

use crate::fields::LIMITS;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::{Engine as _, alphabet};

/// Bytes that a decoded key needs at most: what is checked is the length on the line.
pub const KEY_BUFFER_LEN: usize = LIMITS.key_len_max / 4 * 3 + 3;

/// As memcached reads it: padded, and with any bits behind the last byte.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical),
);

/// Whether a key is in base64, and holds something.
#[cold]
pub(super) fn is_base64(wire: &[u8]) -> bool {
    let mut buffer = [0; KEY_BUFFER_LEN];
    BASE64.decode_slice(wire, &mut buffer).is_ok_and(|len| len > 0)
}

/// The bytes of a key that was sent in base64 and found good by the parser, decoded into `buffer`.
#[cold]
pub fn decode_key<'b>(wire: &[u8], buffer: &'b mut [u8; KEY_BUFFER_LEN]) -> &'b [u8] {
    let len = BASE64.decode_slice(wire, buffer).expect("it was decoded once before");
    &buffer[..len]
}

/// Appends bytes in base64.
pub(super) fn encode(out: &mut Vec<u8>, bytes: &[u8]) {
    let start = out.len();
    out.resize(start + bytes.len().div_ceil(3) * 4, 0);
    let written = BASE64.encode_slice(bytes, &mut out[start..]);
    debug_assert_eq!(written, Ok(out.len() - start));
}
