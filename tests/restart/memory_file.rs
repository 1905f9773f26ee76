//! A memory file for one test, and servers that use it.

use std::path::{Path, PathBuf};

use rustix::process::Signal;
use tempfile::TempDir;

use crate::support::{Server, ServerCommand, under_test};

/// A temporary directory with a memory file.
pub struct MemoryFile {
    directory: TempDir,
}

impl MemoryFile {
    pub fn new() -> MemoryFile {
        let ram = Path::new("/dev/shm");
        let base = if ram.is_dir() { ram.to_owned() } else { std::env::temp_dir() };
        let directory = tempfile::tempdir_in(base).expect("a directory for the test");
        MemoryFile { directory }
    }

    /// Returns the file in which a server that starts in the background reports its ports.
    pub fn port_file(&self) -> PathBuf {
        self.directory.path().join("ports")
    }

    pub fn path(&self) -> PathBuf {
        self.directory.path().join("memory")
    }

    pub fn meta(&self) -> PathBuf {
        self.directory.path().join("memory.meta")
    }

    /// Returns the log of the last server that used this file.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("log")).expect("a server was started")
    }

    /// Returns the command of a server that uses this file.
    pub fn command(&self, flags: &[&str]) -> ServerCommand {
        let path = self.path();
        let command = under_test().logging_to(&self.directory.path().join("log"));
        command.with(&["-e", path.to_str().expect("the path is UTF-8")]).with(flags)
    }

    pub fn start(&self, flags: &[&str]) -> Server {
        Server::start(&self.command(flags))
    }
}

/// Stops a server with SIGUSR1, as an operator does before an upgrade.
pub fn stop_gracefully(mut server: Server) {
    server.signal(Signal::USR1);
    assert_eq!(server.wait_for_end(), Some(0), "a graceful stop exits with code 0");
}
