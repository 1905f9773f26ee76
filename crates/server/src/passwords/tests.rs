//! Tests of password files: which credentials they accept, when they are read again, and what a check compares.

use super::testing::TemporaryFile;
use super::{
    Entry, PASSWORD_FILE_LEN_MAX, PasswordFile, PasswordFileKind, Verdict, has_entry, matches_one,
    parse,
};
use std::cell::Cell;
use subtle::{Choice, ConstantTimeEq};

fn file(text: &str, kind: PasswordFileKind) -> (TemporaryFile, PasswordFile) {
    let file = TemporaryFile::new(text);
    let passwords = PasswordFile::new(file.path().to_owned(), kind);
    (file, passwords)
}

/// True if the password file accepts this user with this password.
fn knows(passwords: &PasswordFile, user: &str, password: &str) -> bool {
    passwords.check(user.as_bytes(), password.as_bytes()) == Verdict::Known
}

/// Returns the text of a file that is larger than the maximum.
fn too_large() -> String {
    "a:b\n".repeat(PASSWORD_FILE_LEN_MAX as usize / 4 + 1)
}

#[test]
fn a_reload_replaces_the_logins_unless_the_file_is_invalid() {
    let (file, passwords) = file("a:1", PasswordFileKind::Login);
    assert!(!knows(&passwords, "a", "1"), "a file that is not read yet has no entries");
    passwords.reload().expect("the file is valid");
    file.write("b:hidden\n");
    assert!(knows(&passwords, "a", "1"));
    passwords.reload().expect("the file is valid");
    assert!(!knows(&passwords, "a", "1"));
    assert!(knows(&passwords, "b", "hidden"));
    for (text, fault) in
        [("", "has no entries"), ("nonsense", "line 1 "), (&too_large(), "1048576")]
    {
        file.write(text);
        let error = passwords.reload().expect_err("the file should be invalid").to_string();
        assert!(error.starts_with("-Y /") && error.contains(fault), "the error is: {error}");
        assert!(knows(&passwords, "b", "hidden"));
    }
    drop(file);
    let error = passwords.reload().expect_err("the file does not exist").to_string();
    assert!(error.contains("cannot be read"), "the error is: {error}");
    assert!(knows(&passwords, "b", "hidden"));
    assert!(!format!("{passwords:?}").contains("hidden"), "`Debug` must not print a password");
}

#[test]
fn the_next_check_uses_a_changed_sasl_file_and_fails_if_the_file_is_invalid() {
    let (file, passwords) = file("user:old\n", PasswordFileKind::Sasl);
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

const FILE_KINDS: [PasswordFileKind; 2] = [PasswordFileKind::Login, PasswordFileKind::Sasl];

/// True if a file of this kind with this text accepts the user with the password.
#[track_caller]
fn accepts(kind: PasswordFileKind, text: &[u8], user: &[u8], password: &[u8]) -> bool {
    has_entry(&parse(text, kind).expect("the file is valid"), kind, user, password)
}

/// Returns the reason why a file of this kind with this text is invalid.
fn fault(text: &[u8], kind: PasswordFileKind) -> String {
    parse(text, kind).err().expect("the file should be invalid").to_string()
}

#[test]
fn accepts_only_the_user_and_password_of_an_entry() {
    let text = b"foo:bar\nbaaaz:quux\r\nx:y\0z\n:\nempty:\nlast:four";
    for kind in FILE_KINDS {
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
                "the user '{user}' with the password '{password}' must be accepted"
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
            assert!(
                !is_accepted,
                "{kind:?}: the user '{user}' with the password '{password}' must be rejected"
            );
        }
    }
}

thread_local! {
    /// The number of comparisons of [`CountedByte`] in this thread.
    static COMPARISONS: Cell<u64> = const { Cell::new(0) };
}

/// A byte that counts its comparisons.
#[derive(Clone, Copy)]
struct CountedByte(u8);

impl From<u8> for CountedByte {
    fn from(byte: u8) -> Self {
        CountedByte(byte)
    }
}

impl ConstantTimeEq for CountedByte {
    fn ct_eq(&self, other: &Self) -> Choice {
        COMPARISONS.set(COMPARISONS.get() + 1);
        self.0.ct_eq(&other.0)
    }
}

/// Returns the number of bytes that a check of these credentials compares.
fn comparisons(text: &[u8], kind: PasswordFileKind, credentials: &[u8]) -> u64 {
    let entries: Vec<Entry<CountedByte>> = parse(text, kind)
        .expect("the file is valid")
        .into_iter()
        .map(|Entry { bytes, len }| Entry { bytes: bytes.map(CountedByte), len })
        .collect();
    let credentials: Vec<CountedByte> = credentials.iter().copied().map(CountedByte).collect();
    let before = COMPARISONS.get();
    let _ = matches_one(&entries, &credentials, kind);
    COMPARISONS.get() - before
}

#[test]
fn a_check_compares_all_bytes_with_all_entries_whatever_they_contain() {
    let text = b"first:secret\nsecond:other secret\nthird:x";
    for kind in FILE_KINDS {
        // A byte of each entry of a SASL file may be a colon that ends the password.
        let colons = match kind {
            PasswordFileKind::Login => 0,
            PasswordFileKind::Sasl => 3,
        };
        let right = b"first:secret";
        let expected = 3 * right.len() as u64 + colons;
        assert_eq!(comparisons(text, kind, right), expected);
        // The first difference may be at each position, in the user or in the password.
        for position in 0..right.len() {
            let mut wrong = *right;
            wrong[position] ^= 1;
            assert_eq!(comparisons(text, kind, &wrong), expected, "position {position}");
        }
        // The number depends only on the length of the credentials.
        for credentials in [&b"third:x"[..], b"third:y", b"ghost:xy", b"second:"] {
            let expected = 3 * credentials.len() as u64 + colons;
            assert_eq!(comparisons(text, kind, credentials), expected);
        }
    }
}

#[test]
fn a_colon_ends_a_password_only_for_sasl() {
    for kind in FILE_KINDS {
        let text = b"user:two:example.org\nother:x";
        assert!(accepts(kind, text, b"user", b"two:example.org"));
        assert_eq!(accepts(kind, text, b"user", b"two"), kind == PasswordFileKind::Sasl);
        assert!(!accepts(kind, text, b"user", b"tw"));
        assert!(!accepts(kind, text, b"user", b"two:example"));
        assert!(!accepts(kind, text, b"user:two", b"example.org"));
    }
}

#[test]
fn lines_and_credentials_of_more_than_254_bytes_are_rejected() {
    let longest = vec![b'x'; 252];
    for kind in FILE_KINDS {
        let text = [b"u:", &longest[..]].concat();
        assert!(accepts(kind, &text, b"u", &longest));
        for len in [251, 253, 254, 255, 256, 10_000] {
            assert!(
                !accepts(kind, &text, b"u", &vec![b'x'; len]),
                "a password of {len} bytes differs from that of 252 bytes"
            );
        }
        assert!(!accepts(kind, &text, &longest, b"u"));
    }
    let too_long = [b"u:", &longest[..], b"x"].concat();
    assert_eq!(
        fault(&[b"a:b\n", &too_long[..]].concat(), PasswordFileKind::Login),
        "line 2 has 255 bytes, more than the maximum of 254: choose a shorter password"
    );
    for len in [252, 253] {
        assert!(
            !accepts(PasswordFileKind::Sasl, &too_long, b"u", &vec![b'x'; len]),
            "a truncated line does not accept a password of {len} bytes"
        );
    }
    let commented = [b"u:p:", &longest[..]].concat();
    assert!(accepts(PasswordFileKind::Sasl, &commented, b"u", b"p"));
}

#[test]
fn a_line_without_a_colon_is_an_error_for_logins_and_ignored_for_sasl() {
    for (text, line) in [
        (&b"foo:bar\nfoobar\n"[..], "line 2 is not 'user:password'"),
        (b"foo:bar\n\nb:c\n", "line 2 "),
        (b"foo:bar\nfo\0o:bar\n", "line 2 "),
    ] {
        assert!(
            fault(text, PasswordFileKind::Login).contains(line),
            "the error must contain: {line}"
        );
        assert!(accepts(PasswordFileKind::Sasl, text, b"foo", b"bar"));
    }
    assert!(fault(b"\n", PasswordFileKind::Login).contains("line 1 "));
    for (text, kind) in [
        (&b""[..], PasswordFileKind::Login),
        (b"", PasswordFileKind::Sasl),
        (b"\n#\n", PasswordFileKind::Sasl),
    ] {
        assert!(
            fault(text, kind).contains("has no entries"),
            "a {kind:?} file without entries is invalid"
        );
    }
}

#[test]
fn lines_after_the_eighth_are_used_only_for_sasl() {
    let text = b"u1:p\nu2:p\nu3:p\nu4:p\nu5:p\nu6:p\nu7:p\nu8:p\nu9:p\nno entry\n";
    assert!(accepts(PasswordFileKind::Login, text, b"u8", b"p"));
    assert!(!accepts(PasswordFileKind::Login, text, b"u9", b"p"));
    assert!(accepts(PasswordFileKind::Sasl, text, b"u9", b"p"));
}
