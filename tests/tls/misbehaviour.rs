//! Clients that stall, disconnect or send something other than TLS. They must not affect other clients.

use super::fixture::{Fixture, VERSIONS, set};
use crate::support::wait_until;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// The time for which a test waits for a condition before it fails.
const DEADLINE: Duration = Duration::from_secs(20);

/// Connects without a TLS handshake.
fn connect(fixture: &Fixture) -> TcpStream {
    let socket = TcpStream::connect(fixture.address).expect("the server listens");
    socket.set_read_timeout(Some(DEADLINE)).expect("20 seconds is a valid timeout");
    socket
}

/// Returns all bytes until the server closes or resets the connection. Panics if it does neither within 20 seconds.
fn read_to_end(socket: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Err(error) = socket.read_to_end(&mut bytes) {
        assert_eq!(
            error.kind(),
            ErrorKind::ConnectionReset,
            "the server closes or resets the connection"
        );
    }
    bytes
}

/// Returns the ClientHello of a valid handshake.
fn hello(fixture: &Fixture) -> Vec<u8> {
    let config = fixture.authority.client_config(None, &VERSIONS);
    let name = crate::support::certificates::SERVER_NAME
        .try_into()
        .expect("the name of the server is valid");
    let mut tls = rustls::ClientConnection::new(config, name)
        .expect("the configuration of the client is valid");
    let mut hello = Vec::new();
    tls.write_tls(&mut hello).expect("a write to a Vec cannot fail");
    hello
}

#[test]
fn a_client_without_tls_gets_an_alert_and_is_disconnected() {
    let fixture = Fixture::start(&["-t", "1"]);
    let before = fixture.stat("ssl_handshake_errors");
    let requests: [&[u8]; 4] =
        [b"get a\r\n", b"version\r\nversion\r\n", &[0x80; 24], b"GET / HTTP/1.1\r\n\r\n"];
    for request in requests {
        let mut socket = connect(&fixture);
        socket.write_all(request).expect("the server keeps the connection open");
        let answer = read_to_end(&mut socket);
        // The reply is an alert of 7 bytes. It is empty if a reset of the connection has discarded the alert.
        assert!(answer.is_empty() || (answer[0] == 0x15 && answer.len() == 7), "{answer:?}");
    }
    assert_eq!(fixture.stat("ssl_handshake_errors"), before + 4);
    assert_eq!(fixture.stat("curr_connections"), 1);
    assert!(fixture.accepts(None));
}

#[test]
fn watchers_receive_failed_handshakes_with_their_reason() {
    let fixture = Fixture::start(&["-t", "1"]);
    let mut watcher = fixture.connect_plain();
    assert_eq!(watcher.ask("watch connevents"), "OK");
    connect(&fixture).write_all(b"get a\r\n").expect("the server keeps the connection open");
    let mut line = String::new();
    while !line.contains("type=conntlserr") {
        line = watcher.read_line();
    }
    assert!(line.contains(" fd=") && line.contains(" msg="), "{line}");
}

#[test]
fn a_tls_hello_on_a_plain_port_gets_no_handshake() {
    let fixture = Fixture::start(&["-t", "1"]);
    let hello = hello(&fixture);
    let mut plain = fixture.connect_plain();
    plain.send(&hello);
    plain.send(b"\r\n");
    plain.finish_sending();
    let answer = plain.read_to_end().expect("the server closes the connection");
    assert!(!answer.contains(&0x16), "{answer:?}");
    assert!(fixture.accepts(None));
}

#[test]
fn aborted_handshakes_release_memory_and_descriptors() {
    let fixture = Fixture::start(&["-t", "2", "-c", "4096"]);
    let hello = hello(&fixture);
    assert!(fixture.accepts(None));
    let descriptors = fixture.server.descriptor_count();
    let before = fixture.server.resident_bytes();
    for round in 0..10 {
        let mut sockets: Vec<TcpStream> = (0..100).map(|_| connect(&fixture)).collect();
        for (index, socket) in sockets.iter_mut().enumerate() {
            let len = (index * 31 + round * 7) % (hello.len() + 1);
            socket.write_all(&hello[..len]).expect("the server keeps the connection open");
        }
        let mut secure = fixture.connect(VERSIONS[round % 2]);
        for _ in 0..20 {
            secure.ask(set("key", b"value"), "STORED\r\n");
        }
    }
    wait_until("the server closes the descriptors of aborted handshakes", DEADLINE, || {
        fixture.server.descriptor_count() <= descriptors + 4
    });
    let grown = fixture.server.resident_bytes().saturating_sub(before);
    assert!(grown < 16 << 20, "1,000 aborted handshakes leave less than 16 MiB, not {grown} bytes");
    assert!(fixture.accepts(None));
}

#[test]
fn a_half_open_handshake_uses_less_than_16_kib() {
    let fixture = Fixture::start(&["-t", "1", "-c", "4096"]);
    assert!(fixture.accepts(None));
    let hello = hello(&fixture);
    let before = fixture.server.resident_bytes();
    let count = 500;
    let mut sockets: Vec<TcpStream> = (0..count).map(|_| connect(&fixture)).collect();
    for socket in &mut sockets {
        socket.write_all(&hello[..hello.len() - 1]).expect("the server keeps the connection open");
    }
    wait_until("the server has accepted all clients", DEADLINE, || {
        fixture.stat("curr_connections") > count
    });
    let grown = fixture.server.resident_bytes().saturating_sub(before);
    assert!(
        grown / count < 16 << 10,
        "each of {count} handshakes uses less than 16 KiB, not {} bytes",
        grown / count
    );
}

#[test]
fn a_stalled_handshake_ends_at_the_idle_timeout() {
    let fixture = Fixture::start(&["-o", "idle_timeout=1"]);
    let hello = hello(&fixture);
    let mut silent = connect(&fixture);
    let mut half = connect(&fixture);
    half.write_all(&hello[..hello.len() / 2]).expect("the server keeps the connection open");
    let mut unanswered = connect(&fixture);
    unanswered.write_all(&hello).expect("the server keeps the connection open");
    assert_eq!(read_to_end(&mut silent), b"");
    assert_eq!(read_to_end(&mut half), b"");
    // The client `unanswered` has received the server's part of the handshake, but has not sent the rest of its own
    // part.
    assert_eq!(read_to_end(&mut unanswered).first(), Some(&0x16));
    assert!(fixture.stat("idle_kicks") >= 3);
}

#[test]
fn an_oversized_handshake_message_is_refused() {
    let fixture = Fixture::start(&["-t", "1"]);
    let mut socket = connect(&fixture);
    // The client announces a ClientHello of 16 MiB less one byte, and sends records of 16 KiB.
    let mut record = vec![0x16, 3, 1, 0x40, 0];
    record.resize(5 + (16 << 10), 0);
    record[5..9].copy_from_slice(&[1, 0xff, 0xff, 0xff]);
    let mut sent = 0;
    while sent < 4 << 20 && socket.write_all(&record).is_ok() {
        sent += record.len();
        record[5..9].fill(0);
    }
    assert!(
        sent < 4 << 20,
        "the server refuses a handshake message before 4 MiB, but accepted {sent} bytes"
    );
    assert!(fixture.accepts(None));
}

#[test]
fn an_invalid_record_closes_only_its_connection() {
    let fixture = Fixture::start(&["-t", "1"]);
    let before = fixture.stat("ssl_proto_errors");
    let mut other = fixture.connect(VERSIONS[1]);
    for version in VERSIONS {
        let mut client = fixture.connect(version);
        client.send_raw(b"\x17\x03\x03\x00\x20this was never encrypted by anyone");
        assert!(client.finish().is_err());
        other.ask("get none\r\n", "END\r\n");
    }
    assert_eq!(fixture.stat("ssl_proto_errors"), before + 2);
}
