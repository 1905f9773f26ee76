//! A line as words, numbers as memcached reads them, what words stand for (lifetimes, kinds of events), the limits,
//! and what is answered to a line that cannot be acted on.
//!
//! Words are what lies between spaces. Only the space parts words; tabs and control characters belong to them, as
//! in memcached.
//!
//! Most numbers are read exactly: a number that 32 or 64 bits cannot hold is none. The client flags and the TTL of
//! a classic storage command are read as C's `strtol` family reads them, in 64 bits, and the low 32 are
//! kept: client flags of 2^32 are 0 and a TTL of 2^31 is negative. Clients in the field may lean on either.

use slabwise_base::{ClassId, KEY_SIZE_BYTES_MAX};

/// When an item ends, before the server's clock gives it a meaning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Exptime {
    /// Never.
    #[default]
    Never,
    /// At once.
    Past,
    /// Up to 30 days: so many seconds from now. Beyond: a Unix time. Never 0.
    At(u32),
}

impl Exptime {
    /// What a number of a text protocol means: negative ones are past.
    #[inline]
    pub fn of_signed(number: i32) -> Exptime {
        match number {
            i32::MIN..0 => Exptime::Past,
            _ => Exptime::of_unsigned(number.unsigned_abs()),
        }
    }

    /// What a number of the binary protocol means, where none is negative.
    #[inline]
    pub fn of_unsigned(number: u32) -> Exptime {
        match number {
            0 => Exptime::Never,
            _ => Exptime::At(number),
        }
    }
}

/// The most bytes of a key. This and the other limits are memcached's, which its clients know.
pub const KEY_LEN_MAX: usize = KEY_SIZE_BYTES_MAX;
/// How much of a line is waited for before its end must be in sight. Only the keys of a retrieval may go on beyond
/// it.
pub const LINE_LEN_MAX: usize = 2048;
/// The largest value that a storage command may announce, in bytes. memcached counts in 32 bits with a sign, and the
/// value's `\r\n` is part of the count.
pub const VALUE_LEN_MAX: usize = i32::MAX as usize - 2;
/// The largest body that a request of the binary protocol may announce, in bytes.
pub const BODY_LEN_MAX: usize = 1 << 30;
/// Class numbers on the wire are below this.
pub(crate) const CLASS_NUMBER_MAX: u32 = ClassId::COUNT_MAX as u32 + 1;

/// A set of kinds of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WatchKinds(u8);

impl WatchKinds {
    /// No kind.
    pub const NONE: WatchKinds = WatchKinds(0);
    /// Look-ups of keys, by whatever command.
    pub const FETCHERS: WatchKinds = WatchKinds(1 << 0);
    /// Stores, and what came of them.
    pub const MUTATIONS: WatchKinds = WatchKinds(1 << 1);
    /// Items that left because their memory was needed.
    pub const EVICTIONS: WatchKinds = WatchKinds(1 << 2);
    /// Connections that open and close.
    pub const CONNEVENTS: WatchKinds = WatchKinds(1 << 3);
    /// Items that a client deleted.
    pub const DELETIONS: WatchKinds = WatchKinds(1 << 4);
    /// What the background does.
    pub const SYSEVENTS: WatchKinds = WatchKinds(1 << 5);

    /// Names and kinds in the order in which they are looked for. Those of memcached's proxy, and a
    /// name of old, are known and stand for nothing.
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

    /// The kinds that words ask for: fetchers if there are none; `None` if one means nothing. As in
    /// memcached the beginning of a name is enough.
    pub(crate) fn of_words<'a>(words: impl Iterator<Item = &'a [u8]>) -> Option<WatchKinds> {
        let mut words = words.peekable();
        if words.peek().is_none() {
            return Some(WatchKinds::FETCHERS);
        }
        words.try_fold(WatchKinds::NONE, |kinds, word| {
            let fits = |(name, _): &&(&str, WatchKinds)| name.as_bytes().starts_with(word);
            WatchKinds::NAMED.iter().find(fits).map(|&(_, kind)| kinds.union(kind))
        })
    }

    /// Both sets in one.
    #[must_use]
    pub fn union(self, other: WatchKinds) -> WatchKinds {
        WatchKinds(self.0 | other.0)
    }

    /// Whether the sets have a kind in common.
    pub fn intersects(self, other: WatchKinds) -> bool {
        self.0 & other.0 != 0
    }

    /// The set as a word, to be kept where threads share it.
    pub fn bits(self) -> u8 {
        self.0
    }

    /// The inverse of [`WatchKinds::bits`].
    pub fn from_bits(bits: u8) -> WatchKinds {
        WatchKinds(bits)
    }
}

/// The words after a command's name.
pub(crate) struct Words<'a> {
    line: &'a [u8],
    words: [&'a [u8]; Words::KEPT_MAX],
    pub(crate) len: usize,
    /// Empty if there is none.
    pub(crate) last: &'a [u8],
}

impl<'a> Words<'a> {
    /// How many words are kept: one more than any command reads. The others are only counted.
    const KEPT_MAX: usize = 8;
    /// How many words are counted. As in memcached those behind them are on no line: the last word, which
    /// may be `noreply`, is the last of these.
    const LEN_MAX: usize = 22;

    pub(crate) fn of(line: &'a [u8]) -> Words<'a> {
        let mut words = Words { line, words: [b""; Words::KEPT_MAX], len: 0, last: b"" };
        let mut rest = line;
        while words.len < Words::LEN_MAX {
            let (word, after) = split_first(rest);
            if word.is_empty() {
                break;
            }
            if words.len < Words::KEPT_MAX {
                words.words[words.len] = word;
            }
            words.len += 1;
            words.last = word;
            rest = after;
        }
        words
    }

    /// A word by its position; empty if there are fewer.
    pub(crate) fn at(&self, index: usize) -> &'a [u8] {
        self.words[index]
    }

    /// Every word, also those that are not kept.
    pub(crate) fn all(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let words = self.line.split(|&byte| byte == b' ').filter(|word| !word.is_empty());
        words.take(Words::LEN_MAX)
    }

    /// Whether the client wants no answer.
    pub(crate) fn end_in_noreply(&self) -> bool {
        self.last == b"noreply"
    }
}

/// The first word, empty if there is none, and what follows it.
pub(crate) fn split_first(line: &[u8]) -> (&[u8], &[u8]) {
    let start = line.iter().position(|&byte| byte != b' ').unwrap_or(line.len());
    let line = &line[start..];
    let end = line.iter().position(|&byte| byte == b' ').unwrap_or(line.len());
    line.split_at(end)
}

/// A number without a sign (a `+` is let through), up to 2^64 - 1.
pub(crate) fn unsigned(word: &[u8]) -> Option<u64> {
    digits(word.strip_prefix(b"+").unwrap_or(word))
}

/// A number with an optional sign, in 64 bits.
pub(crate) fn signed(word: &[u8]) -> Option<i64> {
    match word.strip_prefix(b"-") {
        Some(rest) => 0i64.checked_sub_unsigned(digits(rest)?),
        None => unsigned(word)?.try_into().ok(),
    }
}

/// The low 32 bits of a number without a sign.
pub(crate) fn unsigned_low_32(word: &[u8]) -> Option<u32> {
    unsigned(word).map(|number| number as u32)
}

/// The low 32 bits of a number with an optional sign.
pub(crate) fn signed_low_32(word: &[u8]) -> Option<i32> {
    signed(word).map(|number| number as i32)
}

/// A number without any sign, of at most 22 digits, up to 2^64 - 1.
pub(crate) fn exact_u64(word: &[u8]) -> Option<u64> {
    if word.len() > 22 { None } else { digits(word) }
}

/// The same in 32 bits, of at most 11 digits.
pub(crate) fn exact_u32(word: &[u8]) -> Option<u32> {
    if word.len() > 11 { None } else { digits(word)?.try_into().ok() }
}

/// The same with an optional minus, which counts among the 11; alone it is 0.
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

/// A finite decimal fraction of at most 31 characters.
pub(crate) fn fraction(word: &[u8]) -> Option<f64> {
    if word.len() > 31 {
        return None;
    }
    let number: f64 = str::from_utf8(word).ok()?.parse().ok()?;
    number.is_finite().then_some(number)
}

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

/// A line that cannot be acted on: the reply, and the length of the data that belongs to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) reply: &'static [u8],
    pub(crate) skip_len: usize,
    /// Whether the client is answered even if it wants no answer.
    pub(crate) is_aloud: bool,
}

impl Refusal {
    pub(crate) fn new(reply: &'static [u8]) -> Refusal {
        Refusal { reply, skip_len: 0, is_aloud: false }
    }

    /// A line with a value of this length behind it.
    pub(crate) fn with_value(reply: &'static [u8], value_len: usize) -> Refusal {
        Refusal { skip_len: value_len + b"\r\n".len(), ..Refusal::new(reply) }
    }

    pub(crate) fn aloud(reply: &'static [u8]) -> Refusal {
        Refusal { is_aloud: true, ..Refusal::new(reply) }
    }
}

impl From<&'static [u8]> for Refusal {
    fn from(reply: &'static [u8]) -> Refusal {
        Refusal::new(reply)
    }
}

/// Whether `input` begins with a command of the meta protocol. Needs three bytes, or four at the end of a
/// line; of fewer it says no. As in memcached a line of three bytes in all is no command.
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
    fn reads_what_memcached_reads() {
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
    fn keeps_the_low_32_bits() {
        assert_eq!(unsigned_low_32(b"4294967296"), Some(0));
        assert_eq!(signed_low_32(b"2147483648"), Some(i32::MIN));
    }

    #[test]
    fn exact_numbers_are_never_cut() {
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
    fn fractions_are_finite() {
        assert_eq!(fraction(b"0.25"), Some(0.25));
        assert_eq!(fraction(b"nan"), None);
        assert_eq!(fraction(b"inf"), None);
        assert_eq!(fraction(b"x"), None);
        assert_eq!(fraction(&[b'1'; 31]), Some(1111111111111111111111111111111.0));
        assert_eq!(fraction(&[b'1'; 32]), None);
    }

    fn of(line: &str) -> Option<WatchKinds> {
        WatchKinds::of_words(line.split_whitespace().map(str::as_bytes))
    }

    #[test]
    fn words_name_kinds_as_memcached_reads_them() {
        assert_eq!(of(""), Some(WatchKinds::FETCHERS));
        assert_eq!(of("rawcmds proxyuser"), Some(WatchKinds::NONE));
        let both = WatchKinds::MUTATIONS.union(WatchKinds::EVICTIONS);
        assert_eq!(of("mutations evictions mutations"), Some(both));
        assert_eq!(of("d c"), Some(WatchKinds::DELETIONS.union(WatchKinds::CONNEVENTS)));
        for wrong in ["garbage", "fetchers garbage", "fetchersx", "noreply"] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn kinds_survive_the_way_through_a_word() {
        for (_, kind) in WatchKinds::NAMED {
            assert_eq!(WatchKinds::from_bits(kind.bits()), kind);
            assert_eq!(kind.intersects(kind), kind != WatchKinds::NONE);
        }
        assert!(!WatchKinds::FETCHERS.intersects(WatchKinds::MUTATIONS));
    }
}
