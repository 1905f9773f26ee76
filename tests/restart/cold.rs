//! Starts with an empty cache although there is a memory file, and memory files with which a server refuses to start.

use std::fs;
use std::process::Child;
use std::time::Duration;

use super::memory_file::{MemoryFile, stop_gracefully};
use crate::support::{Server, ServerCommand, wait_until};
use rustix::process::Signal;
use slabwise_client::process::wait;

/// The time for which a test waits for a condition before it fails.
const DEADLINE: Duration = Duration::from_secs(30);

/// Returns a memory file with one item that a server has saved.
fn saved_file() -> MemoryFile {
    let file = MemoryFile::new();
    let server = file.start(&["-m", "64"]);
    assert_eq!(server.connect().set("key", b"value"), "STORED");
    stop_gracefully(server);
    assert!(file.meta().exists());
    file
}

/// Asserts that the next server starts with an empty cache and logs `reason`, and that it saves its own items.
fn assert_cold(file: &MemoryFile, flags: &[&str], reason: &str) {
    let server = file.start(flags);
    let mut client = server.connect();
    assert_eq!(client.get("key"), None);
    let log = file.log();
    assert!(log.contains("starting with an empty cache") && log.contains(reason), "{log}");
    assert_eq!(client.set("other", b"value"), "STORED");
    stop_gracefully(server);
    let server = file.start(flags);
    assert!(server.connect().get("other").is_some());
}

/// Asserts that the server refuses to start, with an error that contains `reason`.
fn assert_refused(file: &MemoryFile, command: &ServerCommand, reason: &str) {
    let mut child = command.spawn(&file.port_file()).expect("the process can be started");
    assert!(!wait(&mut child).expect("the server process ends before the deadline").success());
    assert!(file.log().contains(reason), "{}", file.log());
}

#[test]
fn a_server_starts_cold_after_an_end_that_is_not_graceful() {
    let ends: [fn(&Server); 4] = [
        |server| server.signal(Signal::KILL),
        |server| server.terminate(),
        |server| server.signal(Signal::INT),
        |server| server.connect().send(b"shutdown\r\n"),
    ];
    for end in ends {
        let file = saved_file();
        let mut server = file.start(&["-m", "64", "-A"]);
        assert!(server.connect().get("key").is_some());
        end(&server);
        server.wait_for_end();
        assert!(!file.meta().exists());
        assert_cold(&file, &["-m", "64"], "nothing was saved");
    }
}

#[test]
fn a_server_starts_cold_if_settings_of_the_file_differ() {
    for (flags, name) in [
        (&["-m", "64", "-f", "1.5"][..], "chunk_sizes"),
        (&["-m", "64", "-o", "page_size=1m"], "page_size_bytes"),
        (&["-m", "64", "-o", "preset=memcached"], "page_size_bytes"),
    ] {
        assert_cold(&saved_file(), flags, name);
    }
}

#[test]
fn a_server_starts_cold_if_the_meta_file_is_truncated() {
    let file = saved_file();
    let meta = fs::read(file.meta()).expect("the .meta file exists");
    fs::write(file.meta(), &meta[..meta.len() / 2]).expect("the .meta file is writable");
    assert_cold(&file, &["-m", "64"], "its .meta file is damaged");
}

#[test]
fn a_server_refuses_to_start_with_an_empty_or_foreign_meta_file() {
    for text in [&b""[..], b"my diary\n"] {
        let file = saved_file();
        fs::write(file.meta(), text).expect("the .meta file is writable");
        assert_refused(&file, &file.command(&["-m", "64"]), "is not a slabwise .meta file");
        // With -d the starting process also reports the error.
        assert_refused(&file, &file.command(&["-m", "64", "-d"]), "is not a slabwise .meta file");
        assert!(file.meta().exists(), "the server does not delete a foreign file");
    }
}

#[test]
fn a_server_refuses_to_start_with_a_file_that_another_server_uses() {
    let file = MemoryFile::new();
    let server = file.start(&[]);
    assert_refused(&file, &file.command(&[]), "another process uses this file");
    assert_eq!(server.connect().set("key", b"value"), "STORED");
}

#[test]
fn a_server_waits_for_a_process_that_is_about_to_unlock_the_file() {
    let file = saved_file();
    let other = fs::File::open(file.path()).expect("the file exists");
    other.lock().expect("no server uses the file");
    let path = fs::canonicalize(file.path()).expect("the file exists");
    let child = file.command(&["-m", "64"]).spawn(&file.port_file());
    let child = Killed(child.expect("the process can be started"));
    let descriptors = format!("/proc/{}/fd", child.0.id());
    wait_until("the server opens the file", DEADLINE, || {
        let mut paths = fs::read_dir(&descriptors).into_iter().flatten().flatten();
        paths.any(|it| fs::read_link(it.path()).is_ok_and(|target| target == path))
    });
    drop(other);
    wait_until("the server listens", DEADLINE, || file.port_file().exists());
    assert!(file.log().contains("restored 1 item"), "{}", file.log());
}

/// A process that is killed when this value is dropped.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_server_refuses_to_start_if_the_file_cannot_be_created() {
    let file = MemoryFile::new();
    let command = file.command(&["-e", "/proc/none/memory"]);
    assert_refused(&file, &command, "cannot open /proc/none/memory");
}
