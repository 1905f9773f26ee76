//! The flags of one request as values.

use super::reply;
use crate::echo::{Echo, bit};
use crate::fields::Exptime;
use crate::words;
use slabwise_base::Cost;

/// The flags of a request as values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Options {
    /// T: a new lifetime.
    pub(super) exptime: Option<Exptime>,
    /// N: the lifetime of an item that is made where there is none.
    pub(super) vivify: Option<Exptime>,
    /// R: with less than this to live, an item is to be stored anew.
    pub(super) recache: Option<Exptime>,
    /// C: the CAS value that the item must have.
    pub(super) expected_cas: Option<u64>,
    /// E: the CAS value that it is given.
    pub(super) new_cas: Option<u64>,
    /// F: the client's own 32 bits.
    pub(super) client_flags: u32,
    /// G: what the item costs to recompute.
    pub(super) cost: Option<Cost>,
    /// M: the first letter of the token.
    pub(super) mode: Option<u8>,
    /// J: the number where there was none.
    pub(super) initial: u64,
    /// D: by how much a number changes.
    pub(super) delta: u64,
}

impl Options {
    pub(super) const NONE: Options = Options {
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
    pub(super) echo: Echo,
    /// O, with its letter.
    pub(super) opaque: &'a [u8],
    /// What is wrong with them, in memcached's words.
    pub(super) fault: Option<&'static [u8]>,
}

/// Reads the words after the key, at most so many. `Err`: they are no flags.
pub(super) fn read(words: &[u8], count_max: usize) -> Result<Flags<'_>, &'static [u8]> {
    let (options, echo) = (Options::NONE, Echo::EMPTY);
    let mut flags = Flags { options, echo, opaque: b"", fault: None };
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
        if !flags.echo.push(letter, count_max) {
            return Err(reply::TOO_MANY_FLAGS);
        }
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
        if !self.echo.note(letter) {
            return Err(reply::DUPLICATE_FLAG);
        }
        // The capitals have tokens; `I`, `P` and `L` ignore theirs.
        if letter < b'a' {
            self.token(letter, word);
        }
        Ok(())
    }

    fn token(&mut self, letter: u8, word: &'a [u8]) {
        let token = &word[1..];
        let options = &mut self.options;
        let exptime = || words::exact_i32(token).map(Exptime::of_signed);
        let (is_good, fault) = match letter {
            b'T' => (put(&mut options.exptime, exptime()), reply::BAD_TOKEN),
            b'N' => (put(&mut options.vivify, exptime()), reply::BAD_TOKEN),
            b'R' => (put(&mut options.recache, exptime()), reply::BAD_TOKEN),
            b'C' => (put(&mut options.expected_cas, words::exact_u64(token)), reply::BAD_TOKEN),
            b'E' => (put(&mut options.new_cas, words::exact_u64(token)), reply::BAD_TOKEN),
            b'G' => {
                let units = words::exact_u32(token);
                (put(&mut options.cost, units.map(Cost::from_units)), reply::BAD_TOKEN)
            }
            b'J' => (set(&mut options.initial, words::exact_u64(token)), reply::BAD_INITIAL),
            b'D' => (set(&mut options.delta, words::exact_u64(token)), reply::BAD_DELTA),
            // A fault that was found before keeps its own words.
            b'F' => {
                let fault = self.fault.unwrap_or(reply::BAD_FORMAT);
                (set(&mut options.client_flags, words::exact_u32(token)), fault)
            }
            b'M' => {
                options.mode = Some(token.first().copied().unwrap_or(b' '));
                return;
            }
            b'O' => {
                self.opaque = word;
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
