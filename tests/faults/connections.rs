//! Many connections, and more connections than the limit (`-c`).

use std::collections::VecDeque;
use std::sync::Barrier;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, prlimit};

use super::fixture::Fixture;
use crate::support::{Client, Server, is_memcached, under_test, wait_until};

/// The time for which a test waits for a condition before it fails.
const DEADLINE: Duration = Duration::from_secs(20);

#[test]
fn ten_thousand_idle_connections_leave_no_descriptors() {
    let fixture = Fixture::start(64, &[]);
    for _ in 0..20 {
        let open_clients: Vec<Client> = (0..500).map(|_| fixture.server.connect()).collect();
        drop(open_clients);
    }
    fixture.check_recovery();
}

#[test]
fn ten_thousand_used_connections_leave_no_descriptors() {
    let fixture = Fixture::start(64, &[]);
    for round in 0..100 {
        let mut open_clients: Vec<Client> = (0..100).map(|_| fixture.server.connect()).collect();
        for client in &mut open_clients {
            client.send(format!("get key{round}\r\n").as_bytes());
        }
        // Every second client reads its reply. The others disconnect without reading.
        for client in open_clients.iter_mut().step_by(2) {
            assert_eq!(client.read_line(), "END");
        }
    }
    fixture.check_recovery();
}

#[test]
fn at_most_the_limit_of_connections_is_served() {
    let fixture = Fixture::start(64, &["-c", "50"]);
    let mut open_clients: Vec<Client> = (0..100).map(|_| fixture.server.connect()).collect();
    let mut served = 0;
    for client in &mut open_clients {
        // The server sends an error to a refused client, or closes the connection before the client can read.
        let _ = client.try_send(b"version\r\n");
        match client.try_read_line() {
            Ok(Some(line)) if line.starts_with(b"VERSION ") => served += 1,
            Ok(Some(line)) => assert_eq!(line, b"ERROR Too many open connections"),
            Ok(None) => {}
            Err(error) => {
                panic!("the server replies or closes the connection within 20 seconds: {error}")
            }
        }
    }
    // memcached counts some of its own descriptors as connections, so it serves fewer clients than the limit.
    assert!(
        (20..=50).contains(&served),
        "with -c 50 the server serves 20 to 50 of 100 clients, not {served}"
    );
    drop(open_clients);
    fixture.check_recovery();
}

/// At the limit the server accepts no connections until a client disconnects. In this test a client disconnects at the
/// same moment as the next one connects. If the server missed the disconnect, the next client would wait until its
/// timeout.
#[test]
fn a_disconnect_at_the_limit_admits_the_next_client() {
    const LIMIT: usize = 20;
    const ROUNDS: usize = 300;
    if is_memcached(&under_test()) {
        return println!("skipped: memcached counts some of its own descriptors as connections");
    }
    let fixture = Fixture::start(64, &["-c", "20", "-o", "no_maxconns_fast"]);
    let server = &fixture.server;
    let mut open_clients: VecDeque<Client> = (0..LIMIT).map(|_| connect_served(server)).collect();
    for _ in 0..ROUNDS {
        let leaving =
            open_clients.pop_front().expect("the number of open connections is the limit");
        let start = Barrier::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                start.wait();
                drop(leaving);
            });
            start.wait();
            open_clients.push_back(connect_served(server));
        });
    }
    assert!(
        open_clients[0].stat("listen_disabled_num") > 0,
        "the server reaches the connection limit at least once"
    );
    drop(open_clients);
    fixture.check_recovery();
}

/// 52 clients connect and disconnect in a loop, with a limit of 50. Each client disconnects as soon as it was served.
/// Only two clients are above the limit, because the kernel waits seconds before it retries a connection that the
/// server does not accept.
#[test]
fn clients_that_reconnect_at_the_limit_are_all_served() {
    const CLIENTS: usize = 52;
    const ROUNDS: usize = 50;
    let fixture = Fixture::start(64, &["-c", "50", "-o", "no_maxconns_fast"]);
    let server = &fixture.server;
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| (0..ROUNDS).for_each(|_| drop(connect_served(server))));
        }
    });
    let mut client = connect_served(server);
    assert!(
        client.stat("listen_disabled_num") > 0,
        "the server reaches the connection limit at least once"
    );
    assert!(client.stat("total_connections") >= (CLIENTS * ROUNDS) as u64);
    wait_until("the server accepts connections", DEADLINE, || client.stat("accepting_conns") == 1);
    fixture.check_recovery();
}

/// While the server waits for a free descriptor, none of its connections closes, but the limit is raised. In production,
/// another process may have closed files of a system that had reached its limit.
#[test]
fn new_clients_are_served_when_the_limit_of_open_files_is_raised_while_all_others_stay() {
    if is_memcached(&under_test()) {
        return println!("skipped: memcached accepts no connection until one closes");
    }
    let fixture = Fixture::start(64, &[]);
    let server = &fixture.server;
    let mut observer = connect_served(server);
    let maximum = getrlimit(Resource::Nofile).maximum;
    let limit = Rlimit { current: Some(server.descriptor_count() as u64), maximum };
    let old = prlimit(Some(server.id()), Resource::Nofile, limit).expect("a limit can be lowered");
    let mut waiting = server.connect();
    wait_until("the server has no free descriptor", DEADLINE, || {
        observer.stat("listen_disabled_num") > 0
    });
    prlimit(Some(server.id()), Resource::Nofile, old).expect("the limit can be restored");
    assert!(waiting.ask("version").starts_with("VERSION "));
    drop((observer, waiting));
    fixture.check_recovery();
}

/// Returns a client that the server has accepted and to which it has replied.
fn connect_served(server: &Server) -> Client {
    let mut client = server.connect();
    assert!(client.ask("version").starts_with("VERSION "));
    client
}
