//! Valid requests over UDP.

use super::client::{Fixture, request_header};

#[test]
fn common_commands_work_over_udp() {
    let fixture = Fixture::start(&[]);
    let mut udp = fixture.udp();
    assert_eq!(udp.ask_text("set a 5 0 3\r\nabc\r\n"), "STORED\r\n");
    assert_eq!(udp.ask_text("add a 5 0 3\r\nabc\r\n"), "NOT_STORED\r\n");
    assert_eq!(udp.ask_text("append a 0 0 2\r\nde\r\n"), "STORED\r\n");
    assert_eq!(udp.ask_text("set n 0 0 1\r\n9\r\n"), "STORED\r\n");
    assert_eq!(udp.ask_text("incr n 3\r\n"), "12\r\n");
    let values = "VALUE a 5 5\r\nabcde\r\nVALUE n 0 2\r\n12\r\nEND\r\n";
    assert_eq!(udp.ask_text("get a nothing n\r\n"), values);
    assert_eq!(udp.ask_text("touch a 100\r\n"), "TOUCHED\r\n");
    assert_eq!(udp.ask_text("delete n\r\n"), "DELETED\r\n");
    assert_eq!(udp.ask_text("get n\r\n"), "END\r\n");
    assert_eq!(udp.ask_text("bogus\r\n"), "ERROR\r\n");
    assert_eq!(
        fixture.tcp().get("a").as_deref(),
        Some(&b"abcde"[..]),
        "TCP and UDP share the items"
    );
}

#[test]
fn statistics_include_udp_sockets_and_bytes() {
    let fixture = Fixture::start(&["-t", "2"]);
    let mut udp = fixture.udp();
    let port = fixture.address.port();
    let settings = udp.ask_text("stats settings\r\n");
    assert!(settings.contains(&format!("STAT udpport {port}\r\n")), "{settings}");
    let conns = udp.ask_text("stats conns\r\n");
    assert_eq!(
        conns.matches(":UDP UDP\r\n").count(),
        2,
        "each of two workers has a UDP socket: {conns}"
    );
    assert!(conns.contains(&format!(":addr udp:127.0.0.1:{port}\r\n")), "{conns}");
    let general = udp.ask_text("stats\r\n");
    assert!(general.starts_with("STAT pid ") && general.ends_with("END\r\n"), "{general}");
    let mut tcp = fixture.tcp();
    let before = (tcp.stat("bytes_read"), tcp.stat("bytes_written"));
    udp.ask_text("get nothing\r\n");
    let after = (tcp.stat("bytes_read"), tcp.stat("bytes_written"));
    // The server has read a UDP header of 8 bytes, `get nothing` of 13 bytes, and `stats` of 7 bytes twice over TCP.
    assert_eq!(
        after.0 - before.0,
        8 + 13 + 2 * 7,
        "bytes_read counts UDP requests and their headers"
    );
    assert!(after.1 - before.1 > 8 + 5, "bytes_written counts UDP replies and their headers");
}

#[test]
fn a_reply_has_the_request_id_of_its_request() {
    let fixture = Fixture::start(&[]);
    let udp = fixture.udp();
    for request_id in [1, 1, 2, 0, u16::MAX, 0x0102] {
        udp.send(request_header(request_id), b"get nothing\r\n");
        assert_eq!(udp.receive_message(request_id), b"END\r\n");
    }
}

#[test]
fn each_command_of_a_datagram_gets_its_own_message() {
    let fixture = Fixture::start(&[]);
    let mut udp = fixture.udp();
    let commands = b"set a 0 0 1\r\n1\r\nset b 0 0 1 noreply\r\n2\r\nget a b\r\nversion\r\nget a";
    let request_id = udp.request(commands);
    assert_eq!(udp.receive_message(request_id), b"STORED\r\n");
    let values = b"VALUE a 0 1\r\n1\r\nVALUE b 0 1\r\n2\r\nEND\r\n";
    assert_eq!(udp.receive_message(request_id), values);
    assert!(udp.receive_message(request_id).starts_with(b"VERSION "));
    // An incomplete command gets no reply, and is not continued by the next datagram.
    assert_eq!(udp.ask_text("get nothing\r\n"), "END\r\n");
}

#[test]
fn a_datagram_with_more_commands_than_the_request_budget_is_served() {
    let fixture = Fixture::start(&["-R", "3"]);
    let mut udp = fixture.udp();
    let request_id = udp.request(&b"get nothing\r\n".repeat(50));
    for _ in 0..50 {
        assert_eq!(udp.receive_message(request_id), b"END\r\n");
    }
    let keys = "nothing ".repeat(1_000);
    assert_eq!(udp.ask_text(&format!("get {keys}\r\n")), "END\r\n");
}

#[test]
fn a_megabyte_arrives_in_numbered_datagrams() {
    let fixture = Fixture::start(&["-m", "64"]);
    let value: Vec<u8> = (0..1_048_000u32).map(|index| (index * 7 / 5) as u8).collect();
    assert_eq!(fixture.tcp().set("big", &value), "STORED");
    let expected = [b"VALUE big 0 1048000\r\n", &value[..], b"\r\nEND\r\n"].concat();
    assert!(
        fixture.udp().ask_until_whole(b"get big\r\n") == expected,
        "all bytes of the value arrive"
    );
    // A set of 60,000 bytes fits into one datagram, which has at most 65,507 bytes.
    let value = vec![b'v'; 60_000];
    let set = [b"set large 0 0 60000\r\n", &value[..], b"\r\n"].concat();
    let mut udp = fixture.udp();
    assert_eq!(udp.ask(&set), b"STORED\r\n");
    assert!(
        fixture.tcp().get("large").is_some_and(|got| got == value),
        "all bytes of the value are stored"
    );
}

#[test]
fn a_reply_too_long_for_udp_is_an_error() {
    let fixture = Fixture::start(&["-m", "64"]);
    if std::env::var("TEST_SERVER").is_ok() {
        return println!(
            "skipped: the expected error is slabwise's, and TEST_SERVER names another server"
        );
    }
    assert_eq!(fixture.tcp().set("big", &vec![b'v'; 1_000_000]), "STORED");
    let mut udp = fixture.udp();
    let refused = "SERVER_ERROR reply too long for UDP, ask by TCP\r\n";
    assert_eq!(udp.ask_text("get big big big big big\r\n"), refused);
    assert_eq!(udp.ask_text("get nothing\r\n"), "END\r\n");
}

#[test]
fn commands_that_need_a_connection_are_refused() {
    let fixture = Fixture::start(&[]);
    if std::env::var("TEST_SERVER").is_ok() {
        return println!(
            "skipped: the expected error is slabwise's, and TEST_SERVER names another server"
        );
    }
    let mut udp = fixture.udp();
    for command in ["watch\r\n", "lru_crawler metadump all\r\n", "lru_crawler mgdump all\r\n"] {
        assert_eq!(udp.ask_text(command), "ERROR\r\n", "{command}");
    }
    // `quit` ends only the serving of its own datagram: `version` gets no reply, a later datagram does.
    udp.request(b"quit\r\nversion\r\n");
    assert_eq!(udp.ask_text("get nothing\r\n"), "END\r\n");
}
