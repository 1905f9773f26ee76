//! Malformed and incomplete packets of the binary protocol.

use super::bytes::{Random, send_and_disconnect, send_every_prefix};
use super::fixture::Fixture;

/// The number of connections that send random input.
const CONNECTIONS: usize = 200;
/// The first byte of each request.
const MAGIC: u8 = 0x80;
/// A limit for random opcodes, which are below this number. The largest opcode that a server accepts is 0x24, so some
/// random opcodes are unknown.
const OPCODE_COUNT: usize = 0x26;

/// Returns the header of a request.
fn head(opcode: u8, extras_len: u8, key_len: u16, body_len: u32) -> Vec<u8> {
    let mut bytes = vec![MAGIC, opcode];
    bytes.extend(key_len.to_be_bytes());
    bytes.extend([extras_len, 0, 0, 0]);
    bytes.extend(body_len.to_be_bytes());
    bytes.extend([0; 12]);
    bytes
}

/// Returns a packet with a random opcode and a random body. Its lengths are consistent.
fn packet(random: &mut Random) -> Vec<u8> {
    let extras_len = [0, 4, 8, 20][random.below(4)];
    let key_len = [0, 1, 20, 250][random.below(4)];
    let value_len = [0, 1, 1_000][random.below(3)];
    let body_len = extras_len + key_len + value_len;
    let opcode = random.below(OPCODE_COUNT) as u8;
    let mut bytes = head(opcode, extras_len as u8, key_len as u16, body_len as u32);
    bytes.extend((0..body_len).map(|_| random.next() as u8));
    bytes
}

#[test]
fn random_bytes_after_the_magic_byte_do_not_affect_other_clients() {
    let fixture = Fixture::start(64, &[]);
    let mut random = Random::from_environment();
    for _ in 0..CONNECTIONS {
        let mut noise: Vec<u8> =
            (0..random.below(16 * 1024)).map(|_| random.next() as u8).collect();
        noise.insert(0, MAGIC);
        send_and_disconnect(&fixture, &noise);
    }
    fixture.check_recovery();
}

#[test]
fn random_truncated_and_corrupted_packets_do_not_affect_other_clients() {
    let fixture = Fixture::start(64, &[]);
    let mut random = Random::from_environment();
    for _ in 0..CONNECTIONS {
        let mut packets: Vec<u8> =
            (0..random.below(100)).flat_map(|_| packet(&mut random)).collect();
        if !packets.is_empty() {
            let at = random.below(packets.len());
            match random.below(3) {
                0 => packets.truncate(at),
                1 => packets[at] ^= 1 << random.below(8),
                _ => {}
            }
        }
        send_and_disconnect(&fixture, &packets);
    }
    fixture.check_recovery();
}

#[test]
fn a_client_that_stops_anywhere_in_a_packet_does_not_affect_others() {
    let fixture = Fixture::start(64, &[]);
    let mut whole = head(0x01, 8, 3, 8 + 3 + 10);
    whole.extend(b"\0\0\0\0\0\0\0\0key0123456789");
    send_every_prefix(&fixture, &whole);
}

#[test]
fn announced_bodies_that_are_not_sent_use_bounded_memory() {
    let fixture = Fixture::start(64, &[]);
    let open_clients: Vec<_> = [0x01, 0x11, 0x0e, 0x21, 0xee]
        .into_iter()
        .flat_map(|opcode| [u32::MAX, 1 << 31, 1 << 30, 900_000].map(|body_len| (opcode, body_len)))
        .map(|(opcode, body_len)| {
            let extras_len = if matches!(opcode, 0x01 | 0x11) { 8 } else { 0 };
            let mut bytes = head(opcode, extras_len, 3, body_len);
            bytes.extend(vec![0; usize::from(extras_len)]);
            bytes.extend(b"keythe beginning");
            let mut client = fixture.server.connect();
            client.send(&bytes);
            client
        })
        .collect();
    fixture.check_others_are_served();
    drop(open_clients);
    fixture.check_recovery();
}

#[test]
fn announced_keys_that_are_not_sent_do_not_affect_other_clients() {
    let fixture = Fixture::start(64, &[]);
    let open_clients: Vec<_> = [0, 251, 2_024, u16::MAX]
        .into_iter()
        .map(|key_len| {
            let mut client = fixture.server.connect();
            client.send(&head(0x00, 255, key_len, u32::from(key_len) + 255));
            client
        })
        .collect();
    fixture.check_others_are_served();
    drop(open_clients);
    fixture.check_recovery();
}

#[test]
fn a_client_that_reads_no_replies_does_not_affect_others() {
    let fixture = Fixture::start(64, &[]);
    let mut set = head(0x11, 8, 3, 8 + 3 + 500_000);
    set.extend(b"\0\0\0\0\0\0\0\0key");
    set.extend(vec![b'x'; 500_000]);
    let mut get = head(0x00, 0, 3, 3);
    get.extend(b"key");
    let open_clients: Vec<_> = (0..20)
        .map(|_| {
            let mut client = fixture.server.connect();
            client.send(&set);
            client.send(&get.repeat(1_000));
            client
        })
        .collect();
    fixture.check_others_are_served();
    drop(open_clients);
    fixture.check_recovery();
}
