//! Clients that request more than they read.

use std::io::Write;
use std::time::Duration;

use super::fixture::Fixture;
use crate::support::{Client, wait_until};

const LARGE_LEN: usize = 900_000;
const DEADLINE: Duration = Duration::from_secs(20);
/// Readers added per attempt while the value is still served.
const READERS_MORE: usize = 5;

#[test]
fn pipelined_megabytes() {
    const REQUESTS: usize = 500_000;
    let fixture = Fixture::start(64, &[]);
    let mut client = fixture.server.connect();
    assert_eq!(client.set("key", &[b'v'; 100]), "STORED");
    let mut writer = client.stream().try_clone().expect("a socket can be cloned");
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let requests = b"get key\r\n".repeat(REQUESTS);
            writer.write_all(&requests).expect("the server reads what it is sent");
        });
        for _ in 0..REQUESTS {
            assert_eq!(client.read_line(), "VALUE key 0 100");
            assert_eq!(client.read_exact(102).len(), 102);
            assert_eq!(client.read_line(), "END");
        }
    });
    fixture.recovers();
}

#[test]
fn pipelined_megabytes_of_sets() {
    const REQUESTS: usize = 100_000;
    let fixture = Fixture::start(64, &[]);
    let mut client = fixture.server.connect();
    let mut requests = Vec::new();
    for index in 0..REQUESTS {
        write!(requests, "set key{index} 0 0 100 noreply\r\n")
            .expect("writing to a Vec does not fail");
        requests.extend_from_slice(&[b'v'; 100]);
        requests.extend_from_slice(b"\r\n");
    }
    client.send(&requests);
    assert_eq!(client.ask("get nothing"), "END");
    assert_eq!(client.get(&format!("key{}", REQUESTS - 1)).as_deref(), Some(&[b'v'; 100][..]));
    fixture.recovers();
}

#[test]
fn a_client_that_never_reads() {
    let fixture = Fixture::start(64, &[]);
    assert_eq!(fixture.server.connect().set("large", &vec![b'v'; LARGE_LEN]), "STORED");
    assert_eq!(fixture.server.connect().set("small", b"v"), "STORED");
    let mut held = Vec::new();
    for request in ["get large\r\n", "get small\r\n", "get small large small\r\n", "stats\r\n"] {
        for _ in 0..4 {
            held.push(send_and_never_read(&fixture, request));
        }
    }
    fixture.serves_others();
    drop(held);
    fixture.recovers();
}

/// slabwise sends values of at least 16 KiB directly from item memory and pins them meanwhile. A value can have at
/// most 8,000 pins. A client that does not read holds about sixty, so far fewer clients than pins exhaust the
/// limit, and the machine's descriptor limit is not reached.
#[test]
fn a_value_at_its_pin_limit_is_a_miss() {
    let fixture = Fixture::start(64, &["-c", "4000"]);
    if fixture.is_memcached() {
        return println!("memcached's limit cannot be reached by this number of clients");
    }
    let mut client = fixture.server.connect();
    assert_eq!(client.set("large", &pinned_value(b'v')), "STORED");
    let mut readers = readers_that_never_read(&fixture);
    // The socket buffers decide how many pins a reader keeps, so readers are added until the pin limit is
    // reached.
    wait_until("the value is at its pin limit", DEADLINE, || {
        readers.extend((0..READERS_MORE).map(|_| reader_that_never_reads(&fixture)));
        client.get("large").is_none()
    });
    fixture.serves_others();
    drop(readers);
    // Remaining readers may take pins that the first disconnected readers release.
    let mut found = None;
    wait_until("the value is served again", DEADLINE, || {
        found = client.get("large");
        found.is_some()
    });
    assert_eq!(found, Some(pinned_value(b'v')));
    fixture.recovers();
}

#[test]
fn a_value_deleted_while_it_is_sent_is_freed_later() {
    let fixture = Fixture::start(64, &[]);
    let mut client = fixture.server.connect();
    assert_eq!(client.set("large", &pinned_value(b'v')), "STORED");
    let readers = readers_that_never_read(&fixture);
    fixture.serves_others();
    assert_eq!(client.set("large", &pinned_value(b'w')), "STORED");
    assert_eq!(client.get("large"), Some(pinned_value(b'w')));
    for key in ["large", "probe"] {
        assert_eq!(client.ask(&format!("delete {key}")), "DELETED");
    }
    assert_eq!(client.stat("curr_items"), 0);
    assert!(client.used_chunks() > 0, "no reader holds the value");
    drop(readers);
    wait_until("the value's memory is released", DEADLINE, || client.used_chunks() == 0);
    fixture.recovers();
}

/// Returns a value of the minimum length that slabwise sends directly from item memory.
fn pinned_value(letter: u8) -> Vec<u8> {
    vec![letter; 16 << 10]
}

/// Returns clients that request more copies of `large` than the sockets buffer, about eight thousand pins in total.
fn readers_that_never_read(fixture: &Fixture) -> Vec<Client> {
    const READERS: usize = 150;
    (0..READERS).map(|_| reader_that_never_reads(fixture)).collect()
}

fn reader_that_never_reads(fixture: &Fixture) -> Client {
    const KEYS: usize = 100;
    const LINES: usize = 10;
    let requests = format!("get{}\r\n", " large".repeat(KEYS)).repeat(LINES);
    let mut reader = fixture.server.connect();
    reader.send(requests.as_bytes());
    reader
}

/// Pipelines a request until the server stops reading or 16 MiB are sent.
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
