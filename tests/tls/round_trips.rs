//! Replies over TLS are the same as without TLS, for values of all sizes, however the input is split.

use super::fixture::{Fixture, VERSIONS, hit, set, value};
use std::time::Duration;

/// The time for which a test waits for a condition before it fails.
const DEADLINE: Duration = Duration::from_secs(20);

#[test]
fn values_of_all_sizes_are_stored_and_returned() {
    let fixture = Fixture::start(&["-I", "16m"]);
    // The sizes are near the limits of TLS records (16 KiB), of direct reads into item memory (4 KiB), of the worker's
    // buffer (64 KiB) and of chunks.
    let sizes = [
        0, 1, 100, 4_095, 4_096, 16_382, 16_383, 16_384, 16_385, 65_535, 65_536, 65_537, 100_000,
        1_000_000, 12_345_678,
    ];
    for version in VERSIONS {
        let mut client = fixture.connect(version);
        assert_eq!(client.tls().protocol_version(), Some(version.version));
        for size in sizes {
            let value = value(size);
            client.ask(set("key", &value), "STORED\r\n");
            client.ask("get key\r\n", hit("key", &value));
        }
        let value = value(12_345_678);
        for _ in 0..3 {
            client.ask("get key\r\n", hit("key", &value));
        }
        assert_eq!(client.finish().expect("the server sends close_notify"), b"");
    }
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let fixture = Fixture::start(&["-t", "2"]);
    for version in VERSIONS {
        let (mut requests, mut replies) = (Vec::new(), Vec::new());
        for index in 0..2_000 {
            let (key, value) = (format!("key{index}"), value(index % 300));
            requests.extend(set(&key, &value));
            requests.extend(format!("get {key}\r\n").bytes());
            replies.extend(b"STORED\r\n");
            replies.extend(hit(&key, &value));
        }
        let mut client = fixture.connect(version);
        client.ask(requests, replies);
    }
}

#[test]
fn replies_do_not_depend_on_how_records_and_packets_split_the_requests() {
    let fixture = Fixture::start(&["-t", "1"]);
    let large = value(5_000);
    let mut request = set("cut", b"some value");
    request.extend(b"get cut\r\nget none\r\nbogus\r\n");
    request.extend(set("large", &large));
    request.extend(b"get large\r\n");
    let mut reply = b"STORED\r\n".to_vec();
    reply.extend(hit("cut", b"some value"));
    reply.extend(b"END\r\nERROR\r\nSTORED\r\n");
    reply.extend(hit("large", &large));
    for version in VERSIONS {
        // Send each byte in its own TLS record.
        let mut client = fixture.connect(version);
        for byte in &request {
            client.send([*byte]);
        }
        client.expect(&reply);
        // Send each byte of ciphertext in its own packet.
        client.split_ciphertext();
        client.ask(&request, &reply);
    }
}

#[test]
fn a_slow_reader_uses_little_memory_and_delays_no_other_client() {
    let fixture = Fixture::start(&["-t", "1"]);
    let value = value(1_000_000);
    let count = 100;
    for version in VERSIONS {
        let mut slow = fixture.connect(version);
        slow.ask(set("key", &value), "STORED\r\n");
        let before = fixture.server.resident_bytes();
        slow.send("get key\r\n".repeat(count));
        let mut other = fixture.connect(version);
        crate::support::wait_until(
            "stats conns shows that the server waits for the slow client",
            DEADLINE,
            || {
                other.send("stats conns\r\n");
                let mut is_writing = false;
                loop {
                    let line = other.read_line();
                    if line == "END\r\n" {
                        return is_writing;
                    }
                    is_writing |= line.contains("conn_mwrite");
                }
            },
        );
        for _ in 0..500 {
            other.ask("get none\r\n", "END\r\n");
        }
        let grown = fixture.server.resident_bytes().saturating_sub(before);
        assert!(
            grown < 8 << 20,
            "100 unread replies of 1 MB use less than 8 MiB, not {grown} bytes"
        );
        for _ in 0..count {
            slow.expect(hit("key", &value));
        }
        slow.ask("get none\r\n", "END\r\n");
    }
}

#[test]
fn a_client_that_closes_its_side_gets_every_reply() {
    let fixture = Fixture::start(&["-t", "1"]);
    let value = value(100_000);
    for version in VERSIONS {
        let mut client = fixture.connect(version);
        client.ask(set("key", &value), "STORED\r\n");
        client.send("get key\r\n".repeat(20));
        let replies = client.finish().expect("the server sends close_notify");
        assert!(
            replies == hit("key", &value).repeat(20),
            "all 20 replies arrive, not only {} bytes",
            replies.len()
        );
        let mut client = fixture.connect(version);
        client.send("get none\r\nquit\r\nget none\r\n");
        assert_eq!(client.finish().expect("the server sends close_notify"), b"END\r\n");
    }
}

#[test]
fn replies_do_not_depend_on_the_size_of_the_write_buffer() {
    let fixture = Fixture::start(&["-o", "ssl_wbuf_size=1"]);
    let value = value(300_000);
    let mut client = fixture.connect(VERSIONS[1]);
    client.ask(set("key", &value), "STORED\r\n");
    client.ask("get key\r\n", hit("key", &value));
}

#[test]
fn tls_and_plain_listeners_share_items() {
    let fixture = Fixture::start(&[]);
    let mut secure = fixture.connect(VERSIONS[1]);
    let mut plain = fixture.connect_plain();
    secure.ask(set("key", b"from TLS"), "STORED\r\n");
    assert_eq!(plain.get("key").as_deref(), Some(&b"from TLS"[..]));
    assert_eq!(plain.set("key", b"in the clear"), "STORED");
    secure.ask("get key\r\n", hit("key", b"in the clear"));
}
