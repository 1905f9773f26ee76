//! The lines of a password file, and whether one of them is a client's.
//!
//! Invariant: the time to compare a line does not depend on what the line holds. It may depend on what a client
//! claims: the client knows that.

use std::io;
use subtle::{Choice, ConstantTimeEq};

/// The most bytes of a line, its end not counted.
const LINE_LEN_MAX: usize = 254;
/// The most entries of a [`Kind::Login`] file; lines beyond them have no effect.
pub(super) const LOGINS_MAX: usize = 8;
/// More than any list of passwords has; a device file would have no end.
pub(super) const FILE_LEN_MAX: u64 = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// For `-Y`.
    Login,
    /// For `-S`.
    Sasl,
}

impl Kind {
    /// Where the file is named.
    pub(super) fn option(self) -> &'static str {
        match self {
            Kind::Login => "-Y",
            Kind::Sasl => "MEMCACHED_SASL_PWDB",
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    #[error("cannot be read: {0}; name a file that the server's user may read")]
    Unreadable(io::Error),
    #[error("has more bytes than a list of passwords can have, {FILE_LEN_MAX}: name another file")]
    TooLarge,
    #[error("holds no entry: write a line 'user:password'")]
    NoEntry,
    /// Lines count from 1.
    #[error("line {line} is not 'user:password': correct it or take it out")]
    NotAnEntry { line: usize },
    #[error(
        "line {line} has {len} bytes, above the most, {LINE_LEN_MAX}: choose a shorter password"
    )]
    LineTooLong { line: usize, len: usize },
}

/// A line that has a user and a password, followed by zeros.
pub(super) struct Entry {
    /// What of the line has room; one byte more than a claim can have.
    bytes: [u8; LINE_LEN_MAX + 1],
    len: u64,
}

impl Entry {
    /// A carriage return or a NUL ends a line like its end.
    fn new(line: &[u8]) -> Option<Entry> {
        let end = line.iter().position(|&byte| byte == b'\r' || byte == 0);
        let line = &line[..end.unwrap_or(line.len())];
        if !line.contains(&b':') {
            return None;
        }
        let mut bytes = [0; LINE_LEN_MAX + 1];
        let kept = line.len().min(LINE_LEN_MAX);
        bytes[..kept].copy_from_slice(&line[..kept]);
        Some(Entry { bytes, len: line.len() as u64 })
    }

    /// Whether the line is the claim, or may begin with it.
    fn is(&self, claim: &[u8], kind: Kind) -> Choice {
        let begins = self.bytes[..claim.len()].ct_eq(claim);
        let ends = self.len.ct_eq(&(claim.len() as u64));
        let goes_on = match kind {
            Kind::Login => Choice::from(0),
            Kind::Sasl => self.bytes[claim.len()].ct_eq(&b':'),
        };
        begins & (ends | goes_on)
    }
}

pub(super) fn parse(text: &[u8], kind: Kind) -> Result<Vec<Entry>, Fault> {
    let lines = lines(text).zip(1..);
    let entries: Vec<Entry> = match kind {
        Kind::Login => lines.take(LOGINS_MAX).map(login).collect::<Result<_, _>>()?,
        Kind::Sasl => lines.filter_map(|(line, _)| Entry::new(line)).collect(),
    };
    if entries.is_empty() { Err(Fault::NoEntry) } else { Ok(entries) }
}

/// The lines without their ends; none if there is no text.
pub(super) fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let lines = text.split_inclusive(|&byte| byte == b'\n');
    lines.map(|line| line.strip_suffix(b"\n").unwrap_or(line))
}

fn login((text, line): (&[u8], usize)) -> Result<Entry, Fault> {
    if text.len() > LINE_LEN_MAX {
        return Err(Fault::LineTooLong { line, len: text.len() });
    }
    Entry::new(text).ok_or(Fault::NotAnEntry { line })
}

/// Whether an entry has this user and this password: every one is compared, whole.
pub(super) fn admit(entries: &[Entry], kind: Kind, user: &[u8], password: &[u8]) -> bool {
    let claim = [user, b":", password].concat();
    // A colon in the user would make a part of another user's password a part of the name.
    if claim.len() > LINE_LEN_MAX || user.contains(&b':') {
        return false;
    }
    entries.iter().fold(Choice::from(0), |found, entry| found | entry.is(&claim, kind)).into()
}

#[cfg(test)]
mod tests {
    use super::{Kind, admit, parse};

    const KINDS: [Kind; 2] = [Kind::Login, Kind::Sasl];

    #[track_caller]
    fn admits(kind: Kind, text: &[u8], user: &[u8], password: &[u8]) -> bool {
        admit(&parse(text, kind).expect("a good file"), kind, user, password)
    }

    fn fault(text: &[u8], kind: Kind) -> String {
        parse(text, kind).err().expect("it cannot be used").to_string()
    }

    #[test]
    fn both_user_and_password_must_be_an_entrys() {
        let text = b"foo:bar\nbaaaz:quux\r\nx:y\0z\n:\nempty:\nlast:four";
        for kind in KINDS {
            for (user, password) in [
                ("foo", "bar"),
                ("baaaz", "quux"),
                ("x", "y"),
                ("", ""),
                ("empty", ""),
                ("last", "four"),
            ] {
                assert!(
                    admits(kind, text, user.as_bytes(), password.as_bytes()),
                    "{user} {password}"
                );
            }
            for (user, password) in [
                ("foo", "ba"),
                ("foo", "barr"),
                ("foo", "bar\0"),
                ("foo", "bar:"),
                ("foo\0", "bar"),
                ("fo", "bar"),
                ("oo", "bar"),
                ("foo", "quux"),
                ("foo", "bar\nbaaaz"),
                ("baaaz", "bar"),
                ("foo", ""),
                ("", "bar"),
                ("bar", "foo"),
                ("baaaz", "quux\r"),
                ("nobody", "nothing"),
                ("FOO", "bar"),
            ] {
                let is_admitted = admits(kind, text, user.as_bytes(), password.as_bytes());
                assert!(!is_admitted, "{kind:?} {user} {password}");
            }
        }
    }

    #[test]
    fn behind_a_colon_a_password_goes_on_or_ends() {
        for kind in KINDS {
            let text = b"user:two:example.org\nother:x";
            assert!(admits(kind, text, b"user", b"two:example.org"));
            assert_eq!(admits(kind, text, b"user", b"two"), kind == Kind::Sasl);
            assert!(!admits(kind, text, b"user", b"tw"));
            assert!(!admits(kind, text, b"user", b"two:example"));
            assert!(!admits(kind, text, b"user:two", b"example.org"));
        }
    }

    #[test]
    fn what_is_longer_than_an_entry_can_be_is_nobodys() {
        let longest = vec![b'x'; 252];
        for kind in KINDS {
            let text = [b"u:", &longest[..]].concat();
            assert!(admits(kind, &text, b"u", &longest));
            for len in [251, 253, 254, 255, 256, 10_000] {
                assert!(!admits(kind, &text, b"u", &vec![b'x'; len]), "{len}");
            }
            assert!(!admits(kind, &text, &longest, b"u"));
        }
        let too_long = [b"u:", &longest[..], b"x"].concat();
        assert_eq!(
            fault(&[b"a:b\n", &too_long[..]].concat(), Kind::Login),
            "line 2 has 255 bytes, above the most, 254: choose a shorter password"
        );
        for len in [252, 253] {
            assert!(!admits(Kind::Sasl, &too_long, b"u", &vec![b'x'; len]), "{len}");
        }
        let commented = [b"u:p:", &longest[..]].concat();
        assert!(admits(Kind::Sasl, &commented, b"u", b"p"));
    }

    #[test]
    fn a_line_that_is_no_entry_is_told_or_means_nothing() {
        for (text, line) in [
            (&b"foo:bar\nfoobar\n"[..], "line 2 is not 'user:password'"),
            (b"foo:bar\n\nb:c\n", "line 2 "),
            (b"foo:bar\nfo\0o:bar\n", "line 2 "),
        ] {
            assert!(fault(text, Kind::Login).contains(line), "{line}");
            assert!(admits(Kind::Sasl, text, b"foo", b"bar"));
        }
        assert!(fault(b"\n", Kind::Login).contains("line 1 "));
        for (text, kind) in [(&b""[..], Kind::Login), (b"", Kind::Sasl), (b"\n#\n", Kind::Sasl)] {
            assert!(fault(text, kind).contains("holds no entry"), "{kind:?}");
        }
    }

    #[test]
    fn lines_beyond_the_eighth_are_no_logins() {
        let text = b"u1:p\nu2:p\nu3:p\nu4:p\nu5:p\nu6:p\nu7:p\nu8:p\nu9:p\nno entry\n";
        assert!(admits(Kind::Login, text, b"u8", b"p"));
        assert!(!admits(Kind::Login, text, b"u9", b"p"));
        assert!(admits(Kind::Sasl, text, b"u9", b"p"));
    }
}
