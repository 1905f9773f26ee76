//! `slabwise demo` as a user runs it: the demo compares slabwise with memcached, and its servers stop when the demo ends.

use crate::support::{Client, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::Duration;

/// The time within which the servers stop after the end of the demo.
const STOP_DEADLINE: Duration = Duration::from_secs(30);

/// Returns the command of a demo that makes this number of requests, at this rate per second.
fn command(requests: &str, rate: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_slabwise"));
    command.args(["demo", "-m", "8", "--requests", requests, "--rate", rate]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// True if memcached is installed. Prints a message otherwise.
fn memcached_is_installed() -> bool {
    let version = Command::new("memcached").arg("-V").stdout(Stdio::null()).status();
    if version.is_err() {
        eprintln!("without memcached, because it is not installed (apt-get install memcached)");
    }
    version.is_ok()
}

/// A demo whose servers run.
struct Demo {
    process: Child,
    /// The demo writes its reports to this pipe.
    _output: BufReader<ChildStdout>,
    /// The addresses of slabwise and, if it is installed, of memcached.
    servers: Vec<SocketAddr>,
    dashboard: SocketAddr,
    /// The folders in `/proc` of the processes of the servers.
    processes: Vec<PathBuf>,
}

impl Demo {
    /// Starts a demo that takes a long time.
    fn start() -> Demo {
        let mut process = command("1000000", "1000").spawn().expect("the demo starts");
        let mut output = BufReader::new(process.stdout.take().expect("stdout is piped"));
        let mut servers = Vec::new();
        let mut dashboard = None;
        while dashboard.is_none() {
            let mut line = String::new();
            let len = output.read_line(&mut line).expect("the output is UTF-8");
            assert!(len > 0, "the demo prints the address of the dashboard");
            servers.extend(address_after(&line, " at "));
            dashboard = address_after(&line, "dashboard: http://");
        }
        let processes = servers.iter().map(|&server| process_folder(server)).collect();
        let dashboard = dashboard.expect("the loop ends with an address");
        Demo { process, _output: output, servers, dashboard, processes }
    }

    fn send(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).expect("the demo is running");
    }

    /// Waits until the demo ends, and returns what it writes to stderr. Checks that its servers have stopped.
    fn end(mut self) -> String {
        let mut errors = String::new();
        let mut stderr = self.process.stderr.take().expect("stderr is piped");
        stderr.read_to_string(&mut errors).expect("the error text is UTF-8");
        assert!(!self.process.wait().expect("the demo ends").success());
        wait_until("the servers of the demo stop", STOP_DEADLINE, || {
            self.processes.iter().all(|folder| !folder.exists())
        });
        for server in &self.servers {
            assert!(TcpStream::connect(server).is_err(), "no server listens on {server}");
        }
        errors
    }
}

/// Returns the address that follows `before` in the line and ends at a comma or a slash.
fn address_after(line: &str, before: &str) -> Option<SocketAddr> {
    line.split_once(before)?.1.split([',', '/']).next()?.trim().parse().ok()
}

/// Returns the folder in `/proc` of the server at this address.
fn process_folder(server: SocketAddr) -> PathBuf {
    let id = Client::connect(server).stat("pid").to_string();
    let folder = Path::new("/proc").join(id);
    assert!(folder.exists(), "{} exists while the server runs", folder.display());
    folder
}

/// Checks the output of a demo that has ended.
fn assert_report(done: &Output) -> String {
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let reports = text.lines().filter(|line| line.contains("memcached 0.")).count();
    assert!(reports > 1, "{text}");
    assert!(text.contains("miss ratio  0."), "{text}");
    assert!(text.contains("\ndashboard: http://127.0.0.1:"), "{text}");
    assert!(text.trim_end().lines().last().is_some_and(|line| line.contains("missed")), "{text}");
    text
}

#[test]
fn the_demo_prints_miss_ratios_of_memcached_and_slabwise_until_its_end() {
    let done = command("20000", "1000000").output().expect("the demo ends");
    let text = assert_report(&done);
    if memcached_is_installed() {
        let line = text.lines().nth(1).unwrap_or_default();
        assert!(line.starts_with("memcached 1."), "the line has the version: {text}");
        assert!(line.contains(" -m 8 at 127.0.0.1:"), "{text}");
    }
}

#[test]
fn without_an_installed_memcached_the_demo_simulates_it() {
    let done = command("20000", "1000000").env("PATH", "").output().expect("the demo ends");
    let text = assert_report(&done);
    assert!(text.contains("\nmemcached is simulated, because it is not installed"), "{text}");
}

#[test]
fn a_memcached_that_the_user_names_must_start() {
    let mut command = command("20000", "1000000");
    let done = command.args(["--memcached", "/nonexistent/memcached"]).output();
    let done = done.expect("the demo ends");
    let errors = String::from_utf8_lossy(&done.stderr);
    assert!(!done.status.success());
    assert!(errors.contains("--memcached /nonexistent/memcached: "), "{errors}");
}

#[test]
fn signals_stop_the_demo_and_its_servers() {
    for signal in [Signal::TERM, Signal::INT] {
        let demo = Demo::start();
        assert!(TcpStream::connect(demo.dashboard).is_ok(), "the dashboard accepts connections");
        demo.send(signal);
        let errors = demo.end();
        assert!(errors.contains("stopped by a signal"), "{errors}");
    }
}

#[test]
fn the_servers_stop_if_the_demo_is_killed() {
    let demo = Demo::start();
    let servers = if memcached_is_installed() { 2 } else { 1 };
    assert_eq!(demo.servers.len(), servers);
    demo.send(Signal::KILL);
    demo.end();
}
