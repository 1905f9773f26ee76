//! Parses the parts of lines: words, numbers, expiries, and kinds of events. Also defines the limits of all dialects.
//!
//! As in memcached, only spaces separate words. Tabs and control characters are parts of words.
//!
//! Most numbers are parsed exactly: a number that does not fit into 32 or 64 bits is invalid. There is one exception.
//! The client flags and the exptime of a classic storage command are parsed as 64-bit numbers, and only their low 32
//! bits are used. Client flags of 2^32 therefore become 0, and an exptime of 2^31 becomes negative. memcached does the
//! same, and existing clients may depend on these results.

use slabwise_base::{ClassId, KEY_SIZE_BYTES_MAX};

/// The expiry of an item in the form in which a client sends it. The server's clock converts it to a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Exptime {
    /// The item does not expire.
    #[default]
    Never,
    /// The item expires immediately.
    Past,
    /// A number of seconds above 0. Up to 30 days, the seconds are counted from now; a larger number is a Unix time.
    At(u32),
}

impl Exptime {
    /// Converts the exptime of a text protocol. A negative number means that the item expires immediately.
    #[inline]
    pub fn of_signed(number: i32) -> Exptime {
        match number {
            i32::MIN..0 => Exptime::Past,
            _ => Exptime::of_unsigned(number.unsigned_abs()),
        }
    }

    /// Converts the expiry of the binary protocol, which has no negative numbers.
    #[inline]
    pub fn of_unsigned(number: u32) -> Exptime {
        match number {
            0 => Exptime::Never,
            _ => Exptime::At(number),
        }
    }
}

/// The maximum length of a key in bytes, as in memcached.
pub const KEY_LEN_MAX: usize = KEY_SIZE_BYTES_MAX;
/// The maximum length in bytes of a line whose end has not arrived, as in memcached. Only the line of a retrieval may
/// be longer.
pub const LINE_LEN_MAX: usize = 2048;
/// The maximum length in bytes of the value of a storage command. As in memcached, the length of the value with its
/// `\r\n` must fit into a signed 32-bit number.
pub const VALUE_LEN_MAX: usize = i32::MAX as usize - 2;
/// The maximum length in bytes of the body of a binary request, as in memcached.
pub const BODY_LEN_MAX: usize = 1 << 30;
/// The class numbers of the protocol are below this number.
pub(crate) const CLASS_NUMBER_MAX: u32 = ClassId::COUNT_MAX as u32 + 1;

/// A set of kinds of events that a watcher can request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WatchKinds(u8);

impl WatchKinds {
    /// The empty set.
    pub const NONE: WatchKinds = WatchKinds(0);
    /// Lookups of keys by any command.
    pub const FETCHERS: WatchKinds = WatchKinds(1 << 0);
    /// Storage commands and their outcomes.
    pub const MUTATIONS: WatchKinds = WatchKinds(1 << 1);
    /// Evictions of items.
    pub const EVICTIONS: WatchKinds = WatchKinds(1 << 2);
    /// Opening and closing of connections.
    pub const CONNEVENTS: WatchKinds = WatchKinds(1 << 3);
    /// Deletions of items by clients.
    pub const DELETIONS: WatchKinds = WatchKinds(1 << 4);
    /// Page moves and crawls.
    pub const SYSEVENTS: WatchKinds = WatchKinds(1 << 5);

    /// The names of the kinds. [`WatchKinds::of_words`] searches them in this order. The names that memcached's proxy
    /// uses, and the obsolete name `rawcmds`, are valid and select no kind.
    const NAMED: [(&str, WatchKinds); 10] = [
        ("rawcmds", WatchKinds::NONE),
        ("evictions", WatchKinds::EVICTIONS),
        ("fetchers", WatchKinds::FETCHERS),
        ("mutations", WatchKinds::MUTATIONS),
        ("sysevents", WatchKinds::SYSEVENTS),
        ("connevents", WatchKinds::CONNEVENTS),
        ("proxyreqs", WatchKinds::NONE),
        ("proxyevents", WatchKinds::NONE),
        ("proxyuser", WatchKinds::NONE),
        ("deletions", WatchKinds::DELETIONS),
    ];

    /// Returns the kinds that these words name. As in memcached, a word may be a prefix of a name, and no words select
    /// the fetchers. Returns `None` if a word is not a prefix of any name.
    pub(crate) fn of_words<'a>(words: impl Iterator<Item = &'a [u8]>) -> Option<WatchKinds> {
        let mut words = words.peekable();
        if words.peek().is_none() {
            return Some(WatchKinds::FETCHERS);
        }
        words.try_fold(WatchKinds::NONE, |kinds, word| {
            let starts_with_word =
                |(name, _): &&(&str, WatchKinds)| name.as_bytes().starts_with(word);
            WatchKinds::NAMED.iter().find(starts_with_word).map(|&(_, kind)| kinds.union(kind))
        })
    }

    /// Returns the union of both sets.
    #[must_use]
    pub fn union(self, other: WatchKinds) -> WatchKinds {
        WatchKinds(self.0 | other.0)
    }

    /// True if the sets have a kind in common.
    pub fn intersects(self, other: WatchKinds) -> bool {
        self.0 & other.0 != 0
    }

    /// Returns the set as bits, which can be stored in an atomic.
    pub fn bits(self) -> u8 {
        self.0
    }

    /// Returns the set whose [`WatchKinds::bits`] are `bits`.
    pub fn from_bits(bits: u8) -> WatchKinds {
        WatchKinds(bits)
    }
}

/// The words of a line after the name of the command.
pub(crate) struct Words<'a> {
    line: &'a [u8],
    /// The first words. Unused entries are empty.
    words: [&'a [u8]; Words::STORED_MAX],
    /// The number of words, including those that are not stored.
    pub(crate) len: usize,
    /// The last word. It is empty if there are no words.
    pub(crate) last: &'a [u8],
}

impl<'a> Words<'a> {
    /// The maximum number of words stored, which is more than any command needs. Further words are only counted.
    const STORED_MAX: usize = 8;
    /// The maximum number of words counted. As in memcached, further words are ignored, even if the last is `noreply`.
    const LEN_MAX: usize = 22;

    /// Splits a line into words.
    pub(crate) fn of(line: &'a [u8]) -> Words<'a> {
        let mut words = Words { line, words: [b""; Words::STORED_MAX], len: 0, last: b"" };
        let mut rest = line;
        while words.len < Words::LEN_MAX {
            let (word, after) = split_first(rest);
            if word.is_empty() {
                break;
            }
            if words.len < Words::STORED_MAX {
                words.words[words.len] = word;
            }
            words.len += 1;
            words.last = word;
            rest = after;
        }
        words
    }

    /// Returns the word at this position, from 0. Returns an empty word if there are fewer words. Panics if `index` is
    /// not below [`Words::STORED_MAX`].
    pub(crate) fn at(&self, index: usize) -> &'a [u8] {
        self.words[index]
    }

    /// Returns all words, including those that are not stored.
    pub(crate) fn all(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let words = self.line.split(|&byte| byte == b' ').filter(|word| !word.is_empty());
        words.take(Words::LEN_MAX)
    }

    /// True if the last word is `noreply`.
    pub(crate) fn end_in_noreply(&self) -> bool {
        self.last == b"noreply"
    }
}

/// Returns the first word of a line and the bytes after it. The word is empty if the line has none.
pub(crate) fn split_first(line: &[u8]) -> (&[u8], &[u8]) {
    let start = line.iter().position(|&byte| byte != b' ').unwrap_or(line.len());
    let line = &line[start..];
    let end = line.iter().position(|&byte| byte == b' ').unwrap_or(line.len());
    line.split_at(end)
}

/// Parses an unsigned number up to 2^64 - 1, with an optional `+`.
pub(crate) fn unsigned(word: &[u8]) -> Option<u64> {
    digits(word.strip_prefix(b"+").unwrap_or(word))
}

/// Parses a 64-bit number with an optional sign.
pub(crate) fn signed(word: &[u8]) -> Option<i64> {
    match word.strip_prefix(b"-") {
        Some(rest) => 0i64.checked_sub_unsigned(digits(rest)?),
        None => unsigned(word)?.try_into().ok(),
    }
}

/// Parses an unsigned 64-bit number with an optional `+`, and returns its low 32 bits.
pub(crate) fn unsigned_low_32(word: &[u8]) -> Option<u32> {
    unsigned(word).map(|number| number as u32)
}

/// Parses a 64-bit number with an optional sign, and returns its low 32 bits.
pub(crate) fn signed_low_32(word: &[u8]) -> Option<i32> {
    signed(word).map(|number| number as i32)
}

/// Parses a number of at most 22 digits without a sign, up to 2^64 - 1.
pub(crate) fn exact_u64(word: &[u8]) -> Option<u64> {
    if word.len() > 22 { None } else { digits(word) }
}

/// Parses a number of at most 11 digits without a sign, up to 2^32 - 1.
pub(crate) fn exact_u32(word: &[u8]) -> Option<u32> {
    if word.len() > 11 { None } else { digits(word)?.try_into().ok() }
}

/// Parses a signed 32-bit number of at most 11 characters with an optional `-`. As in memcached, `-` alone is 0.
pub(crate) fn exact_i32(word: &[u8]) -> Option<i32> {
    if word.len() > 11 {
        return None;
    }
    match word.strip_prefix(b"-") {
        Some(b"") => Some(0),
        Some(rest) => (-i64::try_from(digits(rest)?).ok()?).try_into().ok(),
        None => digits(word)?.try_into().ok(),
    }
}

/// Parses a finite decimal fraction of at most 31 characters.
pub(crate) fn fraction(word: &[u8]) -> Option<f64> {
    if word.len() > 31 {
        return None;
    }
    let number: f64 = str::from_utf8(word).ok()?.parse().ok()?;
    number.is_finite().then_some(number)
}

/// Parses a number of one or more digits, up to 2^64 - 1.
fn digits(word: &[u8]) -> Option<u64> {
    if word.is_empty() {
        return None;
    }
    word.iter().try_fold(0u64, |sum, &byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        sum.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

/// The refusal of an invalid line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LineRefusal {
    /// The error to send, including its line end.
    pub(crate) reply: &'static [u8],
    /// The number of bytes after the line to skip: the value of a refused storage command.
    pub(crate) skip_len: usize,
    /// True if the reply is sent even if the line has `noreply`.
    pub(crate) overrides_noreply: bool,
}

impl LineRefusal {
    /// Refuses a line. No bytes after the line are skipped, and `noreply` suppresses the reply.
    pub(crate) fn new(reply: &'static [u8]) -> LineRefusal {
        LineRefusal { reply, skip_len: 0, overrides_noreply: false }
    }

    /// Refuses a line that is followed by a value of this length, which is skipped.
    pub(crate) fn with_value(reply: &'static [u8], value_len: usize) -> LineRefusal {
        LineRefusal { skip_len: value_len + b"\r\n".len(), ..LineRefusal::new(reply) }
    }

    /// Refuses a line with a reply that is sent even if the line has `noreply`.
    pub(crate) fn despite_noreply(reply: &'static [u8]) -> LineRefusal {
        LineRefusal { overrides_noreply: true, ..LineRefusal::new(reply) }
    }
}

impl From<&'static [u8]> for LineRefusal {
    fn from(reply: &'static [u8]) -> LineRefusal {
        LineRefusal::new(reply)
    }
}

/// True if `input` begins with a command of the meta protocol: `mg`, `ms`, `md`, `ma`, `mn` or `me`, and then a space
/// or a line end `\r\n`. Returns false if the input is too short to contain these bytes. As in memcached, the two
/// letters and `\n` are not a command.
#[inline]
pub fn begins(input: &[u8]) -> bool {
    input.len() > 2
        && input[0] == b'm'
        && matches!(input[1], b'g' | b's' | b'd' | b'a' | b'n' | b'e')
        && (input[2] == b' ' || input[2..].starts_with(b"\r\n"))
}

#[cfg(test)]
mod tests {
    use super::{
        WatchKinds, exact_i32, exact_u32, exact_u64, fraction, signed, signed_low_32, unsigned,
        unsigned_low_32,
    };

    #[test]
    fn unsigned_and_signed_numbers_are_valid_up_to_64_bits() {
        assert_eq!(unsigned(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(unsigned(b"18446744073709551616"), None);
        assert_eq!(unsigned(b"+7"), Some(7));
        assert_eq!(unsigned(b"-1"), None);
        assert_eq!(unsigned(b""), None);
        assert_eq!(unsigned(b"+"), None);
        assert_eq!(unsigned(b"1x"), None);
        assert_eq!(signed(b"-9223372036854775808"), Some(i64::MIN));
        assert_eq!(signed(b"9223372036854775808"), None);
        assert_eq!(signed(b"-+1"), None);
    }

    #[test]
    fn large_numbers_keep_their_low_32_bits() {
        assert_eq!(unsigned_low_32(b"4294967296"), Some(0));
        assert_eq!(signed_low_32(b"2147483648"), Some(i32::MIN));
    }

    #[test]
    fn an_exact_number_above_its_limit_is_invalid() {
        assert_eq!(exact_u64(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(exact_u64(b"0018446744073709551615"), Some(u64::MAX));
        assert_eq!(exact_u64(b"00018446744073709551615"), None);
        assert_eq!(exact_u32(b"4294967295"), Some(u32::MAX));
        assert_eq!(exact_u32(b"4294967296"), None);
        assert_eq!(exact_i32(b"-2147483648"), Some(i32::MIN));
        assert_eq!(exact_i32(b"2147483648"), None);
        assert_eq!(exact_i32(b"-"), Some(0));
        for word in [&b""[..], b"+1", b"1x", b"--1"] {
            assert_eq!(exact_i32(word), None);
            assert_eq!(exact_u64(word), None);
        }
    }

    #[test]
    fn a_fraction_is_finite_and_at_most_31_characters_long() {
        assert_eq!(fraction(b"0.25"), Some(0.25));
        assert_eq!(fraction(b"nan"), None);
        assert_eq!(fraction(b"inf"), None);
        assert_eq!(fraction(b"x"), None);
        assert_eq!(fraction(&[b'1'; 31]), Some(1111111111111111111111111111111.0));
        assert_eq!(fraction(&[b'1'; 32]), None);
    }

    /// Returns the kinds that the words of a line name.
    fn kinds_of(line: &str) -> Option<WatchKinds> {
        WatchKinds::of_words(line.split_whitespace().map(str::as_bytes))
    }

    #[test]
    fn a_word_selects_the_first_kind_whose_name_starts_with_it() {
        assert_eq!(kinds_of(""), Some(WatchKinds::FETCHERS));
        assert_eq!(kinds_of("rawcmds proxyuser"), Some(WatchKinds::NONE));
        let both = WatchKinds::MUTATIONS.union(WatchKinds::EVICTIONS);
        assert_eq!(kinds_of("mutations evictions mutations"), Some(both));
        assert_eq!(kinds_of("d c"), Some(WatchKinds::DELETIONS.union(WatchKinds::CONNEVENTS)));
        for wrong in ["garbage", "fetchers garbage", "fetchersx", "noreply"] {
            assert_eq!(kinds_of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn kinds_can_be_converted_to_bits_and_back() {
        for (_, kind) in WatchKinds::NAMED {
            assert_eq!(WatchKinds::from_bits(kind.bits()), kind);
            assert_eq!(kind.intersects(kind), kind != WatchKinds::NONE);
        }
        assert!(!WatchKinds::FETCHERS.intersects(WatchKinds::MUTATIONS));
    }
}
