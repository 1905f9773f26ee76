//! The file that tells others this process's id, for as long as it runs.

use super::sys;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A pid file; removed when dropped.
#[derive(Debug)]
pub struct PidFile {
    path: PathBuf,
}

impl PidFile {
    /// Writes the file; it appears whole, so that no reader finds it empty.
    pub fn write(path: &Path) -> io::Result<PidFile> {
        if let Some(other) = running_process_in(path) {
            tracing::warn!("{} names process {other}, which is running", path.display());
        }
        let mut partial = path.as_os_str().to_owned();
        partial.push(".tmp");
        fs::write(&partial, format!("{}\n", std::process::id()))?;
        fs::rename(&partial, path)?;
        Ok(PidFile { path: path.to_owned() })
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!("cannot remove the pid file {}: {error}", self.path.display());
        }
    }
}

fn running_process_in(path: &Path) -> Option<i32> {
    let id = fs::read_to_string(path).ok()?.trim().parse().ok()?;
    sys::process_exists(id).then_some(id)
}
