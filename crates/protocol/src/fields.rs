//! What fields of requests hold, and how long they may be: lifetimes, kinds of events, the limits.

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

/// The protocol's limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most bytes of a key.
    pub key_len_max: usize,
    /// How much of a line is waited for before its end must be in sight. Only the keys of a
    /// retrieval may go on beyond it.
    pub line_len_max: usize,
    /// The largest value that a storage command may announce, in bytes. memcached counts in 32 bits
    /// with a sign, and the value's `\r\n` is part of the count.
    pub value_len_max: usize,
    /// The largest body that a request of the binary protocol may announce, in bytes.
    pub body_len_max: usize,
    /// Class numbers on the wire are below this.
    pub class_number_max: u32,
}

/// memcached's limits, which its clients know.
pub const LIMITS: Limits = Limits {
    key_len_max: KEY_SIZE_BYTES_MAX,
    line_len_max: 2048,
    value_len_max: i32::MAX as usize - 2,
    body_len_max: 1 << 30,
    class_number_max: ClassId::COUNT_MAX as u32 + 1,
};

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

#[cfg(test)]
mod tests {
    use super::WatchKinds;

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
