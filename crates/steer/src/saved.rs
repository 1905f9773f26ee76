//! The state file: what must survive the end of the steerer.
//!
//! ```text
//!   start --> lock FILE.lock --> write FILE --> slabs automove 0 --> ... --> slabs automove N --> remove N from FILE
//! ```
//!
//! Invariants: the file is written before the first change of the server's settings, and each write replaces it whole
//! (a temporary file is renamed), so a reader never sees half of it. While a steerer runs it holds the lock, so that two
//! steerers never use one file. The system releases the lock when the process ends, also after SIGKILL.

use crate::error::SteerError;
use crate::split::Split;
use serde::{Deserialize, Serialize};
use slabwise_observer::counters::ProcessIdentity;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// The mode of the automover when it is off.
pub const OFF: u64 = 0;
/// The number of the present format of the file.
const FORMAT: u32 = 1;

/// The contents of the state file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saved {
    format: u32,
    /// The address of the server, as its argument gave it.
    pub server: String,
    /// The process id of the server.
    pub pid: u64,
    /// The Unix time at which the server started, in seconds.
    pub started_at_seconds: u64,
    /// The mode of the automover to restore; `None` if the steerer has not changed it, or has restored it.
    pub automove: Option<u64>,
    /// The last split that the steerer chose.
    pub split: Split,
}

impl Saved {
    /// Returns the state of a server that the steerer has not changed.
    pub fn new(server: String, process: ProcessIdentity) -> Saved {
        let ProcessIdentity { pid, started_at_seconds } = process;
        Saved {
            format: FORMAT,
            server,
            pid,
            started_at_seconds,
            automove: None,
            split: Split::default(),
        }
    }

    /// Returns true if a mode is to be restored.
    pub fn has_changed_mode(&self) -> bool {
        self.automove.is_some_and(|mode| mode != OFF)
    }

    /// Returns the process of the server.
    pub fn process(&self) -> ProcessIdentity {
        ProcessIdentity { pid: self.pid, started_at_seconds: self.started_at_seconds }
    }
}

/// The state file of this process, which holds its lock.
#[derive(Debug)]
pub struct StateFile {
    path: PathBuf,
    _lock: File,
}

impl StateFile {
    /// Locks the file of this path. Creates its folder if that does not exist.
    pub fn lock(path: &Path) -> Result<StateFile, SteerError> {
        let failed = |error| SteerError::State { path: path.to_owned(), error };
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(failed)?;
        }
        let lock_path = beside(path, ".lock");
        let lock = OpenOptions::new().create(true).truncate(false).write(true).open(lock_path);
        let lock = lock.map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => Ok(StateFile { path: path.to_owned(), _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(SteerError::Locked { path: path.to_owned() }),
            Err(TryLockError::Error(error)) => Err(failed(error)),
        }
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the file; returns `None` if it does not exist.
    pub fn read(&self) -> Result<Option<Saved>, SteerError> {
        let text = match std::fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(SteerError::State { path: self.path.clone(), error }),
        };
        let invalid = |reason: String| SteerError::Invalid { path: self.path.clone(), reason };
        let saved: Saved =
            serde_json::from_str(&text).map_err(|error| invalid(error.to_string()))?;
        match saved.format {
            FORMAT => Ok(Some(saved)),
            other => Err(invalid(format!("it has format {other}, expected {FORMAT}"))),
        }
    }

    /// Replaces the contents of the file. When the call returns, they are on the disk.
    pub fn write(&self, saved: &Saved) -> Result<(), SteerError> {
        let failed = |error| SteerError::State { path: self.path.clone(), error };
        let text = serde_json::to_string(saved).map_err(|error| failed(error.into()))?;
        let folder = self.path.parent().filter(|it| !it.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        let mut file = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
        file.write_all(text.as_bytes()).and_then(|()| file.as_file().sync_all()).map_err(failed)?;
        file.persist(&self.path).map(drop).map_err(|error| failed(error.error))
    }
}

/// Returns the path with this text after its last name.
fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Returns the default path of the state file of a server: a file in `slabwise` in the user's folder of states, as the
/// XDG Base Directory Specification defines it; `None` if the user has no home folder.
pub fn default_path(server: &str) -> Option<PathBuf> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|it| it.is_absolute());
    let home = || absolute("HOME").map(|home| home.join(".local/state"));
    let folder = absolute("XDG_STATE_HOME").or_else(home)?;
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "._-".contains(character);
    let plain = |character| if is_plain(character) { character } else { '_' };
    let name: String = server.chars().map(plain).collect();
    Some(folder.join("slabwise").join(format!("steer-{name}.json")))
}

#[cfg(test)]
mod tests {
    use super::{Saved, StateFile};
    use crate::split::Split;
    use crate::testing::counters;
    use slabwise_observer::counters::ProcessIdentity;

    #[test]
    fn what_was_written_is_read_again() {
        let folder = tempfile::tempdir().expect("the system has a folder for temporary files");
        let path = folder.path().join("new/state.json");
        let file = StateFile::lock(&path).expect("the folder can be created");
        assert_eq!(file.read().expect("no file is no error"), None);
        let process = ProcessIdentity { pid: 3, started_at_seconds: 5 };
        let mut saved = Saved::new("unix:/m".to_owned(), process);
        saved.automove = Some(2);
        saved.split = Split::of(&counters(&[(96, 3), (120, 1)]));
        file.write(&saved).expect("the folder exists");
        assert_eq!(file.read().expect("the file is valid"), Some(saved.clone()));
        assert_eq!(saved.process(), process);
        let files = std::fs::read_dir(path.parent().expect("a file is in a folder"));
        assert_eq!(files.expect("the folder exists").count(), 2, "the state and its lock remain");
    }

    #[test]
    fn a_second_steerer_and_a_damaged_file_are_refused() {
        let folder = tempfile::tempdir().expect("the system has a folder for temporary files");
        let path = folder.path().join("state.json");
        let file = StateFile::lock(&path).expect("the folder exists");
        let second = StateFile::lock(&path).expect_err("the file is locked").to_string();
        assert!(second.contains("another steerer") && second.contains("state.json"), "{second}");
        for text in ["", "{", "{\"format\":1}", "[]"] {
            std::fs::write(&path, text).expect("the folder exists");
            let error = file.read().expect_err("the file is damaged").to_string();
            assert!(error.contains("remove"), "{error}");
        }
        drop(file);
        StateFile::lock(&path).expect("the lock was released");
    }
}
