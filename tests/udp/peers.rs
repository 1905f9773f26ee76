//! Sends the same datagrams to slabwise and to the installed memcached, and compares the replies.
//!
//! One difference is intended: to a get of several keys memcached sends each value as a separate message, although its
//! protocol defines one message per reply. So messages with the same request id are joined before the comparison.

use slabwise_protocol::udp::Header;

use super::client::{Fixture, UdpClient, request_header};
use crate::support::{stock_memcached, under_test};

/// The commands of each datagram. All releases of memcached send the same replies to these commands.
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

/// Sends a datagram, and returns the payloads of all replies to it: all replies before the reply to a marker request.
fn replies_to(udp: &UdpClient, header: Header, payload: &[u8]) -> Vec<u8> {
    /// The id of the marker request.
    const MARKER: u16 = 9_999;
    udp.send(header, payload);
    udp.send(request_header(MARKER), b"get never_there\r\n");
    let mut replies = Vec::new();
    loop {
        let (header, payload) = udp.receive();
        if header.request_id == MARKER {
            assert_eq!(payload, b"END\r\n");
            return replies;
        }
        replies.extend_from_slice(&payload);
    }
}

#[test]
fn datagrams_get_the_same_replies_as_from_memcached() {
    let slabwise = Fixture::start(&[]);
    // memcached has one thread: several threads would share one UDP socket and reply in any order.
    let memcached = Fixture::start_command(&stock_memcached(), &["-t", "1"]);
    let (slabwise_udp, memcached_udp) = (slabwise.udp(), memcached.udp());
    for payload in DATAGRAMS {
        for header in [
            request_header(5),
            Header { request_id: 6, sequence: 3, total: 1 },
            Header { request_id: 7, sequence: 0, total: 2 },
            Header { request_id: 8, sequence: 0, total: 0 },
        ] {
            let actual = replies_to(&slabwise_udp, header, payload);
            let expected = replies_to(&memcached_udp, header, payload);
            let text = String::from_utf8_lossy;
            let sent = text(payload);
            assert_eq!(text(&actual), text(&expected), "{header:?} {sent:?}");
        }
    }
}

#[test]
fn a_large_value_is_split_into_the_same_datagrams_as_by_memcached() {
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
    assert!(replies[0] == replies[1], "slabwise and memcached send the same datagrams");
}
