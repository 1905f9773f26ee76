//! Who may authenticate: a file with a line `user:password` for each, which may go on with `:` and
//! anything, as memcached's do.
//!
//! The file is read when it is first needed and again when it has changed, so that a password takes effect
//! without a restart. A file that cannot be read lets nobody in, and the log says so, once.

use slabwise_base::sync::{Mutex, lock};
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use subtle::{Choice, ConstantTimeEq};

/// The most bytes of a user, a colon and a password, as in memcached.
const ENTRY_LEN_MAX: usize = 253;
/// A larger file is some other.
const FILE_SIZE_BYTES_MAX: u64 = 1 << 20;

/// Who may authenticate.
pub struct PasswordFile {
    path: PathBuf,
    entries: Mutex<Entries>,
}

/// What was read last.
#[derive(Default)]
struct Entries {
    text: Vec<u8>,
    /// Of which file; none if it could not be read.
    version: Option<Version>,
    /// Whether that was told.
    is_failure_logged: bool,
}

/// What changes when a file does.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Version {
    inode: u64,
    size_bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Version {
    fn of(metadata: &Metadata) -> Version {
        Version {
            inode: metadata.ino(),
            size_bytes: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

impl PasswordFile {
    /// The file at `path`, which need not be there yet.
    pub fn new(path: PathBuf) -> PasswordFile {
        PasswordFile { path, entries: Mutex::default() }
    }

    /// Reads the file, so that the log says at the start if it cannot be.
    pub fn load(&self) {
        self.refresh(&mut lock(&self.entries));
    }

    /// Whether the file lists this user with this password.
    pub fn admits(&self, user: &[u8], password: &[u8]) -> bool {
        let mut entries = lock(&self.entries);
        self.refresh(&mut entries);
        admits(&entries.text, user, password)
    }

    /// Reads the file anew if it is not the one that was read.
    fn refresh(&self, entries: &mut Entries) {
        let read = self.read_unless(entries.version);
        match read {
            Ok(None) => {}
            Ok(Some((version, text))) => {
                *entries = Entries { text, version: Some(version), is_failure_logged: false };
            }
            Err(error) => {
                if !entries.is_failure_logged {
                    let path = self.path.display();
                    tracing::warn!("nobody can authenticate: cannot read {path}: {error}");
                }
                *entries = Entries { is_failure_logged: true, ..Entries::default() };
            }
        }
    }

    /// The file and its version, if that is not `known`.
    fn read_unless(&self, known: Option<Version>) -> io::Result<Option<(Version, Vec<u8>)>> {
        let file = File::open(&self.path)?;
        let version = Version::of(&file.metadata()?);
        if known == Some(version) {
            return Ok(None);
        }
        if version.size_bytes > FILE_SIZE_BYTES_MAX {
            return Err(io::Error::other(format!(
                "it has {} bytes, more than the {FILE_SIZE_BYTES_MAX} of any list of passwords",
                version.size_bytes
            )));
        }
        let mut text = Vec::new();
        file.take(FILE_SIZE_BYTES_MAX).read_to_end(&mut text)?;
        Ok(Some((version, text)))
    }
}

/// Every line is compared, and each whole: the time tells nothing of what is in them.
fn admits(text: &[u8], user: &[u8], password: &[u8]) -> bool {
    let entry = [user, b":", password].concat();
    // A colon in the user would make a password of another user's line a part of the name.
    let is_possible = entry.len() <= ENTRY_LEN_MAX && !user.contains(&b':');
    let lines = text.split(|&byte| byte == b'\n');
    let is_listed = lines.fold(Choice::from(0), |found, line| found | is_entry(line, &entry));
    is_possible && !user.is_empty() && !password.is_empty() && bool::from(is_listed)
}

/// Whether a line is `entry`, or begins with it and a colon.
fn is_entry(line: &[u8], entry: &[u8]) -> Choice {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let padded = line.iter().chain(std::iter::repeat(&0));
    let begins = entry.iter().zip(padded).fold(Choice::from(1), |same, (a, b)| same & a.ct_eq(b));
    let next = line.get(entry.len()).copied().unwrap_or(b':');
    let is_long_enough = Choice::from(u8::from(line.len() >= entry.len()));
    begins & next.ct_eq(&b':') & is_long_enough
}

#[cfg(test)]
mod tests {
    use super::{PasswordFile, admits};
    use crate::sasl::testing::TemporaryFile;

    #[test]
    fn a_line_is_a_user_a_password_and_perhaps_more() {
        let text = b"first:one\nsecond:two:example.org\r\nthird:three\r\nlast:four";
        for (user, password) in
            [("first", "one"), ("second", "two"), ("third", "three"), ("last", "four")]
        {
            assert!(admits(text, user.as_bytes(), password.as_bytes()), "{user}");
            assert!(!admits(text, user.as_bytes(), &password.as_bytes()[1..]), "{user}");
            assert!(!admits(text, &user.as_bytes()[1..], password.as_bytes()), "{user}");
            assert!(!admits(text, user.as_bytes(), b""), "{user}");
        }
        assert!(admits(text, b"second", b"two:example.org"));
        assert!(!admits(text, b"second:two", b"example.org"));
        assert!(!admits(text, b"first", b"one\nsecond"));
        assert!(!admits(text, b"first", b"one\0"));
        assert!(!admits(b"", b"", b""));
        assert!(!admits(b"user:", b"user", b""));
    }

    #[test]
    fn entries_are_as_long_as_in_memcached() {
        let password = "p".repeat(248);
        let text = format!("user:{password}");
        assert!(admits(text.as_bytes(), b"user", password.as_bytes()));
        let password = "p".repeat(249);
        let text = format!("user:{password}");
        assert!(!admits(text.as_bytes(), b"user", password.as_bytes()));
    }

    #[test]
    fn a_changed_file_counts_at_once() {
        let file = TemporaryFile::new("user:old\n");
        let passwords = PasswordFile::new(file.path().to_owned());
        assert!(passwords.admits(b"user", b"old"));
        file.write("user:renewed\n");
        assert!(!passwords.admits(b"user", b"old"));
        assert!(passwords.admits(b"user", b"renewed"));
        file.write(&"x".repeat(super::FILE_SIZE_BYTES_MAX as usize + 1));
        assert!(!passwords.admits(b"user", b"renewed"));
        drop(file);
        assert!(!passwords.admits(b"user", b"renewed"));
    }
}
