//! Tests of the slots for spare chunks.

use super::fixture::{Fixture, SMALL};
use crate::mem::spare::SpareSlots;

#[test]
#[should_panic(expected = "a chunk is used with its own memory")]
fn a_chunk_of_another_memory_is_refused() {
    let (fixture, mut other) = (Fixture::new(), Fixture::new());
    let _ = SpareSlots::new(&fixture.memory, 1).put(0, other.take(SMALL));
}

#[test]
fn a_second_chunk_in_a_slot_is_refused() {
    let mut fixture = Fixture::new();
    let slots = SpareSlots::new(&fixture.memory, 1);
    let (first, second) = (fixture.take(SMALL), fixture.take(SMALL));
    let (address, size_bytes) = (first.address(), first.size_bytes());
    slots.put(0, first).expect("the slot is empty");
    let second = slots.put(0, second).expect_err("the slot is full");
    let first = slots.take(SMALL, 0).expect("the slot is full");
    assert_eq!((first.address(), first.size_bytes(), first.class()), (address, size_bytes, SMALL));
    assert_eq!(slots.take(SMALL, 0), None, "the slot is empty");
    fixture.small.give(first);
    fixture.small.give(second);
}
