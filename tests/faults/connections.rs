//! Many connections, and more than are allowed.

use crate::scene::Scene;
use crate::support::Client;

#[test]
fn ten_thousand_opened_and_dropped() {
    let scene = Scene::start(64, &[]);
    for _ in 0..20 {
        let held: Vec<Client> = (0..500).map(|_| scene.server.connect()).collect();
        drop(held);
    }
    scene.recovers();
}

#[test]
fn ten_thousand_opened_used_and_dropped() {
    let scene = Scene::start(64, &[]);
    for round in 0..100 {
        let mut held: Vec<Client> = (0..100).map(|_| scene.server.connect()).collect();
        for client in &mut held {
            client.send(format!("get key{round}\r\n").as_bytes());
        }
        // Every other client leaves without reading its reply.
        for client in held.iter_mut().step_by(2) {
            assert_eq!(client.read_line(), "END");
        }
    }
    scene.recovers();
}

#[test]
fn more_than_the_limit() {
    let scene = Scene::start(64, &["-c", "50"]);
    let mut held: Vec<Client> = (0..100).map(|_| scene.server.connect()).collect();
    let mut served = 0;
    for client in &mut held {
        // A refused client is told so, or cut off before it can read.
        let _ = client.try_send(b"version\r\n");
        match client.try_read_line() {
            Ok(Some(line)) if line.starts_with(b"VERSION ") => served += 1,
            Ok(Some(line)) => assert_eq!(line, b"ERROR Too many open connections"),
            Ok(None) => {}
            Err(error) => panic!("neither served nor refused: {error}"),
        }
    }
    // memcached counts the descriptors that it uses itself as connections.
    assert!((20..=50).contains(&served), "{served} of 100 were served, the limit is 50");
    drop(held);
    scene.recovers();
}
