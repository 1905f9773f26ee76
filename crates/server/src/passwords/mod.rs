//! Password files, which contain lines `user:password`. The server reads a file again while it runs.
//!
//! ```text
//!          reload (-Y): at the start, on SIGHUP
//!   file ---------------------------------------> entries of the last read <--- check(user, password)
//!          refresh (-S): before a check, if the file has changed
//! ```
//!
//! There are two kinds of password files. The rules of each kind are memcached's:
//!
//! | | [`PasswordFileKind::Login`]: `-Y` | [`PasswordFileKind::Sasl`]: `MEMCACHED_SASL_PWDB` |
//! |---|---|---|
//! | end of a password | the end of the line | the end of the line, or any colon after the user's name |
//! | a line without a colon | makes the file invalid | is ignored |
//! | a line of more than 254 bytes | makes the file invalid | is truncated |
//! | lines that are used | the first 8 | all |
//! | an invalid file | an error at the start; the previous entries stay valid on SIGHUP | every authentication fails |
//!
//! Invariants:
//! - CONSTANT-TIME: the time of a check does not depend on the stored users and passwords. The user and the password are
//!   compared as one text, with every entry, and all bytes of the client's text are compared. So the time reveals neither
//!   which users exist nor how much of a password is right. The time may depend on the number of entries, and on the
//!   length of the client's credentials, which the client already has.
//! - A check uses the entries of one complete read of the file.

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

use slabwise_base::sync::{Mutex, lock};
use std::fmt;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use subtle::{Choice, ConstantTimeEq};

/// The maximum length, in bytes, of a line `user:password` without its line break.
const ENTRY_LINE_LEN_MAX: usize = 254;
/// The maximum number of lines that the server uses of a [`PasswordFileKind::Login`] file. It ignores later lines.
const LOGINS_MAX: usize = 8;
/// The maximum length of a password file, in bytes. It bounds the memory if the path is that of a wrong file, such as
/// an endless device.
const PASSWORD_FILE_LEN_MAX: u64 = 1 << 20;

/// The kind of a password file: the protocol in which clients authenticate with its entries. The kind decides how and
/// when the server reads the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PasswordFileKind {
    /// The file of `-Y`, for authentication in the ASCII protocol.
    Login,
    /// The file of `-S`, for SASL authentication in the binary protocol.
    Sasl,
}

impl PasswordFileKind {
    /// Returns the option or environment variable that names the file.
    fn option(self) -> &'static str {
        match self {
            PasswordFileKind::Login => "-Y",
            PasswordFileKind::Sasl => "MEMCACHED_SASL_PWDB",
        }
    }
}

/// The reason why a password file is invalid. Each text follows the path of the file.
#[derive(Debug, thiserror::Error)]
enum FileFault {
    #[error("the file cannot be read: {0}; give a file that the server's user (-u) can read")]
    Unreadable(io::Error),
    #[error("the file is larger than {PASSWORD_FILE_LEN_MAX} bytes: give another file")]
    TooLarge,
    #[error("the file has no entries: add a line 'user:password'")]
    NoEntry,
    #[error("line {line} is not 'user:password': correct or remove the line")]
    NotAnEntry { line: usize },
    #[error(
        "line {line} has {len} bytes, more than the maximum of {ENTRY_LINE_LEN_MAX}: choose a shorter \
         password"
    )]
    LineTooLong { line: usize, len: usize },
}

/// A line `user:password` of a password file. The type of a byte is `u8`; a test replaces it to count comparisons.
struct Entry<B = u8> {
    /// The line, truncated to the maximum length or padded with zeros. The array has one byte more than the maximum, so
    /// that there is a byte after credentials of the maximum length.
    bytes: [B; ENTRY_LINE_LEN_MAX + 1],
    /// The length of the line in bytes, before it was truncated.
    len: u64,
}

impl Entry {
    /// Parses a line up to the first carriage return or NUL byte, or up to its end. Returns `None` if there is no
    /// colon.
    fn new(line: &[u8]) -> Option<Entry> {
        let end = line.iter().position(|&byte| byte == b'\r' || byte == 0);
        let line = &line[..end.unwrap_or(line.len())];
        if !line.contains(&b':') {
            return None;
        }
        let mut bytes = [0; ENTRY_LINE_LEN_MAX + 1];
        let kept = line.len().min(ENTRY_LINE_LEN_MAX);
        bytes[..kept].copy_from_slice(&line[..kept]);
        Some(Entry { bytes, len: line.len() as u64 })
    }
}

impl<B: ConstantTimeEq + From<u8>> Entry<B> {
    /// True if the entry is equal to `credentials`, which have the form `user:password`. In a SASL file a colon may
    /// follow the password.
    fn matches(&self, credentials: &[B], kind: PasswordFileKind) -> Choice {
        let has_prefix = self.bytes[..credentials.len()].ct_eq(credentials);
        let has_end = self.len.ct_eq(&(credentials.len() as u64));
        let has_colon = match kind {
            PasswordFileKind::Login => Choice::from(0),
            PasswordFileKind::Sasl => self.bytes[credentials.len()].ct_eq(&B::from(b':')),
        };
        has_prefix & (has_end | has_colon)
    }
}

/// Parses the text of a password file.
fn parse(text: &[u8], kind: PasswordFileKind) -> Result<Vec<Entry>, FileFault> {
    let lines = lines(text).zip(1..);
    let entries: Vec<Entry> = match kind {
        PasswordFileKind::Login => {
            lines.take(LOGINS_MAX).map(parse_login).collect::<Result<_, _>>()?
        }
        PasswordFileKind::Sasl => lines.filter_map(|(line, _)| Entry::new(line)).collect(),
    };
    if entries.is_empty() { Err(FileFault::NoEntry) } else { Ok(entries) }
}

/// Returns the lines of a text without their line breaks. An empty text has no lines.
fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let lines = text.split_inclusive(|&byte| byte == b'\n');
    lines.map(|line| line.strip_suffix(b"\n").unwrap_or(line))
}

/// Parses a line of a [`PasswordFileKind::Login`] file. `line` is the number of the line, counted from 1.
fn parse_login((text, line): (&[u8], usize)) -> Result<Entry, FileFault> {
    if text.len() > ENTRY_LINE_LEN_MAX {
        return Err(FileFault::LineTooLong { line, len: text.len() });
    }
    Entry::new(text).ok_or(FileFault::NotAnEntry { line })
}

/// True if one of the entries has this user and this password.
fn has_entry(entries: &[Entry], kind: PasswordFileKind, user: &[u8], password: &[u8]) -> bool {
    let credentials = [user, b":", password].concat();
    // A user name with a colon is rejected. Otherwise a client could move the first part of a password with a colon
    // into the user name.
    if credentials.len() > ENTRY_LINE_LEN_MAX || user.contains(&b':') {
        return false;
    }
    matches_one(entries, &credentials, kind).into()
}

/// True if `credentials`, which have the form `user:password`, are equal to one of the entries. Compares all entries,
/// even after a match.
fn matches_one<B: ConstantTimeEq + From<u8>>(
    entries: &[Entry<B>],
    credentials: &[B],
    kind: PasswordFileKind,
) -> Choice {
    let matches = entries.iter().map(|entry| entry.matches(credentials, kind));
    matches.fold(Choice::from(0), |found, matches| found | matches)
}

/// A password file, and the entries of its last read.
pub struct PasswordFile {
    path: PathBuf,
    kind: PasswordFileKind,
    last_read: Mutex<Arc<LastRead>>,
}

/// The result of comparing a client's credentials with the entries of a password file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// An entry has this user and this password.
    Known,
    /// No entry has this user with this password.
    Unknown,
}

/// The result of one read of the file.
struct LastRead {
    entries: Vec<Entry>,
    state: ReadState,
}

/// Whether the file has been read, and the version of the file that was read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ReadState {
    /// The file has not been read yet.
    NeverRead,
    /// The file was valid and had this version.
    Valid(FileVersion),
    /// The file was invalid, and a warning was logged.
    Invalid,
}

/// The metadata of a file that change when the file changes: its inode, its size, and the times of the last change of
/// its content and of its metadata.
#[derive(Clone, Copy, PartialEq, Eq)]
struct FileVersion([i64; 6]);

impl FileVersion {
    fn of(file: &Metadata) -> FileVersion {
        let (inode, size) = (file.ino().cast_signed(), file.size().cast_signed());
        FileVersion([inode, size, file.mtime(), file.mtime_nsec(), file.ctime(), file.ctime_nsec()])
    }
}

/// An error that names the option, the path of the password file and the reason why the file is invalid.
#[derive(Debug, thiserror::Error)]
#[error("{option} {}: {fault}", path.display())]
pub struct PasswordsError {
    option: &'static str,
    path: PathBuf,
    fault: FileFault,
}

impl PasswordFile {
    /// Returns a password file without entries. The file is not read yet.
    pub fn new(path: PathBuf, kind: PasswordFileKind) -> PasswordFile {
        let never_read = LastRead { entries: Vec::new(), state: ReadState::NeverRead };
        PasswordFile { path, kind, last_read: Mutex::new(Arc::new(never_read)) }
    }

    /// Reads the file and replaces the entries. If the file is invalid, returns an error and keeps the previous
    /// entries. Clients that have already authenticated stay authenticated.
    pub fn reload(&self) -> Result<(), PasswordsError> {
        if let Some(read) = self.read_unless(ReadState::NeverRead)? {
            self.replace(read);
        }
        Ok(())
    }

    /// Reads the file if it has changed since the last read. If the file is invalid, removes all entries, so that every
    /// authentication fails, and logs a warning unless the file was already invalid.
    pub fn refresh(&self) {
        let state = lock(&self.last_read).state;
        match self.read_unless(state) {
            Ok(None) => {}
            Ok(Some(read)) => self.replace(read),
            Err(error) => {
                if state != ReadState::Invalid {
                    tracing::warn!("every authentication fails: {error}");
                }
                self.replace(LastRead { entries: Vec::new(), state: ReadState::Invalid });
            }
        }
    }

    /// Compares a client's user and password with the entries. A SASL file is first refreshed.
    pub fn check(&self, user: &[u8], password: &[u8]) -> Verdict {
        if self.kind == PasswordFileKind::Sasl {
            self.refresh();
        }
        let read = Arc::clone(&lock(&self.last_read));
        match has_entry(&read.entries, self.kind, user, password) {
            true => Verdict::Known,
            false => Verdict::Unknown,
        }
    }

    fn replace(&self, read: LastRead) {
        *lock(&self.last_read) = Arc::new(read);
    }

    /// Reads the file. Returns `None` without reading if the file is still in the state `known`.
    fn read_unless(&self, known: ReadState) -> Result<Option<LastRead>, PasswordsError> {
        let invalid =
            |fault| PasswordsError { option: self.kind.option(), path: self.path.clone(), fault };
        let unreadable = |error: io::Error| invalid(FileFault::Unreadable(error));
        let file = File::open(&self.path).map_err(unreadable)?;
        let state = ReadState::Valid(FileVersion::of(&file.metadata().map_err(unreadable)?));
        if state == known {
            return Ok(None);
        }
        let mut text = Vec::new();
        file.take(PASSWORD_FILE_LEN_MAX + 1).read_to_end(&mut text).map_err(unreadable)?;
        if text.len() as u64 > PASSWORD_FILE_LEN_MAX {
            return Err(invalid(FileFault::TooLarge));
        }
        let entries = parse(&text, self.kind).map_err(invalid)?;
        if self.kind == PasswordFileKind::Login && lines(&text).count() > LOGINS_MAX {
            let path = self.path.display();
            tracing::warn!(
                "-Y {path}: lines after line {LOGINS_MAX} have no effect: the maximum is \
                 {LOGINS_MAX} users: remove the other lines"
            );
        }
        Ok(Some(LastRead { entries, state }))
    }
}

impl fmt::Debug for PasswordFile {
    /// Writes the path of the file, but not the passwords.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PasswordFile").field("path", &self.path).finish_non_exhaustive()
    }
}
