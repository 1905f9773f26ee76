//! The flags of one request: as values, and their letters in order.

use super::reply;
use crate::number;
use slabwise_base::Cost;

/// The most flags of a request; memcached counts 20 words with command and key.
pub const FLAG_COUNT_MAX: usize = 18;

/// The most bytes of an opaque token with its letter.
pub const OPAQUE_LEN_MAX: usize = 32;

/// The flags of a request as values. Times are as on the wire: see
/// [`StoreHeader::exptime`](crate::StoreHeader::exptime).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// A bit for each letter.
    seen: u64,
    /// T: a new lifetime.
    pub exptime: Option<i32>,
    /// N: the lifetime of an item that is made where there is none.
    pub vivify: Option<i32>,
    /// R: with less than this to live, an item is to be stored anew.
    pub recache: Option<i32>,
    /// C: the CAS value that the item must have.
    pub expected_cas: Option<u64>,
    /// E: the CAS value that it is given.
    pub new_cas: Option<u64>,
    /// F: the client's own 32 bits.
    pub client_flags: u32,
    /// G: what the item costs to recompute.
    pub cost: Option<Cost>,
    /// M: the first letter of the token.
    pub(super) mode: Option<u8>,
    /// J: the number where there was none.
    pub initial: u64,
    /// D: by how much a number changes.
    pub delta: u64,
}

/// The flags of a request in order, for its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Echo<'a> {
    letters: [u8; FLAG_COUNT_MAX],
    len: u8,
    opaque: &'a [u8],
}

impl<'a> Echo<'a> {
    pub(super) const EMPTY: Echo<'static> =
        Echo { letters: [0; FLAG_COUNT_MAX], len: 0, opaque: b"" };

    /// The letters, in order.
    #[inline]
    pub fn letters(&self) -> &[u8] {
        &self.letters[..usize::from(self.len)]
    }

    /// The opaque token, with its letter.
    pub fn opaque(&self) -> &'a [u8] {
        self.opaque
    }

    /// Whether one flag stands before another.
    pub fn has_before(&self, first: u8, second: u8) -> bool {
        let at = |flag| self.letters().iter().position(|&letter| letter == flag);
        at(first).is_some_and(|first| at(second).is_some_and(|second| first < second))
    }
}

impl Options {
    pub(super) const NONE: Options = Options {
        seen: 0,
        exptime: None,
        vivify: None,
        recache: None,
        expected_cas: None,
        new_cas: None,
        client_flags: 0,
        cost: None,
        mode: None,
        initial: 0,
        delta: 1,
    };

    /// Whether a flag was given.
    #[inline]
    pub fn has(&self, letter: u8) -> bool {
        self.seen & bit(letter) != 0
    }
}

/// The bit of a letter from `A` to `z`.
#[inline]
const fn bit(letter: u8) -> u64 {
    1 << (letter - b'A')
}

/// Letters that mean something to some command, or are let through.
const KNOWN: u64 = {
    let letters = b"bNTRlOPLkstcfvhuqxFCEMJDIgG";
    let (mut known, mut index) = (0, 0);
    while index < letters.len() {
        known |= bit(letters[index]);
        index += 1;
    }
    known
};

/// What was read of a request's flags.
pub(super) struct Flags<'a> {
    pub(super) options: Options,
    pub(super) echo: Echo<'a>,
    /// What is wrong with them, as memcached tells it.
    pub(super) fault: Option<&'static [u8]>,
}

/// Reads the words after the key, at most so many. `Err`: they are no flags.
pub(super) fn read(words: &[u8], count_max: usize) -> Result<Flags<'_>, &'static [u8]> {
    let mut flags = Flags { options: Options::NONE, echo: Echo::EMPTY, fault: None };
    // Beyond a letter that is unknown or repeated nothing is read but the words' count.
    let mut is_readable = true;
    let mut rest = words;
    while let Some((&letter, after)) = rest.split_first() {
        if letter == b' ' {
            rest = after;
            continue;
        }
        let end = after.iter().position(|&byte| byte == b' ').unwrap_or(after.len());
        let word = &rest[..=end];
        rest = &after[end..];
        if !matches!(letter, b'A'..=b'z' | b'0'..=b'9') {
            return Err(reply::BAD_FORMAT);
        }
        let count = usize::from(flags.echo.len);
        if count == count_max {
            return Err(reply::TOO_MANY_FLAGS);
        }
        flags.echo.letters[count] = letter;
        flags.echo.len += 1;
        if is_readable && let Err(fault) = flags.note(letter, word) {
            flags.fault = Some(fault);
            is_readable = false;
        }
    }
    Ok(flags)
}

impl<'a> Flags<'a> {
    /// Notes one flag. `Err`: it is none, or was there before. A token that is wrong is only noted as a
    /// fault: what comes after it may be told instead.
    #[inline]
    fn note(&mut self, letter: u8, word: &'a [u8]) -> Result<(), &'static [u8]> {
        if letter < b'A' || KNOWN & bit(letter) == 0 {
            return Err(reply::INVALID_FLAG);
        }
        if self.options.seen & bit(letter) != 0 {
            return Err(reply::DUPLICATE_FLAG);
        }
        self.options.seen |= bit(letter);
        // The capitals have tokens; `I`, `P` and `L` ignore theirs.
        if letter < b'a' {
            self.token(letter, word);
        }
        Ok(())
    }

    fn token(&mut self, letter: u8, word: &'a [u8]) {
        let token = &word[1..];
        let options = &mut self.options;
        let (is_good, fault) = match letter {
            b'T' => (put(&mut options.exptime, number::exact_i32(token)), reply::BAD_TOKEN),
            b'N' => (put(&mut options.vivify, number::exact_i32(token)), reply::BAD_TOKEN),
            b'R' => (put(&mut options.recache, number::exact_i32(token)), reply::BAD_TOKEN),
            b'C' => (put(&mut options.expected_cas, number::exact_u64(token)), reply::BAD_TOKEN),
            b'E' => (put(&mut options.new_cas, number::exact_u64(token)), reply::BAD_TOKEN),
            b'G' => {
                let units = number::exact_u32(token);
                (put(&mut options.cost, units.map(Cost::from_units)), reply::BAD_TOKEN)
            }
            b'J' => (set(&mut options.initial, number::exact_u64(token)), reply::BAD_INITIAL),
            b'D' => (set(&mut options.delta, number::exact_u64(token)), reply::BAD_DELTA),
            // A fault that was found before keeps its own words.
            b'F' => {
                let fault = self.fault.unwrap_or(reply::BAD_FORMAT);
                (set(&mut options.client_flags, number::exact_u32(token)), fault)
            }
            b'M' => {
                options.mode = Some(token.first().copied().unwrap_or(b' '));
                return;
            }
            b'O' => {
                self.echo.opaque = word;
                return;
            }
            _ => return,
        };
        if !is_good {
            self.fault = Some(fault);
        }
    }
}

/// Keeps a number if there is one.
fn put<T>(place: &mut Option<T>, number: Option<T>) -> bool {
    *place = number;
    place.is_some()
}

fn set<T>(place: &mut T, number: Option<T>) -> bool {
    let Some(number) = number else { return false };
    *place = number;
    true
}
