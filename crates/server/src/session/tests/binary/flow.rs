//! Large values, long batches and yielding in the binary protocol.

use super::super::super::testing::Fixture;
use super::packet::{Packet, Talk, answers, packet, store};
use slabwise_base::Random;
use slabwise_protocol::binary::opcode::{GETKQ, GETQ, NOOP, SET, SETQ};

fn value(len: usize) -> Vec<u8> {
    let mut random = Random::new(len as u64);
    (0..len).map(|_| random.next_u64() as u8).collect()
}

#[test]
fn large_values_are_received_into_the_arena_and_returned_whole() {
    let fixture = Fixture::new();
    let shared = fixture.shared();
    let mut talk = Talk::new(&fixture, &shared);
    for len in [1, 4_095, 4_096, 16_384, 90_000] {
        let value = value(len);
        let bytes = store(SET, "k", &value).bytes();
        let uploaded_before = talk.0.uploaded;
        talk.0.received.clear();
        // The head arrives first, as from a client that writes twice.
        let (head, body) = bytes.split_at(bytes.len() - len);
        talk.0.send(head);
        talk.0.send(body);
        assert_eq!(answers(&talk.0.received)[0].status, 0);
        assert_eq!(talk.0.uploaded > uploaded_before, len >= 4_096, "{len}");
        let hits = talk.send(&[packet(GETQ).key("k"), packet(GETKQ).key("k"), packet(NOOP)]);
        assert_eq!(hits.len(), 3);
        assert!(hits[0].value == value && hits[1].value == value, "{len}");
    }
}

#[test]
fn a_long_batch_takes_several_rounds_and_is_answered_in_order() {
    let fixture = Fixture::new();
    let shared = fixture.shared();
    let mut talk = Talk::new(&fixture, &shared);
    const COUNT: usize = 500;
    let sets = (0..COUNT).map(|index| store(SETQ, &format!("k{index}"), &value(index)));
    let gets = (0..COUNT).map(|index| packet(GETKQ).key(&format!("k{index}")));
    let misses = (0..COUNT).map(|index| packet(GETKQ).key(&format!("none{index}")));
    let batch: Vec<Packet> = sets.chain(gets).chain(misses).chain([packet(NOOP)]).collect();
    let got = talk.send(&batch);
    assert_eq!(got.len(), COUNT + 1);
    for (index, hit) in got[..COUNT].iter().enumerate() {
        assert_eq!(hit.key, format!("k{index}"));
        assert!(hit.value == value(index), "{index}");
    }
    assert_eq!(got[COUNT].opcode, NOOP);
    // The budget is 20 requests per round.
    assert!(talk.0.yields as usize >= 3 * COUNT / 20 - 1, "{} yields", talk.0.yields);
}

#[test]
fn a_full_output_stops_the_batch() {
    let fixture = Fixture::new();
    let shared = fixture.shared();
    let mut talk = Talk::new(&fixture, &shared);
    let large = value(90_000);
    talk.ask(&store(SET, "k", &large));
    talk.0.worker.requests_left = u32::MAX;
    let before = talk.0.yields;
    let hits = talk.send(&vec![packet(GETQ).key("k"); 100]);
    assert!(hits.len() == 100 && hits.iter().all(|hit| hit.value == large));
    assert!(talk.0.yields > before, "a hundred values of 90 kB exceed the output's limit");
}

#[test]
fn a_refused_value_is_never_parsed_as_requests() {
    let fixture = Fixture::new();
    let shared = fixture.shared();
    let mut talk = Talk::new(&fixture, &shared);
    // A value of packets that would delete another item.
    let hostile = packet(0x14).key("other").bytes().repeat(5_000);
    talk.ask(&store(SET, "other", b"here"));
    assert_eq!(talk.ask(&store(SET, "k", &hostile)).status, 3);
    assert_eq!(talk.ask(&packet(0xee).extras(b"x").key("k").value(&hostile)).status, 0x81);
    assert_eq!(talk.ask(&packet(0x00).key("other")).text(), "here");
}
