//! Restarts that start with an empty cache, and restarts that are refused.

use std::fs;

use super::memory_file::{MemoryFile, stop_gracefully};
use crate::support::{Server, ServerCommand};
use rustix::process::Signal;
use slabwise_client::process::wait;

/// Returns a memory file with one item, as a graceful stop leaves it.
fn file_of_one_item() -> MemoryFile {
    let file = MemoryFile::new();
    let server = file.start(&["-m", "64"]);
    assert_eq!(server.connect().set("key", b"value"), "STORED");
    stop_gracefully(server);
    assert!(file.meta().exists());
    file
}

/// Asserts that the next server starts empty and logs `why`, and that it saves its own items again.
fn assert_cold(file: &MemoryFile, flags: &[&str], why: &str) {
    let server = file.start(flags);
    let mut client = server.connect();
    assert_eq!(client.get("key"), None);
    let log = file.log();
    assert!(log.contains("starting with an empty cache") && log.contains(why), "{log}");
    assert_eq!(client.set("other", b"value"), "STORED");
    stop_gracefully(server);
    let server = file.start(flags);
    assert!(server.connect().get("other").is_some());
}

/// Asserts that the command exits with an error that contains `why`.
fn assert_refused(file: &MemoryFile, command: &ServerCommand, why: &str) {
    let mut child = command.spawn(&file.port_file()).expect("the command starts");
    assert!(!wait(&mut child).expect("the server ends").success());
    assert!(file.log().contains(why), "{}", file.log());
}

#[test]
fn starts_cold_after_an_ungraceful_end() {
    let ends: [fn(&Server); 4] = [
        |server| server.signal(Signal::KILL),
        |server| server.terminate(),
        |server| server.signal(Signal::INT),
        |server| server.connect().send(b"shutdown\r\n"),
    ];
    for end in ends {
        let file = file_of_one_item();
        let mut server = file.start(&["-m", "64", "-A"]);
        assert!(server.connect().get("key").is_some());
        end(&server);
        server.wait_for_end();
        assert!(!file.meta().exists());
        assert_cold(&file, &["-m", "64"], "nothing was saved");
    }
}

#[test]
fn starts_cold_with_other_settings() {
    for (flags, name) in [
        (&["-m", "65"][..], "memory_limit_bytes=67108864"),
        (&["-m", "64", "-f", "1.5"], "chunk_sizes"),
        (&["-m", "64", "-o", "page_size=1m"], "page_size_bytes"),
        (&["-m", "64", "-o", "preset=memcached"], "page_size_bytes"),
    ] {
        assert_cold(&file_of_one_item(), flags, name);
    }
}

#[test]
fn starts_cold_with_a_truncated_meta_file() {
    let file = file_of_one_item();
    let meta = fs::read(file.meta()).expect("the .meta file exists");
    fs::write(file.meta(), &meta[..meta.len() / 2]).expect("the .meta file is writable");
    assert_cold(&file, &["-m", "64"], "its .meta file is damaged");
}

#[test]
fn an_empty_or_foreign_meta_file_refuses_the_start() {
    for text in [&b""[..], b"my diary\n"] {
        let file = file_of_one_item();
        fs::write(file.meta(), text).expect("the .meta file is writable");
        assert_refused(&file, &file.command(&["-m", "64"]), "is not a slabwise .meta file");
        // A daemon's starter reports the error as well.
        assert_refused(&file, &file.command(&["-m", "64", "-d"]), "is not a slabwise .meta file");
        assert!(file.meta().exists(), "the foreign file is kept");
    }
}

#[test]
fn a_file_in_use_refuses_the_start() {
    let file = MemoryFile::new();
    let server = file.start(&[]);
    assert_refused(&file, &file.command(&[]), "another process uses this file");
    assert_eq!(server.connect().set("key", b"value"), "STORED");
}

#[test]
fn a_file_that_cannot_be_created_refuses_the_start() {
    let file = MemoryFile::new();
    let command = file.command(&["-e", "/proc/none/memory"]);
    assert_refused(&file, &command, "cannot open /proc/none/memory");
}
