//! Clients that request more replies than they read.

use std::io::Write;
use std::time::Duration;

use super::fixture::Fixture;
use crate::support::{Client, wait_until};

/// The length of a large value, in bytes.
const LARGE_LEN: usize = 900_000;
/// The time for which a test waits for a condition before it fails.
const DEADLINE: Duration = Duration::from_secs(20);
/// The number of readers that the test adds before each check whether the value has the maximum number of pins.
const READERS_PER_ATTEMPT: usize = 5;

#[test]
fn half_a_million_pipelined_gets_are_answered() {
    const REQUESTS: usize = 500_000;
    let fixture = Fixture::start(64, &[]);
    let mut client = fixture.server.connect();
    assert_eq!(client.set("key", &[b'v'; 100]), "STORED");
    let mut writer = client.stream().try_clone().expect("a socket can be cloned");
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let requests = b"get key\r\n".repeat(REQUESTS);
            writer.write_all(&requests).expect("the server reads all requests");
        });
        for _ in 0..REQUESTS {
            assert_eq!(client.read_line(), "VALUE key 0 100");
            assert_eq!(client.read_exact(102).len(), 102);
            assert_eq!(client.read_line(), "END");
        }
    });
    fixture.check_recovery();
}

#[test]
fn a_hundred_thousand_pipelined_sets_are_stored() {
    const REQUESTS: usize = 100_000;
    let fixture = Fixture::start(64, &[]);
    let mut client = fixture.server.connect();
    let mut requests = Vec::new();
    for index in 0..REQUESTS {
        write!(requests, "set key{index} 0 0 100 noreply\r\n")
            .expect("a write to a Vec cannot fail");
        requests.extend_from_slice(&[b'v'; 100]);
        requests.extend_from_slice(b"\r\n");
    }
    client.send(&requests);
    assert_eq!(client.ask("get nothing"), "END");
    assert_eq!(client.get(&format!("key{}", REQUESTS - 1)).as_deref(), Some(&[b'v'; 100][..]));
    fixture.check_recovery();
}

#[test]
fn clients_that_never_read_do_not_affect_other_clients() {
    let fixture = Fixture::start(64, &[]);
    assert_eq!(fixture.server.connect().set("large", &vec![b'v'; LARGE_LEN]), "STORED");
    assert_eq!(fixture.server.connect().set("small", b"v"), "STORED");
    let mut open_clients = Vec::new();
    for request in ["get large\r\n", "get small\r\n", "get small large small\r\n", "stats\r\n"] {
        for _ in 0..4 {
            open_clients.push(send_and_never_read(&fixture, request));
        }
    }
    fixture.check_others_are_served();
    drop(open_clients);
    fixture.check_recovery();
}

/// slabwise sends a value of at least 16 KiB directly from item memory, and pins the value until it is sent. A value
/// can have at most 2,000 pins. A client that does not read holds up to 64 pins, so 150 clients reach the limit.
#[test]
fn a_get_of_a_value_with_the_maximum_number_of_pins_misses() {
    let fixture = Fixture::start(64, &["-c", "4000"]);
    if fixture.is_memcached() {
        return println!(
            "skipped: these clients do not reach memcached's limit of references to an item"
        );
    }
    let mut client = fixture.server.connect();
    assert_eq!(client.set("large", &pinned_value(b'v')), "STORED");
    let mut readers = readers_that_never_read(&fixture);
    // The number of pins of a reader depends on the socket buffers. So readers are added until a get misses.
    wait_until("a get misses, because the value has the maximum number of pins", DEADLINE, || {
        readers.extend((0..READERS_PER_ATTEMPT).map(|_| reader_that_never_reads(&fixture)));
        client.get("large").is_none()
    });
    fixture.check_others_are_served();
    drop(readers);
    // While the readers disconnect one after another, the others may use the pins that the first ones released.
    let mut found = None;
    wait_until("a get of the value hits again", DEADLINE, || {
        found = client.get("large");
        found.is_some()
    });
    assert_eq!(found, Some(pinned_value(b'v')));
    fixture.check_recovery();
}

#[test]
fn a_value_that_is_deleted_while_it_is_sent_is_freed_after_its_readers_disconnect() {
    let fixture = Fixture::start(64, &[]);
    let mut client = fixture.server.connect();
    assert_eq!(client.set("large", &pinned_value(b'v')), "STORED");
    let readers = readers_that_never_read(&fixture);
    fixture.check_others_are_served();
    assert_eq!(client.set("large", &pinned_value(b'w')), "STORED");
    assert_eq!(client.get("large"), Some(pinned_value(b'w')));
    for key in ["large", "probe"] {
        assert_eq!(client.ask(&format!("delete {key}")), "DELETED");
    }
    assert_eq!(client.stat("curr_items"), 0);
    assert!(client.used_chunks() > 0, "the readers pin the chunks of the deleted value");
    drop(readers);
    wait_until("the server frees the chunks of the deleted value", DEADLINE, || {
        client.used_chunks() == 0
    });
    fixture.check_recovery();
}

/// Returns a value of 16 KiB, the minimum length that slabwise sends directly from item memory.
fn pinned_value(letter: u8) -> Vec<u8> {
    vec![letter; 16 << 10]
}

/// Returns clients that request more copies of `large` than the sockets buffer. Together they hold the maximum number
/// of pins of the value, or nearly that number.
fn readers_that_never_read(fixture: &Fixture) -> Vec<Client> {
    const READERS: usize = 150;
    (0..READERS).map(|_| reader_that_never_reads(fixture)).collect()
}

/// Returns a client that requests 1,000 copies of `large` and reads none of them.
fn reader_that_never_reads(fixture: &Fixture) -> Client {
    const KEYS: usize = 100;
    const LINES: usize = 10;
    let requests = format!("get{}\r\n", " large".repeat(KEYS)).repeat(LINES);
    let mut reader = fixture.server.connect();
    reader.send(requests.as_bytes());
    reader
}

/// Returns a client that sends the request repeatedly, until the server stops reading or 16 MiB are sent.
fn send_and_never_read(fixture: &Fixture, request: &str) -> Client {
    const SENT_MAX_BYTES: usize = 16 << 20;
    let client = fixture.server.connect();
    let mut stream = client.stream();
    stream.set_nonblocking(true).expect("a socket can be made non-blocking");
    let requests = request.repeat(1000).into_bytes();
    let mut sent = 0;
    while sent < SENT_MAX_BYTES {
        match stream.write(&requests) {
            Ok(count) => sent += count,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
            Err(error) => panic!("the server closed the connection of a slow reader: {error}"),
        }
    }
    client
}
