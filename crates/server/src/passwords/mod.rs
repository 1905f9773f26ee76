//! Password files: lines `user:password` that can change while the server runs.
//!
//! ```text
//!          reload (-Y): at the start, on SIGHUP
//!   file ---------------------------------------> current entries <--- check(user, password)
//!          refresh (-S): when the file has changed
//! ```
//!
//! There are two kinds of files, with memcached's rules:
//!
//! | | [`Kind::Login`]: `-Y` | [`Kind::Sasl`]: `MEMCACHED_SASL_PWDB` |
//! |---|---|---|
//! | end of a password | the end of the line | the end of the line, or any colon in it |
//! | a line without a colon | makes the file invalid | is ignored |
//! | a line that is too long | makes the file invalid | is truncated |
//! | entries | the first 8 | all |
//! | an invalid file | stops the start; later, the previous entries stay valid | every authentication fails |
//!
//! Invariants:
//! - The time of a check does not depend on the entries: every entry is compared in constant time. It may depend on
//!   the client's credentials, which the client knows.
//! - A check uses the entries of one complete read of the file.

#[cfg(test)]
pub(crate) mod testing;

use slabwise_base::sync::{Mutex, lock};
use std::fmt;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use subtle::{Choice, ConstantTimeEq};

/// The maximum length of a line without its line break.
const LINE_LEN_MAX: usize = 254;
/// The maximum number of entries of a [`Kind::Login`] file; further lines are ignored.
const LOGINS_MAX: usize = 8;
/// Bounds the memory for a wrong file, such as a device.
const FILE_LEN_MAX: u64 = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// For `-Y`.
    Login,
    /// For `-S`.
    Sasl,
}

impl Kind {
    /// The option or environment variable that names the file.
    fn option(self) -> &'static str {
        match self {
            Kind::Login => "-Y",
            Kind::Sasl => "MEMCACHED_SASL_PWDB",
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum Fault {
    #[error("cannot be read: {0}; give a file that the server's user (-u) can read")]
    Unreadable(io::Error),
    #[error("is larger than {FILE_LEN_MAX} bytes: give another file")]
    TooLarge,
    #[error("has no entries: add a line 'user:password'")]
    NoEntry,
    #[error("line {line} is not 'user:password': correct or remove it")]
    NotAnEntry { line: usize },
    #[error(
        "line {line} has {len} bytes, more than the maximum of {LINE_LEN_MAX}: choose a shorter \
         password"
    )]
    LineTooLong { line: usize, len: usize },
}

/// A line `user:password`.
struct Entry {
    /// The line, truncated or padded with zeros. One byte longer than the credentials of a client can be.
    bytes: [u8; LINE_LEN_MAX + 1],
    len: u64,
}

impl Entry {
    /// Parses a line, which a carriage return or a NUL ends, too.
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

    /// True if the entry matches `user:password`.
    fn matches(&self, credentials: &[u8], kind: Kind) -> Choice {
        let has_prefix = self.bytes[..credentials.len()].ct_eq(credentials);
        let has_end = self.len.ct_eq(&(credentials.len() as u64));
        let has_colon = match kind {
            Kind::Login => Choice::from(0),
            Kind::Sasl => self.bytes[credentials.len()].ct_eq(&b':'),
        };
        has_prefix & (has_end | has_colon)
    }
}

fn parse(text: &[u8], kind: Kind) -> Result<Vec<Entry>, Fault> {
    let lines = lines(text).zip(1..);
    let entries: Vec<Entry> = match kind {
        Kind::Login => lines.take(LOGINS_MAX).map(login).collect::<Result<_, _>>()?,
        Kind::Sasl => lines.filter_map(|(line, _)| Entry::new(line)).collect(),
    };
    if entries.is_empty() { Err(Fault::NoEntry) } else { Ok(entries) }
}

/// Returns the lines without their line breaks; an empty text has no lines.
fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let lines = text.split_inclusive(|&byte| byte == b'\n');
    lines.map(|line| line.strip_suffix(b"\n").unwrap_or(line))
}

fn login((text, line): (&[u8], usize)) -> Result<Entry, Fault> {
    if text.len() > LINE_LEN_MAX {
        return Err(Fault::LineTooLong { line, len: text.len() });
    }
    Entry::new(text).ok_or(Fault::NotAnEntry { line })
}

/// True if an entry has this user and this password. Compares all entries.
fn has_entry(entries: &[Entry], kind: Kind, user: &[u8], password: &[u8]) -> bool {
    let credentials = [user, b":", password].concat();
    // With a colon in its user name a client could match only a part of another user's password.
    if credentials.len() > LINE_LEN_MAX || user.contains(&b':') {
        return false;
    }
    let matches = entries.iter().map(|entry| entry.matches(&credentials, kind));
    matches.fold(Choice::from(0), |found, matches| found | matches).into()
}

/// A password file and its current entries.
pub struct PasswordFile {
    path: PathBuf,
    kind: Kind,
    current: Mutex<Arc<Loaded>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// An entry has this user and this password.
    Known,
    Unknown,
}

/// The result of one read of the file.
struct Loaded {
    entries: Vec<Entry>,
    source: Source,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    Unread,
    File(Version),
    /// The file is invalid, and a warning is logged.
    Invalid,
}

/// The metadata that changes with a file: its inode, its size and its modification times.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Version([i64; 6]);

impl Version {
    fn of(file: &Metadata) -> Version {
        let (inode, size) = (file.ino().cast_signed(), file.size().cast_signed());
        Version([inode, size, file.mtime(), file.mtime_nsec(), file.ctime(), file.ctime_nsec()])
    }
}

#[derive(Debug, thiserror::Error)]
#[error("{option} {}: {fault}", path.display())]
pub struct PasswordsError {
    option: &'static str,
    path: PathBuf,
    fault: Fault,
}

impl PasswordFile {
    pub fn new(path: PathBuf, kind: Kind) -> PasswordFile {
        let unread = Loaded { entries: Vec::new(), source: Source::Unread };
        PasswordFile { path, kind, current: Mutex::new(Arc::new(unread)) }
    }

    /// Reads the file. An invalid file keeps the previous entries. Authenticated clients stay authenticated.
    pub fn reload(&self) -> Result<(), PasswordsError> {
        if let Some(loaded) = self.read_unless(Source::Unread)? {
            self.replace(loaded);
        }
        Ok(())
    }

    /// Reads the file if it has changed. With an invalid file every authentication fails, and one warning is logged.
    pub fn refresh(&self) {
        let known = lock(&self.current).source;
        match self.read_unless(known) {
            Ok(None) => {}
            Ok(Some(loaded)) => self.replace(loaded),
            Err(error) => {
                if known != Source::Invalid {
                    tracing::warn!("every authentication fails: {error}");
                }
                self.replace(Loaded { entries: Vec::new(), source: Source::Invalid });
            }
        }
    }

    pub fn check(&self, user: &[u8], password: &[u8]) -> Verdict {
        if self.kind == Kind::Sasl {
            self.refresh();
        }
        let current = Arc::clone(&lock(&self.current));
        match has_entry(&current.entries, self.kind, user, password) {
            true => Verdict::Known,
            false => Verdict::Unknown,
        }
    }

    fn replace(&self, loaded: Loaded) {
        *lock(&self.current) = Arc::new(loaded);
    }

    /// Reads the file; `None` if its version is `known`.
    fn read_unless(&self, known: Source) -> Result<Option<Loaded>, PasswordsError> {
        let invalid =
            |fault| PasswordsError { option: self.kind.option(), path: self.path.clone(), fault };
        let unreadable = |error: io::Error| invalid(Fault::Unreadable(error));
        let file = File::open(&self.path).map_err(unreadable)?;
        let source = Source::File(Version::of(&file.metadata().map_err(unreadable)?));
        if source == known {
            return Ok(None);
        }
        let mut text = Vec::new();
        file.take(FILE_LEN_MAX + 1).read_to_end(&mut text).map_err(unreadable)?;
        if text.len() as u64 > FILE_LEN_MAX {
            return Err(invalid(Fault::TooLarge));
        }
        let entries = parse(&text, self.kind).map_err(invalid)?;
        if self.kind == Kind::Login && lines(&text).count() > LOGINS_MAX {
            let path = self.path.display();
            tracing::warn!(
                "-Y {path}: lines after line {LOGINS_MAX} have no effect: the maximum is \
                 {LOGINS_MAX} users"
            );
        }
        Ok(Some(Loaded { entries, source }))
    }
}

impl fmt::Debug for PasswordFile {
    /// Omits the passwords.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PasswordFile").field("path", &self.path).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::testing::TemporaryFile;
    use super::{FILE_LEN_MAX, Kind, PasswordFile, Verdict, has_entry, parse};

    fn file(text: &str, kind: Kind) -> (TemporaryFile, PasswordFile) {
        let file = TemporaryFile::new(text);
        let passwords = PasswordFile::new(file.path().to_owned(), kind);
        (file, passwords)
    }

    fn knows(passwords: &PasswordFile, user: &str, password: &str) -> bool {
        passwords.check(user.as_bytes(), password.as_bytes()) == Verdict::Known
    }

    fn too_large() -> String {
        "a:b\n".repeat(FILE_LEN_MAX as usize / 4 + 1)
    }

    #[test]
    fn a_reload_replaces_the_logins_unless_the_file_is_invalid() {
        let (file, passwords) = file("a:1", Kind::Login);
        assert!(!knows(&passwords, "a", "1"), "it is not read yet");
        passwords.reload().expect("a good file");
        file.write("b:hidden\n");
        assert!(knows(&passwords, "a", "1"));
        passwords.reload().expect("a good file");
        assert!(!knows(&passwords, "a", "1"));
        assert!(knows(&passwords, "b", "hidden"));
        for (text, fault) in
            [("", "has no entries"), ("nonsense", "line 1 "), (&too_large(), "1048576")]
        {
            file.write(text);
            let error = passwords.reload().expect_err("a bad file").to_string();
            assert!(error.starts_with("-Y /") && error.contains(fault), "{error}");
            assert!(knows(&passwords, "b", "hidden"));
        }
        drop(file);
        let error = passwords.reload().expect_err("no file").to_string();
        assert!(error.contains("cannot be read"), "{error}");
        assert!(knows(&passwords, "b", "hidden"));
        assert!(!format!("{passwords:?}").contains("hidden"), "a password is printed");
    }

    #[test]
    fn a_changed_sasl_file_applies_at_once_and_an_invalid_one_rejects_all() {
        let (file, passwords) = file("user:old\n", Kind::Sasl);
        assert!(knows(&passwords, "user", "old"));
        file.write("user:renewed\n");
        assert!(!knows(&passwords, "user", "old"));
        assert!(knows(&passwords, "user", "renewed"));
        for bad in ["", "nonsense", &too_large()] {
            file.write(bad);
            assert!(!knows(&passwords, "user", "renewed") && !knows(&passwords, "a", "b"));
            file.write("user:renewed\n");
            assert!(knows(&passwords, "user", "renewed"));
        }
        drop(file);
        assert!(!knows(&passwords, "user", "renewed"));
    }

    const KINDS: [Kind; 2] = [Kind::Login, Kind::Sasl];

    #[track_caller]
    fn accepts(kind: Kind, text: &[u8], user: &[u8], password: &[u8]) -> bool {
        has_entry(&parse(text, kind).expect("a good file"), kind, user, password)
    }

    fn fault(text: &[u8], kind: Kind) -> String {
        parse(text, kind).err().expect("it is invalid").to_string()
    }

    #[test]
    fn accepts_only_the_user_and_password_of_an_entry() {
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
                    accepts(kind, text, user.as_bytes(), password.as_bytes()),
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
                let is_accepted = accepts(kind, text, user.as_bytes(), password.as_bytes());
                assert!(!is_accepted, "{kind:?} {user} {password}");
            }
        }
    }

    #[test]
    fn a_colon_ends_a_password_only_for_sasl() {
        for kind in KINDS {
            let text = b"user:two:example.org\nother:x";
            assert!(accepts(kind, text, b"user", b"two:example.org"));
            assert_eq!(accepts(kind, text, b"user", b"two"), kind == Kind::Sasl);
            assert!(!accepts(kind, text, b"user", b"tw"));
            assert!(!accepts(kind, text, b"user", b"two:example"));
            assert!(!accepts(kind, text, b"user:two", b"example.org"));
        }
    }

    #[test]
    fn rejects_credentials_longer_than_a_line_can_be() {
        let longest = vec![b'x'; 252];
        for kind in KINDS {
            let text = [b"u:", &longest[..]].concat();
            assert!(accepts(kind, &text, b"u", &longest));
            for len in [251, 253, 254, 255, 256, 10_000] {
                assert!(!accepts(kind, &text, b"u", &vec![b'x'; len]), "{len}");
            }
            assert!(!accepts(kind, &text, &longest, b"u"));
        }
        let too_long = [b"u:", &longest[..], b"x"].concat();
        assert_eq!(
            fault(&[b"a:b\n", &too_long[..]].concat(), Kind::Login),
            "line 2 has 255 bytes, more than the maximum of 254: choose a shorter password"
        );
        for len in [252, 253] {
            assert!(!accepts(Kind::Sasl, &too_long, b"u", &vec![b'x'; len]), "{len}");
        }
        let commented = [b"u:p:", &longest[..]].concat();
        assert!(accepts(Kind::Sasl, &commented, b"u", b"p"));
    }

    #[test]
    fn an_invalid_line_is_an_error_or_ignored_for_sasl() {
        for (text, line) in [
            (&b"foo:bar\nfoobar\n"[..], "line 2 is not 'user:password'"),
            (b"foo:bar\n\nb:c\n", "line 2 "),
            (b"foo:bar\nfo\0o:bar\n", "line 2 "),
        ] {
            assert!(fault(text, Kind::Login).contains(line), "{line}");
            assert!(accepts(Kind::Sasl, text, b"foo", b"bar"));
        }
        assert!(fault(b"\n", Kind::Login).contains("line 1 "));
        for (text, kind) in [(&b""[..], Kind::Login), (b"", Kind::Sasl), (b"\n#\n", Kind::Sasl)] {
            assert!(fault(text, kind).contains("has no entries"), "{kind:?}");
        }
    }

    #[test]
    fn ignores_logins_after_the_eighth_line() {
        let text = b"u1:p\nu2:p\nu3:p\nu4:p\nu5:p\nu6:p\nu7:p\nu8:p\nu9:p\nno entry\n";
        assert!(accepts(Kind::Login, text, b"u8", b"p"));
        assert!(!accepts(Kind::Login, text, b"u9", b"p"));
        assert!(accepts(Kind::Sasl, text, b"u9", b"p"));
    }
}
