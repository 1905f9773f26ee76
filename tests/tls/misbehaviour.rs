//! Clients that stall, break off or speak something else: they harm nobody but themselves.

use super::scene::{Scene, VERSIONS, set};
use crate::support::wait_until;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

const DEADLINE: Duration = Duration::from_secs(20);

fn connect(scene: &Scene) -> TcpStream {
    let socket = TcpStream::connect(scene.address).expect("the server listens");
    socket.set_read_timeout(Some(DEADLINE)).expect("the deadline is not zero");
    socket
}

/// All that comes until the server closes, which must happen; by a reset, too.
fn read_to_end(socket: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Err(error) = socket.read_to_end(&mut bytes) {
        assert_eq!(error.kind(), ErrorKind::ConnectionReset, "the server closes");
    }
    bytes
}

/// The first bytes of a handshake that somebody means.
fn hello(scene: &Scene) -> Vec<u8> {
    let config = scene.authority.client_config(None, &VERSIONS);
    let name = crate::support::certificates::SERVER_NAME.try_into().expect("a name");
    let mut tls = rustls::ClientConnection::new(config, name).expect("a client");
    let mut hello = Vec::new();
    tls.write_tls(&mut hello).expect("memory takes all");
    hello
}

#[test]
fn plain_text_is_answered_with_an_alert_and_the_end() {
    let scene = Scene::start(&["-t", "1"]);
    let before = scene.stat("ssl_handshake_errors");
    let requests: [&[u8]; 4] =
        [b"get a\r\n", b"version\r\nversion\r\n", &[0x80; 24], b"GET / HTTP/1.1\r\n\r\n"];
    for request in requests {
        let mut socket = connect(&scene);
        socket.write_all(request).expect("the server reads");
        let answer = read_to_end(&mut socket);
        // Nothing but an alert, and that may be lost.
        assert!(answer.is_empty() || (answer[0] == 0x15 && answer.len() == 7), "{answer:?}");
    }
    assert_eq!(scene.stat("ssl_handshake_errors"), before + 4);
    assert_eq!(scene.stat("curr_connections"), 1);
    assert!(scene.lets_in(None));
}

#[test]
fn watchers_are_told_who_breaks_off_and_why() {
    let scene = Scene::start(&["-t", "1"]);
    let mut watcher = scene.connect_plain();
    assert_eq!(watcher.ask("watch connevents"), "OK");
    connect(&scene).write_all(b"get a\r\n").expect("the server reads");
    let mut line = String::new();
    while !line.contains("type=conntlserr") {
        line = watcher.read_line();
    }
    assert!(line.contains(" fd=") && line.contains(" msg="), "{line}");
}

#[test]
fn tls_on_a_plain_port_is_no_request() {
    let scene = Scene::start(&["-t", "1"]);
    let hello = hello(&scene);
    let mut plain = scene.connect_plain();
    plain.send(&hello);
    plain.send(b"\r\n");
    plain.finish_sending();
    let answer = plain.read_to_end().expect("the server closes");
    assert!(!answer.contains(&0x16), "{answer:?}");
    assert!(scene.lets_in(None));
}

#[test]
fn handshakes_that_are_broken_off_leave_nothing_behind() {
    let scene = Scene::start(&["-t", "2", "-c", "4096"]);
    let hello = hello(&scene);
    assert!(scene.lets_in(None));
    let descriptors = scene.server.descriptor_count();
    let before = scene.server.resident_bytes();
    for round in 0..10 {
        let mut sockets: Vec<TcpStream> = (0..100).map(|_| connect(&scene)).collect();
        for (index, socket) in sockets.iter_mut().enumerate() {
            let len = (index * 31 + round * 7) % (hello.len() + 1);
            socket.write_all(&hello[..len]).expect("the server reads");
        }
        let mut secure = scene.connect(VERSIONS[round % 2]);
        for _ in 0..20 {
            secure.ask(set("key", b"value"), "STORED\r\n");
        }
    }
    wait_until("the descriptors are closed", DEADLINE, || {
        scene.server.descriptor_count() <= descriptors + 4
    });
    let grown = scene.server.resident_bytes().saturating_sub(before);
    assert!(grown < 16 << 20, "the server grew by {grown} bytes");
    assert!(scene.lets_in(None));
}

#[test]
fn a_half_open_handshake_holds_little() {
    let scene = Scene::start(&["-t", "1", "-c", "4096"]);
    assert!(scene.lets_in(None));
    let hello = hello(&scene);
    let before = scene.server.resident_bytes();
    let count = 500;
    let mut sockets: Vec<TcpStream> = (0..count).map(|_| connect(&scene)).collect();
    for socket in &mut sockets {
        socket.write_all(&hello[..hello.len() - 1]).expect("the server reads");
    }
    wait_until("all are there", DEADLINE, || scene.stat("curr_connections") > count);
    let grown = scene.server.resident_bytes().saturating_sub(before);
    assert!(grown / count < 16 << 10, "each of {count} holds {} bytes", grown / count);
}

#[test]
fn a_handshake_that_stalls_ends_by_the_idle_timeout() {
    let scene = Scene::start(&["-o", "idle_timeout=1"]);
    let hello = hello(&scene);
    let mut silent = connect(&scene);
    let mut half = connect(&scene);
    half.write_all(&hello[..hello.len() / 2]).expect("the server reads");
    let mut unanswered = connect(&scene);
    unanswered.write_all(&hello).expect("the server reads");
    assert_eq!(read_to_end(&mut silent), b"");
    assert_eq!(read_to_end(&mut half), b"");
    // This one has got the server's side, and owes its own.
    assert_eq!(read_to_end(&mut unanswered).first(), Some(&0x16));
    assert!(scene.stat("idle_kicks") >= 3);
}

#[test]
fn a_handshake_message_without_end_is_refused() {
    let scene = Scene::start(&["-t", "1"]);
    let mut socket = connect(&scene);
    // A hello of 16 MiB less one byte, in records of 16 KiB.
    let mut record = vec![0x16, 3, 1, 0x40, 0];
    record.resize(5 + (16 << 10), 0);
    record[5..9].copy_from_slice(&[1, 0xff, 0xff, 0xff]);
    let mut sent = 0;
    while sent < 4 << 20 && socket.write_all(&record).is_ok() {
        sent += record.len();
        record[5..9].fill(0);
    }
    assert!(sent < 4 << 20, "the server took {sent} bytes of a message");
    assert!(scene.lets_in(None));
}

#[test]
fn noise_inside_an_open_connection_ends_it_alone() {
    let scene = Scene::start(&["-t", "1"]);
    let before = scene.stat("ssl_proto_errors");
    let mut other = scene.connect(VERSIONS[1]);
    for version in VERSIONS {
        let mut client = scene.connect(version);
        client.send_raw(b"\x17\x03\x03\x00\x20this was never encrypted by anyone");
        assert!(client.finish().is_err());
        other.ask("get none\r\n", "END\r\n");
    }
    assert_eq!(scene.stat("ssl_proto_errors"), before + 2);
}
