//! Invalid datagrams. The server must not reply to them, and must serve later requests.

use slabwise_protocol::udp::Header;
use std::sync::atomic::{AtomicBool, Ordering};

use super::client::{Fixture, UdpClient, request_header};

/// The number of datagrams that a test sends before it waits for a reply. The queue of the server's socket can hold
/// these datagrams.
const BURST: u32 = 50;

/// Asserts that the server sends no reply to earlier datagrams: the next reply belongs to a new request.
#[track_caller]
fn assert_no_reply(udp: &mut UdpClient) {
    let request_id = udp.request(b"get nothing\r\n");
    assert_eq!(udp.receive_message(request_id), b"END\r\n");
}

#[test]
fn invalid_datagrams_get_no_reply() {
    let fixture = Fixture::start(&[]);
    let mut udp = fixture.udp();
    udp.send_raw(b"");
    assert_no_reply(&mut udp);
    let whole = [&request_header(7).compose()[..], b"version\r\n"].concat();
    for len in 1..=8 {
        udp.send_raw(&whole[..len]);
        assert_no_reply(&mut udp);
    }
    for total in [0, 2, 256, 257, u16::MAX] {
        udp.send(Header { request_id: 7, sequence: 0, total }, b"version\r\n");
        assert_no_reply(&mut udp);
    }
    for payload in [&b"version"[..], b"set a 0 0 10\r\nabc", b"get a", b"\0", &[0xff; 1_000]] {
        udp.send(request_header(7), payload);
        assert_no_reply(&mut udp);
    }
}

#[test]
fn sequence_and_reserved_bytes_are_ignored() {
    let fixture = Fixture::start(&[]);
    let udp = fixture.udp();
    udp.send(Header { request_id: 7, sequence: 9, total: 1 }, b"get nothing\r\n");
    assert_eq!(udp.receive_message(7), b"END\r\n");
    udp.send_raw(b"\0\x07\0\0\0\x01\xff\xffget nothing\r\n");
    assert_eq!(udp.receive_message(7), b"END\r\n");
}

#[test]
fn a_truncated_set_uses_no_memory() {
    let fixture = Fixture::start(&["-m", "64"]);
    let mut udp = fixture.udp();
    let items = fixture.tcp().stat("curr_items");
    for index in 0..1_000 {
        udp.send(request_header(7), format!("set key{index} 0 0 1000000\r\nabc").as_bytes());
        // Wait until the server has read the queued datagrams, because the kernel drops datagrams if the queue is full.
        if index % BURST == 0 {
            assert_no_reply(&mut udp);
        }
    }
    assert_no_reply(&mut udp);
    let mut tcp = fixture.tcp();
    assert_eq!(tcp.stat("curr_items"), items);
    assert_eq!(tcp.stat("evictions"), 0, "the server evicts nothing for bytes that were not sent");
    assert_eq!(tcp.get("key1"), None);
}

#[test]
fn random_datagrams_do_not_stop_the_server() {
    let fixture = Fixture::start(&[]);
    let mut udp = fixture.udp();
    // The seed is constant, so every run sends the same bytes.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for round in 0..2_000u32 {
        let mut datagram = vec![0; (state >> 32) as usize % 300];
        for byte in &mut datagram {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            *byte = (state >> 33) as u8;
        }
        // The server refuses a total of 0 or 2 datagrams. With a total of 1, the random bytes could be a valid request.
        if let Some(total) = datagram.get_mut(4..6) {
            total.copy_from_slice(&[0, (round % 2) as u8 * 2]);
        }
        udp.send_raw(&datagram);
        if round % BURST == 0 {
            assert_no_reply(&mut udp);
        }
    }
    assert_no_reply(&mut udp);
    assert!(fixture.tcp().ask("version").starts_with("VERSION "));
}

#[test]
fn a_flood_of_datagrams_does_not_block_other_clients() {
    let fixture = Fixture::start(&["-t", "1"]);
    let mut tcp = fixture.tcp();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for commands in [&b"get nothing\r\n".repeat(4_000)[..], b"get nothing\r\n", b"x"] {
            let (udp, commands, stop) = (fixture.udp(), commands.to_vec(), &stop);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    udp.send(request_header(7), &commands);
                }
            });
        }
        // Each request must be answered within the reply deadline.
        for round in 0..200 {
            let value = format!("value {round}");
            assert_eq!(tcp.set("key", value.as_bytes()), "STORED");
            assert_eq!(tcp.get("key").as_deref(), Some(value.as_bytes()));
        }
        stop.store(true, Ordering::Relaxed);
    });
    // The server's queue may still contain datagrams of the closed sockets. The server serves the next request after
    // them.
    let mut udp = fixture.udp();
    assert_eq!(udp.ask_until_whole(b"get nothing\r\n"), b"END\r\n");
}
