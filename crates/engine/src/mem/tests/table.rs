//! Tests of the hash table of a stripe.

use crate::layout::ChunkAddress;
use crate::mem::buckets::BucketSpace;
use crate::mem::mapping::HugePages;
use crate::mem::table::Table;
use slabwise_base::{Random, random::mix};
use std::collections::HashMap;

/// Returns the hash of the item at an address: the item at offset `8 * n` has the hash `mix(n)`.
fn hash_of(address: ChunkAddress) -> u64 {
    mix((address.offset() / 8) as u64)
}

/// Returns an empty table for up to some hundred thousand items.
fn new_table() -> Table {
    let buckets = || {
        let (_, buckets) =
            BucketSpace::reserve(1, 1 << 16, HugePages::BySystem).expect("the system has memory");
        buckets.into_iter().next().expect("the space has one stripe")
    };
    Table::new(buckets(), buckets())
}

#[test]
fn a_table_holds_the_same_entries_as_a_hash_map() {
    let mut random = Random::new(42);
    let mut table = new_table();
    let mut model = HashMap::new();
    for step in 0..60_000u64 {
        let id = random.below(20_000);
        let address = ChunkAddress::from_offset(id as usize * 8);
        let found = table.find(mix(id), |candidate| candidate == address);
        assert_eq!(found.map(|(_, found)| found), model.get(&id).copied());
        match (found, random.below(3)) {
            (Some((position, _)), 0) => {
                table.remove(position);
                model.remove(&id);
            }
            (None, _) => {
                table.insert(mix(id), address, hash_of);
                model.insert(id, address);
            }
            (Some(_), _) => {}
        }
        if step % 10_000 == 0 {
            table.check(hash_of);
        }
    }
    table.check(hash_of);
    assert_eq!(table.item_count(), model.len());
}

#[test]
fn replacing_items_does_not_grow_the_table() {
    let mut random = Random::new(5);
    let mut table = new_table();
    let mut ids: Vec<u64> = (0..2_000).collect();
    for &id in &ids {
        table.insert(mix(id), ChunkAddress::from_offset(id as usize * 8), hash_of);
    }
    let before = table.size_bytes();
    for new in 2_000..400_000u64 {
        let id = &mut ids[random.below(2_000) as usize];
        let old = ChunkAddress::from_offset(*id as usize * 8);
        let found = table.find(mix(*id), |address| address == old);
        table.remove(found.expect("the old item is in the table").0);
        table.insert(mix(new), ChunkAddress::from_offset(new as usize * 8), hash_of);
        *id = new;
    }
    table.check(hash_of);
    let after = table.size_bytes();
    assert!(
        after <= before + before / 5,
        "the table grows by at most 20%, from {before} to {after} bytes"
    );
}

#[test]
fn the_table_needs_less_than_11_bytes_per_item() {
    let mut table = new_table();
    let mut worst = 0.0f64;
    for id in 0..200_000u64 {
        table.insert(mix(id), ChunkAddress::from_offset(id as usize * 8), hash_of);
        if id > 10_000 {
            worst = worst.max(table.size_bytes() as f64 / (id + 1) as f64);
        }
    }
    assert!(worst < 11.0, "the table needs less than 11 bytes per item: {worst}");
}

#[test]
fn the_position_of_a_candidate_gives_its_address_until_the_entry_is_removed() {
    let mut table = new_table();
    assert_eq!(table.candidate(mix(1)), None, "an empty table has no candidate");
    let address = ChunkAddress::from_offset(8);
    table.insert(mix(1), address, hash_of);
    let (position, found) = table.candidate(mix(1)).expect("the table has one entry");
    assert_eq!((found, table.address_at(position)), (address, Some(address)));
    table.remove(position);
    assert_eq!(table.address_at(position), None, "the position is empty after the removal");
}
