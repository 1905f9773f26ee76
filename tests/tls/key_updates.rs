//! Key updates of TLS 1.3: messages without a request, which cost the server more time than a request.

use super::fixture::Fixture;
use super::raw_client;
use crate::support::Deadline;
use rustls::client::ClientConnection;
use rustls::version::TLS13;
use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The number of key updates between two requests that rustls accepts.
const UPDATES_MAX: usize = 32;

/// Connects and completes the handshake.
fn connect(fixture: &Fixture) -> (ClientConnection, TcpStream) {
    let (mut tls, mut socket) = raw_client::open(fixture.address, &fixture.config(&TLS13));
    while tls.is_handshaking() || tls.wants_write() {
        tls.complete_io(&mut socket).expect("the server completes the handshake");
    }
    tls.set_buffer_limit(None);
    (tls, socket)
}

/// Appends key updates that request a key update of the server, and then these bytes.
fn append(tls: &mut ClientConnection, updates: usize, bytes: &[u8]) {
    for _ in 0..updates {
        tls.refresh_traffic_keys().expect("the handshake is complete");
    }
    tls.writer().write_all(bytes).expect("the buffer has no limit");
}

#[test]
fn replies_are_correct_after_key_updates() {
    let fixture = Fixture::start(&[]);
    let mut client = fixture.connect(&TLS13);
    for updates in 0..UPDATES_MAX {
        append(&mut client.stream.conn, updates, b"");
        client.ask("get none\r\n", "END\r\n");
    }
}

#[test]
fn key_updates_without_a_request_close_the_connection() {
    let fixture = Fixture::start(&["-t", "1"]);
    let before = fixture.stat("ssl_proto_errors");
    let (mut tls, mut socket) = connect(&fixture);
    append(&mut tls, UPDATES_MAX + 1, b"");
    while tls.wants_write() {
        tls.write_tls(&mut socket).expect("the server keeps the connection open");
    }
    raw_client::read_to_end(&mut socket);
    assert_eq!(fixture.stat("ssl_proto_errors"), before + 1);
}

#[test]
fn endless_key_updates_take_little_memory_and_delay_other_clients_little() {
    let fixture = Fixture::start(&["-t", "1"]);
    let attackers = 8;
    let mut other = fixture.connect(&TLS13);
    let before = fixture.server.resident_bytes();
    let must_stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for attacker in 0..attackers {
            let (mut tls, mut socket) = connect(&fixture);
            let must_stop = &must_stop;
            // A byte of a value ends each series of key updates, so that the server accepts the next series.
            append(&mut tls, 0, format!("set key{attacker} 0 0 1000000\r\n").as_bytes());
            scope.spawn(move || {
                while !must_stop.load(Ordering::Relaxed) {
                    append(&mut tls, UPDATES_MAX, b"x");
                    while tls.wants_write() {
                        tls.write_tls(&mut socket).expect("the server keeps the connection open");
                    }
                }
            });
        }
        // The guard ends the attack even if an assertion fails.
        let _guard = StopAtEnd(&must_stop);
        let deadline = Deadline::after(Duration::from_secs(20));
        for replies in 0..50 {
            other.ask("get none\r\n", "END\r\n");
            assert!(!deadline.is_over(), "50 replies arrive within 20 s, not {replies}");
        }
        let grown = fixture.server.resident_bytes().saturating_sub(before);
        let expected = attackers * (128 << 10) + (4 << 20);
        assert!(
            grown < expected,
            "{attackers} attackers take less than {expected} bytes, not {grown}"
        );
    });
    assert_eq!(fixture.stat("ssl_proto_errors"), 0);
}

/// Stops the attackers when it is dropped.
struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
