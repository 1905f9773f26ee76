//! Password files: lines `user:password`, which may change while the server runs.
//!
//! ```text
//!          reload (-Y): at the start, on SIGHUP
//!   file ---------------------------------------> entries in force <--- check(user, password)
//!          refresh (-S): when it has changed
//! ```
//!
//! There are two such files, and each is as strict as it is in memcached:
//!
//! | | [`Kind::Login`]: `-Y` | [`Kind::Sasl`]: `MEMCACHED_SASL_PWDB` |
//! |---|---|---|
//! | a password ends | with its line | with its line, or before any colon in it |
//! | another line, or one too long | makes the file unusable | means nothing; only its beginning counts |
//! | entries | the first 8 | all |
//! | a file that cannot be used | stops the start; later, what was in force stays so | lets nobody in |
//!
//! Invariants:
//! - A check takes as long for a wrong user as for a wrong password, and for an entry that almost fits as
//!   for one that does not at all: every entry is compared, without a branch on what it holds. The time may depend
//!   on what a client claims: the client knows that.
//! - A check sees one reading of the file, whole.

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

/// The most bytes of a line, its end not counted.
const LINE_LEN_MAX: usize = 254;
/// The most entries of a [`Kind::Login`] file; lines beyond them have no effect.
const LOGINS_MAX: usize = 8;
/// More than any list of passwords has; a device file would have no end.
const FILE_LEN_MAX: u64 = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// For `-Y`.
    Login,
    /// For `-S`.
    Sasl,
}

impl Kind {
    /// Where the file is named.
    fn option(self) -> &'static str {
        match self {
            Kind::Login => "-Y",
            Kind::Sasl => "MEMCACHED_SASL_PWDB",
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum Fault {
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
struct Entry {
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

fn parse(text: &[u8], kind: Kind) -> Result<Vec<Entry>, Fault> {
    let lines = lines(text).zip(1..);
    let entries: Vec<Entry> = match kind {
        Kind::Login => lines.take(LOGINS_MAX).map(login).collect::<Result<_, _>>()?,
        Kind::Sasl => lines.filter_map(|(line, _)| Entry::new(line)).collect(),
    };
    if entries.is_empty() { Err(Fault::NoEntry) } else { Ok(entries) }
}

/// The lines without their ends; none if there is no text.
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

/// Whether an entry has this user and this password: every one is compared, whole.
fn admit(entries: &[Entry], kind: Kind, user: &[u8], password: &[u8]) -> bool {
    let claim = [user, b":", password].concat();
    // A colon in the user would make a part of another user's password a part of the name.
    if claim.len() > LINE_LEN_MAX || user.contains(&b':') {
        return false;
    }
    entries.iter().fold(Choice::from(0), |found, entry| found | entry.is(&claim, kind)).into()
}

/// A password file, and the entries that it held when it was last read.
pub struct PasswordFile {
    path: PathBuf,
    kind: Kind,
    in_force: Mutex<Arc<InForce>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// An entry has this user and this password.
    Known,
    Unknown,
}

/// What one reading came to.
struct InForce {
    entries: Vec<Entry>,
    source: Source,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    Unread,
    /// The file as it was then.
    File(Version),
    /// A file that cannot be used; the log says so.
    Unusable,
}

/// What changes when a file does: its inode, its size, and when it and its inode were modified.
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
        let nobody = InForce { entries: Vec::new(), source: Source::Unread };
        PasswordFile { path, kind, in_force: Mutex::new(Arc::new(nobody)) }
    }

    /// Reads the file. If it cannot be used, what was in force stays so. Who came in before is not put out.
    pub fn reload(&self) -> Result<(), PasswordsError> {
        if let Some(read) = self.read_unless(Source::Unread)? {
            self.put_in_force(read);
        }
        Ok(())
    }

    /// Reads the file if it has changed. If it cannot be used, nobody is let in, and the log says so, once.
    pub fn refresh(&self) {
        let known = lock(&self.in_force).source;
        match self.read_unless(known) {
            Ok(None) => {}
            Ok(Some(read)) => self.put_in_force(read),
            Err(error) => {
                if known != Source::Unusable {
                    tracing::warn!("nobody can authenticate: {error}");
                }
                self.put_in_force(InForce { entries: Vec::new(), source: Source::Unusable });
            }
        }
    }

    pub fn check(&self, user: &[u8], password: &[u8]) -> Verdict {
        if self.kind == Kind::Sasl {
            self.refresh();
        }
        let in_force = Arc::clone(&lock(&self.in_force));
        match admit(&in_force.entries, self.kind, user, password) {
            true => Verdict::Known,
            false => Verdict::Unknown,
        }
    }

    fn put_in_force(&self, read: InForce) {
        *lock(&self.in_force) = Arc::new(read);
    }

    /// What the file says; `None` if it is the one that is known.
    fn read_unless(&self, known: Source) -> Result<Option<InForce>, PasswordsError> {
        let refuse =
            |fault| PasswordsError { option: self.kind.option(), path: self.path.clone(), fault };
        let unreadable = |error: io::Error| refuse(Fault::Unreadable(error));
        let file = File::open(&self.path).map_err(unreadable)?;
        let source = Source::File(Version::of(&file.metadata().map_err(unreadable)?));
        if source == known {
            return Ok(None);
        }
        let mut text = Vec::new();
        file.take(FILE_LEN_MAX + 1).read_to_end(&mut text).map_err(unreadable)?;
        if text.len() as u64 > FILE_LEN_MAX {
            return Err(refuse(Fault::TooLarge));
        }
        let entries = parse(&text, self.kind).map_err(refuse)?;
        if self.kind == Kind::Login && lines(&text).count() > LOGINS_MAX {
            let path = self.path.display();
            tracing::warn!(
                "-Y {path}: the lines after line {LOGINS_MAX} have no effect: no more users can log in"
            );
        }
        Ok(Some(InForce { entries, source }))
    }
}

impl fmt::Debug for PasswordFile {
    /// Without the passwords.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PasswordFile").field("path", &self.path).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::testing::TemporaryFile;
    use super::{FILE_LEN_MAX, Kind, PasswordFile, Verdict, admit, parse};

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
    fn a_new_file_of_logins_counts_when_it_is_read_and_a_bad_one_never() {
        let (file, passwords) = file("a:1", Kind::Login);
        assert!(!knows(&passwords, "a", "1"), "it is not read yet");
        passwords.reload().expect("a good file");
        file.write("b:hidden\n");
        assert!(knows(&passwords, "a", "1"));
        passwords.reload().expect("a good file");
        assert!(!knows(&passwords, "a", "1"));
        assert!(knows(&passwords, "b", "hidden"));
        for (text, fault) in
            [("", "holds no entry"), ("nonsense", "line 1 "), (&too_large(), "1048576")]
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
    fn a_changed_file_for_sasl_counts_at_once_and_a_bad_one_lets_nobody_in() {
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
