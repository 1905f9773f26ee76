//! Renegotiation, which TLS 1.2 has and the server refuses.

use super::fixture::{Fixture, set};
use super::openssl::OpenSslClient;
use super::raw_client::RawClient;
use crate::support::wait_until;
use rustls::ContentType;
use rustls::version::TLS12;
use std::io::Write;
use std::time::Duration;

/// The time for which a test waits for a condition before it fails.
const DEADLINE: Duration = Duration::from_secs(20);

/// A ClientHello of TLS 1.2 without extensions, which begins a renegotiation if the client sends it encrypted.
fn client_hello() -> Vec<u8> {
    let mut hello = vec![1, 0, 0, 41, 3, 3];
    hello.extend([0x55; 32]);
    hello.extend([0, 0, 2, 0xc0, 0x2c, 1, 0]);
    hello
}

#[test]
fn openssl_cannot_renegotiate() {
    let fixture = Fixture::start(&["-t", "1"]);
    let mut other = fixture.connect(&TLS12);
    let mut client = OpenSslClient::connect(fixture.address, &["-tls1_2"]);
    client.write(b"mn_unknown_command\r\n");
    client.read_until(b"ERROR\r\n");
    // A line with R makes the client renegotiate.
    client.write(b"R\n");
    let output = client.wait();
    assert!(output.contains("no renegotiation"), "{output}");
    other.ask("get none\r\n", "END\r\n");
}

#[test]
fn one_attempt_is_refused_and_a_second_one_closes_the_connection() {
    let fixture = Fixture::start(&["-t", "1"]);
    let before = fixture.stat("ssl_proto_errors");
    let mut client = RawClient::connect(fixture.address, &fixture.config(&TLS12));
    client.send(ContentType::Handshake, &client_hello());
    client.send(ContentType::ApplicationData, &set("key", b"value"));
    wait_until("the server serves the client after the first attempt", DEADLINE, || {
        fixture.connect_plain().get("key").as_deref() == Some(b"value")
    });
    assert_eq!(fixture.stat("ssl_proto_errors"), before);
    client.send(ContentType::Handshake, &client_hello());
    let received = client.read_to_end();
    // The server has sent an alert, encrypted, and the reply to the request.
    assert_eq!(received[0], u8::from(ContentType::Alert));
    assert_eq!(fixture.stat("ssl_proto_errors"), before + 1);
}

#[test]
fn clients_that_renegotiate_endlessly_leave_no_memory_or_descriptors() {
    let fixture = Fixture::start(&["-t", "1"]);
    let mut other = fixture.connect(&TLS12);
    let config = fixture.config(&TLS12);
    let mut attack = || {
        let mut client = RawClient::connect(fixture.address, &config);
        // The loop ends because the server closes the connection.
        let mut attempts = 0;
        loop {
            let record = client.records.record(ContentType::Handshake, &client_hello());
            if client.socket.write_all(&record).is_err() {
                break;
            }
            attempts += 1;
            assert!(attempts < 1_000_000, "the server reads {attempts} attempts of one client");
        }
        other.ask("get none\r\n", "END\r\n");
    };
    attack();
    let descriptors = fixture.server.descriptor_count();
    let before = fixture.server.resident_bytes();
    for _ in 0..50 {
        attack();
    }
    wait_until("the server closes the descriptors", DEADLINE, || {
        fixture.server.descriptor_count() <= descriptors
    });
    let grown = fixture.server.resident_bytes().saturating_sub(before);
    assert!(grown < 2 << 20, "50 such clients leave less than 2 MiB, not {grown} bytes");
}
