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
//!   for one that does not at all: every entry is compared, without a branch on what it holds.
//! - A check sees one reading of the file, whole.

mod entries;
#[cfg(test)]
pub(crate) mod testing;

pub use entries::Kind;

use entries::{Entry, FILE_LEN_MAX, Fault, LOGINS_MAX, admit, lines, parse};
use slabwise_base::sync::{Mutex, lock};
use std::fmt;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;

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
    use super::{FILE_LEN_MAX, Kind, PasswordFile, Verdict};

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
}
