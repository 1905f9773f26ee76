//! The command `slabwise steer` as a child process.

use crate::support::{Deadline, pause, wait_until};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Signal, getpriority_process, kill_process};

/// The longest time for an effect of the command.
pub const SOON: Duration = Duration::from_secs(30);

/// Options with which the command moves pages at its first step, and notices faults soon.
pub const QUICK_OPTIONS: &[&str] = &[
    "--policy",
    "lama:curve=distance:period_gets=1:moves_max=3",
    "--interval",
    "0.1",
    "--read-timeout",
    "0.3",
    "--reply-timeout",
    "0.5",
];

/// The folder of the state file and the log of one test, and the address of its server.
pub struct Files {
    folder: Arc<tempfile::TempDir>,
    address: String,
}

/// A running command, killed at the end of the test.
pub struct Steer {
    child: Child,
    log: PathBuf,
    /// The folder exists as long as the command or its [`Files`].
    _folder: Arc<tempfile::TempDir>,
}

impl Files {
    pub fn new(address: SocketAddr) -> Files {
        let folder = tempfile::tempdir().expect("the system has a folder for temporary files");
        Files { folder: Arc::new(folder), address: address.to_string() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, options: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_slabwise"));
        command.args(["steer", "--server", &self.address, "--state"]).arg(self.path("state"));
        command.args(options).stdin(Stdio::null());
        command
    }

    /// Starts to steer with a policy that moves pages at its first step.
    pub fn steer(&self, options: &[&str]) -> Steer {
        let mut command = self.command(QUICK_OPTIONS);
        command.arg("--log").arg(self.path("log")).args(options);
        self.start(command)
    }

    /// Starts a command that writes its log to the file `log`.
    pub fn start(&self, mut command: Command) -> Steer {
        let child = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn();
        let folder = Arc::clone(&self.folder);
        Steer { child: child.expect("the command starts"), log: self.path("log"), _folder: folder }
    }

    /// Runs `slabwise steer --restore`, and returns what it printed.
    pub fn restore(&self) -> String {
        let output = self.command(&["--restore"]).output().expect("the command runs");
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    }
}

impl Steer {
    /// Returns the lines of the log without their times.
    pub fn log(&self) -> Vec<String> {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        text.lines().filter_map(|line| Some(line.split_once(' ')?.1.to_owned())).collect()
    }

    /// Returns the number of log lines that contain this text.
    pub fn count(&self, text: &str) -> usize {
        self.log().iter().filter(|line| line.contains(text)).count()
    }

    /// Waits until a log line contains this text.
    pub fn await_line(&self, text: &str) {
        let deadline = Deadline::after(SOON);
        while self.count(text) == 0 {
            assert!(!deadline.is_over(), "the log should have '{text}': {:#?}", self.log());
            pause();
        }
    }

    /// Returns the priority of the process: 19 is the lowest.
    pub fn nice(&self) -> i32 {
        getpriority_process(Some(Pid::from_child(&self.child))).expect("the process runs")
    }

    /// Sends a signal to the command.
    pub fn send(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        kill_process(pid.expect("the id of a process is positive"), signal).expect("it runs");
    }

    /// Returns true if the command has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("the command is a child").is_some()
    }

    /// Waits until the command ends.
    pub fn end(&mut self) -> ExitStatus {
        let mut status = None;
        wait_until("the command ends", SOON, || {
            status = self.child.try_wait().expect("the command is a child");
            status.is_some()
        });
        status.expect("the wait has succeeded")
    }

    /// Ends the command with SIGTERM.
    pub fn stop(&mut self) -> ExitStatus {
        self.send(Signal::TERM);
        self.end()
    }
}

impl Drop for Steer {
    fn drop(&mut self) {
        // The command may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
