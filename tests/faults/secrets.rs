//! The server never prints a password: not in its log, not in the lines of watchers, and not in statistics.

use std::path::PathBuf;
use std::time::Duration;

use rustix::process::Signal;
use tempfile::TempDir;

use crate::support::{Client, Server, is_memcached, under_test, wait_until};

const RIGHT_PASSWORD: &str = "RightPassword";
const WRONG_PASSWORD: &str = "WrongPassword";
/// The time for which a test waits for a condition before it fails.
const DEADLINE: Duration = Duration::from_secs(20);

/// A directory with a password file, and with the log of a server.
struct Files(TempDir);

impl Files {
    fn new() -> Files {
        let files = Files(tempfile::tempdir().expect("a temporary directory can be created"));
        files.write_passwords(&format!("ana:{RIGHT_PASSWORD}\n"));
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write_passwords(&self, text: &str) {
        std::fs::write(self.path("passwords"), text).expect("the directory is writable");
    }

    /// Starts a server that logs as much as possible, with these flags.
    fn server(&self, flags: &[&str]) -> Server {
        let path = self.path("passwords").display().to_string();
        let command = under_test().logging_to(&self.path("log")).with(&["-vvv"]).with(flags);
        Server::start(&command.with_variable("MEMCACHED_SASL_PWDB", &path))
    }

    /// Returns the log up to now.
    fn log(&self) -> String {
        std::fs::read_to_string(self.path("log")).expect("the server writes a log")
    }
}

/// Asserts that the text contains no password.
fn assert_no_password(text: &str) {
    for password in [RIGHT_PASSWORD, WRONG_PASSWORD] {
        assert!(!text.contains(password), "the text contains {password}: {text}");
    }
}

/// Sends the user `ana` and this password. Returns the reply.
fn login(client: &mut Client, password: &str) -> String {
    client.set("login", format!("ana {password}").as_bytes())
}

#[test]
fn passwords_of_the_text_protocol_are_not_printed() {
    if is_memcached(&under_test()) {
        // memcached logs every command at this level.
        return;
    }
    let files = Files::new();
    let server = files.server(&["-Y", &files.path("passwords").display().to_string()]);
    let mut watcher = server.connect();
    assert_eq!(login(&mut watcher, RIGHT_PASSWORD), "STORED");
    assert_eq!(watcher.ask("watch fetchers mutations evictions connevents deletions"), "OK");
    let mut client = server.connect();
    assert_eq!(login(&mut client, WRONG_PASSWORD), "CLIENT_ERROR authentication failure");
    assert_eq!(login(&mut client, RIGHT_PASSWORD), "STORED");
    // The client is authenticated, so the server stores the value.
    assert_eq!(login(&mut client, RIGHT_PASSWORD), "STORED");
    assert_eq!(client.set("last", b"x"), "STORED");
    let mut lines = String::new();
    while !lines.contains("key=last") {
        lines.push_str(&watcher.read_line());
    }
    assert_no_password(&lines);
    for command in ["stats", "stats settings", "stats conns", "stats items", "stats slabs"] {
        client.send(format!("{command}\r\n").as_bytes());
        let mut line = String::new();
        while line != "END" {
            line = client.read_line();
            assert_no_password(&line);
        }
    }
    // A password without a user makes the file invalid.
    files.write_passwords(RIGHT_PASSWORD);
    server.signal(Signal::HUP);
    wait_until("the server logs that the file is invalid", DEADLINE, || {
        files.log().contains("line 1 is not 'user:password'")
    });
    assert_no_password(&files.log());
}

#[test]
fn passwords_of_sasl_are_not_printed() {
    if is_memcached(&under_test()) {
        // Debian's memcached uses another kind of password file.
        return;
    }
    let files = Files::new();
    let server = files.server(&["-S"]);
    let mut client = server.connect();
    let mut statuses = Vec::new();
    for (password, text) in [
        (WRONG_PASSWORD, None),
        (RIGHT_PASSWORD, None),
        // The server logs that the file is invalid.
        (RIGHT_PASSWORD, Some(RIGHT_PASSWORD)),
    ] {
        if let Some(text) = text {
            files.write_passwords(text);
        }
        let body = format!("PLAIN\0ana\0{password}");
        let mut packet = vec![0x80, 0x21, 0, 5, 0, 0, 0, 0, 0, 0, 0, body.len() as u8];
        packet.extend([0; 12]);
        packet.extend(body.as_bytes());
        client.send(&packet);
        let head = client.read_exact(24);
        let body_len = u32::from_be_bytes([head[8], head[9], head[10], head[11]]);
        let body = client.read_exact(body_len as usize);
        assert_no_password(&String::from_utf8_lossy(&body));
        statuses.push(u16::from_be_bytes([head[6], head[7]]));
    }
    assert_eq!(statuses, [0x20, 0, 0x20]);
    assert!(files.log().contains("every authentication fails"), "{}", files.log());
    assert_no_password(&files.log());
}
