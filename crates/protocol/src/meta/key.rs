//! A key as it stands on the line: itself, or in base64.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use crate::LIMITS;

/// Bytes that a decoded key needs at most: what is checked is the length on the line.
pub const KEY_BUFFER_LEN: usize = LIMITS.key_len_max / 4 * 3 + 3;

/// As memcached reads it: padded, and with any bits behind the last byte.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical),
);

/// A key as a client sent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key<'a> {
    wire: &'a [u8],
    is_base64: bool,
}

impl<'a> Key<'a> {
    /// A key of these bytes.
    pub fn plain(bytes: &'a [u8]) -> Key<'a> {
        Key { wire: bytes, is_base64: false }
    }

    /// A key in base64; `None` if it is not, or holds nothing.
    #[cold]
    pub(super) fn base64(wire: &'a [u8]) -> Option<Key<'a>> {
        let mut buffer = [0; KEY_BUFFER_LEN];
        let len = BASE64.decode_slice(wire, &mut buffer).ok()?;
        (len > 0).then_some(Key { wire, is_base64: true })
    }

    /// Whether it was sent in base64, and so is told in base64.
    #[inline]
    pub fn is_base64(self) -> bool {
        self.is_base64
    }

    /// What was sent.
    #[inline]
    pub fn wire(self) -> &'a [u8] {
        self.wire
    }

    /// Its bytes, decoded into `buffer` if it was sent in base64.
    #[cold]
    pub fn decode(self, buffer: &mut [u8; KEY_BUFFER_LEN]) -> &[u8] {
        let len = BASE64.decode_slice(self.wire, buffer).expect("it was decoded once before");
        &buffer[..len]
    }
}

/// Appends bytes in base64.
pub(super) fn encode(out: &mut Vec<u8>, bytes: &[u8]) {
    let start = out.len();
    out.resize(start + bytes.len().div_ceil(3) * 4, 0);
    let written = BASE64.encode_slice(bytes, &mut out[start..]);
    debug_assert_eq!(written, Ok(out.len() - start));
}
