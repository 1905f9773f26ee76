//! Many connections, and more connections than the limit.

use std::collections::VecDeque;
use std::sync::Barrier;
use std::time::Duration;

use super::fixture::Fixture;
use crate::support::{Client, Server, is_memcached, under_test, wait_until};

const DEADLINE: Duration = Duration::from_secs(20);

#[test]
fn ten_thousand_opened_and_dropped() {
    let fixture = Fixture::start(64, &[]);
    for _ in 0..20 {
        let held: Vec<Client> = (0..500).map(|_| fixture.server.connect()).collect();
        drop(held);
    }
    fixture.recovers();
}

#[test]
fn ten_thousand_opened_used_and_dropped() {
    let fixture = Fixture::start(64, &[]);
    for round in 0..100 {
        let mut held: Vec<Client> = (0..100).map(|_| fixture.server.connect()).collect();
        for client in &mut held {
            client.send(format!("get key{round}\r\n").as_bytes());
        }
        // Every second client disconnects without reading its reply.
        for client in held.iter_mut().step_by(2) {
            assert_eq!(client.read_line(), "END");
        }
    }
    fixture.recovers();
}

#[test]
fn more_than_the_limit() {
    let fixture = Fixture::start(64, &["-c", "50"]);
    let mut held: Vec<Client> = (0..100).map(|_| fixture.server.connect()).collect();
    let mut served = 0;
    for client in &mut held {
        // The server sends an error to a refused client, or closes the connection before the client can read.
        let _ = client.try_send(b"version\r\n");
        match client.try_read_line() {
            Ok(Some(line)) if line.starts_with(b"VERSION ") => served += 1,
            Ok(Some(line)) => assert_eq!(line, b"ERROR Too many open connections"),
            Ok(None) => {}
            Err(error) => panic!("neither served nor refused: {error}"),
        }
    }
    // memcached counts some of its own descriptors as connections.
    assert!((20..=50).contains(&served), "{served} of 100 were served, the limit is 50");
    drop(held);
    fixture.recovers();
}

/// At the limit the server stops accepting until a client disconnects. Here one disconnects while the next
/// connects. If the server missed that, the next client would wait until its timeout.
#[test]
fn a_disconnect_at_the_limit_admits_the_next_client() {
    const LIMIT: usize = 20;
    const ROUNDS: usize = 300;
    if is_memcached(&under_test()) {
        return println!("memcached counts connections of its own towards the limit");
    }
    let fixture = Fixture::start(64, &["-c", "20", "-o", "no_maxconns_fast"]);
    let server = &fixture.server;
    let mut held: VecDeque<Client> = (0..LIMIT).map(|_| served(server)).collect();
    for _ in 0..ROUNDS {
        let leaves = held.pop_front().expect("as many as the limit");
        let both = Barrier::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                both.wait();
                drop(leaves);
            });
            both.wait();
            held.push_back(served(server));
        });
    }
    assert!(held[0].stat("listen_disabled_num") > 0, "the limit was never reached");
    drop(held);
    fixture.recovers();
}

/// Two clients more than the limit connect and disconnect in a loop, each as soon as it was served. There are
/// only two more because the kernel retries a connection only after seconds while the server does not accept.
#[test]
fn fast_reconnects_around_the_limit() {
    const CLIENTS: usize = 52;
    const ROUNDS: usize = 50;
    let fixture = Fixture::start(64, &["-c", "50", "-o", "no_maxconns_fast"]);
    let server = &fixture.server;
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| (0..ROUNDS).for_each(|_| drop(served(server))));
        }
    });
    let mut client = served(server);
    assert!(client.stat("listen_disabled_num") > 0, "the limit was never reached");
    assert!(client.stat("total_connections") >= (CLIENTS * ROUNDS) as u64);
    wait_until("the server accepts connections", DEADLINE, || client.stat("accepting_conns") == 1);
    fixture.recovers();
}

/// Returns a client that the server has accepted and answered.
fn served(server: &Server) -> Client {
    let mut client = server.connect();
    assert!(client.ask("version").starts_with("VERSION "));
    client
}
