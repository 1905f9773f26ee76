//! A server as a child process, and its clients.
//!
//! The child is the test binary itself, so signals, limits and exit codes are those of a real process. The test that
//! calls [`run_as_child`] serves in the child, and does nothing in the process that runs the tests.

#[path = "../../../../../tests/support/stream_client.rs"]
mod stream_client;

use std::io::Write;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use slabwise_client::process::{self, ServerCommand, user_arguments};
use tempfile::TempDir;

pub use stream_client::Client;

const ARGS_VARIABLE: &str = "SLABWISE_TEST_ARGS";
/// The name of the test that calls [`run_as_child`].
pub const CHILD_TEST: &str = "serves_when_it_is_the_child";
const DEADLINE: Duration = Duration::from_secs(20);

/// If this process is a child, runs the server, and exits when the server ends. Otherwise returns immediately.
pub fn run_as_child() {
    if let Ok(args) = std::env::var(ARGS_VARIABLE) {
        let code = slabwise_server::main(args.lines().map(Into::into));
        // Only the runtime can read the number of an ExitCode.
        std::process::exit(i32::from(format!("{code:?}") != format!("{:?}", success())));
    }
}

fn success() -> std::process::ExitCode {
    std::process::ExitCode::SUCCESS
}

/// Polls until `condition` holds. Panics after 20 seconds, with `what`, which says in words what should happen.
#[expect(clippy::disallowed_methods, reason = "tests wait for real processes")]
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < DEADLINE, "within 20 seconds this should happen: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A running server.
pub struct Server {
    process: process::Server,
}

/// Returns the command of a child with these arguments.
pub fn command(args: &[&str]) -> ServerCommand {
    ServerCommand::new(std::env::current_exe().expect("this binary has a path"))
        .with(&[CHILD_TEST, "--exact", "--nocapture"])
        .with_variable(ARGS_VARIABLE, &args.join("\n"))
}

/// Adds a user to the arguments if the test runs as root.
pub fn as_user<'a>(args: &[&'a str]) -> Vec<&'a str> {
    [args, user_arguments()].concat()
}

impl Server {
    /// Starts a server on a free TCP port.
    pub fn start(args: &[&str]) -> Server {
        let mut all = vec!["-p", "-1"];
        all.extend(args);
        if !args.contains(&"-l") {
            all.extend(["-l", "127.0.0.1"]);
        }
        Server::start_with(directory(), &all)
    }

    /// Starts a server with exactly these arguments. Returns when its ports are known.
    pub fn start_with(directory: TempDir, args: &[&str]) -> Server {
        let process = process::Server::start_in(directory, &command(&as_user(args)));
        Server { process: process.unwrap_or_else(|error| panic!("{error}")) }
    }

    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Returns the path of a file in the server's directory.
    pub fn file(&self, name: &str) -> PathBuf {
        self.process.directory().join(name)
    }

    /// Returns the address of the first listener, on 127.0.0.1.
    pub fn address(&self) -> SocketAddr {
        self.process.socket_address()
    }

    pub fn port(&self) -> u16 {
        self.process.ports()[0]
    }

    pub fn connect(&self) -> Client<TcpStream> {
        Client::tcp(self.address())
    }

    pub fn signal(&self, signal: rustix::process::Signal) {
        self.process.signal(signal).expect("the server runs");
    }

    /// Waits until the server exits by itself.
    pub fn wait(&mut self) -> ExitStatus {
        self.process.wait().expect("the server ends")
    }

    /// Returns the resident memory in bytes.
    pub fn resident_bytes(&self) -> u64 {
        self.process.status_bytes("VmRSS").expect("the server runs")
    }
}

/// Runs a child with these arguments until it exits by itself, and returns its exit status.
pub fn exit_of(args: &[&str], directory: &TempDir) -> ExitStatus {
    let child = command(args).spawn(&directory.path().join("ports"));
    process::wait(&mut child.expect("the test binary starts")).expect("the server ends")
}

/// Returns a temporary directory for one test.
pub fn directory() -> TempDir {
    tempfile::tempdir().expect("a directory for the test")
}

impl Client<TcpStream> {
    pub fn tcp(address: SocketAddr) -> Client<TcpStream> {
        let socket = TcpStream::connect(address).expect("the server listens");
        socket.set_read_timeout(Some(DEADLINE)).expect("a deadline");
        socket.set_nodelay(true).expect("no delay");
        Client { stream: socket }
    }

    /// Returns a second stream for the same connection, for example for another thread.
    pub fn split(&self) -> TcpStream {
        self.stream.try_clone().expect("a descriptor")
    }

    /// Sends a last request, shuts down the sending direction and reads to the end.
    pub fn half_close_after(&mut self, request: &str) -> Vec<u8> {
        // If the server has already closed the connection, the write fails. The bytes that the server sent are
        // returned.
        let _ = self.stream.write_all(request.as_bytes());
        let _ = self.stream.shutdown(Shutdown::Write);
        self.read_to_end()
    }

    /// Shuts down the sending direction of the connection.
    pub fn half_close(&self) {
        self.stream.shutdown(Shutdown::Write).expect("the connection is open");
    }
}

impl Client<UnixStream> {
    pub fn unix(path: &Path) -> Client<UnixStream> {
        let socket = UnixStream::connect(path).expect("the server listens");
        socket.set_read_timeout(Some(DEADLINE)).expect("a deadline");
        Client { stream: socket }
    }
}
