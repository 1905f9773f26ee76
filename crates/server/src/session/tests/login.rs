//! ASCII authentication (`-Y`): a client must log in before the server accepts other commands.

use crate::session::testing::{Client, Fixture, parse_dialogue};

/// Makes a server that requires a login and has the item `secret`.
fn fixture() -> Fixture {
    let mut fixture = Fixture::new();
    assert_eq!(fixture.talk([&b"set secret 0 0 5\r\nvalue\r\n"[..]]), b"STORED\r\n");
    fixture.passwords = Some("ana:letmein\nbob:two words\n");
    fixture
}

/// Plays a dialogue, and checks the replies. The script is sent in two pieces, cut at each byte, and then byte by byte.
#[track_caller]
fn check(lines: &str) {
    let (sent, expected) = parse_dialogue(lines);
    let fixture = fixture();
    for cut in 0..sent.len() {
        let (head, tail) = sent.split_at(cut);
        let received = fixture.talk([head, tail]);
        let text = String::from_utf8_lossy;
        assert_eq!(text(&received), text(&expected), "cut at {cut}");
    }
    let received = fixture.talk(sent.chunks(1));
    assert_eq!(received, expected, "byte by byte");
}

#[test]
fn a_client_that_logs_in_is_served() {
    check(
        "> set any 0 0 11
         > ana letmein
         < STORED
         > get secret
         < VALUE secret 0 5
         < value
         < END
         > get any
         < END
         > set x 0 0 9 noreply
         > ana wrong
         > get x
         < VALUE x 0 9
         < ana wrong
         < END",
    );
    check(
        "> set any 0 0 13
         > bob two words
         < STORED
         > touch secret 0
         < TOUCHED",
    );
}

#[test]
fn no_command_is_served_before_the_login() {
    for command in [
        "get secret",
        "gets secret",
        "gat 0 secret",
        "mg secret v",
        "me secret",
        "delete secret",
        "touch secret 0",
        "incr secret 1",
        "md secret",
        "flush_all",
        "stats",
        "version",
        "verbosity 1",
        "shutdown",
        "watch fetchers",
        "lru_crawler metadump all",
        "cache_memlimit 64",
        "add secret 0 0 1",
        "ms secret 2",
        "cas secret 0 0 1 1",
    ] {
        check(&format!(
            "> {command}\n< CLIENT_ERROR unauthenticated\n> {command}\n< CLIENT_ERROR unauthenticated"
        ));
    }
}

#[test]
fn after_a_failed_login_commands_are_refused() {
    for token in [
        "ana wrong",
        "ana letm",
        "ana letmeinn",
        "ana letmein ",
        "ana  letmein",
        "ana ",
        " letmein",
        " ",
        "nobody letmein",
        "ana two words",
        "bob two",
        "Ana letmein",
    ] {
        let len = token.len();
        check(&format!(
            "> set k 0 0 {len}\n> {token}\n< CLIENT_ERROR authentication failure
             > get secret\n< CLIENT_ERROR unauthenticated"
        ));
    }
    check(
        "> set k 0 0 3
         > ana
         < CLIENT_ERROR bad authentication token format
         > get secret
         < CLIENT_ERROR unauthenticated
         > set k 0 0 11
         > ana letmein
         < STORED
         > touch secret 0
         < TOUCHED
         > quit",
    );
}

#[test]
fn the_binary_protocol_does_not_bypass_the_login() {
    let get = [&[0x80, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0, 6][..], &[0; 12], b"secret"].concat();
    let fixture = fixture();
    assert_eq!(fixture.talk([&get[..]]), b"");
    assert_eq!(fixture.talk([&get[..], b"\r\n"]), b"CLIENT_ERROR unauthenticated\r\n");
    let shared = fixture.shared();
    let mut client = Client::new(fixture.worker(&shared));
    client.send(&get.repeat(100));
    assert!(client.is_closed && client.received.is_empty());
}

#[test]
fn a_huge_value_is_refused_before_it_arrives() {
    let fixture = fixture();
    let shared = fixture.shared();
    let mut client = Client::new(fixture.worker(&shared));
    client.send(b"set k 0 0 2147483646\r\n");
    assert_eq!(client.received, b"CLIENT_ERROR auth token too long\r\n");
    // If the client sends the value nevertheless, the session parses the bytes of the value as lines. The connection
    // closes if these bytes contain no line end.
    client.send(&[b'x'; 10_000]);
    assert!(client.is_closed);
    let mut client = Client::new(fixture.worker(&shared));
    let token = [b'x'; 16_384];
    client.send(&[b"set k 0 0 16384\r\n", &token[..], b"\r\n"].concat());
    assert_eq!(client.received, b"CLIENT_ERROR bad authentication token format\r\n");
    assert_eq!(client.uploaded, 0, "a password is not received into the cache's memory");
    assert_eq!(fixture.engine.stats(client.worker.now).items, 1);
}

#[test]
fn logins_are_counted_and_use_the_request_budget() {
    let fixture = fixture();
    let shared = fixture.shared();
    let mut client = Client::new(fixture.worker(&shared));
    client.send(&b"set k 0 0 5\r\nana x\r\n".repeat(50));
    assert_eq!(client.received, b"CLIENT_ERROR authentication failure\r\n".repeat(50));
    assert!(client.yields >= 2, "50 logins take at least 3 rounds: {} yields", client.yields);
    client.send(b"get a\r\nset k 0 0 11\r\nana letmein\r\n");
    client.received.clear();
    client.send(b"stats\r\n");
    let stats = String::from_utf8_lossy(&client.received);
    assert!(stats.contains("STAT auth_cmds 51\r\nSTAT auth_errors 50\r\n"), "{stats}");
}
