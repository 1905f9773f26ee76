//! Sessions with large values, without memory, with many requests at once, and with clients of other protocols.

use crate::session::testing::{Client, Fixture};

/// Returns a set request.
fn set(key: &str, value: &[u8]) -> Vec<u8> {
    [format!("set {key} 0 0 {}\r\n", value.len()).as_bytes(), value, b"\r\n"].concat()
}

#[test]
fn a_large_value_is_received_into_the_arena_and_sent_from_it() {
    let fixture = Fixture::new();
    let shared = fixture.shared();
    let value: Vec<u8> = (0..60_000u32).map(|index| index as u8).collect();
    for piece_len in [1, 7, 1000, 4096, 59_999, 70_000] {
        let mut client = Client::new(fixture.worker(&shared));
        let script = [&set("a", &value)[..], b"get a\r\n"].concat();
        script.chunks(piece_len).for_each(|piece| client.send(piece));
        let expected = [b"STORED\r\nVALUE a 0 60000\r\n", &value[..], b"\r\nEND\r\n"].concat();
        assert!(client.received == expected, "pieces of {piece_len} bytes");
        assert_eq!(client.uploaded > 0, piece_len < 59_999, "pieces of {piece_len} bytes");
    }
}

#[test]
fn a_client_that_disconnects_before_its_value_is_complete_stores_nothing() {
    let fixture = Fixture::new();
    let shared = fixture.shared();
    let mut client = Client::new(fixture.worker(&shared));
    client.send(b"set a 0 0 50000\r\nabc");
    drop(client);
    assert_eq!(fixture.talk([&b"get a\r\n"[..]]), b"END\r\n");
}

#[test]
fn without_memory_a_set_fails_and_removes_the_old_value() {
    let fixture = Fixture::with(|config| config.eviction_enabled = false);
    let shared = fixture.shared();
    let mut client = Client::new(fixture.worker(&shared));
    let value = [b'x'; 20_000];
    for index in 0..1_000 {
        client.send(&set(&format!("key{index}"), &value));
    }
    let replies = String::from_utf8_lossy(&client.received).into_owned();
    let stored = replies.lines().take_while(|&line| line == "STORED").count();
    assert!(
        (100..1_000).contains(&stored),
        "at least 100 of 1,000 values fit, but not all: {stored}"
    );
    assert!(replies.ends_with("SERVER_ERROR out of memory storing object\r\n"));
    // A failed add keeps the old item. A failed set removes it.
    for (verb, survives) in [("add", true), ("set", false)] {
        client.received.clear();
        let large = [format!("{verb} key0 0 0 90000\r\n").as_bytes(), &[b'y'; 90_000]].concat();
        client.send(&large);
        client.send(b"\r\n");
        assert_eq!(client.received, b"SERVER_ERROR out of memory storing object\r\n", "{verb}");
        client.received.clear();
        client.send(b"get key0\r\n");
        assert_eq!(client.received.starts_with(b"VALUE"), survives, "{verb}");
    }
}

#[test]
fn pipelined_requests_yield_to_other_connections() {
    let fixture = Fixture::new();
    let shared = fixture.shared();
    let mut client = Client::new(fixture.worker(&shared));
    client.send(&b"get a\r\n".repeat(100));
    assert_eq!(client.received, b"END\r\n".repeat(100));
    assert_eq!(client.yields, 4, "100 requests take 5 rounds of 20, with a yield between rounds");
}

#[test]
fn a_line_of_many_keys_is_answered_as_it_arrives() {
    let fixture = Fixture::new();
    let shared = fixture.shared();
    let keys: Vec<String> = (0..5_000).map(|index| format!("key{index}")).collect();
    let line = format!("get {}\r\n", keys.join(" "));
    for piece_len in [100, 2_000, 10_000, line.len()] {
        let mut client = Client::new(fixture.worker(&shared));
        client.send(&set("key4999", b"x"));
        line.as_bytes().chunks(piece_len).for_each(|piece| client.send(piece));
        let replies = String::from_utf8_lossy(&client.received);
        assert_eq!(replies, "STORED\r\nVALUE key4999 0 1\r\nx\r\nEND\r\n");
        assert!(client.yields >= 3, "5,000 keys count as 79 requests, and a round has 20");
    }
}

#[test]
fn after_an_invalid_key_the_rest_of_the_line_is_ignored() {
    let fixture = Fixture::new();
    let line = format!("get a {}{}", "b ".repeat(2_000), "k".repeat(300));
    let pieces = [&set("a", b"x")[..], line.as_bytes(), b" a\r\nget a\r\n"];
    let replies = String::from_utf8(fixture.talk(pieces)).expect("replies are UTF-8");
    let expected = "STORED\r\nVALUE a 0 1\r\nx\r\nCLIENT_ERROR bad command line format\r\n\
        VALUE a 0 1\r\nx\r\nEND\r\n";
    assert_eq!(replies, expected);
}

#[test]
fn a_session_yields_when_its_output_is_full() {
    let fixture = Fixture::new();
    let shared = fixture.shared();
    let mut client = Client::new(fixture.worker(&shared));
    client.send(&set("a", &[b'x'; 90_000]));
    client.yields = 0;
    client.send(format!("get{}\r\n", " a".repeat(60)).as_bytes());
    assert!(client.yields >= 4, "5.4 MB of replies need at least 4 yields, not {}", client.yields);
    assert_eq!(client.received.len(), 8 + 60 * (17 + 90_000 + 2) + 5);
}

#[test]
fn a_client_that_does_not_send_commands_is_disconnected() {
    let fixture = Fixture::new();
    let shared = fixture.shared();
    let closed_and_reply_len = |input: &[u8]| {
        let mut client = Client::new(fixture.worker(&shared));
        client.send(input);
        (client.is_closed, client.received.len())
    };
    assert_eq!(closed_and_reply_len(b"quit\r\nget a\r\n"), (true, 0));
    assert_eq!(closed_and_reply_len(b"GET / HTTP/1.1\r\nHost: x\r\n"), (true, 0));
    assert_eq!(closed_and_reply_len(&[b'x'; 3_000]), (true, 0));
    assert_eq!(closed_and_reply_len(&[b'x'; 2_000]), (false, 0));
    assert_eq!(closed_and_reply_len(&[&[b'x'; 3_000][..], b"\r\n"].concat()), (false, 7));
}

#[test]
fn random_bytes_cause_no_panic() {
    let fixture = Fixture::new();
    let shared = fixture.shared();
    for seed in 0..300 {
        let mut random = slabwise_base::Random::new(seed);
        let mut client = Client::new(fixture.worker(&shared));
        for _ in 0..20 {
            let word =
                [&b"get "[..], b"set a 0 0 5\r\n", b"\r\n", b"stats ", b"lru_crawler crawl all"]
                    [random.below(5) as usize];
            let noise: Vec<u8> = (0..random.below(40)).map(|_| random.next_u64() as u8).collect();
            client.send(word);
            client.send(&noise);
        }
    }
}
