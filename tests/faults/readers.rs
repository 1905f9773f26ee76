//! Clients that ask for more than they read.

use std::io::Write;
use std::time::Duration;

use super::scene::Scene;
use crate::support::{Client, wait_until};

const LARGE_LEN: usize = 900_000;
const DEADLINE: Duration = Duration::from_secs(20);
/// Readers that come while a value can still be had.
const READERS_MORE: usize = 5;

#[test]
fn pipelined_megabytes() {
    const REQUESTS: usize = 500_000;
    let scene = Scene::start(64, &[]);
    let mut client = scene.server.connect();
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
    scene.recovers();
}

#[test]
fn pipelined_megabytes_of_sets() {
    const REQUESTS: usize = 100_000;
    let scene = Scene::start(64, &[]);
    let mut client = scene.server.connect();
    let mut requests = Vec::new();
    for index in 0..REQUESTS {
        write!(requests, "set key{index} 0 0 100 noreply\r\n").expect("a Vec takes all");
        requests.extend_from_slice(&[b'v'; 100]);
        requests.extend_from_slice(b"\r\n");
    }
    client.send(&requests);
    assert_eq!(client.ask("get nothing"), "END");
    assert_eq!(client.get(&format!("key{}", REQUESTS - 1)).as_deref(), Some(&[b'v'; 100][..]));
    scene.recovers();
}

#[test]
fn a_client_that_never_reads() {
    let scene = Scene::start(64, &[]);
    assert_eq!(scene.server.connect().set("large", &vec![b'v'; LARGE_LEN]), "STORED");
    assert_eq!(scene.server.connect().set("small", b"v"), "STORED");
    let mut held = Vec::new();
    for request in ["get large\r\n", "get small\r\n", "get small large small\r\n", "stats\r\n"] {
        for _ in 0..4 {
            held.push(ask_and_never_read(&scene, request));
        }
    }
    scene.serves_others();
    drop(held);
    scene.recovers();
}

/// slabwise sends values from 16 KiB on from where they lie, and pins them meanwhile: one value at
/// most 8,000 times. A client that does not read can hold some sixty pins, so far fewer clients than
/// pins use them up, and no machine's limit of descriptors is in the way.
#[test]
fn more_readers_of_a_value_than_it_can_have() {
    let scene = Scene::start(64, &["-c", "4000"]);
    if scene.is_memcached() {
        return println!("memcached's limit is out of reach of so few clients");
    }
    let mut client = scene.server.connect();
    assert_eq!(client.set("large", &pinned_value(b'v')), "STORED");
    let mut readers = readers_that_never_read(&scene);
    // How much of its last answer the sockets still took decides how many pins a reader is left with: there
    // are more readers until there are enough.
    wait_until("the value is passed over", DEADLINE, || {
        readers.extend((0..READERS_MORE).map(|_| reader_that_never_reads(&scene)));
        client.get("large").is_none()
    });
    scene.serves_others();
    drop(readers);
    // The pins that the first of them give back may go to those who are still there.
    let mut found = None;
    wait_until("the value can be had", DEADLINE, || {
        found = client.get("large");
        found.is_some()
    });
    assert_eq!(found, Some(pinned_value(b'v')));
    scene.recovers();
}

#[test]
fn a_value_that_is_replaced_and_deleted_while_it_is_sent() {
    let scene = Scene::start(64, &[]);
    let mut client = scene.server.connect();
    assert_eq!(client.set("large", &pinned_value(b'v')), "STORED");
    let readers = readers_that_never_read(&scene);
    scene.serves_others();
    assert_eq!(client.set("large", &pinned_value(b'w')), "STORED");
    assert_eq!(client.get("large"), Some(pinned_value(b'w')));
    for key in ["large", "witness"] {
        assert_eq!(client.ask(&format!("delete {key}")), "DELETED");
    }
    assert_eq!(client.stat("curr_items"), 0);
    assert!(client.used_chunks() > 0, "nobody is being sent the value");
    drop(readers);
    wait_until("the value's memory is given back", DEADLINE, || client.used_chunks() == 0);
    scene.recovers();
}

/// The shortest that slabwise sends from where it lies.
fn pinned_value(letter: u8) -> Vec<u8> {
    vec![letter; 16 << 10]
}

/// Clients that ask for more copies of `large` than sockets buffer, and some eight thousand.
fn readers_that_never_read(scene: &Scene) -> Vec<Client> {
    const READERS: usize = 150;
    (0..READERS).map(|_| reader_that_never_reads(scene)).collect()
}

fn reader_that_never_reads(scene: &Scene) -> Client {
    const KEYS: usize = 100;
    const LINES: usize = 10;
    let requests = format!("get{}\r\n", " large".repeat(KEYS)).repeat(LINES);
    let mut reader = scene.server.connect();
    reader.send(requests.as_bytes());
    reader
}

/// Pipelines a request until the server takes no more, or has taken a great deal.
fn ask_and_never_read(scene: &Scene, request: &str) -> Client {
    const ASKED_MAX_BYTES: usize = 16 << 20;
    let client = scene.server.connect();
    let mut stream = client.stream();
    stream.set_nonblocking(true).expect("a socket can be made non-blocking");
    let requests = request.repeat(1000).into_bytes();
    let mut asked = 0;
    while asked < ASKED_MAX_BYTES {
        match stream.write(&requests) {
            Ok(count) => asked += count,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
            Err(error) => panic!("the server closed on a slow reader: {error}"),
        }
    }
    client
}
