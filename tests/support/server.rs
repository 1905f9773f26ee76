//! A server started for one test, on a port of its own, killed when the test lets go of it.

use std::collections::HashSet;
use std::fs;
use std::net::SocketAddr;

use rustix::process::Signal;
use slabwise_client::process;

use super::Client;

pub use slabwise_client::process::ServerCommand;

/// The state of a listening socket in `/proc/net/tcp`.
const TCP_LISTEN: &str = "0A";

/// The server under test: `TEST_SERVER`, or slabwise.
pub fn under_test() -> ServerCommand {
    let Ok(command) = std::env::var("TEST_SERVER") else {
        return ServerCommand::on_free_port(env!("CARGO_BIN_EXE_slabwise"));
    };
    let words: Vec<&str> = command.split_whitespace().collect();
    let (program, flags) = words.split_first().expect("TEST_SERVER names a program");
    ServerCommand::on_free_port(program).with(flags)
}

/// The memcached installed on this machine.
pub fn stock_memcached() -> ServerCommand {
    ServerCommand::on_free_port("memcached")
}

/// Whether this is memcached itself rather than slabwise.
pub fn is_memcached(command: &ServerCommand) -> bool {
    command.program().ends_with("memcached")
}

/// A running server.
pub struct Server {
    process: process::Server,
}

impl Server {
    /// Starts the command and returns once it accepts connections.
    pub fn start(command: &ServerCommand) -> Server {
        let process = process::Server::start(command)
            .unwrap_or_else(|error| panic!("{error} (./test installs the peers)"));
        let server = Server { process };
        assert!(server.listens_itself(), "another process listens on {}", server.address());
        server
    }

    /// Whether the socket that listens on the address is the child's: a descriptor of its own.
    fn listens_itself(&self) -> bool {
        let sockets: HashSet<String> = fs::read_dir(self.proc("fd"))
            .expect("the server runs")
            .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok())
            .map(|target| target.to_string_lossy().into_owned())
            .collect();
        // The kernel prints the address as the number that it is in its memory.
        let host = u32::from_ne_bytes([127, 0, 0, 1]);
        let place = format!("{host:08X}:{:04X}", self.address().port());
        let table = fs::read_to_string(self.proc("net/tcp")).expect("the server runs");
        table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).any(|fields| {
            let [_, local, _, TCP_LISTEN, ..] = fields[..] else { return false };
            local == place && sockets.contains(&format!("socket:[{}]", fields[9]))
        })
    }

    /// A new connection.
    pub fn connect(&self) -> Client {
        Client::connect(self.address())
    }

    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.process.socket_address()
    }

    /// Resident memory of the process.
    pub fn resident_bytes(&self) -> u64 {
        self.process.status_bytes("VmRSS").expect("the server runs")
    }

    /// Open file descriptors of the process.
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

    /// Waits for the end; returns the exit code, none when a signal ended it.
    pub fn wait_for_end(&mut self) -> Option<i32> {
        self.process.wait().expect("the server ends").code()
    }
}
