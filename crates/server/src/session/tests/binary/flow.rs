//! Sessions of the binary protocol with large values and with many requests at once.

use super::super::super::testing::Fixture;
use super::packet::{Packet, Talk, answers, packet, store};
use slabwise_base::Random;
use slabwise_protocol::binary::opcode::{GETKQ, GETQ, NOOP, SET, SETQ};

/// Returns a value of random bytes, always the same for a length.
fn value(len: usize) -> Vec<u8> {
    let mut random = Random::new(len as u64);
    (0..len).map(|_| random.next_u64() as u8).collect()
}

#[test]
fn a_large_value_is_received_into_the_arena_and_returned_whole() {
    let fixture = Fixture::new();
    let shared = fixture.shared();
    let mut talk = Talk::new(&fixture, &shared);
    for len in [1, 4_095, 4_096, 16_384, 90_000] {
        let value = value(len);
        let bytes = store(SET, "k", &value).bytes();
        let uploaded_before = talk.client.uploaded;
        talk.client.received.clear();
        // The head arrives first, as from a client that writes twice.
        let (head, body) = bytes.split_at(bytes.len() - len);
        talk.client.send(head);
        talk.client.send(body);
        assert_eq!(answers(&talk.client.received)[0].status, 0);
        assert_eq!(talk.client.uploaded > uploaded_before, len >= 4_096, "a value of {len} bytes");
        let hits = talk.send(&[packet(GETQ).key("k"), packet(GETKQ).key("k"), packet(NOOP)]);
        assert_eq!(hits.len(), 3);
        assert!(hits[0].value == value && hits[1].value == value, "a value of {len} bytes");
    }
}

#[test]
fn many_requests_take_several_rounds_and_are_answered_in_order() {
    let fixture = Fixture::new();
    let shared = fixture.shared();
    let mut talk = Talk::new(&fixture, &shared);
    const COUNT: usize = 500;
    let sets = (0..COUNT).map(|index| store(SETQ, &format!("k{index}"), &value(index)));
    let gets = (0..COUNT).map(|index| packet(GETKQ).key(&format!("k{index}")));
    let misses = (0..COUNT).map(|index| packet(GETKQ).key(&format!("none{index}")));
    let requests: Vec<Packet> = sets.chain(gets).chain(misses).chain([packet(NOOP)]).collect();
    let replies = talk.send(&requests);
    assert_eq!(replies.len(), COUNT + 1);
    for (index, hit) in replies[..COUNT].iter().enumerate() {
        assert_eq!(hit.key, format!("k{index}"));
        assert!(hit.value == value(index), "the value of key k{index}");
    }
    assert_eq!(replies[COUNT].opcode, NOOP);
    // The test's client can make 20 requests in one round.
    assert!(talk.client.yields as usize >= 3 * COUNT / 20 - 1, "{} yields", talk.client.yields);
}

#[test]
fn a_session_yields_when_its_output_is_full() {
    let fixture = Fixture::new();
    let shared = fixture.shared();
    let mut talk = Talk::new(&fixture, &shared);
    let large = value(90_000);
    talk.ask(&store(SET, "k", &large));
    talk.client.worker.requests_left = u32::MAX;
    let before = talk.client.yields;
    let hits = talk.send(&vec![packet(GETQ).key("k"); 100]);
    assert!(hits.len() == 100 && hits.iter().all(|hit| hit.value == large));
    assert!(
        talk.client.yields > before,
        "100 values of 90 kB exceed the output's limit, so the session yields"
    );
}

#[test]
fn a_refused_value_is_never_parsed_as_requests() {
    let fixture = Fixture::new();
    let shared = fixture.shared();
    let mut talk = Talk::new(&fixture, &shared);
    // The value consists of packets. If they were parsed as requests, they would delete the item `other`.
    let hostile = packet(0x14).key("other").bytes().repeat(5_000);
    talk.ask(&store(SET, "other", b"here"));
    assert_eq!(talk.ask(&store(SET, "k", &hostile)).status, 3);
    assert_eq!(talk.ask(&packet(0xee).extras(b"x").key("k").value(&hostile)).status, 0x81);
    assert_eq!(talk.ask(&packet(0x00).key("other")).text(), "here");
}
