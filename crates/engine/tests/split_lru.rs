//! Tests of the eviction kind `split_lru`, whose queues can be divided in two.

#[path = "support/one_class.rs"]
mod one_class;

use one_class::{CHUNK_SIZE_BYTES, PAGE_SIZE_BYTES};
use slabwise_base::{ClassId, Clock};
use slabwise_engine::{
    Engine, EvictionKind, Handle, ItemMeta, QueueSplit, Start, Stop, StoreMode, StoreOutcome,
};
use std::ops::Range;
use std::time::Duration;

const PAGES: u64 = 32;
const CHUNKS: u64 = PAGES * (PAGE_SIZE_BYTES / CHUNK_SIZE_BYTES) as u64;
const CLASS: ClassId = ClassId(0);

fn engine(eviction: EvictionKind) -> Engine {
    Engine::new(one_class::config(PAGES, eviction)).expect("the arena can be reserved")
}

/// Gets a key and stores it after a miss. Returns true if the get hit.
fn request(handle: &mut Handle<'_>, clock: &Clock, key: u64) -> bool {
    let (key, now) = (key.to_le_bytes(), clock.now());
    if handle.get(&key, now, |_| ()).is_some() {
        return true;
    }
    let stored = handle.set(&key, b"value", ItemMeta::default(), StoreMode::Set, now);
    assert!(matches!(stored, StoreOutcome::Stored { .. }), "the item is stored: {stored:?}");
    false
}

/// Requests the keys below `keys` in a loop. Returns the hit ratio of the last rounds.
fn loop_over(engine: &Engine, keys: u64) -> f64 {
    let (mut handle, clock) = (engine.handle(), Clock::manual());
    let (mut hits, rounds) = (0, 12);
    for round in 0..rounds {
        for key in 0..keys {
            let is_hit = request(&mut handle, &clock, key);
            hits += u64::from(is_hit && round >= rounds / 2);
        }
    }
    hits as f64 / (keys * rounds / 2) as f64
}

#[test]
fn an_undivided_queue_evicts_like_an_exact_lru() {
    let [lru, split] = [EvictionKind::Lru, EvictionKind::SplitLru].map(engine);
    let clock = Clock::manual();
    let (mut first, mut second) = (lru.handle(), split.handle());
    let mut random = slabwise_base::Random::new(5);
    for step in 0..40_000 {
        let key = random.below(3 * CHUNKS).min(random.below(3 * CHUNKS));
        let expected = request(&mut first, &clock, key);
        assert_eq!(request(&mut second, &clock, key), expected, "step {step}, key {key}");
    }
    split.check();
}

#[test]
fn a_divided_queue_has_the_misses_of_the_line_across_a_cliff() {
    let keys = 2 * CHUNKS;
    let undivided = engine(EvictionKind::SplitLru);
    assert_eq!(loop_over(&undivided, keys), 0.0, "a loop over more keys than chunks never hits");
    // The right queue has all chunks, for less than half of the keys: its part of the loop fits.
    let divided = engine(EvictionKind::SplitLru);
    divided.divide_queue(CLASS, QueueSplit { left_key_share: 0.54, left_item_share: 0.01 });
    let hits = loop_over(&divided, keys);
    assert!((0.44..0.48).contains(&hits), "46 % of the keys are in the right queue: {hits}");
    divided.check();
}

/// Requests these keys, one in 20 ms.
fn request_all(engine: &Engine, clock: &Clock, keys: Range<u64>) {
    let mut handle = engine.handle();
    for key in keys {
        request(&mut handle, clock, key);
        clock.advance(Duration::from_millis(20));
    }
}

/// Returns the number of these keys that have an item.
fn count_kept(engine: &Engine, clock: &Clock, keys: Range<u64>) -> usize {
    let (mut handle, now) = (engine.handle(), clock.now());
    keys.filter(|key| handle.peek(&key.to_le_bytes(), now, |_| ()).is_some()).count()
}

#[test]
fn the_items_of_joined_queues_are_evicted_by_their_age() {
    let engine = engine(EvictionKind::SplitLru);
    let clock = Clock::manual();
    engine.divide_queue(CLASS, QueueSplit { left_key_share: 0.5, left_item_share: 0.5 });
    request_all(&engine, &clock, 0..CHUNKS);
    engine.divide_queue(CLASS, QueueSplit::default());
    request_all(&engine, &clock, CHUNKS..CHUNKS + CHUNKS / 2);
    let older = count_kept(&engine, &clock, 0..CHUNKS / 4);
    assert_eq!(older, 0, "the oldest quarter of the items is evicted, from both queues");
}

#[test]
fn a_restart_keeps_the_items_of_both_queues_until_they_are_evicted_by_their_age() {
    let directory = tempfile::tempdir().expect("the directory can be created");
    let path = directory.path().join("memory");
    let started = Duration::from_secs(1_800_000_000);
    let open = |unix_time| {
        let config = one_class::config(PAGES, EvictionKind::SplitLru);
        Engine::open(config, &path, unix_time, &mut |_| {}).expect("the memory file can be opened")
    };
    let clock = Clock::manual();
    let (engine, _) = open(started);
    engine.divide_queue(CLASS, QueueSplit { left_key_share: 0.5, left_item_share: 0.5 });
    request_all(&engine, &clock, 0..CHUNKS);
    let elapsed = Duration::from_nanos(clock.nanos());
    engine.close(Stop { unix_time: started + elapsed, elapsed }).expect("the cache is saved");
    let (engine, start) = open(started + elapsed);
    let Start::Warm(warm) = start else { panic!("the items are restored: {start:?}") };
    assert_eq!(warm.items, CHUNKS);
    engine.check();
    assert_eq!(count_kept(&engine, &clock, 0..CHUNKS), CHUNKS as usize);
    // The queues are joined until the policy divides them again.
    request_all(&engine, &clock, CHUNKS..CHUNKS + CHUNKS / 2);
    assert_eq!(count_kept(&engine, &clock, 0..CHUNKS / 4), 0, "both queues lose old items");
    // If the left queue may have no items, its items are the next victims.
    engine.divide_queue(CLASS, QueueSplit { left_key_share: 0.5, left_item_share: 0.0 });
    let before = count_kept(&engine, &clock, CHUNKS / 2..CHUNKS);
    request_all(&engine, &clock, 2 * CHUNKS..2 * CHUNKS + CHUNKS / 8);
    let after = count_kept(&engine, &clock, CHUNKS / 2..CHUNKS);
    assert!(after < before, "the left queue has items after the restart: {before}, {after}");
    engine.check();
}
