//! Checks which items a move of the kind `warm` removes: the same as plain evictions (EXACT-LOSS), or the cold items of the
//! page.

use super::moves::MoverStep;
use crate::{
    ClassTable, Engine, EngineConfig, EvictionKind, ItemMeta, MoverKind, Pinned, StoreMode,
};
use slabwise_base::{ClassId, Clock, Now, Random};
use std::collections::BTreeSet;
use std::time::Duration;

const PAGE_SIZE_BYTES: usize = 16 << 10;
const CHUNK_SIZES: [usize; 2] = [128, 1024];
const PAGES: u64 = 6;
const KEYS: u64 = 1_200;

fn key(number: u64) -> [u8; 8] {
    format!("k{number:07}").into_bytes().try_into().expect("the key has eight bytes")
}

fn engine(eviction: EvictionKind) -> Engine {
    let mut config = EngineConfig::new(PAGES * PAGE_SIZE_BYTES as u64);
    config.page_size_bytes = PAGE_SIZE_BYTES;
    config.classes =
        ClassTable::explicit(&CHUNK_SIZES, PAGE_SIZE_BYTES).expect("the class table is valid");
    config.index_within_limit = false;
    config.eviction = eviction;
    config.mover = MoverKind::WARM;
    Engine::new(config).expect("the arena can be reserved")
}

/// Runs random stores, gets, deletes and steps of the LRU maintainer, while time passes.
fn run_random_operations(engine: &Engine, clock: &Clock, random: &mut Random) {
    let mut handle = engine.handle();
    for _ in 0..6_000 {
        let key = key(random.below(KEYS));
        let now = clock.now();
        match random.below(20) {
            0 => {
                engine.maintain_step(random.below(8) as usize, now);
            }
            1 => {
                handle.delete(&key, now);
            }
            2..8 => {
                let value = vec![7; random.below(60) as usize];
                let _ = handle.set(&key, &value, ItemMeta::default(), StoreMode::Set, now);
            }
            _ => {
                handle.get(&key, now, |_| ());
            }
        }
        clock.advance(Duration::from_millis(random.below(40)));
    }
}

/// Returns the numbers of the keys that have an item.
fn keys(engine: &Engine, now: Now) -> BTreeSet<u64> {
    let mut handle = engine.handle();
    (0..KEYS).filter(|&number| handle.peek(&key(number), now, |_| ()).is_some()).collect()
}

/// Pins random items. After the same work with the same random numbers, the same items are pinned in each engine.
fn pin_some<'e>(engine: &'e Engine, now: Now, random: &mut Random) -> Vec<Pinned<'e>> {
    let mut handle = engine.handle();
    let pin = |_| handle.peek(&key(random.below(KEYS)), now, |view| view.pin()).flatten();
    (0..12).filter_map(pin).collect()
}

/// Evicts the next `count` victims of the class of small chunks.
fn evict(engine: &Engine, count: u64, now: Now) {
    let space = engine.space();
    for victim in space.detach_victims(ClassId(0), count as usize, now) {
        let hash = space.hash_of(victim.pin.item(&space.memory));
        let chunk = space.finish_eviction(victim, hash, ClassId(0));
        chunk.into_iter().for_each(|chunk| space.give_free(chunk));
    }
}

#[test]
fn a_warm_move_loses_exactly_the_next_victims_of_its_class() {
    for eviction in [EvictionKind::Segmented, EvictionKind::Lru] {
        let evicted: u64 = (0..20).map(|seed| check_exact_loss(eviction, seed)).sum();
        assert!(
            evicted > 1_000,
            "the caches must be full, but the moves evicted only {evicted} items"
        );
    }
}

/// Compares a move in one cache with plain evictions in an identical cache. Returns the number of evicted items.
fn check_exact_loss(eviction: EvictionKind, seed: u64) -> u64 {
    let begin = || {
        let (engine, clock, mut random) = (engine(eviction), Clock::manual(), Random::new(seed));
        run_random_operations(&engine, &clock, &mut random);
        (engine, clock, random)
    };
    let (moved, clock, mut random) = begin();
    let now = clock.now();
    let pins = pin_some(&moved, now, &mut random);
    let before = moved.class_stats(now)[0].clone();
    moved.reassign(Some(ClassId(0)), None, "test", now).expect("the class has a page to move");
    while moved.mover_step(1 + random.below(64) as usize, now) == MoverStep::Working {}
    let evicted_while_pinned = moved.mover_counters().evicted;
    drop(pins);
    while moved.chunks_of_moving_page().is_some() {
        moved.mover_step(1 + random.below(64) as usize, now);
    }
    moved.check();
    let evicted = moved.mover_counters().evicted;
    let capacity = (before.pages - 1) * before.chunks_per_page as u64;
    let least = before.used_chunks.saturating_sub(capacity);
    assert_eq!(
        evicted, least,
        "{eviction:?}, seed {seed}: a move evicts only the items that do not fit"
    );

    // An identical cache evicts the same number of items without a move.
    let (expected, clock, mut random) = begin();
    assert_eq!(clock.now(), now, "the same work takes the same time");
    let pins = pin_some(&expected, now, &mut random);
    evict(&expected, evicted_while_pinned, now);
    drop(pins);
    evict(&expected, evicted - evicted_while_pinned, now);
    assert_eq!(
        keys(&moved, now),
        keys(&expected, now),
        "{eviction:?}, seed {seed}: a move and plain evictions leave the same items"
    );
    evicted
}

/// Returns an engine whose class of small chunks is full of items, the oldest on the first page, and the number of items.
fn full_engine(
    eviction: EvictionKind,
    clock: &Clock,
    meta: impl Fn(u64) -> ItemMeta,
) -> (Engine, u64) {
    let engine = engine(eviction);
    let mut handle = engine.handle();
    let items = PAGES * (PAGE_SIZE_BYTES / CHUNK_SIZES[0]) as u64;
    for number in 0..items {
        let _ = handle.set(&key(number), &[7; 60], meta(number), StoreMode::Set, clock.now());
        clock.advance(Duration::from_millis(10));
    }
    drop(handle);
    assert_eq!(keys(&engine, clock.now()).len() as u64, items, "the class is full");
    (engine, items)
}

/// Moves a page of the class of small chunks to the page pool.
fn move_page(engine: &Engine, now: Now) {
    engine.reassign(Some(ClassId(0)), None, "test", now).expect("the class has a page to move");
    while engine.mover_step(64, now) == MoverStep::Working {}
    engine.check();
    assert_eq!(engine.mover_counters().moved, 1);
}

#[test]
fn the_cold_items_of_a_page_are_evicted_with_it() {
    let clock = Clock::manual();
    let (engine, items) = full_engine(EvictionKind::Density, &clock, |_| ItemMeta::default());
    let now = clock.now();
    move_page(&engine, now);
    let counters = engine.mover_counters();
    let kept: BTreeSet<u64> = (items / PAGES..items).collect();
    assert_eq!(keys(&engine, now), kept, "the oldest items are evicted: {counters:?}");
    assert_eq!(counters.rescued, 0, "{counters:?}");
}

#[test]
fn requested_and_pinned_items_of_a_page_with_cold_items_are_kept() {
    let clock = Clock::manual();
    let (engine, items) = full_engine(EvictionKind::Density, &clock, |_| ItemMeta::default());
    let mut handle = engine.handle();
    for _ in 0..50 {
        (0..items / PAGES).step_by(3).for_each(|number| {
            handle.get(&key(number), clock.now(), |_| ());
        });
        clock.advance(Duration::from_millis(10));
    }
    let now = clock.now();
    let pinned = handle.peek(&key(1), now, |view| view.pin()).flatten();
    engine.reassign(Some(ClassId(0)), None, "test", now).expect("the class has a page to move");
    while engine.mover_step(64, now) == MoverStep::Working {}
    let kept = keys(&engine, now);
    assert!((0..items / PAGES).step_by(3).all(|number| kept.contains(&number)), "{kept:?}");
    assert!(kept.contains(&1), "a pinned item is not evicted");
    drop(pinned);
    while engine.chunks_of_moving_page().is_some() {
        engine.mover_step(64, now);
    }
    engine.check();
    let counters = engine.mover_counters();
    assert_eq!(counters.evicted, items / PAGES, "the move evicts as many items as do not fit");
    assert!(counters.rescued <= 2 * items / PAGES / 3, "cold items are not carried: {counters:?}");
}

#[test]
fn expired_items_of_a_page_are_dropped_under_every_order() {
    for eviction in [EvictionKind::Lru, EvictionKind::Segmented, EvictionKind::Density] {
        let clock = Clock::manual();
        let page_items = (PAGE_SIZE_BYTES / CHUNK_SIZES[0]) as u64;
        let soon = slabwise_base::Expiry::at(slabwise_base::Seconds(clock.now().seconds.0 + 20));
        // The items of the fourth page expire. The oldest items do not.
        let expires = |number| (3 * page_items..4 * page_items).contains(&number);
        let meta = |number| match expires(number) {
            true => ItemMeta { expiry: soon, ..ItemMeta::default() },
            false => ItemMeta::default(),
        };
        let (engine, items) = full_engine(eviction, &clock, meta);
        clock.advance(Duration::from_secs(30));
        let now = clock.now();
        move_page(&engine, now);
        let kept: BTreeSet<u64> = (0..items).filter(|&number| !expires(number)).collect();
        assert_eq!(keys(&engine, now), kept, "{eviction:?}: only expired items leave");
        assert_eq!(engine.mover_counters().rescued, 0, "{eviction:?}");
    }
}
