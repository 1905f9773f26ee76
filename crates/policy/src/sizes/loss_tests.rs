//! Tests of the loss: it is compared with a cache that stores every item. Tests of rejected arguments.

use super::super::testing::{chunks_of, demands, is_near, layout, loss_by_simulation, table};
use super::loss;
use crate::sizes::{Chaining, ChunkLayout, Demand, SizesError, geometric};
use slabwise_base::Random;

fn items(size_bytes: usize, items: u64) -> Demand {
    Demand::new(size_bytes, items)
}

#[test]
fn the_loss_equals_that_of_a_cache_that_stores_every_item() {
    for seed in 0..2_000 {
        let mut random = Random::new(seed);
        let layout = layout(&mut random, 30);
        let demands = demands(&mut random, &layout, 20);
        let table = table(&mut random, &layout, 8);
        let found = loss(&demands, &table, &layout).expect("the arguments are valid");
        let simulated = loss_by_simulation(&demands, &table, &layout);
        for (found, simulated) in [
            (found.inside_bytes, simulated.inside_bytes),
            (found.page_end_bytes, simulated.page_end_bytes),
            (found.chained_bytes, simulated.chained_bytes),
            (found.total_bytes(), simulated.total_bytes()),
        ] {
            assert!(
                is_near(found, simulated),
                "seed {seed}: the loss is {simulated}, not {found}; {layout:?} {table:?}"
            );
        }
    }
}

#[test]
fn items_and_loss_together_fill_the_pages() {
    for seed in 0..500 {
        let mut random = Random::new(seed);
        let mut layout = layout(&mut random, 30);
        let page = layout.chunk_size_bytes_max + random.below(200) as usize;
        layout.page_size_bytes = Some(page);
        let mut demands = demands(&mut random, &layout, 10);
        demands.iter_mut().for_each(|demand| demand.byte_value = 1.0);
        let table = table(&mut random, &layout, 8);
        let (mut chunks, mut bytes) = (vec![0; table.len()], 0);
        for demand in &demands {
            bytes += demand.items as usize * demand.size_bytes;
            for (chunk, _) in chunks_of(demand.size_bytes, &table, &layout) {
                let class = table.binary_search(&chunk).expect("the chunk is in the table");
                chunks[class] += demand.items as usize;
            }
        }
        let (mut taken, mut free) = (0, 0.0);
        for (&chunk, &count) in table.iter().zip(&chunks) {
            let chunks_per_page = page / chunk;
            let pages = count.div_ceil(chunks_per_page);
            taken += pages * page;
            let free_chunks = pages * chunks_per_page - count;
            free += free_chunks as f64 * page as f64 / chunks_per_page as f64;
        }
        let found = loss(&demands, &table, &layout).expect("the arguments are valid").total_bytes();
        let filled = taken as f64 - free - bytes as f64;
        assert!(
            is_near(found, filled),
            "seed {seed}: the loss is {filled}, not {found}; {layout:?} {table:?}"
        );
    }
}

#[test]
fn a_chained_item_is_divided_as_documented() {
    let chaining = Chaining { head_size_bytes: 50, link_size_bytes: 9, body_header_size_bytes: 29 };
    let layout = ChunkLayout { chaining: Some(chaining), ..ChunkLayout::published(129) };
    // The head holds 41 of the 300 bytes. Two bodies of 129 bytes hold 100 bytes each, and a third holds the last 59.
    let found = loss(&[items(300, 10)], &[60, 129], &layout).expect("the arguments are valid");
    assert_eq!(found.chained_bytes, 10.0 * (9 + 3 * 29) as f64);
    assert_eq!(found.inside_bytes, 10.0 * ((60 - 50) + (129 - (59 + 29))) as f64);
}

#[test]
fn chained_items_use_the_classes_that_memcached_uses() {
    // The expected classes are from `stats slabs` of memcached 1.6: the head of a key of 17 bytes is in class 152, the
    // head of a key of 15 bytes in class 120. The last 256 bytes of a value are in class 304.
    for (key, head, rest, tail) in [(17, 152, 256, 304), (17, 152, 257, 384), (15, 120, 256, 304)] {
        let layout = ChunkLayout {
            chunk_align_bytes: 8,
            chunk_size_bytes_min: 96,
            chaining: Some(Chaining::memcached(key)),
            ..ChunkLayout::published(512 << 10)
        };
        let table = geometric(96, 1.25, &layout);
        let (body, header) = (512 << 10, 48 + 8 + key + 1);
        let found = loss(&[items(header + body - 48 + rest, 1)], &table, &layout);
        let taken = head + body + tail;
        let wasted = taken - (header + body - 48 + rest);
        assert_eq!(
            found.expect("the arguments are valid").total_bytes(),
            wasted as f64,
            "a key of {key} bytes"
        );
    }
}

#[test]
fn invalid_arguments_are_rejected_with_value_and_limit() {
    let layout = ChunkLayout::published(1024);
    let some = [items(100, 1)];
    let refused = |demands: &[Demand], table: &[usize], layout: &ChunkLayout, words: &[&str]| {
        let error: SizesError = loss(demands, table, layout).expect_err("invalid arguments");
        let text = error.to_string();
        assert!(words.iter().all(|word| text.contains(word)), "{text:?} contains {words:?}");
    };
    refused(&[], &[1024], &layout, &["no items", "at least one"]);
    refused(&[items(100, 0)], &[1024], &layout, &["no items"]);
    refused(&[items(1025, 1)], &[1024], &layout, &["1025", "1024", "chaining"]);
    for byte_value in [-1.0, f64::NAN, f64::INFINITY] {
        let demand = Demand { byte_value, ..some[0] };
        refused(
            &[demand],
            &[1024],
            &layout,
            &["byte value", &byte_value.to_string(), "at least 0"],
        );
    }
    refused(&some, &[], &layout, &["0 classes", "1 to 63"]);
    let many: Vec<usize> = (961..=1024).collect();
    refused(&some, &many, &layout, &["64 classes", "1 to 63"]);
    refused(&some, &[200, 200, 1024], &layout, &["200", "ascending"]);
    refused(&some, &[0, 1024], &layout, &["0", "1 to 1024"]);
    refused(&some, &[200, 1025], &layout, &["1025", "1 to 1024"]);
    refused(&some, &[200], &layout, &["1024", "add the size"]);
    let aligned = ChunkLayout { chunk_size_bytes_min: 32, chunk_align_bytes: 8, ..layout };
    refused(&some, &[100, 1024], &aligned, &["100", "multiple of 8"]);
    for (min, max, align) in [(0, 1024, 1), (2048, 1024, 1), (32, 1024, 0), (32, 1020, 8)] {
        let bad = ChunkLayout {
            chunk_size_bytes_min: min,
            chunk_size_bytes_max: max,
            chunk_align_bytes: align,
            ..layout
        };
        refused(&some, &[max], &bad, &[&min.to_string(), &max.to_string(), &align.to_string()]);
    }
    let small = ChunkLayout { page_size_bytes: Some(512), ..layout };
    refused(&some, &[1024], &small, &["1024", "512"]);
    for (head, link, header) in [(2000, 9, 29), (50, 50, 29), (50, 9, 1024)] {
        let chaining = Chaining {
            head_size_bytes: head,
            link_size_bytes: link,
            body_header_size_bytes: header,
        };
        let bad = ChunkLayout { chaining: Some(chaining), ..layout };
        refused(&some, &[1024], &bad, &[&head.to_string(), &header.to_string(), "1024"]);
    }
}
