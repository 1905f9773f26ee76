//! A server process for one test. It listens on its own port and is killed when the handle is dropped.

use std::collections::HashSet;
use std::fs;
use std::net::SocketAddr;

use rustix::process::Signal;
use slabwise_client::process;

use super::Client;

pub use slabwise_client::process::ServerCommand;

/// The state of a listening socket in `/proc/net/tcp`.
const TCP_LISTEN: &str = "0A";

/// Returns the command of the server under test: `TEST_SERVER`, or slabwise.
pub fn under_test() -> ServerCommand {
    let Ok(command) = std::env::var("TEST_SERVER") else {
        return ServerCommand::on_free_port(env!("CARGO_BIN_EXE_slabwise"));
    };
    let words: Vec<&str> = command.split_whitespace().collect();
    let (program, flags) = words.split_first().expect("TEST_SERVER names a program");
    ServerCommand::on_free_port(program).with(flags)
}

/// Returns the command of the memcached installed on this machine.
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
        let process = process::Server::start(command)
            .unwrap_or_else(|error| panic!("{error} (./test installs the peers)"));
        let server = Server { process };
        assert!(server.listens_itself(), "another process listens on {}", server.address());
        server
    }

    /// True if the socket that listens on the address is a descriptor of the child process.
    fn listens_itself(&self) -> bool {
        let sockets: HashSet<String> = fs::read_dir(self.proc("fd"))
            .expect("the server runs")
            .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok())
            .map(|target| target.to_string_lossy().into_owned())
            .collect();
        // The kernel prints the address as the integer that its bytes form in memory.
        let host = u32::from_ne_bytes([127, 0, 0, 1]);
        let place = format!("{host:08X}:{:04X}", self.address().port());
        let table = fs::read_to_string(self.proc("net/tcp")).expect("the server runs");
        table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).any(|fields| {
            let [_, local, _, TCP_LISTEN, ..] = fields[..] else { return false };
            local == place && sockets.contains(&format!("socket:[{}]", fields[9]))
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

    /// Returns the resident memory of the process in bytes.
    pub fn resident_bytes(&self) -> u64 {
        self.process.status_bytes("VmRSS").expect("the server runs")
    }

    /// Returns the number of open file descriptors of the process.
    pub fn descriptor_count(&self) -> usize {
        fs::read_dir(self.proc("fd")).expect("the server runs").count()
    }

    fn proc(&self, file: &str) -> String {
        format!("/proc/{}/{file}", self.process.id())
    }

    /// Sends SIGTERM.
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        self.process.signal(signal).expect("the server runs");
    }

    /// Waits until the process ends. Returns its exit code, or `None` if a signal ended it.
    pub fn wait_for_end(&mut self) -> Option<i32> {
        self.process.wait().expect("the server ends").code()
    }
}
