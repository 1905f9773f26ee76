//! Memory files that lose their storage while a server uses them, and file systems without enough storage at the start.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use slabwise_client::process::{ServerCommand, wait};

use super::memory_file::{MemoryFile, stop_gracefully};
use crate::support::{Client, Server, built_slabwise};

/// Truncates the file at `path` to 0 bytes.
fn truncate(path: &Path) {
    let file = OpenOptions::new().write(true).open(path).expect("the memory file exists");
    file.set_len(0).expect("the memory file is writable");
}

#[test]
fn a_truncated_file_ends_the_server_with_one_message() {
    let file = MemoryFile::new();
    let mut server = file.start(&["-m", "64", "-t", "4"]);
    // A client for each worker, so that several threads access the lost memory at once.
    let mut clients: Vec<Client> = (0..8).map(|_| server.connect()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.set(&format!("key{number}"), b"value"), "STORED");
    }
    truncate(&file.path());
    for (number, client) in clients.iter_mut().enumerate() {
        // The server may already have ended.
        let _ = client.try_send(format!("get key{number}\r\n").as_bytes());
    }
    assert_eq!(server.wait_for_signal(), Some(Signal::BUS.as_raw()));
    let log = file.log();
    let start = format!("slabwise: -e {}: a part of the file cannot be", file.path().display());
    assert_eq!(log.matches(&start).count(), 1, "{log}");
    let line = log.lines().find(|line| line.starts_with(&start)).expect("the log has this line");
    assert!(line.contains("another process has truncated the file"), "{line}");
    assert!(line.ends_with("start the server again"), "{line}");
}

#[test]
fn a_graceful_stop_with_a_truncated_file_ends_with_the_message() {
    let file = MemoryFile::new();
    let mut server = file.start(&["-m", "64"]);
    assert_eq!(server.connect().set("key", b"value"), "STORED");
    truncate(&file.path());
    server.signal(Signal::USR1);
    assert_eq!(server.wait_for_signal(), Some(Signal::BUS.as_raw()));
    assert!(file.log().contains("a part of the file cannot be"), "{}", file.log());
    assert!(!file.meta().exists());
}

#[test]
fn a_bus_error_elsewhere_ends_the_server_without_a_message() {
    let file = MemoryFile::new();
    let mut server = file.start(&["-m", "64"]);
    server.signal(Signal::BUS);
    assert_eq!(server.wait_for_signal(), Some(Signal::BUS.as_raw()));
    assert!(!file.log().contains("a part of the file cannot be"), "{}", file.log());
}

#[test]
fn a_file_above_the_limit_of_file_sizes_is_refused() {
    let file = MemoryFile::new();
    let log = refusal(&file, "ulimit -f 1024", &[]);
    assert!(log.contains("the file needs 67108880 more bytes"), "{log}");
    assert!(log.contains("(File too large (os error 27)): free space"), "{log}");
}

/// The arguments of `unshare` that give the server a mount namespace of its own. Its mounts end with the server.
fn namespace() -> &'static [&'static str] {
    if rustix::process::getuid().is_root() { &["--mount"] } else { &["--mount", "--map-root-user"] }
}

/// Returns the command of a server that a shell starts after the command `preparation`, in which `$0` is the directory of
/// `file` and `$@` is the command of the server. The server uses the memory file at `memory`. If `unshare` is not empty,
/// the shell runs in a new namespace.
fn prepared(
    file: &MemoryFile,
    preparation: &str,
    unshare: &[&str],
    memory: &Path,
) -> ServerCommand {
    let script = format!("{preparation} && exec \"$@\"");
    let text =
        |path: &Path| path.to_str().expect("the path of a temporary file is UTF-8").to_owned();
    let directory = text(&file.path().with_file_name(""));
    ServerCommand::new(if unshare.is_empty() { "env" } else { "unshare" })
        .with(unshare)
        .with(&["sh", "-c", &script, &directory, &built_slabwise().program()])
        .with(&["-l", "127.0.0.1", "-p", "-1", "-u", "root", "-m", "64", "-e", &text(memory)])
        .logging_to(&file.log_path())
}

/// Returns the log of a server that refuses to start.
fn refusal(file: &MemoryFile, preparation: &str, unshare: &[&str]) -> String {
    let command = prepared(file, preparation, unshare, &file.path());
    let mut child = command.spawn(&file.port_file()).expect("the process can be started");
    let status = wait(&mut child).expect("the server process ends before the deadline");
    assert_eq!(status.code(), Some(1), "{}", file.log());
    file.log()
}

#[test]
#[ignore = "needs the right to make a mount namespace: ./test runs this test if `unshare` works"]
fn a_full_file_system_is_refused() {
    let file = MemoryFile::new();
    let mount = "mount -t tmpfs -o size=16m none \"$0\"";
    let log = refusal(&file, mount, namespace());
    assert!(log.contains("the file needs 67108880 more bytes"), "{log}");
    assert!(log.contains("has 16777216 bytes free (No space left on device"), "{log}");
    assert!(log.contains("name a file on another file system, or lower -m"), "{log}");
}

/// Returns the memory file of a server with `-m 64` that has stopped with one item, and a path for a copy of the file.
fn saved_with_one_item() -> (MemoryFile, PathBuf) {
    let file = MemoryFile::new();
    let server = file.start(&["-m", "64"]);
    assert_eq!(server.connect().set("key", b"value"), "STORED");
    stop_gracefully(server);
    let copy = file.path().with_file_name("copy").join("memory");
    (file, copy)
}

#[test]
#[ignore = "needs the right to make a mount namespace: ./test runs this test if `unshare` works"]
fn a_sparse_copy_on_a_full_file_system_is_refused_and_stays_valid() {
    let (file, copy) = saved_with_one_item();
    // The first server on the copy must refuse to start before it removes the .meta file. For the second one there is more
    // room.
    let preparation = "cd \"$0\" && mkdir copy && mount -t tmpfs -o size=80m none copy \
        && cp --sparse=always memory memory.meta copy && head -c 40m /dev/zero > copy/filler \
        && ! \"$@\" && rm copy/filler";
    let server = Server::start(&prepared(&file, preparation, namespace(), &copy));
    let log = file.log();
    assert!(log.contains("more bytes, and its file system has"), "{log}");
    assert!(log.contains("restored 1 items"), "{log}");
    assert_eq!(server.connect().get("key").as_deref(), Some(&b"value"[..]));
}

#[test]
#[ignore = "needs the right to make a mount namespace: ./test runs this test if `unshare` works"]
fn a_file_on_a_hugetlbfs_is_refused() {
    if !rustix::process::getuid().is_root() {
        return println!("skipped: only root can mount a hugetlbfs");
    }
    let file = MemoryFile::new();
    let log = refusal(&file, "mount -t hugetlbfs none \"$0\"", namespace());
    assert!(log.contains("is on a hugetlbfs"), "{log}");
}

#[test]
#[ignore = "needs the right to make a mount namespace: ./test runs this test if `unshare` works"]
fn a_start_with_a_larger_limit_needs_room_only_for_the_difference() {
    let (file, copy) = saved_with_one_item();
    // The first server on the copy must refuse to start before it removes the .meta file.
    let preparation = "cd \"$0\" && mkdir copy && mount -t tmpfs -o size=100m none copy \
        && cp --sparse=never memory memory.meta copy && ! \"$@\" -m 101 && set -- \"$@\" -m 98";
    let server = Server::start(&prepared(&file, preparation, namespace(), &copy));
    let mut client = server.connect();
    let log = file.log();
    assert!(log.contains("more bytes, and its file system has"), "{log}");
    assert!(log.contains("restored 1 items"), "{log}");
    assert_eq!(client.stat("limit_maxbytes"), 98 << 20);
    let value = vec![b'v'; 10_000];
    for number in 0..10_000 {
        assert_eq!(client.set(&format!("key{number}"), &value), "STORED");
    }
}

#[test]
#[ignore = "needs the right to make a mount namespace: ./test runs this test if `unshare` works"]
fn a_higher_limit_on_a_full_file_system_is_refused_and_the_server_serves_on() {
    let file = MemoryFile::new();
    let mount = "cd \"$0\" && mkdir ram && mount -t tmpfs -o size=80m none ram";
    let memory = file.path().with_file_name("ram").join("memory");
    let server = Server::start(&prepared(&file, mount, namespace(), &memory));
    let mut client = server.connect();
    let value = vec![b'v'; 10_000];
    let fill = |client: &mut Client| {
        for number in 0..7_000 {
            assert_eq!(client.set(&format!("key{number}"), &value), "STORED");
        }
    };
    fill(&mut client);
    for limit in ["128", "81", "8000"] {
        let refused = client.ask(&format!("cache_memlimit {limit}"));
        for part in
            ["SERVER_ERROR a limit of ", " more bytes, and its file system has ", "No space left"]
        {
            assert!(refused.contains(part), "{refused}");
        }
        assert_eq!(client.stat("limit_maxbytes"), 64 << 20);
    }
    // A smaller step is possible, and the server can write to all of its memory.
    for limit in ["79", "32", "79", "16", "64"] {
        assert_eq!(client.ask(&format!("cache_memlimit {limit}")), "OK");
        fill(&mut client);
    }
    // As much memory is free as the file has returned.
    assert!(client.ask("cache_memlimit 96").starts_with("SERVER_ERROR"));
    assert_eq!(client.ask("cache_memlimit 70"), "OK");
    fill(&mut client);
}
