//! Connections of clients: pipelining, splits, slow readers, sockets and timeouts.

use crate::support::{Client, Server, directory, wait_until};
use std::io::{Read, Write};
use std::net::SocketAddr;

const VERSION: &str = "version\r\n";

/// Returns the server's reply to `version`.
fn version_reply(server: &Server) -> String {
    let mut client = server.connect();
    client.send("version\r\nget nothing\r\n");
    client.read_until_end().strip_suffix("END\r\n").expect("an end").to_owned()
}

fn set(key: &str, value: &str) -> String {
    format!("set {key} 0 0 {}\r\n{value}\r\n", value.len())
}

fn hit(key: &str, value: &str) -> String {
    format!("VALUE {key} 0 {}\r\n{value}\r\nEND\r\n", value.len())
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let server = Server::start(&["-t", "2"]);
    let mut client = server.connect();
    let (mut requests, mut replies) = (String::new(), String::new());
    for index in 0..2_000 {
        let (key, value) = (format!("key{index}"), format!("value{index}").repeat(index % 20));
        requests += &set(&key, &value);
        requests += &format!("get {key}\r\n");
        replies += "STORED\r\n";
        replies += &hit(&key, &value);
    }
    let mut sender = client.split();
    let writer = std::thread::spawn(move || sender.write_all(requests.as_bytes()));
    client.expect(replies);
    writer.join().expect("no panic").expect("all is sent");
}

#[test]
fn a_half_closed_client_gets_every_reply() {
    let server = Server::start(&["-t", "1"]);
    let value = "v".repeat(10_000);
    let count = 200;
    let mut client = server.connect();
    client.send(set("key", &value) + &"get key\r\n".repeat(count) + "get ke");
    client.half_close();
    let expected = "STORED\r\n".to_owned() + &hit("key", &value).repeat(count);
    assert!(client.read_to_end() == expected.into_bytes());
}

#[test]
fn the_first_byte_of_a_connection_selects_the_protocol() {
    let server = Server::start(&["-t", "1"]);
    let mut client = server.connect();
    let no_op = |magic| {
        let mut packet = [0; 24];
        (packet[0], packet[1]) = (magic, 0x0a);
        packet
    };
    client.send(no_op(0x80));
    client.expect(no_op(0x81));
    // After a text request, the magic byte is part of an unknown text command.
    let version = version_reply(&server);
    let mut client = server.connect();
    client.ask(VERSION, &version);
    client.send(b"\x80ab\r\n");
    client.expect("ERROR\r\n");
    client.ask("set k 0 0 1\r\nx\r\n", "STORED\r\n");
    client.send(b"\x80ab\r\n");
    client.expect("ERROR\r\n");
}

#[test]
fn a_dialogue_may_be_split_at_every_byte() {
    let server = Server::start(&["-t", "1"]);
    let version = version_reply(&server);
    let request = set("cut", "some value") + "get cut\r\nversion\r\nget none\r\nbogus\r\n";
    let reply = "STORED\r\n".to_owned() + &hit("cut", "some value") + &version + "END\r\nERROR\r\n";
    let mut client = server.connect();
    let mut other = server.connect();
    for cut in 1..request.len() {
        client.send(&request[..cut]);
        // The server has one worker. When it has answered the other client, it has read the first part of the request.
        other.ask(VERSION, &version);
        client.send(&request[cut..]);
        client.expect(&reply);
    }
    for byte in request.bytes() {
        client.send([byte]);
        other.ask(VERSION, &version);
    }
    client.expect(&reply);
}

#[test]
fn large_values_round_trip() {
    let server = Server::start(&["-t", "1"]);
    let value: String = (0..90_000u32).map(|index| format!("{index:10}")).collect();
    let mut client = server.connect();
    for piece in set("large", &value).as_bytes().chunks(77_777) {
        client.send(piece);
    }
    client.expect("STORED\r\n");
    for _ in 0..5 {
        client.ask("get large\r\n", hit("large", &value));
    }
    let mut both = set("large", &value);
    both += "get large\r\n";
    client.send(both);
    client.expect("STORED\r\n".to_owned() + &hit("large", &value));
}

#[test]
fn a_slow_reader_uses_little_memory_and_delays_no_other_client() {
    let server = Server::start(&["-t", "1"]);
    let version = version_reply(&server);
    let value = "v".repeat(10_000);
    let count = 20_000;
    let mut slow = server.connect();
    slow.ask(set("key", &value), "STORED\r\n");
    let before = server.resident_bytes();
    let mut sender = slow.split();
    let writer =
        std::thread::spawn(move || sender.write_all("get key\r\n".repeat(count).as_bytes()));
    let mut other = server.connect();
    wait_until("replies wait for the slow client", || {
        other.send("stats conns\r\n");
        other.read_until_end().contains("conn_mwrite")
    });
    for _ in 0..1_000 {
        other.ask(VERSION, &version);
    }
    let grown = server.resident_bytes().saturating_sub(before);
    assert!(grown < 8 << 20, "the server grew by {grown} bytes");
    let reply = hit("key", &value).into_bytes();
    let mut got = vec![0; reply.len()];
    let mut reader = slow.split();
    for _ in 0..count {
        reader.read_exact(&mut got).expect("the server answers");
        assert!(got == reply);
    }
    writer.join().expect("no panic").expect("all is sent");
    slow.ask(VERSION, &version);
    other.send("stats conns\r\n");
    assert!(!other.read_until_end().contains("conn_mwrite"), "the slow client has drained");
}

#[test]
fn a_client_that_sends_without_pause_does_not_block_others() {
    let server = Server::start(&["-t", "1", "-R", "5"]);
    let version = version_reply(&server);
    let flood = server.connect();
    let (mut sender, mut reader) = (flood.split(), flood.split());
    let writer = std::thread::spawn(move || {
        let batch = VERSION.repeat(10_000);
        // The loop ends when the server closes the connection.
        while sender.write_all(batch.as_bytes()).is_ok() {}
    });
    let drain = std::thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        while reader.read(&mut buffer).is_ok_and(|count| count > 0) {}
    });
    let mut other = server.connect();
    for _ in 0..200 {
        other.ask(VERSION, &version);
    }
    drop(server);
    writer.join().expect("no panic");
    drain.join().expect("no panic");
}

#[test]
fn quit_takes_effect_after_earlier_requests() {
    let server = Server::start(&[]);
    let version = version_reply(&server);
    let mut client = server.connect();
    client.send("version\r\nquit\r\n");
    assert_eq!(String::from_utf8(client.read_to_end()).expect("text"), version);
}

#[test]
fn unix_sockets_have_the_requested_mode() {
    use std::os::unix::fs::{FileTypeExt, PermissionsExt};
    let directory = directory();
    let path = directory.path().join("socket");
    let text = path.to_str().expect("text").to_owned();
    let mut server = Server::start_with(directory, &["-s", &text, "-a", "0660"]);
    let metadata = std::fs::metadata(&path).expect("the socket file exists");
    assert!(metadata.file_type().is_socket());
    assert_eq!(metadata.permissions().mode() & 0o777, 0o660);
    let mut client = Client::unix(&path);
    client.ask(set("key", "value"), "STORED\r\n");
    client.ask("get key\r\n", hit("key", "value"));
    server.signal(rustix::process::Signal::TERM);
    assert!(server.wait().success());
    assert!(!path.exists(), "the socket is removed");
}

#[test]
fn several_addresses_and_ipv6_are_listened_on() {
    let server = Server::start(&["-l", "[::1],127.0.0.1"]);
    let address: SocketAddr = format!("[::1]:{}", server.port()).parse().expect("an address");
    let mut client = Client::tcp(address);
    client.ask(set("key", "value"), "STORED\r\n");
    let conns = {
        client.send("stats conns\r\n");
        client.read_until_end()
    };
    assert!(conns.contains(&format!("listen_addr tcp6:[::1]:{}", server.port())), "{conns}");
    assert_eq!(conns.matches("conn_listening").count(), 2, "{conns}");
}

#[test]
fn idle_clients_are_closed_after_the_timeout() {
    let server = Server::start(&["-o", "idle_timeout=1"]);
    let mut client = server.connect();
    client.send(VERSION);
    // The reply, then the end of the connection, which the server closes.
    let bytes = client.read_to_end();
    assert!(bytes.starts_with(b"VERSION "), "{bytes:?}");
}
