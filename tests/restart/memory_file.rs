//! A memory file for one test, and servers that use this file.

use std::path::{Path, PathBuf};

use rustix::process::Signal;
use tempfile::TempDir;

use crate::support::{Server, ServerCommand, under_test};

/// A temporary directory with a memory file, the log of its servers, and their ports.
pub struct MemoryFile {
    directory: TempDir,
}

impl MemoryFile {
    /// Makes the directory, in `/dev/shm` if that exists.
    pub fn new() -> MemoryFile {
        let ram = Path::new("/dev/shm");
        let base = if ram.is_dir() { ram.to_owned() } else { std::env::temp_dir() };
        let directory = tempfile::tempdir_in(base).expect("a temporary directory can be created");
        MemoryFile { directory }
    }

    /// Returns the path of the file to which a server writes its ports.
    pub fn port_file(&self) -> PathBuf {
        self.directory.path().join("ports")
    }

    /// Returns the path of the memory file.
    pub fn path(&self) -> PathBuf {
        self.directory.path().join("memory")
    }

    /// Returns the path of the `.meta` file, which belongs to the memory file.
    pub fn meta(&self) -> PathBuf {
        self.directory.path().join("memory.meta")
    }

    /// Returns the path of the log.
    pub fn log_path(&self) -> PathBuf {
        self.directory.path().join("log")
    }

    /// Returns the log of the last server that used this file.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.log_path()).expect("a server has written the log")
    }

    /// Returns the command of a server that uses this file.
    pub fn command(&self, flags: &[&str]) -> ServerCommand {
        let path = self.path();
        let command = under_test().logging_to(&self.log_path());
        command
            .with(&["-e", path.to_str().expect("the path of a temporary file is UTF-8")])
            .with(flags)
    }

    /// Starts a server that uses this file.
    pub fn start(&self, flags: &[&str]) -> Server {
        Server::start(&self.command(flags))
    }
}

/// Stops a server with SIGUSR1, which saves the memory file for the next start.
pub fn stop_gracefully(mut server: Server) {
    server.signal(Signal::USR1);
    assert_eq!(server.wait_for_end(), Some(0), "a graceful stop exits with code 0");
}
