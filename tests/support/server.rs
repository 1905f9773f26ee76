//! A server process for one test. It listens on its own port. Dropping the [`Server`] kills the process.

use std::collections::HashSet;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use rustix::process::{Pid, Signal};
use slabwise_client::process;

use super::Client;

pub use slabwise_client::process::ServerCommand;

/// The state of a listening socket, as `/proc/net/tcp` shows it.
const TCP_LISTEN: &str = "0A";

/// Returns the command of the server under test: the value of `TEST_SERVER`, or by default slabwise.
pub fn under_test() -> ServerCommand {
    let Ok(command) = std::env::var("TEST_SERVER") else {
        return built_slabwise();
    };
    let words: Vec<&str> = command.split_whitespace().collect();
    let (program, flags) =
        words.split_first().expect("TEST_SERVER is not empty: set it to a command, or unset it");
    ServerCommand::on_free_port(program).with(flags)
}

/// Returns the command of the slabwise that Cargo built, whatever `TEST_SERVER` is.
pub fn built_slabwise() -> ServerCommand {
    ServerCommand::on_free_port(env!("CARGO_BIN_EXE_slabwise"))
}

/// Returns the command of the memcached that is installed on this machine.
pub fn stock_memcached() -> ServerCommand {
    ServerCommand::on_free_port("memcached")
}

/// True if the command runs memcached rather than slabwise.
pub fn is_memcached(command: &ServerCommand) -> bool {
    command.program().ends_with("memcached")
}

/// A running server.
pub struct Server {
    process: process::Server,
}

impl Server {
    /// Starts the command and returns when the server accepts connections.
    pub fn start(command: &ServerCommand) -> Server {
        let process = process::Server::start(command).unwrap_or_else(|error| {
            panic!("{error} (run ./test to install the servers that the tests need)")
        });
        let server = Server { process };
        assert!(
            server.listens_itself(),
            "the test's server listens on {}, not another process",
            server.address()
        );
        server
    }

    /// True if the server process owns the socket that listens on the address.
    fn listens_itself(&self) -> bool {
        let sockets: HashSet<String> = fs::read_dir(self.proc("fd"))
            .expect("the server process is running")
            .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok())
            .map(|target| target.to_string_lossy().into_owned())
            .collect();
        // The kernel prints an IPv4 address as the 32-bit integer that its four bytes form in memory.
        let host = u32::from_ne_bytes([127, 0, 0, 1]);
        let shown_address = format!("{host:08X}:{:04X}", self.address().port());
        let table =
            fs::read_to_string(self.proc("net/tcp")).expect("the server process is running");
        table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).any(|fields| {
            let [_, local, _, TCP_LISTEN, ..] = fields[..] else { return false };
            local == shown_address && sockets.contains(&format!("socket:[{}]", fields[9]))
        })
    }

    /// Opens a new connection.
    pub fn connect(&self) -> Client {
        Client::connect(self.address())
    }

    /// Returns the address that the server listens on.
    pub fn address(&self) -> SocketAddr {
        self.process.socket_address()
    }

    /// Returns the resident memory of the server process, in bytes.
    pub fn resident_bytes(&self) -> u64 {
        self.process.status_bytes("VmRSS").expect("the server process is running")
    }

    /// Returns the largest resident memory of the server process since its start, in bytes.
    pub fn peak_resident_bytes(&self) -> u64 {
        self.process.status_bytes("VmHWM").expect("the server process is running")
    }

    /// Returns the id of the server process.
    pub fn id(&self) -> Pid {
        i32::try_from(self.process.id())
            .ok()
            .and_then(Pid::from_raw)
            .expect("the id of a process is positive")
    }

    /// Returns the number of open file descriptors of the server process.
    pub fn descriptor_count(&self) -> usize {
        fs::read_dir(self.proc("fd")).expect("the server process is running").count()
    }

    /// Returns the path of a file in the process's directory in `/proc`.
    fn proc(&self, file: &str) -> String {
        format!("/proc/{}/{file}", self.process.id())
    }

    /// Sends SIGTERM to the server process.
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Sends a signal to the server process.
    pub fn signal(&self, signal: Signal) {
        self.process.signal(signal).expect("the server process is running");
    }

    /// Waits until the server process ends. Returns its exit code, or `None` if a signal ended the process.
    pub fn wait_for_end(&mut self) -> Option<i32> {
        self.wait_for_status().code()
    }

    /// Waits until the server process ends. Returns the number of the signal that ended the process, or `None` if the
    /// process exited.
    pub fn wait_for_signal(&mut self) -> Option<i32> {
        self.wait_for_status().signal()
    }

    fn wait_for_status(&mut self) -> ExitStatus {
        self.process.wait().expect("the server process ends before the deadline")
    }
}
