//! A line as words: what lies between spaces. Only the space parts words; tabs and control
//! characters belong to them, as in memcached.

/// The words after a command's name.
pub(super) struct Words<'a> {
    line: &'a [u8],
    words: [&'a [u8]; Words::KEPT_MAX],
    len: usize,
    last: &'a [u8],
}

impl<'a> Words<'a> {
    /// How many words are kept: one more than any command reads. The others are only counted.
    const KEPT_MAX: usize = 8;
    /// How many words are counted. As in memcached those behind them are on no line: the last word, which
    /// may be `noreply`, is the last of these.
    const LEN_MAX: usize = 22;

    pub(super) fn of(line: &'a [u8]) -> Words<'a> {
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

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// A word by its position; empty if there are fewer.
    pub(super) fn at(&self, index: usize) -> &'a [u8] {
        self.words[index]
    }

    /// Every word, also those that are not kept.
    pub(super) fn all(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let words = self.line.split(|&byte| byte == b' ').filter(|word| !word.is_empty());
        words.take(Words::LEN_MAX)
    }

    /// The last word; empty if there is none.
    pub(super) fn last(&self) -> &'a [u8] {
        self.last
    }

    /// Whether the client wants no answer.
    pub(super) fn end_in_noreply(&self) -> bool {
        self.last == b"noreply"
    }
}

/// The first word, empty if there is none, and what follows it.
pub(super) fn split_first(line: &[u8]) -> (&[u8], &[u8]) {
    let start = line.iter().position(|&byte| byte != b' ').unwrap_or(line.len());
    let line = &line[start..];
    let end = line.iter().position(|&byte| byte == b' ').unwrap_or(line.len());
    line.split_at(end)
}
