//! Password files for tests.

use super::{PasswordFile, PasswordFileKind};
use std::path::Path;
use tempfile::{NamedTempFile, TempPath};

/// A temporary file. Dropping this value removes the file.
pub(crate) struct TemporaryFile(TempPath);

impl TemporaryFile {
    pub(crate) fn new(text: &str) -> TemporaryFile {
        let file = NamedTempFile::new().expect("a temporary file can be created");
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

/// Returns a password file of the kind [`PasswordFileKind::Login`] whose entries are those of `text`.
pub(crate) fn logins(text: &str) -> PasswordFile {
    let file = TemporaryFile::new(text);
    let logins = PasswordFile::new(file.path().to_owned(), PasswordFileKind::Login);
    logins.reload().expect("the file is valid");
    logins
}
