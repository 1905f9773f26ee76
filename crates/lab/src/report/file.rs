//! Writes the files of reports.

use std::fs;
use std::path::PathBuf;

/// A file that cannot be read or written. The text is the complete message.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ReportError(pub String);

/// Writes a file, and returns its path.
pub fn write_page(path: PathBuf, text: &str) -> Result<PathBuf, ReportError> {
    match fs::write(&path, text) {
        Ok(()) => Ok(path),
        Err(error) => Err(ReportError(format!("cannot write {}: {error}", path.display()))),
    }
}
