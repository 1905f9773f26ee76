//! A server as a child process, and clients of it.
//!
//! The child is the test binary itself: the test [`run_as_child`] is called from does nothing unless it
//! is asked to be a server. So signals, limits and exit codes are those of a real process.

#![allow(dead_code, reason = "each test binary uses a part")]

#[path = "../../../../tests/support/stream_client.rs"]
mod stream_client;

use std::io::Write;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

pub use stream_client::Client;

const ARGS_VARIABLE: &str = "SLABWISE_TEST_ARGS";
/// The name of the test that calls [`run_as_child`].
pub const CHILD_TEST: &str = "serves_when_it_is_the_child";
const DEADLINE: Duration = Duration::from_secs(20);

/// Serves and ends the process, if this process is a child; else returns.
pub fn run_as_child() {
    if let Ok(args) = std::env::var(ARGS_VARIABLE) {
        let code = slabwise_server::main(args.lines().map(Into::into));
        // ExitCode tells its number to nobody but the runtime.
        std::process::exit(i32::from(format!("{code:?}") != format!("{:?}", success())));
    }
}

fn success() -> std::process::ExitCode {
    std::process::ExitCode::SUCCESS
}

/// Polls until `condition` holds; panics with `what` after the deadline.
#[expect(clippy::disallowed_methods, reason = "tests wait for real processes")]
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < DEADLINE, "in vain: waiting until {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A directory of one test's own, removed with it.
pub struct Directory(PathBuf);

impl Directory {
    pub fn new() -> Directory {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("slabwise-net-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("a directory for the test");
        Directory(path)
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // A leftover in the temporary directory is no failure.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A running server.
pub struct Server {
    child: Child,
    ports: Vec<u16>,
    pub directory: Directory,
}

/// A child with these arguments, not waited for.
pub fn spawn(args: &[&str], directory: &Directory) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("this binary has a path"));
    command.args([CHILD_TEST, "--exact", "--nocapture"]);
    command.env(ARGS_VARIABLE, args.join("\n"));
    command.env("MEMCACHED_PORT_FILENAME", directory.file("ports"));
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command.spawn().expect("the test binary starts")
}

/// The arguments with a user where root needs one.
pub fn as_user<'a>(args: &[&'a str]) -> Vec<&'a str> {
    let mut args = args.to_vec();
    if slabwise_server::sys::is_root() {
        args.extend(["-u", "root"]);
    }
    args
}

impl Server {
    /// A server on a free TCP port.
    pub fn start(args: &[&str]) -> Server {
        let mut all = vec!["-p", "-1"];
        all.extend(args);
        if !args.contains(&"-l") {
            all.extend(["-l", "127.0.0.1"]);
        }
        Server::start_with(Directory::new(), &all)
    }

    /// A server with exactly these arguments; returns once its ports are known.
    pub fn start_with(directory: Directory, args: &[&str]) -> Server {
        let child = spawn(&as_user(args), &directory);
        let file = directory.file("ports");
        let mut server = Server { child, ports: Vec::new(), directory };
        wait_until("the ports are written", || {
            let ended = server.child.try_wait().expect("a child can be waited for");
            assert_eq!(ended, None, "the server ended at once");
            file.exists()
        });
        let text = std::fs::read_to_string(file).expect("the file is there");
        server.ports = text
            .lines()
            .map(|line| line.rsplit(' ').next().expect("a word").parse().expect("a port"))
            .collect();
        server
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The address of the first listener, on 127.0.0.1.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port()))
    }

    pub fn port(&self) -> u16 {
        self.ports[0]
    }

    pub fn connect(&self) -> Client<TcpStream> {
        Client::tcp(self.address())
    }

    pub fn signal(&self, signal: rustix::process::Signal) {
        let id = rustix::process::Pid::from_raw(self.child.id() as i32).expect("an id");
        rustix::process::kill_process(id, signal).expect("the server is there");
    }

    /// Waits for the server to end by itself.
    pub fn wait(&mut self) -> ExitStatus {
        wait_child(&mut self.child)
    }

    /// Resident memory in bytes.
    pub fn resident_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let status = status.expect("the server runs");
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("a line");
        line.split_whitespace().nth(1).expect("a number").parse::<u64>().expect("a number") << 10
    }
}

/// Waits for a child to end by itself.
pub fn wait_child(child: &mut Child) -> ExitStatus {
    let mut status = None;
    wait_until("the server ends", || {
        status = child.try_wait().expect("a child can be waited for");
        status.is_some()
    });
    status.expect("it ended")
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Client<TcpStream> {
    pub fn tcp(address: SocketAddr) -> Client<TcpStream> {
        let socket = TcpStream::connect(address).expect("the server listens");
        socket.set_read_timeout(Some(DEADLINE)).expect("a deadline");
        socket.set_nodelay(true).expect("no delay");
        Client { stream: socket }
    }

    /// Another handle of the same connection.
    pub fn split(&self) -> TcpStream {
        self.stream.try_clone().expect("a descriptor")
    }

    /// Sends a last request, says that it was the last, and reads to the end.
    pub fn half_close_after(&mut self, request: &str) -> Vec<u8> {
        // Where the server turned the client away already, what it said still counts.
        let _ = self.stream.write_all(request.as_bytes());
        let _ = self.stream.shutdown(Shutdown::Write);
        self.read_to_end()
    }

    /// Says that nothing more will be sent.
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
