//! Runs known operations and compares the engine's counters with the expected counts.

use slabwise_base::{Clock, Cost, Expiry, Seconds};
use slabwise_engine::{Delta, Engine, EngineConfig, ItemMeta, StoreMode};
use std::time::Duration;

#[test]
fn counters_match_a_script_of_operations() {
    let engine = Engine::new(EngineConfig::new(8 << 20)).expect("the arena can be reserved");
    let clock = Clock::manual();
    let now = clock.now();
    // Two workers share the operations, because the statistics are sums over all workers.
    let (mut one, mut two) = (engine.handle(), engine.handle());
    let meta = ItemMeta::default();
    for key in [b"a", b"b", b"c"] {
        one.set(key, b"10", meta, StoreMode::Set, now);
    }
    two.set(b"a", b"10", meta, StoreMode::Add, now);
    let cas = two.peek(b"a", now, |view| view.cas()).expect("the item is stored");
    two.set(b"a", b"11", meta, StoreMode::Cas(cas), now);
    two.set(b"a", b"12", meta, StoreMode::Cas(cas), now);
    two.set(b"z", b"12", meta, StoreMode::Cas(cas), now);

    assert_eq!(one.get(b"a", now, |view| view.value_len()), Some(2));
    assert_eq!(two.get(b"b", now, |view| view.value_len()), Some(2));
    assert_eq!(two.get(b"z", now, |view| view.value_len()), None);
    assert_eq!(one.touch(b"a", Expiry::at(Seconds(now.seconds.0 + 1)), now), Ok(true));
    assert_eq!(two.touch(b"z", Expiry::NEVER, now), Ok(false));
    one.arithmetic(b"b", Delta::Increment(1), &Default::default(), now);
    two.arithmetic(b"z", Delta::Increment(1), &Default::default(), now);
    two.arithmetic(b"b", Delta::Decrement(1), &Default::default(), now);
    two.arithmetic(b"b", Delta::Decrement(1), &Default::default(), now);
    one.arithmetic(b"z", Delta::Decrement(1), &Default::default(), now);
    assert!(one.delete(b"c", now));
    assert!(!two.delete(b"c", now));
    clock.advance(Duration::from_secs(1));
    assert_eq!(one.get(b"a", clock.now(), |view| view.value_len()), None);

    let stats = engine.stats(now);
    assert_eq!((stats.total.get_hits(), stats.get_misses, stats.get_expired), (2, 2, 1));
    assert_eq!((stats.total.touch_hits, stats.touch_misses), (1, 1));
    assert_eq!((stats.total.cas_hits, stats.total.cas_badval, stats.cas_misses), (1, 1, 1));
    assert_eq!((stats.total.incr_hits, stats.incr_misses), (1, 1));
    assert_eq!((stats.total.decr_hits, stats.decr_misses), (2, 1));
    assert_eq!((stats.total.delete_hits, stats.delete_misses), (1, 1));
    assert_eq!(stats.total.sets, 7, "sets counts every attempt to store, even a failed one");
    assert_eq!(stats.items, 1, "only item b is left");
    let items_of_classes: u64 =
        engine.class_stats(now).iter().map(|class| class.items.iter().sum::<u64>()).sum();
    assert_eq!(
        items_of_classes, stats.items,
        "the items of all classes add up to the items of the cache"
    );
    engine.check();
}

#[test]
fn a_difference_of_readings_counts_only_what_happened_between_them() {
    let mut config = EngineConfig::new(1 << 20);
    config.page_size_bytes = 16 << 10;
    let engine = Engine::new(config).expect("the arena can be reserved");
    let now = Clock::manual().now();
    let mut handle = engine.handle();
    let mut work = || {
        for item in 0..20_000_u32 {
            let key = item.to_le_bytes();
            let cost = (item % 2 == 0).then(|| Cost::from_units(30));
            let meta = ItemMeta { cost, ..ItemMeta::default() };
            handle.set(&key, &[1; 200], meta, StoreMode::Set, now);
            handle.get(&key, now, |_| ());
        }
        engine.stats(now)
    };
    let first = work();
    assert!(first.total.counters.evicted > 0);
    let unchanged = engine.stats(now).since(&first);
    assert_eq!(
        (unchanged.total.get_hits(), unchanged.total.sets, unchanged.items_total),
        (0, 0, 0)
    );
    assert_eq!(unchanged.total.counters.evicted, 0);
    assert_eq!(unchanged.items, first.items, "numbers that are not counters are unchanged");
    assert_eq!((first.total.reported_hits(), first.total.sets), (20_000, 20_000));
    assert_eq!(
        (unchanged.total.inserted, unchanged.total.costs_known, unchanged.total.cost_paid),
        (0, 0, 0)
    );
    assert_eq!((first.total.inserted, first.total.costs_known), (20_000, 10_000));
    assert_eq!((first.total.cost_paid, first.total.cost_saved), (300_000, 300_000));
    let whole = work();
    let second = whole.since(&first);
    assert_eq!((second.total.get_hits(), second.total.sets), (20_000, 20_000));
    assert_eq!((whole.total.reported_hits(), whole.total.sets), (40_000, 40_000));
    assert_eq!(whole.total.cost_paid, 300_000 + second.total.cost_paid);
    let evicted = first.total.counters.evicted + second.total.counters.evicted;
    assert_eq!(whole.total.counters.evicted, evicted);
}

#[test]
fn evictions_are_counted_and_memory_stays_within_its_limit() {
    let limit_bytes = 1 << 20;
    let engine = Engine::new(EngineConfig::new(limit_bytes)).expect("the arena can be reserved");
    let now = Clock::manual().now();
    let mut handle = engine.handle();
    for item in 0..20_000_u32 {
        handle.set(&item.to_le_bytes(), &[1; 200], ItemMeta::default(), StoreMode::Set, now);
    }
    let stats = engine.stats(now);
    assert_eq!(
        stats.items + stats.total.counters.evicted,
        20_000,
        "each item is still stored or was evicted"
    );
    assert!(stats.pages * stats.page_size_bytes <= limit_bytes, "pages stay within the limit");
    assert!(stats.bytes > limit_bytes * 8 / 10, "items use {} B of {limit_bytes} B", stats.bytes);
    let evicted: u64 = engine.class_stats(now).iter().map(|class| class.counters.evicted).sum();
    assert_eq!(
        evicted, stats.total.counters.evicted,
        "the evictions of all classes add up to the evictions of the cache"
    );
    engine.check();
}
