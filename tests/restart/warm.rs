//! Warm restarts: items, costs and times are the same in the next server.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::memory_file::{MemoryFile, stop_gracefully};
use crate::support::{Client, wait_until};
use slabwise_client::process::read_ports;

/// The time for which a test waits for a condition before it fails.
const DEADLINE: Duration = Duration::from_secs(10);

/// Returns the lines of the reply to `gets`, without `END`.
fn gets(client: &mut Client, key: &str) -> Vec<String> {
    client.send(format!("gets {key}\r\n").as_bytes());
    lines_to_end(client)
}

/// Returns the lines of a reply up to `END`, without `END`.
fn lines_to_end(client: &mut Client) -> Vec<String> {
    let mut lines = Vec::new();
    loop {
        let line = client.read_line();
        if line == "END" {
            return lines;
        }
        lines.push(line);
    }
}

/// Returns the reply to `lru_crawler metadump`: for each key, the values of its fields by name.
fn metadump(client: &mut Client) -> BTreeMap<String, BTreeMap<String, String>> {
    assert_eq!(client.ask("lru_crawler metadump all"), "OK");
    let mut items = BTreeMap::new();
    for line in lines_to_end(client) {
        let fields = line.split(' ').filter_map(|field| field.split_once('='));
        let mut fields: BTreeMap<String, String> =
            fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let key = fields.remove("key").expect("each line of a metadump has a key");
        items.insert(key, fields);
    }
    items
}

/// Returns the CAS value at the end of the line VALUE of a reply to `gets`.
fn cas_of(reply: &[String]) -> u64 {
    reply[0]
        .rsplit(' ')
        .next()
        .and_then(|cas| cas.parse().ok())
        .expect("the line VALUE ends with a CAS value")
}

#[test]
fn costs_survive_a_restart() {
    let file = MemoryFile::new();
    let server = file.start(&["-m", "64"]);
    let mut client = server.connect();
    client
        .send(b"ms expensive 1 G4000000000 T600\r\nx\r\nms free 1 G0\r\nx\r\nms plain 1\r\nx\r\n");
    for _ in 0..3 {
        assert_eq!(client.read_line(), "HD");
    }
    let ask = |client: &mut Client| {
        ["expensive", "free", "plain"].map(|key| client.ask(&format!("mg {key} g c")))
    };
    let before = ask(&mut client);
    assert!(before[0].starts_with("HD g4000317440 "), "{before:?}");
    assert!(before[1].starts_with("HD g0 ") && before[2].starts_with("HD g-1 "), "{before:?}");
    stop_gracefully(server);

    let server = file.start(&["-m", "64"]);
    assert_eq!(ask(&mut server.connect()), before);
}

#[test]
fn every_item_survives_a_restart() {
    let file = MemoryFile::new();
    let server = file.start(&["-m", "64"]);
    let mut client = server.connect();
    for number in 0..2_000 {
        assert_eq!(client.set(&format!("key{number}"), &vec![b'v'; number]), "STORED");
    }
    let large: Vec<u8> = (0..900_000u32).map(|index| b'a' + (index % 23) as u8).collect();
    assert_eq!(client.set("large", &large), "STORED");
    client.send(b"set flagged 77 600 5\r\nvalue\r\n");
    assert_eq!(client.read_line(), "STORED");
    assert_eq!(client.set("number", b"41"), "STORED");
    assert_eq!(client.ask("incr number 1"), "42");
    assert_eq!(client.ask("touch key1 1000"), "TOUCHED");
    assert_eq!(client.ask("delete key2"), "DELETED");
    let keys = ["key0", "key1", "key2", "key1999", "flagged", "number"];
    let before: Vec<_> = keys.iter().map(|key| gets(&mut client, key)).collect();
    let dumped = metadump(&mut client);
    stop_gracefully(server);

    let server = file.start(&["-m", "64"]);
    let mut client = server.connect();
    let dumped_again = metadump(&mut client);
    assert_eq!(dumped.len(), 2_002);
    assert_eq!(dumped_again.len(), dumped.len());
    for (key, fields) in &dumped {
        for (name, value) in fields {
            let value_again = &dumped_again[key][name];
            // Times can differ by a second, because the two servers round different clocks to whole seconds.
            let is_time = name == "exp" || name == "la";
            let difference = || value.parse::<i64>().ok()?.checked_sub(value_again.parse().ok()?);
            let is_kept = value == value_again
                || is_time && difference().is_some_and(|seconds| seconds.abs() <= 1);
            assert!(
                is_kept,
                "{key}: {name} was {value} before the restart, and is {value_again} now"
            );
        }
    }
    let after: Vec<_> = keys.iter().map(|key| gets(&mut client, key)).collect();
    assert_eq!(after, before);
    assert_eq!(client.get("large").as_deref(), Some(&large[..]));
    assert_eq!(client.set("new", b"value"), "STORED");
    let newest =
        dumped.values().map(|fields| fields["cas"].parse().expect("a CAS value is a number")).max();
    let new = cas_of(&gets(&mut client, "new"));
    assert!(
        new > newest.expect("the dump is not empty"),
        "new CAS values are larger than those before the restart"
    );
    assert!(!file.meta().exists(), "the start deletes the .meta file");
    assert!(file.log().contains("restored 2002 items"), "{}", file.log());
}

#[test]
fn lifetimes_of_items_continue_over_two_restarts() {
    let file = MemoryFile::new();
    let server = file.start(&[]);
    let mut client = server.connect();
    client.send(b"set short 0 2 5\r\nvalue\r\nset long 0 600 5\r\nvalue\r\n");
    assert_eq!((client.read_line(), client.read_line()), ("STORED".into(), "STORED".into()));
    stop_gracefully(server);
    let server = file.start(&[]);
    let mut client = server.connect();
    wait_until("the item with a lifetime of 2 seconds expires", DEADLINE, || {
        client.get("short").is_none()
    });
    assert_eq!(client.get("long").as_deref(), Some(&b"value"[..]));
    let uptime = client.stat("uptime");
    assert!(uptime >= 1, "uptime includes the time of the earlier server, as in memcached");
    stop_gracefully(server);
    let server = file.start(&[]);
    let mut client = server.connect();
    assert_eq!(client.get("short"), None);
    assert_eq!(client.get("long").as_deref(), Some(&b"value"[..]));
}

#[test]
fn a_flushed_item_does_not_return_after_a_restart() {
    let file = MemoryFile::new();
    let server = file.start(&[]);
    let mut client = server.connect();
    assert_eq!(client.set("before", b"value"), "STORED");
    assert_eq!(client.ask("flush_all"), "OK");
    assert_eq!(client.set("after", b"value"), "STORED");
    stop_gracefully(server);
    let server = file.start(&[]);
    let mut client = server.connect();
    assert_eq!(client.get("before"), None);
    assert!(client.get("after").is_some());
}

#[test]
fn the_command_shutdown_graceful_saves_the_items() {
    let file = MemoryFile::new();
    let mut server = file.start(&["-A"]);
    let mut client = server.connect();
    assert_eq!(client.set("key", b"value"), "STORED");
    client.send(b"shutdown graceful\r\n");
    assert_eq!(server.wait_for_end(), Some(0));
    let server = file.start(&[]);
    assert!(server.connect().get("key").is_some());
}

/// The id of a daemon, which is not a child process of the test. The daemon is killed if the test panics.
struct Daemon(String);

impl Daemon {
    /// Sends a signal, which `option` names as for `kill`. Returns true if the daemon is running.
    fn signal(&self, option: &str) -> bool {
        let mut kill = Command::new("kill");
        kill.args([option, self.0.trim()]).stderr(Stdio::null());
        kill.status().is_ok_and(|status| status.success())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // If the test passed, the daemon has exited, and another process may have its id now.
        if std::thread::panicking() {
            self.signal("-KILL");
        }
    }
}

#[test]
fn a_daemon_restarts_warm() {
    let file = MemoryFile::new();
    let pid_file = file.path().with_extension("pid");
    for expected in [None, Some(b"value".to_vec())] {
        let port_file = file.port_file();
        let command = file.command(&[
            "-d",
            "-P",
            pid_file.to_str().expect("the path of a temporary file is UTF-8"),
        ]);
        let status = command
            .spawn(&port_file)
            .and_then(|mut child| child.wait())
            .expect("the process that starts the daemon exits");
        assert!(status.success(), "{}", file.log());
        wait_until("the daemon writes its pid file", DEADLINE, || pid_file.exists());
        let daemon = Daemon(std::fs::read_to_string(&pid_file).expect("the pid file is readable"));
        let mut client = Client::connect(SocketAddr::from((
            [127, 0, 0, 1],
            read_ports(&port_file).expect("the daemon wrote its ports")[0],
        )));
        assert_eq!(client.get("key"), expected);
        assert_eq!(client.set("key", b"value"), "STORED");
        assert!(daemon.signal("-USR1"));
        wait_until("the daemon removes its pid file", DEADLINE, || !pid_file.exists());
        assert!(
            file.meta().exists(),
            "the daemon writes the .meta file before it removes the pid file"
        );
    }
}

#[test]
fn stats_settings_shows_the_memory_file() {
    let file = MemoryFile::new();
    let server = file.start(&["-m", "64"]);
    let mut client = server.connect();
    client.send(b"stats settings\r\n");
    let path = file.path();
    let expected = format!(
        "STAT memory_file {}",
        path.to_str().expect("the path of a temporary file is UTF-8")
    );
    assert!(lines_to_end(&mut client).contains(&expected));
}
