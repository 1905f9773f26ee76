//! A memory file of one test's own, and servers on it.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::support::{Server, ServerCommand};

/// A directory with a memory file in it; removed with everything in it.
pub struct MemoryFile {
    directory: PathBuf,
}

impl MemoryFile {
    pub fn new() -> MemoryFile {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let ram = Path::new("/dev/shm");
        let base = if ram.is_dir() { ram.to_owned() } else { std::env::temp_dir() };
        let directory = base.join(format!("slabwise-warm-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a directory for the test");
        MemoryFile { directory }
    }

    pub fn path(&self) -> PathBuf {
        self.directory.join("memory")
    }

    pub fn meta(&self) -> PathBuf {
        self.directory.join("memory.meta")
    }

    /// What the last server on this file has said.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.directory.join("log")).expect("a server was started")
    }

    /// The command of a server on this file.
    pub fn command(&self, flags: &[&str]) -> ServerCommand {
        let path = self.path();
        let command = ServerCommand::under_test().logging_to(&self.directory.join("log"));
        command.with(&["-e", path.to_str().expect("a path of text")]).with(flags)
    }

    pub fn start(&self, flags: &[&str]) -> Server {
        Server::start(&self.command(flags))
    }
}

impl Drop for MemoryFile {
    fn drop(&mut self) {
        // A leftover in a ram disk or temporary directory is no failure.
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Stops a server as an operator does before an upgrade.
pub fn stop_gracefully(mut server: Server) {
    server.signal("USR1");
    assert_eq!(server.wait_for_end(), Some(0), "a graceful stop is a clean end");
}
