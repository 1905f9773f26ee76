//! Who gets in and who does not.

use super::scene::{ReservedAddress, Scene, VERSIONS};
use crate::support::certificates::Authority;
use crate::support::{Server, under_test};
use rustls::version::{TLS12, TLS13};
use rustls::{AlertDescription, Error, HandshakeKind};
use std::io::{self, Read, Write};
use std::net::TcpStream;

/// The alert that a client was turned away with.
fn alert(error: &io::Error) -> Option<AlertDescription> {
    match error.get_ref()?.downcast_ref::<Error>()? {
        Error::AlertReceived(alert) => Some(*alert),
        _ => None,
    }
}

#[test]
fn clients_need_what_the_verify_mode_says() {
    let others = Authority::new("others");
    for (mode, nobody, stranger) in
        [("0", true, true), ("1", true, false), ("2", false, false), ("3", false, false)]
    {
        let scene = Scene::start(&["-o", &format!("ssl_verify_mode={mode}")]);
        assert_eq!(scene.lets_in(None), nobody, "mode {mode}");
        assert_eq!(scene.lets_in(Some(&others.client())), stranger, "mode {mode}");
        assert!(scene.lets_in(Some(&scene.authority.client())), "mode {mode}");
    }
}

#[test]
fn a_client_is_told_why_it_is_turned_away() {
    let scene = Scene::start(&["-o", "ssl_verify_mode=2"]);
    let before = scene.stat("ssl_handshake_errors");
    let nobody = scene.authority.client_config(None, &[&TLS13]);
    let error = scene.try_connect(&nobody).err().expect("it has no certificate");
    assert_eq!(alert(&error), Some(AlertDescription::CertificateRequired), "{error}");
    let stranger = Authority::new("others").client();
    let stranger = scene.authority.client_config(Some(&stranger), &[&TLS13]);
    let error = scene.try_connect(&stranger).err().expect("its certificate is another's");
    assert_eq!(alert(&error), Some(AlertDescription::UnknownCA), "{error}");
    assert_eq!(scene.stat("ssl_handshake_errors"), before + 2);
}

#[test]
fn a_listener_may_ask_more_or_less_than_the_verify_mode() {
    let reserved = (ReservedAddress::new(), ReservedAddress::new());
    let (basic, mutual) = (reserved.0.address, reserved.1.address);
    let listeners = format!("btls:{basic},mtls:{mutual}");
    for (mode, address, nobody) in [("2", basic, true), ("0", mutual, false), ("1", mutual, false)]
    {
        let mut scene = Scene::start(&["-l", &listeners, "-o", &format!("ssl_verify_mode={mode}")]);
        scene.address = address;
        assert_eq!(scene.lets_in(None), nobody, "mode {mode}");
        assert!(scene.lets_in(Some(&scene.authority.client())), "mode {mode}");
    }
}

#[test]
fn versions_below_the_least_are_refused() {
    let scene = Scene::start(&["-o", "ssl_min_version=3"]);
    let old = scene.authority.client_config(None, &[&TLS12]);
    let error = scene.try_connect(&old).err().expect("it is too old");
    assert_eq!(alert(&error), Some(AlertDescription::ProtocolVersion), "{error}");
    let both = scene.authority.client_config(None, &VERSIONS);
    let client = scene.try_connect(&both).expect("they agree");
    assert_eq!(client.tls().protocol_version(), Some(TLS13.version));
}

/// A hello of TLS 1.1, with the suites of its day.
fn hello_of_tls_1_1() -> Vec<u8> {
    // Of a client: version 3.2, 32 bytes at random, no session, two suites, no compression.
    let mut body = vec![3, 2];
    body.extend([0x55; 32]);
    body.extend([0, 0, 4, 0xc0, 0x13, 0, 0x2f, 1, 0]);
    let len = body.len() as u8;
    let mut hello = vec![0x16, 3, 1, 0, len + 4, 1, 0, 0, len];
    hello.extend(body);
    hello
}

#[test]
fn nobody_is_let_in_by_tls_1_1() {
    // The server takes the options of those who allowed it.
    for options in ["ssl_min_version=2", "ssl_min_version=1", "ssl_min_version=0"] {
        let scene = Scene::start(&["-o", options]);
        let mut socket = TcpStream::connect(scene.server.address()).expect("the server listens");
        socket.write_all(&hello_of_tls_1_1()).expect("the server reads");
        let mut answer = Vec::new();
        // It may close with a reset.
        let _ = socket.read_to_end(&mut answer);
        // A fatal alert: handshake_failure or protocol_version, and nothing of a handshake.
        assert!(matches!(answer[..], [0x15, 3, _, 0, 2, 2, 40 | 70]), "{answer:?}");
        assert!(scene.lets_in(None));
    }
}

#[test]
fn sessions_are_resumed_if_they_may_be() {
    for version in VERSIONS {
        let scene = Scene::start(&["-o", "ssl_session_cache"]);
        let config = scene.authority.client_config(None, &[version]);
        let kind = || scene.try_connect(&config).expect("it is let in").tls().handshake_kind();
        assert_eq!(kind(), Some(HandshakeKind::Full));
        assert_eq!(kind(), Some(HandshakeKind::Resumed));
        assert_eq!(kind(), Some(HandshakeKind::Resumed));
        assert_eq!(scene.stat("ssl_new_sessions"), 1);

        let scene = Scene::start(&[]);
        let config = scene.authority.client_config(None, &[version]);
        for _ in 0..2 {
            let client = scene.try_connect(&config).expect("it is let in");
            assert_eq!(client.tls().handshake_kind(), Some(HandshakeKind::Full));
        }
    }
}

/// The names of `stats` that begin with these.
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
        let name = line.split(' ').nth(1).expect("a name");
        if name.starts_with("ssl_") || name.starts_with("time_since_server") {
            names.push(name.to_owned());
        }
    }
}

#[test]
fn stats_speak_of_tls_only_where_it_is_on() {
    let scene = Scene::start(&[]);
    let names = ["ssl_handshake_errors", "ssl_proto_errors", "time_since_server_cert_refresh"];
    assert_eq!(stat_names(&scene.server, scene.plain_address), names);
    let scene = Scene::start(&["-o", "ssl_session_cache"]);
    assert_eq!(stat_names(&scene.server, scene.plain_address).len(), 4);
    let reserved = ReservedAddress::new();
    let second = reserved.address;
    let command = under_test().with(&["-l", &second.to_string()]);
    let server = Server::start(&command);
    assert_eq!(stat_names(&server, second), Vec::<String>::new());
    let mut client = server.connect();
    assert_eq!(client.ask("refresh_certs"), "Error TLS not enabled");
}
