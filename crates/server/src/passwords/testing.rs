//! Password files for tests.

use super::{Kind, PasswordFile};
use std::path::Path;
use tempfile::{NamedTempFile, TempPath};

/// A file that is removed when dropped.
pub(crate) struct TemporaryFile(TempPath);

impl TemporaryFile {
    pub(crate) fn new(text: &str) -> TemporaryFile {
        let file = NamedTempFile::new().expect("a file for the test");
        let file = TemporaryFile(file.into_temp_path());
        file.write(text);
        file
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn write(&self, text: &str) {
        std::fs::write(&self.0, text).expect("a temporary file can be written");
    }
}

/// Returns a loaded [`Kind::Login`] file with this text.
pub(crate) fn logins(text: &str) -> PasswordFile {
    let file = TemporaryFile::new(text);
    let logins = PasswordFile::new(file.path().to_owned(), Kind::Login);
    logins.reload().expect("a good file");
    logins
}
