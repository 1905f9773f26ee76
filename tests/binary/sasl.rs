//! SASL authentication (`-S`) over real sockets.

use std::fs;

use tempfile::{NamedTempFile, TempPath};

use super::connected_server::ConnectedServer;
use super::packet::{
    FLUSH, GET, NOOP, Packet, QUIT, SASL_AUTH, SASL_LIST_MECHS, SASL_STEP, SET, STAT, VERSION,
    keyed, packet, store,
};
use crate::support::{stock_memcached, under_test};

/// The status of a reply to a client that is not authenticated.
const AUTH_ERROR: u16 = 0x20;

/// A temporary password file.
struct PasswordFile(TempPath);

impl PasswordFile {
    fn new(text: &str) -> PasswordFile {
        let file = NamedTempFile::new().expect("a temporary file can be created");
        let file = PasswordFile(file.into_temp_path());
        file.write(text);
        file
    }

    fn write(&self, text: &str) {
        fs::write(&self.0, text).expect("a temporary file can be written");
    }

    /// Starts a server that reads this file.
    fn server(&self) -> ConnectedServer {
        let path = self.0.to_str().expect("the path of a temporary file is UTF-8");
        let command = under_test().with(&["-S"]);
        ConnectedServer::start(&command.with_variable("MEMCACHED_SASL_PWDB", path))
    }
}

/// Returns a request that begins an authentication.
fn auth(mechanism: &str, response: &[u8]) -> Packet {
    keyed(SASL_AUTH, mechanism).value(response)
}

/// Returns the status of the first reply, and true if the server closed the connection.
fn outcome(server: &mut ConnectedServer, request: &Packet) -> (u16, bool) {
    let result = server.step(request);
    (result.replies[0].status, result.closed)
}

#[test]
fn only_the_right_password_authenticates() {
    let file = PasswordFile::new("first:one\nuser:pass\n");
    let mut server = file.server();
    for wrong in [
        auth("PLAIN", b"\0user\0wrong"),
        auth("PLAIN", b"\0user\0"),
        auth("PLAIN", b"\0user\0one"),
        auth("PLAIN", b"\0nobody\0pass"),
        auth("PLAIN", &[b'x'; 100_000]),
        auth("CRAM-MD5", b"\0user\0pass"),
        keyed(SASL_STEP, "PLAIN").value(b"\0user\0pass"),
    ] {
        // The server also refuses the no-op that follows each request, and then closes the connection.
        let result = server.step(&wrong);
        assert!(result.closed, "{wrong:?}");
        assert!(result.replies.iter().all(|reply| reply.status == AUTH_ERROR), "{result:?}");
    }
    assert_eq!(outcome(&mut server, &auth("PLAIN", b"\0user\0pass")), (0, false));
    assert_eq!(outcome(&mut server, &store(SET, "k", b"v")), (0, false));
    // After a change of the password file, clients that have authenticated stay authenticated.
    file.write("user:changed\n");
    assert_eq!(outcome(&mut server, &keyed(GET, "k")), (0, false));
    assert_eq!(outcome(&mut server, &auth("PLAIN", b"\0user\0pass")), (AUTH_ERROR, true));
    assert_eq!(outcome(&mut server, &auth("PLAIN", b"\0user\0changed")), (0, false));
}

#[test]
fn with_sasl_a_text_client_is_disconnected() {
    let file = PasswordFile::new("user:pass\n");
    let server = file.server();
    let mut client = server.process().connect();
    client.send(b"get key\r\n");
    assert_eq!(client.read_to_end().expect("the server closes the connection"), b"");
}

#[test]
fn unauthenticated_requests_get_the_same_replies_as_from_memcached() {
    let file = PasswordFile::new("user:pass\n");
    let mut slabwise = file.server();
    // memcached does not start with -S unless a configuration file of the SASL library lists the mechanisms.
    let folder = tempfile::tempdir().expect("a temporary directory can be created");
    fs::write(folder.path().join("memcached.conf"), "mech_list: plain\n")
        .expect("the temporary directory is writable");
    let command = stock_memcached().with(&["-S"]);
    let folder_name = folder.path().to_str().expect("the path of a temporary file is UTF-8");
    let mut memcached =
        ConnectedServer::start(&command.with_variable("SASL_CONF_PATH", folder_name));
    for request in [
        packet(NOOP),
        packet(QUIT),
        packet(FLUSH),
        packet(STAT),
        keyed(GET, "k"),
        store(SET, "k", b"v"),
        packet(0xee),
        packet(GET),
        keyed(GET, "key").body_len(1),
        auth("NO-SUCH-MECHANISM", b"x"),
        auth(&"X".repeat(33), b"response"),
        packet(SASL_AUTH).value(b"x"),
        keyed(SASL_LIST_MECHS, "k"),
        keyed(VERSION, "k"),
        keyed(SASL_STEP, "PLAIN").value(b"\0user\0pass"),
        auth("PLAIN", b"\0nobody\0nothing"),
    ] {
        let expected = memcached.step(&request);
        assert_eq!(slabwise.step(&request), expected, "{request:?}");
    }
}
