//! The memory overhead of an item: the bytes of its header, which include the CAS value, and of its share of the index.
//!
//! Invariant: the overhead of an item is at most 41 B. The unused ends of chunks and the free chunks depend on the
//! class table, so they do not count as overhead; the test prints them separately.

use slabwise_base::Clock;
use slabwise_engine::{Engine, EngineConfig, ItemMeta, StoreMode, StoreOutcome};

const ITEMS: u64 = 1_000_000;
const KEY_LEN: usize = 15;
const VALUE_LEN: usize = 100;
const OVERHEAD_BYTES_MAX: f64 = 41.0;

#[test]
fn the_overhead_of_an_item_is_at_most_41_bytes() {
    let engine = Engine::new(EngineConfig::new(512 << 20)).expect("the arena can be reserved");
    let now = Clock::manual().now();
    let mut handle = engine.handle();
    for item in 0..ITEMS {
        let key = format!("key-{item:011}");
        assert_eq!(key.len(), KEY_LEN);
        let outcome =
            handle.set(key.as_bytes(), &[7; VALUE_LEN], ItemMeta::default(), StoreMode::Set, now);
        assert!(
            matches!(outcome, StoreOutcome::Stored { .. }),
            "{key} must be stored, but: {outcome:?}"
        );
    }
    let stats = engine.stats(now);
    assert_eq!(stats.items, ITEMS, "all items fit into memory");

    let per_item = |bytes: u64| bytes as f64 / ITEMS as f64;
    let header = per_item(stats.bytes) - (KEY_LEN + VALUE_LEN) as f64;
    let index = per_item(stats.index_bytes);
    let (mut used, mut free) = (0, 0);
    for class in engine.class_stats(now) {
        used += class.used_chunks * class.chunk_size_bytes as u64;
        free += class.free_chunks * class.chunk_size_bytes as u64;
    }
    let unused_ends = per_item(used.saturating_sub(stats.bytes));
    let pages = per_item(stats.pages * stats.page_size_bytes);
    println!(
        "overhead per item in bytes: {header:.2} header + {index:.2} index = {:.2}",
        header + index
    );
    println!("unused ends of chunks: {unused_ends:.2}; free chunks: {:.2}", per_item(free));
    println!("all pages: {pages:.2}; pages and index: {:.2}", pages + index);

    assert!(header > 0.0 && index > 0.0, "header and index both use memory");
    assert!(
        header + index <= OVERHEAD_BYTES_MAX,
        "the overhead of {:.2} B per item is above the limit of {OVERHEAD_BYTES_MAX} B",
        header + index
    );
}
