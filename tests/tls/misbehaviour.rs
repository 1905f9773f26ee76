//! Clients that send something other than TLS. They must not affect other clients.

use super::fixture::{Fixture, VERSIONS};
use super::raw_client::{client_hello, connect, read_to_end};
use std::io::Write;

#[test]
fn a_client_without_tls_gets_an_alert_and_is_disconnected() {
    let fixture = Fixture::start(&["-t", "1"]);
    let before = fixture.stat("ssl_handshake_errors");
    let requests: [&[u8]; 4] =
        [b"get a\r\n", b"version\r\nversion\r\n", &[0x80; 24], b"GET / HTTP/1.1\r\n\r\n"];
    for request in requests {
        let mut socket = connect(fixture.address);
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
    connect(fixture.address).write_all(b"get a\r\n").expect("the server keeps the connection open");
    let mut line = String::new();
    while !line.contains("type=conntlserr") {
        line = watcher.read_line();
    }
    assert!(line.contains(" fd=") && line.contains(" msg="), "{line}");
}

#[test]
fn a_tls_hello_on_a_plain_port_gets_no_handshake() {
    let fixture = Fixture::start(&["-t", "1"]);
    let hello = client_hello(&fixture.config(VERSIONS[0]));
    let mut plain = fixture.connect_plain();
    plain.send(&hello);
    plain.send(b"\r\n");
    plain.finish_sending();
    let answer = plain.read_to_end().expect("the server closes the connection");
    assert!(!answer.contains(&0x16), "{answer:?}");
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
