//! Malformed and incomplete packets of the binary protocol.

use super::bytes::{Random, send_and_disconnect, send_every_prefix};
use super::fixture::Fixture;

const CONNECTIONS: usize = 200;
const MAGIC: u8 = 0x80;
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

/// Returns a packet with a random body.
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
fn random_bytes_after_the_magic_byte() {
    let fixture = Fixture::start(64, &[]);
    let mut random = Random::from_environment();
    for _ in 0..CONNECTIONS {
        let mut noise: Vec<u8> =
            (0..random.below(16 * 1024)).map(|_| random.next() as u8).collect();
        noise.insert(0, MAGIC);
        send_and_disconnect(&fixture, &noise);
    }
    fixture.recovers();
}

#[test]
fn random_packets_some_truncated_or_corrupted() {
    let fixture = Fixture::start(64, &[]);
    let mut random = Random::from_environment();
    for _ in 0..CONNECTIONS {
        let mut batch: Vec<u8> = (0..random.below(100)).flat_map(|_| packet(&mut random)).collect();
        if !batch.is_empty() {
            let at = random.below(batch.len());
            match random.below(3) {
                0 => batch.truncate(at),
                1 => batch[at] ^= 1 << random.below(8),
                _ => {}
            }
        }
        send_and_disconnect(&fixture, &batch);
    }
    fixture.recovers();
}

#[test]
fn every_prefix_of_a_packet() {
    let fixture = Fixture::start(64, &[]);
    let mut whole = head(0x01, 8, 3, 8 + 3 + 10);
    whole.extend(b"\0\0\0\0\0\0\0\0key0123456789");
    send_every_prefix(&fixture, &whole);
}

#[test]
fn large_bodies_announced_but_not_sent() {
    let fixture = Fixture::start(64, &[]);
    let held: Vec<_> = [0x01, 0x11, 0x0e, 0x21, 0xee]
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
    fixture.serves_others();
    drop(held);
    fixture.recovers();
}

#[test]
fn keys_of_every_length_announced_but_not_sent() {
    let fixture = Fixture::start(64, &[]);
    let held: Vec<_> = [0, 251, 2_024, u16::MAX]
        .into_iter()
        .map(|key_len| {
            let mut client = fixture.server.connect();
            client.send(&head(0x00, 255, key_len, u32::from(key_len) + 255));
            client
        })
        .collect();
    fixture.serves_others();
    drop(held);
    fixture.recovers();
}

#[test]
fn a_batch_whose_replies_are_never_read() {
    let fixture = Fixture::start(64, &[]);
    let mut set = head(0x11, 8, 3, 8 + 3 + 500_000);
    set.extend(b"\0\0\0\0\0\0\0\0key");
    set.extend(vec![b'x'; 500_000]);
    let mut get = head(0x00, 0, 3, 3);
    get.extend(b"key");
    let held: Vec<_> = (0..20)
        .map(|_| {
            let mut client = fixture.server.connect();
            client.send(&set);
            client.send(&get.repeat(1_000));
            client
        })
        .collect();
    fixture.serves_others();
    drop(held);
    fixture.recovers();
}
