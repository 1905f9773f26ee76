//! SASL authentication (`-S`) in sessions.

use super::super::super::testing::Fixture;
use super::packet::{Packet, Talk, packet, store};
use crate::config::Protocol;
use crate::passwords::testing::TemporaryFile;
use slabwise_protocol::binary::opcode::{
    FLUSH, GET, NOOP, QUIT, SASL_AUTH, SASL_LIST_MECHS, SASL_STEP, SET, STAT, VERSION,
};
use std::sync::atomic::Ordering;

// The statuses of replies.
const AUTH_ERROR: u16 = 0x20;
const AUTH_CONTINUE: u16 = 0x21;
const UNKNOWN: u16 = 0x81;

/// Returns a server with one user, and its password file.
fn server() -> (Fixture, TemporaryFile) {
    let file = TemporaryFile::new("user:pass\n");
    let mut fixture = Fixture::new();
    fixture.settings.sasl_enabled = true;
    fixture.settings.sasl_password_file = Some(file.path().to_owned());
    (fixture, file)
}

/// Returns a request that begins an authentication.
fn auth(mechanism: &str, response: &[u8]) -> Packet {
    packet(SASL_AUTH).key(mechanism).value(response)
}

/// Returns a request that authenticates the client.
fn login() -> Packet {
    auth("PLAIN", b"\0user\0pass")
}

/// Checks that the server refuses a set and closes the connection.
#[track_caller]
fn check_unauthenticated(talk: &mut Talk<'_>) {
    assert_eq!(talk.outcome(&store(SET, "k", b"v")), (AUTH_ERROR, "Auth failure.".into()));
    assert!(talk.is_closed());
}

#[test]
fn the_right_password_authenticates_one_connection() {
    let (fixture, _file) = server();
    let shared = fixture.shared();
    let mut talk = Talk::new(&fixture, &shared);
    assert_eq!(talk.outcome(&packet(SASL_LIST_MECHS)), (0, "PLAIN".into()));
    assert_eq!(talk.outcome(&login()), (0, "Authenticated".into()));
    assert_eq!(talk.ask(&store(SET, "k", b"v")).status, 0);
    assert_eq!(talk.ask(&packet(GET).key("k")).text(), "v");
    // Other connections are not authenticated.
    check_unauthenticated(&mut Talk::new(&fixture, &shared));
    let mut in_two_steps = Talk::new(&fixture, &shared);
    assert_eq!(in_two_steps.outcome(&auth("PLAIN", b"")), (AUTH_CONTINUE, String::new()));
    let step = packet(SASL_STEP).key("PLAIN").value(b"\0user\0pass");
    assert_eq!(in_two_steps.outcome(&step), (0, "Authenticated".into()));
    assert_eq!(in_two_steps.ask(&packet(NOOP)).status, 0);
    assert_eq!(shared.counters.auth_commands.load(Ordering::Relaxed), 2);
    assert_eq!(shared.counters.auth_errors.load(Ordering::Relaxed), 0);
}

#[test]
fn before_authentication_other_commands_close_the_connection() {
    let (fixture, _file) = server();
    let shared = fixture.shared();
    let mut talk = Talk::new(&fixture, &shared);
    assert_eq!(talk.ask(&packet(VERSION)).status, 0);
    assert_eq!(talk.ask(&packet(SASL_LIST_MECHS)).status, 0);
    assert!(!talk.is_closed());
    for request in [
        packet(NOOP),
        packet(QUIT),
        packet(FLUSH),
        packet(STAT),
        packet(GET).key("k"),
        packet(0x09).key("k"),
        packet(0x11).extras(&[0; 8]).key("k").value(b"v"),
        packet(0x10).key("reset"),
        packet(0xee),
        // This request is also invalid, because it has no key. The server checks the authentication first.
        packet(GET),
    ] {
        let mut talk = Talk::new(&fixture, &shared);
        assert_eq!(talk.outcome(&request), (AUTH_ERROR, "Auth failure.".into()));
        assert!(talk.is_closed());
    }
    let mut talk = Talk::new(&fixture, &shared);
    // The server ignores the requests after a refused request.
    let replies = talk.send(&[packet(GET).key("k"), login(), store(SET, "k", b"v")]);
    assert_eq!(replies.len(), 1);
    let mut talk = Talk::new(&fixture, &shared);
    let mut bytes = packet(GET).key("key").bytes();
    bytes[11] = 1;
    talk.client.send(&bytes);
    assert_eq!(super::packet::answers(&talk.client.received)[0].status, UNKNOWN);
}

#[test]
fn wrong_credentials_do_not_authenticate() {
    let (fixture, _file) = server();
    let shared = fixture.shared();
    let long = [&b"\0user\0"[..], &[b'p'; 2_000]].concat();
    let attempts = [
        auth("PLAIN", b"\0user\0wrong"),
        auth("PLAIN", b"\0user\0"),
        auth("PLAIN", b"\0user"),
        auth("PLAIN", b"\0nobody\0pass"),
        auth("PLAIN", b"\0\0"),
        auth("PLAIN", b"user\0pass"),
        auth("PLAIN", b"root\0user\0pass"),
        auth("PLAIN", &long),
        auth("CRAM-MD5", b"\0user\0pass"),
        auth("PLAIN\0", b"\0user\0pass"),
        packet(SASL_STEP).key("PLAIN").value(b"\0user\0pass"),
    ];
    for (index, attempt) in attempts.iter().enumerate() {
        let mut talk = Talk::new(&fixture, &shared);
        assert_eq!(talk.outcome(attempt), (AUTH_ERROR, "Auth failure.".into()), "attempt {index}");
        assert!(!talk.is_closed());
        check_unauthenticated(&mut talk);
    }
    assert_eq!(shared.counters.auth_commands.load(Ordering::Relaxed), attempts.len() as u64);
    assert_eq!(shared.counters.auth_errors.load(Ordering::Relaxed), attempts.len() as u64);
    let mut talk = Talk::new(&fixture, &shared);
    let too_long = auth(&"X".repeat(40), b"\0user\0pass");
    assert_eq!(talk.outcome(&too_long), (0x04, "Invalid arguments".into()));
    check_unauthenticated(&mut talk);
}

#[test]
fn a_failed_attempt_ends_an_earlier_authentication() {
    let (fixture, file) = server();
    let shared = fixture.shared();
    for attempt in [
        auth("PLAIN", b"\0user\0wrong"),
        auth("NONE", b"\0user\0pass"),
        auth("PLAIN", &[b'x'; 1_025]),
        packet(SASL_STEP).key("PLAIN").value(b"\0user\0pass"),
    ] {
        let mut talk = Talk::new(&fixture, &shared);
        assert_eq!(talk.ask(&login()).status, 0);
        assert_eq!(talk.ask(&packet(NOOP)).status, 0);
        assert_eq!(talk.ask(&attempt).status, AUTH_ERROR);
        check_unauthenticated(&mut talk);
    }
    let mut talk = Talk::new(&fixture, &shared);
    assert_eq!(talk.ask(&login()).status, 0);
    assert_eq!(talk.ask(&auth(&"X".repeat(40), b"")).status, 0x04);
    check_unauthenticated(&mut talk);
    let mut talk = Talk::new(&fixture, &shared);
    assert_eq!(talk.ask(&login()).status, 0);
    file.write("user:other\n");
    assert_eq!(talk.ask(&login()).status, AUTH_ERROR);
    check_unauthenticated(&mut talk);
}

#[test]
fn without_a_password_file_every_attempt_fails() {
    let (mut fixture, _file) = server();
    fixture.settings.sasl_password_file = None;
    let shared = fixture.shared();
    let mut talk = Talk::new(&fixture, &shared);
    assert_eq!(talk.ask(&login()).status, AUTH_ERROR);
    check_unauthenticated(&mut talk);
}

#[test]
fn text_commands_do_not_bypass_sasl() {
    for protocol in [Protocol::Binary, Protocol::Auto, Protocol::Ascii] {
        let (mut fixture, _file) = server();
        fixture.settings.protocol = protocol;
        let shared = fixture.shared();
        let mut talk = Talk::new(&fixture, &shared);
        talk.client.send(b"set k 0 0 1\r\nx\r\n");
        assert!(talk.is_closed() && talk.client.received.is_empty(), "{}", protocol.name());
    }
}

#[test]
fn each_attempt_to_authenticate_ends_the_round_of_its_connection() {
    let (fixture, _file) = server();
    let shared = fixture.shared();
    let mut talk = Talk::new(&fixture, &shared);
    let guess = || auth("PLAIN", b"\0user\0guess");
    assert_eq!(talk.send(&[guess(), guess(), guess(), login()]).len(), 4);
    assert_eq!(talk.client.yields, 3);
}
