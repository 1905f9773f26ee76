//! Datagrams that nobody should send. None is answered, and none harms whoever comes after it.

use slabwise_protocol::udp::Header;
use std::sync::atomic::{AtomicBool, Ordering};

use super::client::{Scene, UdpClient, request_header};

/// So many datagrams fit into a socket's queue.
const BURST: u32 = 50;

/// What is sent before is not answered: the next reply is this one's.
#[track_caller]
fn is_silent(udp: &mut UdpClient) {
    let request_id = udp.request(b"get nothing\r\n");
    assert_eq!(udp.receive_message(request_id), b"END\r\n");
}

#[test]
fn datagrams_that_are_no_requests() {
    let scene = Scene::start(&[]);
    let mut udp = scene.udp();
    udp.send_raw(b"");
    is_silent(&mut udp);
    let whole = [&request_header(7).compose()[..], b"version\r\n"].concat();
    for len in 1..=8 {
        udp.send_raw(&whole[..len]);
        is_silent(&mut udp);
    }
    for total in [0, 2, 256, 257, u16::MAX] {
        udp.send(Header { request_id: 7, sequence: 0, total }, b"version\r\n");
        is_silent(&mut udp);
    }
    for payload in [&b"version"[..], b"set a 0 0 10\r\nabc", b"get a", b"\0", &[0xff; 1_000]] {
        udp.send(request_header(7), payload);
        is_silent(&mut udp);
    }
}

#[test]
fn sequence_and_reserved_bytes_do_not_count() {
    let scene = Scene::start(&[]);
    let udp = scene.udp();
    udp.send(Header { request_id: 7, sequence: 9, total: 1 }, b"get nothing\r\n");
    assert_eq!(udp.receive_message(7), b"END\r\n");
    udp.send_raw(b"\0\x07\0\0\0\x01\xff\xffget nothing\r\n");
    assert_eq!(udp.receive_message(7), b"END\r\n");
}

#[test]
fn a_value_that_is_announced_and_does_not_come() {
    let scene = Scene::start(&["-m", "64"]);
    let mut udp = scene.udp();
    let items = scene.tcp().stat("curr_items");
    for index in 0..1_000 {
        udp.send(request_header(7), format!("set key{index} 0 0 1000000\r\nabc").as_bytes());
        // The kernel queues only so many.
        if index % BURST == 0 {
            is_silent(&mut udp);
        }
    }
    is_silent(&mut udp);
    let mut tcp = scene.tcp();
    assert_eq!(tcp.stat("curr_items"), items);
    assert_eq!(tcp.stat("evictions"), 0, "no memory was taken for what never came");
    assert_eq!(tcp.get("key1"), None);
}

#[test]
fn random_bytes() {
    let scene = Scene::start(&[]);
    let mut udp = scene.udp();
    // The same bytes in every run.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for round in 0..2_000u32 {
        let mut datagram = vec![0; (state >> 32) as usize % 300];
        for byte in &mut datagram {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            *byte = (state >> 33) as u8;
        }
        // A total of 0 and of many is refused; that of the others is theirs to say.
        if let Some(total) = datagram.get_mut(4..6) {
            total.copy_from_slice(&[0, (round % 2) as u8 * 2]);
        }
        udp.send_raw(&datagram);
        if round % BURST == 0 {
            is_silent(&mut udp);
        }
    }
    is_silent(&mut udp);
    assert!(scene.tcp().ask("version").starts_with("VERSION "));
}

#[test]
fn a_flood_of_datagrams_leaves_others_their_turns() {
    let scene = Scene::start(&["-t", "1"]);
    let mut tcp = scene.tcp();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for commands in [&b"get nothing\r\n".repeat(4_000)[..], b"get nothing\r\n", b"x"] {
            let (udp, commands, stop) = (scene.udp(), commands.to_vec(), &stop);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    udp.send(request_header(7), &commands);
                }
            });
        }
        // Each has the deadline of a reply.
        for round in 0..200 {
            let value = format!("value {round}");
            assert_eq!(tcp.set("key", value.as_bytes()), "STORED");
            assert_eq!(tcp.get("key").as_deref(), Some(value.as_bytes()));
        }
        stop.store(true, Ordering::Relaxed);
    });
    // What is still queued was for sockets that are closed; then it is this one's turn.
    let mut udp = scene.udp();
    assert_eq!(udp.ask_until_whole(b"get nothing\r\n"), b"END\r\n");
}
