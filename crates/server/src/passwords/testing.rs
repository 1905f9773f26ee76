//! Files for tests.

use super::{Kind, PasswordFile};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A file that is removed when dropped.
pub(crate) struct TemporaryFile(PathBuf);

impl TemporaryFile {
    pub(crate) fn new(text: &str) -> TemporaryFile {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("slabwise-test-{}-{number}", std::process::id());
        let file = TemporaryFile(std::env::temp_dir().join(name));
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

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        // A test may have removed it.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// The logins of a file with this text.
pub(crate) fn logins(text: &str) -> PasswordFile {
    let file = TemporaryFile::new(text);
    let logins = PasswordFile::new(file.path().to_owned(), Kind::Login);
    logins.reload().expect("a good file");
    logins
}
