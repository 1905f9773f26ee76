//! A server whose log the test reads.

use std::fs;
use std::ops::{Deref, DerefMut};
use std::path::PathBuf;

use tempfile::TempDir;

use crate::support::{Server, ServerCommand, built_slabwise};

/// A temporary directory for the files of one server, and the command of the server.
pub struct Setup {
    pub directory: TempDir,
    command: ServerCommand,
}

impl Setup {
    /// Makes the directory. The server has the debug commands, and these options of `-o`.
    pub fn new(options: &str) -> Setup {
        let directory = tempfile::tempdir().expect("a temporary directory can be created");
        let options = format!("debug_commands,{options}");
        let command = built_slabwise().with(&["-v", "-o", &options]);
        let command = command.logging_to(&directory.path().join("log"));
        Setup { directory, command }
    }

    /// Returns the setup of a confined server.
    pub fn confined() -> Setup {
        Setup::new("drop_privileges")
    }

    /// Returns the path of a file in the directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Returns the path of a file in the directory as text.
    pub fn path_text(&self, name: &str) -> String {
        self.path(name)
            .into_os_string()
            .into_string()
            .expect("the path of a temporary file is UTF-8")
    }

    /// Returns the command with these additional flags.
    pub fn command(&self, flags: &[&str]) -> ServerCommand {
        self.command.clone().with(flags)
    }

    /// Starts the server with these additional flags.
    pub fn start(self, flags: &[&str]) -> LoggedServer {
        LoggedServer { server: Server::start(&self.command(flags)), setup: self }
    }

    /// Returns the log of the server.
    pub fn log(&self) -> String {
        fs::read_to_string(self.path("log")).expect("a server has written the log")
    }
}

/// A running server and its directory.
pub struct LoggedServer {
    server: Server,
    pub setup: Setup,
}

impl LoggedServer {
    /// Sends `debugconfine OPERATION` on a new connection, and returns the reply.
    pub fn attempt(&self, operation: &str) -> String {
        self.connect().ask(&format!("debugconfine {operation}"))
    }

    /// Sends `debugconfine OPERATION` on a new connection. Returns the number of the signal that ends the server, and the
    /// last line of the log.
    pub fn end_by(mut self, operation: &str) -> (Option<i32>, String) {
        self.connect().send(format!("debugconfine {operation}\r\n").as_bytes());
        let signal = self.wait_for_signal();
        let log = self.setup.log();
        (signal, log.lines().last().unwrap_or_default().to_owned())
    }
}

impl Deref for LoggedServer {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

impl DerefMut for LoggedServer {
    fn deref_mut(&mut self) -> &mut Server {
        &mut self.server
    }
}
