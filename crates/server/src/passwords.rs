//! Who may log in: the entries of the file that `-Y` names.
//!
//! ```text
//!   file: user:password      at the start, and again on SIGHUP
//!         user:password  ----------------------------------->  entries  <--- check(user, password)
//! ```
//!
//! Laws:
//! - A check takes as long for a wrong user as for a wrong password, and for an entry that almost fits as
//!   for one that does not at all: every entry is compared, in full, without a branch on what it holds.
//! - A file that cannot be used changes nothing: at the start there is no server, later the entries that
//!   were in force stay in force.
//!
//! Format and limits are memcached's: a user up to the first `:`, a password up to the end of the line
//! (or the first carriage return or NUL), 254 bytes a line, 8 lines.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};
use subtle::{Choice, ConstantTimeEq};

/// The most bytes of a line, its end not counted.
const LINE_LEN_MAX: usize = 254;
/// The most entries; lines beyond them have no effect.
const ENTRIES_MAX: usize = 8;
/// More than all entries together can have; a device file would have no end.
const FILE_LEN_MAX: u64 = 64 << 10;

/// Who may log in, as the file said when it was last read.
pub struct Passwords {
    path: PathBuf,
    entries: RwLock<Vec<Entry>>,
}

/// Whether somebody may be let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// An entry has this user and this password.
    Known,
    /// None has.
    Unknown,
}

/// Why a password file cannot be used.
#[derive(Debug)]
pub struct PasswordsError {
    path: PathBuf,
    fault: Fault,
}

#[derive(Debug)]
enum Fault {
    Unreadable(io::Error),
    NoEntry,
    /// Lines count from 1.
    NotAnEntry {
        line: usize,
    },
    LineTooLong {
        line: usize,
        len: usize,
    },
}

impl fmt::Display for PasswordsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "-Y {}: ", self.path.display())?;
        match &self.fault {
            Fault::Unreadable(error) => {
                write!(f, "cannot be read: {error}; name a file that the server's user may read")
            }
            Fault::NoEntry => write!(f, "holds no entry: write a line 'user:password'"),
            Fault::NotAnEntry { line } => {
                write!(f, "line {line} is not 'user:password': correct it or take it out")
            }
            Fault::LineTooLong { line, len } => write!(
                f,
                "line {line} has {len} bytes, above the most, {LINE_LEN_MAX}: choose a shorter password"
            ),
        }
    }
}

impl std::error::Error for PasswordsError {}

impl Passwords {
    /// Reads the file.
    pub fn load(path: &Path) -> Result<Passwords, PasswordsError> {
        let entries = RwLock::new(read(path)?);
        Ok(Passwords { path: path.to_owned(), entries })
    }

    /// Reads the file again. Connections that are logged in stay so.
    pub fn reload(&self) -> Result<(), PasswordsError> {
        let entries = read(&self.path)?;
        *self.entries.write().unwrap_or_else(PoisonError::into_inner) = entries;
        Ok(())
    }

    /// Whether an entry has this user and this password.
    pub fn check(&self, user: &[u8], password: &[u8]) -> Verdict {
        let candidate = Entry { user: Field::new(user), password: Field::new(password) };
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        let found = entries.iter().fold(Choice::from(0), |found, entry| {
            let user = entry.user.ct_eq(&candidate.user);
            let password = entry.password.ct_eq(&candidate.password);
            found | (user & password)
        });
        if bool::from(found) { Verdict::Known } else { Verdict::Unknown }
    }
}

impl fmt::Debug for Passwords {
    /// Without the passwords.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Passwords").field("path", &self.path).finish_non_exhaustive()
    }
}

/// One line of the file.
struct Entry {
    user: Field,
    password: Field,
}

/// Text among zeros, so that comparing two takes the same time whatever they hold.
struct Field {
    bytes: [u8; LINE_LEN_MAX],
    len: u64,
}

impl Field {
    /// Text that is longer than any of the file is cut, and equal to none by its length.
    fn new(text: &[u8]) -> Field {
        let mut bytes = [0; LINE_LEN_MAX];
        let kept = text.len().min(LINE_LEN_MAX);
        bytes[..kept].copy_from_slice(&text[..kept]);
        Field { bytes, len: text.len() as u64 }
    }

    fn ct_eq(&self, other: &Field) -> Choice {
        self.bytes.ct_eq(&other.bytes) & self.len.ct_eq(&other.len)
    }
}

fn read(path: &Path) -> Result<Vec<Entry>, PasswordsError> {
    let refuse = |fault| PasswordsError { path: path.to_owned(), fault };
    let mut text = Vec::new();
    File::open(path)
        .and_then(|file| file.take(FILE_LEN_MAX).read_to_end(&mut text))
        .map_err(|error| refuse(Fault::Unreadable(error)))?;
    let (entries, ignored) = parse(&text).map_err(refuse)?;
    if ignored > 0 {
        let path = path.display();
        tracing::warn!(
            "-Y {path}: the lines after line {ENTRIES_MAX} have no effect: no more users can log in"
        );
    }
    Ok(entries)
}

/// The entries, and the number of lines beyond them.
fn parse(text: &[u8]) -> Result<(Vec<Entry>, usize), Fault> {
    if text.is_empty() {
        return Err(Fault::NoEntry);
    }
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    let mut lines = text.split(|&byte| byte == b'\n').zip(1..);
    let entries = lines.by_ref().take(ENTRIES_MAX).map(|(text, line)| entry(text, line));
    let entries = entries.collect::<Result<Vec<_>, _>>()?;
    Ok((entries, lines.count()))
}

fn entry(text: &[u8], line: usize) -> Result<Entry, Fault> {
    if text.len() > LINE_LEN_MAX {
        return Err(Fault::LineTooLong { line, len: text.len() });
    }
    let end = text.iter().position(|&byte| byte == b':').ok_or(Fault::NotAnEntry { line })?;
    let (user, password) = (&text[..end], &text[end + 1..]);
    if user.contains(&0) {
        return Err(Fault::NotAnEntry { line });
    }
    let end = password.iter().position(|&byte| byte == b'\r' || byte == 0);
    let password = &password[..end.unwrap_or(password.len())];
    Ok(Entry { user: Field::new(user), password: Field::new(password) })
}

#[cfg(test)]
pub(crate) mod testing {
    use super::{Passwords, parse};
    use std::sync::RwLock;

    /// The passwords of a file with this text.
    pub(crate) fn passwords(text: &[u8]) -> Passwords {
        let (entries, _) = parse(text).expect("a good file");
        Passwords { path: "passwords".into(), entries: RwLock::new(entries) }
    }
}

#[cfg(test)]
mod tests {
    use super::testing::passwords;
    use super::{Passwords, PasswordsError, Verdict, parse};

    fn fault(text: &[u8]) -> String {
        let fault = parse(text).err().expect("it cannot be used");
        PasswordsError { path: "file".into(), fault }.to_string()
    }

    #[test]
    fn both_user_and_password_must_be_an_entrys() {
        let passwords = passwords(b"foo:bar\nbaaaz:quux\r\na:b:c d\n:\nempty:");
        for (user, password) in
            [("foo", "bar"), ("baaaz", "quux"), ("a", "b:c d"), ("", ""), ("empty", "")]
        {
            let verdict = passwords.check(user.as_bytes(), password.as_bytes());
            assert_eq!(verdict, Verdict::Known, "{user} {password}");
        }
        for (user, password) in [
            ("foo", "ba"),
            ("foo", "barr"),
            ("foo", "bar\0"),
            ("foo\0", "bar"),
            ("fo", "bar"),
            ("foo", "quux"),
            ("baaaz", "bar"),
            ("foo", ""),
            ("", "bar"),
            ("bar", "foo"),
            ("baaaz", "quux\r"),
            ("nobody", "nothing"),
            ("FOO", "bar"),
        ] {
            let verdict = passwords.check(user.as_bytes(), password.as_bytes());
            assert_eq!(verdict, Verdict::Unknown, "{user} {password}");
        }
    }

    #[test]
    fn what_is_longer_than_an_entry_can_be_is_nobodys() {
        let longest = vec![b'x'; 252];
        let passwords = passwords(&[b"u:", &longest[..]].concat());
        assert_eq!(passwords.check(b"u", &longest), Verdict::Known);
        for len in [251, 253, 254, 255, 256, 10_000] {
            assert_eq!(passwords.check(b"u", &vec![b'x'; len]), Verdict::Unknown, "{len}");
        }
        assert_eq!(passwords.check(&longest, b"u"), Verdict::Unknown);
    }

    #[test]
    fn what_is_wrong_with_a_file_is_said_with_its_line() {
        assert!(fault(b"").contains("holds no entry"));
        assert!(fault(b"foo:bar\nfoobar\n").contains("line 2 is not 'user:password'"));
        assert!(fault(b"foo:bar\n\nb:c\n").contains("line 2"));
        assert!(fault(b"fo\0o:bar\n").contains("line 1"));
        let long = fault(&[&b"a:b\nc:"[..], &[b'x'; 253]].concat());
        assert_eq!(
            long,
            "-Y file: line 2 has 255 bytes, above the most, 254: choose a shorter password"
        );
    }

    #[test]
    fn lines_beyond_the_eighth_have_no_effect() {
        let text = b"u1:p\nu2:p\nu3:p\nu4:p\nu5:p\nu6:p\nu7:p\nu8:p\nu9:p\nno entry\n";
        assert_eq!(parse(text).expect("a good file").1, 2);
        let passwords = passwords(text);
        assert_eq!(passwords.check(b"u8", b"p"), Verdict::Known);
        assert_eq!(passwords.check(b"u9", b"p"), Verdict::Unknown);
    }

    #[test]
    fn a_new_file_counts_when_it_is_read_and_a_bad_one_never() {
        let path = std::env::temp_dir().join(format!("slabwise-passwords-{}", std::process::id()));
        std::fs::write(&path, "a:1").expect("a file");
        let passwords = Passwords::load(&path).expect("a good file");
        std::fs::write(&path, "b:hidden\n").expect("a file");
        assert_eq!(passwords.check(b"a", b"1"), Verdict::Known);
        passwords.reload().expect("a good file");
        assert_eq!(passwords.check(b"a", b"1"), Verdict::Unknown);
        assert_eq!(passwords.check(b"b", b"hidden"), Verdict::Known);
        for text in ["", "nonsense"] {
            std::fs::write(&path, text).expect("a file");
            passwords.reload().expect_err("a bad file");
            assert_eq!(passwords.check(b"b", b"hidden"), Verdict::Known);
        }
        std::fs::remove_file(&path).expect("it is there");
        passwords.reload().expect_err("no file");
        assert_eq!(passwords.check(b"b", b"hidden"), Verdict::Known);
        let missing = Passwords::load(&path).expect_err("no file").to_string();
        assert!(missing.contains("cannot be read"), "{missing}");
        assert!(!format!("{passwords:?}").contains("hidden"), "a password is printed");
    }
}
