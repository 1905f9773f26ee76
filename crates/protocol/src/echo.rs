//! What a request of the meta protocol wants to be answered.

/// The most flags of a request; memcached counts 20 words with command and key.
pub const FLAG_COUNT_MAX: usize = 18;

/// The most bytes of an opaque token with its letter.
pub const OPAQUE_LEN_MAX: usize = 32;

/// The flags of a request in order, and what else its reply depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Echo {
    /// A bit for each letter.
    seen: u64,
    /// The key came in base64, and so is answered in base64.
    pub key_is_base64: bool,
    /// The value is left out where it has this CAS value.
    pub unless_cas: Option<u64>,
    letters: [u8; FLAG_COUNT_MAX],
    len: u8,
    opaque_len: u8,
    opaque: [u8; OPAQUE_LEN_MAX],
}

impl Echo {
    /// No flags.
    pub const EMPTY: Echo = Echo {
        seen: 0,
        key_is_base64: false,
        unless_cas: None,
        letters: [0; FLAG_COUNT_MAX],
        len: 0,
        opaque_len: 0,
        opaque: [0; OPAQUE_LEN_MAX],
    };

    /// The letters, in order.
    #[inline]
    pub fn letters(&self) -> &[u8] {
        &self.letters[..usize::from(self.len)]
    }

    /// The opaque token, with its letter.
    pub fn opaque(&self) -> &[u8] {
        &self.opaque[..usize::from(self.opaque_len)]
    }

    /// Whether a flag that has a meaning was given.
    #[inline]
    pub fn has(&self, letter: u8) -> bool {
        self.seen & bit(letter) != 0
    }

    /// Whether one flag stands before another.
    pub fn has_before(&self, first: u8, second: u8) -> bool {
        let at = |flag| self.letters().iter().position(|&letter| letter == flag);
        at(first).is_some_and(|first| at(second).is_some_and(|second| first < second))
    }

    /// Adds a letter; false where there is no place for it.
    #[inline]
    pub(crate) fn push(&mut self, letter: u8, count_max: usize) -> bool {
        let count = usize::from(self.len);
        if count == count_max {
            return false;
        }
        self.letters[count] = letter;
        self.len += 1;
        true
    }

    /// Notes that a flag has a meaning; false if it was noted before.
    #[inline]
    pub(crate) fn note(&mut self, letter: u8) -> bool {
        let is_new = !self.has(letter);
        self.seen |= bit(letter);
        is_new
    }

    /// Keeps the opaque token; false if it is too long.
    pub(crate) fn keep_opaque(&mut self, token: &[u8]) -> bool {
        let Some(place) = self.opaque.get_mut(..token.len()) else { return false };
        place.copy_from_slice(token);
        self.opaque_len = token.len() as u8;
        true
    }
}

/// The bit of a letter from `A` to `z`.
#[inline]
pub(crate) const fn bit(letter: u8) -> u64 {
    1 << (letter - b'A')
}
