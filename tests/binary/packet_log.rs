//! With `-vv` the server logs each request and each reply exactly once.

use std::fs;

use super::packet::{DELETE, GETK, NOOP, SET, keyed, packet, store};
use crate::support::{Server, under_test};

#[test]
fn a_fragmented_packet_is_logged_once() {
    let log = tempfile::NamedTempFile::new().expect("a temporary file can be created");
    let command = under_test().with(&["-vv", "-t", "1"]).logging_to(log.path());
    let server = Server::start(&command);
    let (mut client, mut other) = (server.connect(), server.connect());
    let requests =
        [store(SET, "key", b"value"), keyed(GETK, "key"), keyed(DELETE, "key"), packet(NOOP)];
    let mut sent = 0;
    for request in requests {
        let bytes = request.bytes(&|_| 0);
        for cut in 1..bytes.len() {
            client.send(&bytes[..cut]);
            // The server has one worker. When it has answered the other client, it has read the first fragment.
            other.ask("version");
            client.send(&bytes[cut..]);
            let head = client.read_exact(24);
            let body_len = u32::from_be_bytes([head[8], head[9], head[10], head[11]]);
            client.read_exact(body_len as usize);
            sent += 1;
        }
    }
    drop(server);
    let printed = fs::read_to_string(log.path()).expect("the log of the server is readable");
    let logged = |head: &str| printed.lines().filter(|line| line.contains(head)).count();
    assert_eq!((logged(" packet 80"), logged(" packet 81")), (sent, sent), "{printed}");
}

#[test]
fn the_first_request_of_a_connection_is_logged_once() {
    let log = tempfile::NamedTempFile::new().expect("a temporary file can be created");
    let command = under_test().with(&["-vv", "-t", "1"]).logging_to(log.path());
    let server = Server::start(&command);
    server.connect().ask("get first");
    let mut client = server.connect();
    client.send(&packet(NOOP).bytes(&|_| 0));
    client.read_exact(24);
    drop(server);
    let printed = fs::read_to_string(log.path()).expect("the log of the server is readable");
    let logged = |text: &str| printed.lines().filter(|line| line.contains(text)).count();
    assert_eq!((logged(" get first"), logged(" packet 80")), (1, 1), "{printed}");
}
