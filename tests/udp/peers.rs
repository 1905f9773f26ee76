//! Sends the same datagrams to slabwise and to the installed memcached.
//!
//! One difference is intended: memcached sends each value of a retrieval as a separate message, although its protocol
//! has one message per reply. So messages with the same request id are joined before the comparison.

use slabwise_protocol::udp::Header;

use super::client::{Fixture, UdpClient, request_header};
use crate::support::{stock_memcached, under_test};

/// Payloads of one datagram each. None of them has replies that differ between memcached's releases.
const DATAGRAMS: &[&[u8]] = &[
    b"set a 1 0 3\r\nabc\r\n",
    b"get a\r\n",
    b"get a nothing a\r\n",
    b"set b 0 0 2\r\n10\r\nincr b 5\r\nget b\r\n",
    b"set c 0 0 1 noreply\r\nx\r\nget c\r\n",
    b"get a\r\nget a",
    b"get a",
    b"decr b 100\r\n",
    b"append a 0 0 1\r\nd\r\nget a\r\n",
    b"cas a 0 0 1 0\r\nx\r\n",
    b"touch a 100\r\ngat 0 a\r\n",
    b"delete a\r\ndelete a\r\n",
    b"incr nothing 1\r\nincr c 1\r\n",
    b"set d 0 0 x\r\nget d\r\n",
    b"bogus\r\nflush_all\r\nget b\r\n",
    b"verbosity 0\r\n",
    b"stats bogus\r\n",
    b"ab\r\n",
    b"GET a\r\n",
];

/// Returns all bytes that answer a datagram: those before the answer to the next datagram.
fn answer(udp: &UdpClient, header: Header, payload: &[u8]) -> Vec<u8> {
    const MARKER: u16 = 9_999;
    udp.send(header, payload);
    udp.send(request_header(MARKER), b"get never_there\r\n");
    let mut answer = Vec::new();
    loop {
        let (header, payload) = udp.receive();
        if header.request_id == MARKER {
            assert_eq!(payload, b"END\r\n");
            return answer;
        }
        answer.extend_from_slice(&payload);
    }
}

#[test]
fn datagrams_get_the_same_replies_as_from_memcached() {
    let ours = Fixture::start(&[]);
    // memcached's threads share one socket, so several threads would answer in any order.
    let theirs = Fixture::start_command(&stock_memcached(), &["-t", "1"]);
    let (our_udp, their_udp) = (ours.udp(), theirs.udp());
    for payload in DATAGRAMS {
        for header in [
            request_header(5),
            Header { request_id: 6, sequence: 3, total: 1 },
            Header { request_id: 7, sequence: 0, total: 2 },
            Header { request_id: 8, sequence: 0, total: 0 },
        ] {
            let our_answer = answer(&our_udp, header, payload);
            let their_answer = answer(&their_udp, header, payload);
            let text = String::from_utf8_lossy;
            let sent = text(payload);
            assert_eq!(text(&our_answer), text(&their_answer), "{header:?} {sent:?}");
        }
    }
}

#[test]
fn a_large_value_is_split_as_by_memcached() {
    let value: Vec<u8> = (0..60_000u32).map(|index| b'a' + (index % 23) as u8).collect();
    let replies = [under_test(), stock_memcached()].map(|command| {
        let fixture = Fixture::start_command(&command, &["-t", "1"]);
        assert_eq!(fixture.tcp().set("large", &value), "STORED");
        let mut udp = fixture.udp();
        udp.request(b"get large\r\n");
        let mut datagrams = vec![udp.receive()];
        while datagrams.len() < usize::from(datagrams[0].0.total) {
            datagrams.push(udp.receive());
        }
        datagrams
    });
    assert!(replies[0] == replies[1], "datagrams differ");
}
