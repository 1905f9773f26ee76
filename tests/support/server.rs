//! A server started for one test, on a port of its own, killed when the test lets go of it.

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::wait::{Deadline, pause};
use super::{Client, wait_until};

const START_DEADLINE: Duration = Duration::from_secs(10);
/// Between picking a free port and the server's bind another process may take it.
const START_ATTEMPTS_MAX: usize = 5;

/// How a server is started: a program and the flags that come first.
#[derive(Clone)]
pub struct ServerCommand {
    program: String,
    flags: Vec<String>,
    variables: Vec<(String, String)>,
}

impl ServerCommand {
    /// The server under test: `TEST_SERVER`, or slabwise.
    pub fn under_test() -> ServerCommand {
        match std::env::var("TEST_SERVER") {
            Ok(command) => ServerCommand::parse(&command),
            Err(_) => ServerCommand::parse(env!("CARGO_BIN_EXE_slabwise")),
        }
    }

    /// The memcached installed on this machine.
    pub fn memcached() -> ServerCommand {
        ServerCommand::parse("memcached")
    }

    fn parse(command: &str) -> ServerCommand {
        let mut words = command.split_whitespace().map(str::to_owned);
        let program = words.next().expect("TEST_SERVER names a program");
        ServerCommand { program, flags: words.collect(), variables: Vec::new() }
    }

    /// The same command with more flags.
    pub fn with(mut self, flags: &[&str]) -> ServerCommand {
        self.flags.extend(flags.iter().map(|&flag| flag.to_owned()));
        self
    }

    /// The same command with a variable in its environment.
    pub fn with_variable(mut self, name: &str, value: &str) -> ServerCommand {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Whether this is memcached itself rather than slabwise.
    pub fn is_memcached(&self) -> bool {
        self.program.ends_with("memcached")
    }

    /// The program's name and flags, for messages.
    pub fn describe(&self) -> String {
        let name = self.program.rsplit('/').next().unwrap_or(&self.program);
        format!("{name} {}", self.flags.join(" ")).trim_end().to_owned()
    }

    fn spawn(&self, port: u16) -> Child {
        let mut command = Command::new(&self.program);
        command.args(["-l", "127.0.0.1", "-p", &port.to_string()]);
        if runs_as_root() {
            // Without a user to become, memcached refuses to run as root.
            command.args(["-u", "root"]);
        }
        command.args(&self.flags).stdin(Stdio::null()).stdout(Stdio::null());
        command.envs(self.variables.iter().cloned());
        command.spawn().unwrap_or_else(|error| {
            panic!("cannot start {}: {error} (./test installs the peers)", self.program)
        })
    }
}

fn runs_as_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|me| me.uid() == 0)
}

/// A running server.
pub struct Server {
    child: Child,
    address: SocketAddr,
}

impl Server {
    /// Starts the command and returns once it accepts connections.
    pub fn start(command: &ServerCommand) -> Server {
        for _ in 0..START_ATTEMPTS_MAX {
            if let Some(server) = Server::try_start(command) {
                return server;
            }
        }
        panic!("{} ended at once, or never listened", command.describe());
    }

    fn try_start(command: &ServerCommand) -> Option<Server> {
        let port = free_port();
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let mut server = Server { child: command.spawn(port), address };
        let deadline = Deadline::after(START_DEADLINE);
        while !deadline.is_over() {
            if server.child.try_wait().expect("a child can be waited for").is_some() {
                return None;
            }
            if TcpStream::connect(address).is_ok() {
                return Some(server);
            }
            pause();
        }
        None
    }

    /// A new connection.
    pub fn connect(&self) -> Client {
        Client::connect(self.address)
    }

    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Resident memory of the process.
    pub fn resident_bytes(&self) -> u64 {
        let status = fs::read_to_string(self.proc("status")).expect("the server runs");
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("VmRSS is listed");
        let kib = line.split_whitespace().nth(1).and_then(|word| word.parse::<u64>().ok());
        kib.expect("VmRSS is a number of KiB") * 1024
    }

    /// Open file descriptors of the process.
    pub fn descriptor_count(&self) -> usize {
        fs::read_dir(self.proc("fd")).expect("the server runs").count()
    }

    fn proc(&self, file: &str) -> String {
        format!("/proc/{}/{file}", self.child.id())
    }

    /// Sends SIGTERM.
    pub fn terminate(&self) {
        let status = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        assert!(status.is_ok_and(|status| status.success()), "kill -TERM failed");
    }

    /// Waits for the end; returns the exit code, none when a signal ended it.
    pub fn wait_for_end(&mut self) -> Option<i32> {
        let mut code = None;
        wait_until("the server ends", START_DEADLINE, || {
            match self.child.try_wait().expect("a child can be waited for") {
                Some(status) => {
                    code = status.code();
                    true
                }
                None => false,
            }
        });
        code
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail only when the server is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    listener.local_addr().expect("a bound listener has an address").port()
}
