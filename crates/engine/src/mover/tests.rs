//! EXACT-LOSS, the invariant of `kinds/warm.rs`: compares a move with plain evictions.

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
    format!("k{number:07}").into_bytes().try_into().expect("eight bytes")
}

fn engine(eviction: EvictionKind) -> Engine {
    let mut config = EngineConfig::new(PAGES * PAGE_SIZE_BYTES as u64);
    config.page_size_bytes = PAGE_SIZE_BYTES;
    config.classes = ClassTable::explicit(&CHUNK_SIZES, PAGE_SIZE_BYTES).expect("a valid table");
    config.index_within_limit = false;
    config.eviction = eviction;
    config.mover = MoverKind::WARM;
    Engine::new(config).expect("the arena can be reserved")
}

/// Runs random stores, gets, deletes and steps of the maintainer.
fn work(engine: &Engine, clock: &Clock, random: &mut Random) {
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

fn keys(engine: &Engine, now: Now) -> BTreeSet<u64> {
    let mut handle = engine.handle();
    (0..KEYS).filter(|&number| handle.peek(&key(number), now, |_| ()).is_some()).collect()
}

/// Pins random items, which are the same in every engine after the same work.
fn pin_some<'e>(engine: &'e Engine, now: Now, random: &mut Random) -> Vec<Pinned<'e>> {
    let mut handle = engine.handle();
    let pin = |_| handle.peek(&key(random.below(KEYS)), now, |view| view.pin()).flatten();
    (0..12).filter_map(pin).collect()
}

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
        assert!(evicted > 1_000, "the caches must be full: {evicted} evicted");
    }
}

/// Returns the number of items that the move evicted.
fn check_exact_loss(eviction: EvictionKind, seed: u64) -> u64 {
    let begin = || {
        let (engine, clock, mut random) = (engine(eviction), Clock::manual(), Random::new(seed));
        work(&engine, &clock, &mut random);
        (engine, clock, random)
    };
    let (moved, clock, mut random) = begin();
    let now = clock.now();
    let pins = pin_some(&moved, now, &mut random);
    let before = moved.class_stats(now)[0].clone();
    moved.reassign(Some(ClassId(0)), None, "test", now).expect("a page to move");
    while moved.mover_step(1 + random.below(64) as usize, now) == MoverStep::Working {}
    let evicted_beside_pins = moved.mover_counters().evicted;
    drop(pins);
    while moved.chunks_of_moving_page().is_some() {
        moved.mover_step(1 + random.below(64) as usize, now);
    }
    moved.check();
    let evicted = moved.mover_counters().evicted;
    let capacity = (before.pages - 1) * before.chunks_per_page as u64;
    let least = before.used_chunks.saturating_sub(capacity);
    assert_eq!(evicted, least, "{eviction:?}, seed {seed}: evicts as few as possible");

    // An identical cache that evicts this number of items without a move.
    let (expected, clock, mut random) = begin();
    assert_eq!(clock.now(), now, "the same work takes the same time");
    let pins = pin_some(&expected, now, &mut random);
    evict(&expected, evicted_beside_pins, now);
    drop(pins);
    evict(&expected, evicted - evicted_beside_pins, now);
    assert_eq!(
        keys(&moved, now),
        keys(&expected, now),
        "{eviction:?}, seed {seed}: keeps the same"
    );
    evicted
}
