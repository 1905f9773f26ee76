//! A server started for one test, on a port of its own, killed when the test lets go of it.
//!
//! The kernel picks the port while the server binds it (`-p -1`), and the server writes it to a file
//! that only it knows of (`MEMCACHED_PORT_FILENAME`): so no two servers ever share one, however many
//! tests run.

use std::collections::HashSet;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::{Client, wait_until};

/// Long, as all tests start their servers at once, on a machine that may do other work beside.
const START_DEADLINE: Duration = Duration::from_secs(30);
/// The state of a listening socket in `/proc/net/tcp`.
const TCP_LISTEN: &str = "0A";

/// How a server is started: a program and the flags that come first.
#[derive(Clone)]
pub struct ServerCommand {
    program: String,
    flags: Vec<String>,
    log: Option<PathBuf>,
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
        ServerCommand { program, flags: words.collect(), log: None }
    }

    /// The same command with more flags.
    pub fn with(mut self, flags: &[&str]) -> ServerCommand {
        self.flags.extend(flags.iter().map(|&flag| flag.to_owned()));
        self
    }

    /// The same command, its stderr written to a file of one start.
    pub fn logging_to(mut self, path: &Path) -> ServerCommand {
        self.log = Some(path.to_owned());
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

    /// Starts the command without waiting for anything. It writes its ports to the file.
    pub fn spawn(&self, port_file: &Path) -> Child {
        let mut command = Command::new(&self.program);
        command.args(["-l", "127.0.0.1", "-p", "-1"]).env("MEMCACHED_PORT_FILENAME", port_file);
        if runs_as_root() {
            // Without a user to become, memcached refuses to run as root.
            command.args(["-u", "root"]);
        }
        command.args(&self.flags).stdin(Stdio::null()).stdout(Stdio::null());
        if let Some(path) = &self.log {
            command.stderr(fs::File::create(path).expect("a log can be written"));
        }
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
        let port_file = new_port_file();
        let child = command.spawn(&port_file);
        let mut server = Server { child, address: SocketAddr::from(([127, 0, 0, 1], 0)) };
        wait_until(&format!("{} listens", command.describe()), START_DEADLINE, || {
            let ended = server.child.try_wait().expect("a child can be waited for");
            assert!(ended.is_none(), "{} ended at once: {ended:?}", command.describe());
            port_file.exists()
        });
        server.address.set_port(read_port(&port_file));
        // It has served its purpose; one that is left over does no harm.
        let _ = fs::remove_file(&port_file);
        assert!(server.listens_itself(), "another process listens on {}", server.address);
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
        let place = format!("{host:08X}:{:04X}", self.address.port());
        let table = fs::read_to_string(self.proc("net/tcp")).expect("the server runs");
        table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).any(|fields| {
            let [_, local, _, TCP_LISTEN, ..] = fields[..] else { return false };
            local == place && sockets.contains(&format!("socket:[{}]", fields[9]))
        })
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
        self.signal("TERM");
    }

    /// Sends the signal of this name.
    pub fn signal(&self, name: &str) {
        let option = format!("-{name}");
        let status = Command::new("kill").args([&option, &self.child.id().to_string()]).status();
        assert!(status.is_ok_and(|status| status.success()), "kill {option} failed");
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

/// A path that no other server of any test was given.
pub fn new_port_file() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("test-ports-{}-{number}", std::process::id()));
    // An earlier process of this id may have left its own.
    let _ = fs::remove_file(&path);
    path
}

/// The port of the first TCP listener; the file appears whole.
pub fn read_port(file: &Path) -> u16 {
    let text = fs::read_to_string(file).expect("the server wrote it");
    let port = text.lines().find_map(|line| line.strip_prefix("TCP INET: "));
    port.and_then(|port| port.trim().parse().ok())
        .unwrap_or_else(|| panic!("no TCP port in {text:?}"))
}
