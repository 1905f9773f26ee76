//! Clients that ask for more than they read.

use std::io::Write;

use crate::scene::Scene;
use crate::support::Client;

const LARGE_LEN: usize = 900_000;

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
