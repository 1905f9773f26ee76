//! The part of systemd that the tests play.

use crate::support::{Client, Deadline, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// The time within which a server starts, stops or reloads on a busy machine.
pub const TIMEOUT: Duration = Duration::from_secs(30);

/// A folder with the socket for notifications, the configuration file and the log of a server.
pub struct Manager {
    folder: TempDir,
    notifications: UnixDatagram,
}

/// A server that a [`Manager`] has started. Dropping this value kills the process.
pub struct Service {
    child: Child,
}

impl Manager {
    pub fn new() -> Manager {
        let folder = tempfile::tempdir().expect("a temporary folder can be created");
        // A server that changes its user must still be able to read and write here.
        let everyone = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        fs::set_permissions(folder.path(), everyone).expect("the folder is ours");
        let path = folder.path().join("notify");
        let notifications = UnixDatagram::bind(&path).expect("the folder is writable");
        let everyone = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        fs::set_permissions(path, everyone).expect("the socket is ours");
        notifications.set_read_timeout(Some(TIMEOUT)).expect("the timeout is not zero");
        Manager { folder, notifications }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes the configuration file, which replaces an earlier one.
    pub fn write_conf(&self, text: &str) -> PathBuf {
        let path = self.path("slabwise.conf");
        fs::write(&path, text).expect("the folder is writable");
        path
    }

    /// Returns what the servers of this manager have written to stderr.
    pub fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    /// Waits until the log contains a text.
    pub fn wait_for_log(&self, text: &str) {
        wait_until(&format!("the log has {text:?}"), TIMEOUT, || self.log().contains(text));
    }

    /// Starts the server with these arguments, and passes at most two sockets.
    pub fn start(&self, arguments: &[&str], sockets: Vec<OwnedFd>) -> Service {
        // The shell makes the descriptors 3 and 4 of its standard streams. exec keeps its process id.
        let (count, mut sockets) = (sockets.len(), sockets.into_iter());
        let script = match count {
            0 => "unset LISTEN_PID LISTEN_FDS; exec \"$@\"",
            1 => "LISTEN_PID=$$ exec \"$@\" 3<&0 </dev/null",
            2 => "LISTEN_PID=$$ exec \"$@\" 3<&0 4<&1 </dev/null >/dev/null",
            _ => panic!("the standard streams pass at most two sockets"),
        };
        let stream = |socket: Option<OwnedFd>| socket.map_or_else(Stdio::null, Stdio::from);
        let log = File::options().append(true).create(true).open(self.path("log"));
        let child = Command::new("sh")
            .args(["-c", script, "sh", env!("CARGO_BIN_EXE_slabwise")])
            .args(arguments)
            .env("NOTIFY_SOCKET", self.path("notify"))
            .env("LISTEN_FDS", count.to_string())
            .stdin(stream(sockets.next()))
            .stdout(stream(sockets.next()))
            .stderr(log.expect("the folder is writable"))
            .spawn();
        Service { child: child.expect("the system has sh") }
    }

    /// Receives the next notification, and returns its lines.
    pub fn notification(&self) -> Vec<String> {
        let mut buffer = [0; 4096];
        let received = self.notifications.recv(&mut buffer);
        let count = received.unwrap_or_else(|error| {
            panic!("the server sends a notification: {error}; its log: {}", self.log())
        });
        let text = std::str::from_utf8(&buffer[..count]).expect("a notification is text");
        text.lines().map(str::to_owned).collect()
    }

    /// Receives notifications until the server is ready. Returns its main process.
    pub fn wait_until_ready(&self) -> Pid {
        let lines = self.notification();
        assert!(lines.contains(&"READY=1".to_owned()), "{lines:?}");
        let id = lines.iter().find_map(|line| line.strip_prefix("MAINPID=")?.parse().ok());
        id.and_then(Pid::from_raw).expect("the notification names the main process")
    }
}

impl Service {
    pub fn id(&self) -> Pid {
        Pid::from_raw(self.child.id() as i32).expect("the id is positive")
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(self.id(), signal).expect("the server runs");
    }

    pub fn wait(&mut self) -> ExitStatus {
        let deadline = Deadline::after(TIMEOUT);
        loop {
            if let Some(status) = self.child.try_wait().expect("the child is ours") {
                return status;
            }
            assert!(!deadline.is_over(), "the server ends within {TIMEOUT:?}");
            crate::support::pause();
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // The process may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the arguments of the user, which a server needs if root starts it.
pub fn user() -> &'static [&'static str] {
    if rustix::process::getuid().is_root() { &["-u", "nobody"] } else { &[] }
}

/// Asserts that a server at this address stores and returns a value.
pub fn assert_serves(address: SocketAddr) {
    let mut client = Client::connect(address);
    assert_eq!(client.set("key", b"value"), "STORED");
    assert_eq!(client.get("key").as_deref(), Some(&b"value"[..]));
}

/// Returns the arguments of the command line of a unit in `deploy/systemd`. `%i` is replaced by `instance`.
pub fn arguments_of_unit(unit: &str, instance: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/systemd").join(unit);
    let text = fs::read_to_string(&path).expect("the unit exists");
    let line = text.lines().find_map(|line| line.strip_prefix("ExecStart=")).expect("a command");
    let variables =
        text.lines().filter_map(|line| line.strip_prefix("Environment=")?.split_once('='));
    let expanded = variables
        .fold(line.to_owned(), |line, (name, value)| line.replace(&format!("${{{name}}}"), value));
    let mut words = expanded.split_whitespace().map(|word| word.replace("%i", instance));
    assert_eq!(words.next().as_deref(), Some("/usr/bin/slabwise"), "{line}");
    words.collect()
}
