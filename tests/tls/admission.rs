//! The clients that the server accepts: by certificate, by TLS version, and by resumed session.

use super::fixture::{Fixture, ReservedAddress, VERSIONS, alert};
use crate::support::certificates::Authority;
use crate::support::{Server, under_test};
use rustls::version::{TLS12, TLS13};
use rustls::{AlertDescription, HandshakeKind};
use std::io::{Read, Write};
use std::net::TcpStream;

#[test]
fn the_verify_mode_determines_the_accepted_certificates() {
    let others = Authority::new("others");
    for (mode, accepts_none, accepts_others) in
        [("0", true, true), ("1", true, false), ("2", false, false), ("3", false, false)]
    {
        let fixture = Fixture::start(&["-o", &format!("ssl_verify_mode={mode}")]);
        assert_eq!(fixture.accepts(None), accepts_none, "mode {mode}");
        assert_eq!(fixture.accepts(Some(&others.client())), accepts_others, "mode {mode}");
        assert!(fixture.accepts(Some(&fixture.authority.client())), "mode {mode}");
    }
}

#[test]
fn the_alert_names_the_reason_of_a_refusal() {
    let fixture = Fixture::start(&["-o", "ssl_verify_mode=2"]);
    let before = fixture.stat("ssl_handshake_errors");
    let without = fixture.authority.client_config(None, &[&TLS13]);
    let error =
        fixture.try_connect(&without).err().expect("a client without a certificate is refused");
    assert_eq!(alert(&error), Some(AlertDescription::CertificateRequired), "{error}");
    let other = Authority::new("others").client();
    let other = fixture.authority.client_config(Some(&other), &[&TLS13]);
    let error =
        fixture.try_connect(&other).err().expect("a certificate of another authority is refused");
    assert_eq!(alert(&error), Some(AlertDescription::UnknownCA), "{error}");
    assert_eq!(fixture.stat("ssl_handshake_errors"), before + 2);
}

#[test]
fn btls_and_mtls_listeners_override_the_verify_mode() {
    let reserved = (ReservedAddress::new(), ReservedAddress::new());
    let (basic, mutual) = (reserved.0.address, reserved.1.address);
    let listeners = format!("btls:{basic},mtls:{mutual}");
    for (mode, address, accepts_none) in
        [("2", basic, true), ("0", mutual, false), ("1", mutual, false)]
    {
        let mut fixture =
            Fixture::start(&["-l", &listeners, "-o", &format!("ssl_verify_mode={mode}")]);
        fixture.address = address;
        assert_eq!(fixture.accepts(None), accepts_none, "mode {mode}");
        assert!(fixture.accepts(Some(&fixture.authority.client())), "mode {mode}");
    }
}

#[test]
fn a_client_below_the_minimum_tls_version_is_refused() {
    let fixture = Fixture::start(&["-o", "ssl_min_version=3"]);
    let old = fixture.authority.client_config(None, &[&TLS12]);
    let error = fixture.try_connect(&old).err().expect("TLS 1.2 is below the minimum");
    assert_eq!(alert(&error), Some(AlertDescription::ProtocolVersion), "{error}");
    let both = fixture.authority.client_config(None, &VERSIONS);
    let client = fixture.try_connect(&both).expect("client and server share TLS 1.3");
    assert_eq!(client.tls().protocol_version(), Some(TLS13.version));
}

/// Returns a ClientHello of TLS 1.1, with cipher suites that TLS 1.1 defines.
fn hello_of_tls_1_1() -> Vec<u8> {
    // Version 3.2, 32 random bytes, no session, two cipher suites, no compression.
    let mut body = vec![3, 2];
    body.extend([0x55; 32]);
    body.extend([0, 0, 4, 0xc0, 0x13, 0, 0x2f, 1, 0]);
    let len = body.len() as u8;
    let mut hello = vec![0x16, 3, 1, 0, len + 4, 1, 0, 0, len];
    hello.extend(body);
    hello
}

#[test]
fn tls_1_1_is_always_refused() {
    // ssl_min_version accepts the numbers of versions below TLS 1.2, but does not enable these versions.
    for options in ["ssl_min_version=2", "ssl_min_version=1", "ssl_min_version=0"] {
        let fixture = Fixture::start(&["-o", options]);
        let mut socket = TcpStream::connect(fixture.server.address()).expect("the server listens");
        socket.write_all(&hello_of_tls_1_1()).expect("the server keeps the connection open");
        let mut answer = Vec::new();
        // The read may fail, because the server may reset the connection.
        let _ = socket.read_to_end(&mut answer);
        // The reply is exactly one fatal alert: handshake_failure (40) or protocol_version (70).
        assert!(matches!(answer[..], [0x15, 3, _, 0, 2, 2, 40 | 70]), "{answer:?}");
        assert!(fixture.accepts(None));
    }
}

#[test]
fn sessions_are_resumed_only_with_a_session_cache() {
    for version in VERSIONS {
        let fixture = Fixture::start(&["-o", "ssl_session_cache"]);
        let config = fixture.authority.client_config(None, &[version]);
        let kind = || {
            fixture
                .try_connect(&config)
                .expect("the server accepts the client")
                .tls()
                .handshake_kind()
        };
        assert_eq!(kind(), Some(HandshakeKind::Full));
        assert_eq!(kind(), Some(HandshakeKind::Resumed));
        assert_eq!(kind(), Some(HandshakeKind::Resumed));
        assert_eq!(fixture.stat("ssl_new_sessions"), 1);

        let fixture = Fixture::start(&[]);
        let config = fixture.authority.client_config(None, &[version]);
        for _ in 0..2 {
            let client = fixture.try_connect(&config).expect("the server accepts the client");
            assert_eq!(client.tls().handshake_kind(), Some(HandshakeKind::Full));
        }
    }
}

/// Returns the names of the TLS statistics that the listener at this address shows.
fn stat_names(server: &Server, address: std::net::SocketAddr) -> Vec<String> {
    assert_ne!(server.address(), address);
    let mut client = crate::support::Client::connect(address);
    client.send(b"stats\r\n");
    let mut names = Vec::new();
    loop {
        let line = client.read_line();
        if line == "END" {
            return names;
        }
        let name = line.split(' ').nth(1).expect("the name of the server is valid");
        if name.starts_with("ssl_") || name.starts_with("time_since_server") {
            names.push(name.to_owned());
        }
    }
}

#[test]
fn tls_statistics_appear_only_with_tls() {
    let fixture = Fixture::start(&[]);
    let names = ["ssl_handshake_errors", "ssl_proto_errors", "time_since_server_cert_refresh"];
    assert_eq!(stat_names(&fixture.server, fixture.plain_address), names);
    let fixture = Fixture::start(&["-o", "ssl_session_cache"]);
    assert_eq!(stat_names(&fixture.server, fixture.plain_address).len(), 4);
    let reserved = ReservedAddress::new();
    let second = reserved.address;
    let command = under_test().with(&["-l", &second.to_string()]);
    let server = Server::start(&command);
    assert_eq!(stat_names(&server, second), Vec::<String>::new());
    let mut client = server.connect();
    assert_eq!(client.ask("refresh_certs"), "Error TLS not enabled");
}
