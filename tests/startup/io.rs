//! The choice between epoll and io_uring (`-o io`), also on systems that refuse io_uring.

use nix::libc;
use std::fs;
use std::path::PathBuf;
use tempfile::TempDir;

use crate::support::refused_calls::{assert_refuses_to_start, with_refused_calls};
use crate::support::{Server, ServerCommand, built_slabwise};

/// The system call that a sandbox forbids, or that an old kernel lacks.
const SETUP: [libc::c_long; 1] = [libc::SYS_io_uring_setup];

/// A folder with the log of one server.
struct Log(TempDir);

impl Log {
    fn new() -> Log {
        Log(tempfile::tempdir().expect("a temporary folder can be created"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Returns the command of a server with this value of `-o io`, which writes the log.
    fn command(&self, io: &str) -> ServerCommand {
        let options = format!("io={io}");
        built_slabwise().with(&["-v", "-o", &options]).logging_to(&self.path("log"))
    }

    fn text(&self) -> String {
        fs::read_to_string(self.path("log")).expect("the server has written the log")
    }
}

/// Returns the interface that a server uses. Also checks that it serves a client.
fn used(server: &Server) -> String {
    let mut client = server.connect();
    assert_eq!(client.set("key", b"value"), "STORED");
    assert_eq!(client.get("key").as_deref(), Some(&b"value"[..]));
    client.send(b"stats settings\r\n");
    let mut io = String::new();
    loop {
        match client.read_line() {
            line if line == "END" => return io,
            line => line.strip_prefix("STAT io ").into_iter().for_each(|used| io = used.to_owned()),
        }
    }
}

#[test]
fn with_io_epoll_the_server_uses_epoll() {
    let log = Log::new();
    assert_eq!(used(&Server::start(&log.command("epoll"))), "epoll");
    assert!(!log.text().contains("io:"), "{}", log.text());
}

#[test]
fn with_io_auto_the_server_uses_io_uring_if_the_system_allows_it() {
    let log = Log::new();
    let used = used(&Server::start(&log.command("auto")));
    let text = log.text();
    let line = text.lines().find(|line| line.starts_with("io: the workers use "));
    let line = line.unwrap_or_else(|| panic!("the log has a line for io: {text}"));
    assert!(line.starts_with(&format!("io: the workers use {used}")), "{line}");
    if used == "epoll" {
        println!("skipped: {line}");
    }
}

#[test]
fn where_io_uring_is_refused_the_server_uses_epoll_and_logs_the_reason() {
    for (error, reason) in [
        (libc::EPERM, "io_uring is forbidden"),
        (libc::EACCES, "io_uring is forbidden"),
        (libc::ENOSYS, "the kernel lacks a part of io_uring"),
        (libc::EINVAL, "the kernel lacks a part of io_uring"),
        (libc::ENOMEM, "the kernel cannot make the rings"),
    ] {
        let log = Log::new();
        let command = log.command("auto");
        let server = with_refused_calls(&SETUP, error, || Server::start(&command));
        assert_eq!(used(&server), "epoll", "{error}");
        let expected = format!("io: the workers use epoll, because {reason}");
        assert!(log.text().lines().any(|line| line.starts_with(&expected)), "{}", log.text());
    }
}

#[test]
fn where_io_uring_is_refused_a_server_that_must_use_it_does_not_start() {
    let log = Log::new();
    let command = log.command("io_uring");
    assert_refuses_to_start(&command, &log.path("ports"), &SETUP, libc::EPERM);
    let text = log.text();
    let line = text.lines().last().unwrap_or_default();
    assert!(line.starts_with("slabwise: -o io=io_uring: io_uring is forbidden: set the"), "{text}");
    assert!(line.contains("or use -o io=auto"), "{text}");
}
