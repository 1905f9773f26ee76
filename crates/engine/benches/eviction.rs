//! Measures the time of an operation under each eviction kind, with items that have costs.
//!
//! Each load runs on a full cache of one class in its steady state: stores that evict, hits of random keys, and stores
//! that evict with three gets of recently stored keys each. The eviction kind decides which of these keys are still
//! there. The gets that miss are not followed by stores, so every kind does the same numbers of gets and stores. Each
//! bench checks that it measures what its name says.

use criterion::{Criterion, Throughput};
use slabwise_base::{Clock, Cost, Random};
use slabwise_engine::{
    ClassTable, Engine, EngineConfig, EvictionKind, Handle, ItemMeta, StoreMode, StoreOutcome,
};
use std::hint::black_box;
use std::time::Duration;

const PAGE_SIZE_BYTES: usize = 1 << 18;
const CHUNK_SIZE_BYTES: usize = 320;
const PAGES: u64 = 512;
const ITEMS: u64 = PAGES * (PAGE_SIZE_BYTES / CHUNK_SIZE_BYTES) as u64;
const VALUE: [u8; 256] = [7; 256];
/// The time between two requests.
const STEP: Duration = Duration::from_micros(10);

fn engine(eviction: EvictionKind) -> Engine {
    let mut config = EngineConfig::new(PAGES * PAGE_SIZE_BYTES as u64);
    config.page_size_bytes = PAGE_SIZE_BYTES;
    config.classes =
        ClassTable::explicit(&[CHUNK_SIZE_BYTES], PAGE_SIZE_BYTES).expect("a valid table");
    config.item_size_bytes_max = CHUNK_SIZE_BYTES as u64;
    config.index_within_limit = false;
    config.eviction = eviction;
    Engine::new(config).expect("the arena can be reserved")
}

/// Returns the cost of an item: 10 to 30 units for four of five items, and up to 450 units for the others.
fn cost_of(item: u64) -> Cost {
    let mut random = Random::new(item);
    let units = match random.below(20) {
        0..16 => 10 + random.below(21),
        16..19 => 120 + random.below(61),
        _ => 350 + random.below(101),
    };
    Cost::from_units(units as u32)
}

fn key(item: u64) -> [u8; 16] {
    let mut key = *b"key-------------";
    key[8..].copy_from_slice(&item.to_be_bytes());
    key
}

fn store(handle: &mut Handle<'_>, item: u64, clock: &Clock) {
    clock.advance(STEP);
    let meta = ItemMeta { cost: Some(cost_of(item)), ..ItemMeta::default() };
    let outcome = handle.set(&key(item), &VALUE, meta, StoreMode::Set, clock.now());
    assert!(matches!(outcome, StoreOutcome::Stored { .. }), "{outcome:?}");
}

fn hits(handle: &mut Handle<'_>, item: u64, clock: &Clock) -> bool {
    clock.advance(STEP);
    handle.get(&key(item), clock.now(), |view| black_box(view.value_len())).is_some()
}

/// Sends `count` requests: gets, and a set after each miss. Half of the keys are requested 17 times as often as the
/// others.
fn look_aside(handle: &mut Handle<'_>, random: &mut Random, clock: &Clock, count: u64) {
    let mut done = 0;
    while done < count {
        let bound = if random.below(9) > 0 { ITEMS * 3 / 4 } else { ITEMS * 3 / 2 };
        let item = random.below(bound);
        done += 1;
        if !hits(handle, item, clock) {
            store(handle, item, clock);
            done += 1;
        }
    }
}

fn kind(criterion: &mut Criterion, eviction: EvictionKind) {
    let (engine, clock) = (engine(eviction), Clock::manual());
    let (mut handle, mut random) = (engine.handle(), Random::new(1));
    // These requests spread the next victims over memory, as in a server that has run for a long time.
    look_aside(&mut handle, &mut random, &clock, 8 * ITEMS);
    let mut next = 2 * ITEMS;
    (0..2 * ITEMS).for_each(|item| store(&mut handle, next + item, &clock));
    next *= 2;
    let mut group = criterion.benchmark_group(format!("eviction={}", eviction.name()));
    group.throughput(Throughput::Elements(1));
    group.bench_function("set evicting", |bench| {
        bench.iter(|| {
            next += 1;
            store(&mut handle, next, &clock);
        });
    });
    let (mut gets, mut got) = (0, 0);
    group.bench_function("three gets, a set evicting", |bench| {
        bench.iter(|| {
            gets += 1;
            if gets % 4 == 0 {
                next += 1;
                store(&mut handle, next, &clock);
            } else {
                let item = next - random.below(ITEMS / 2);
                got += u64::from(hits(&mut handle, item, &clock));
            }
        });
    });
    assert!(
        got * 8 >= gets,
        "only {got} of {gets} operations hit, so the bench would measure misses"
    );
    let mut present: Vec<u64> = (0..next).filter(|&item| hits(&mut handle, item, &clock)).collect();
    present.sort_by_key(|&item| slabwise_base::random::mix(item));
    let mut present = present.into_iter().cycle();
    group.bench_function("get hit, random keys", |bench| {
        bench.iter(|| {
            let item = present.next().expect("the cache is full");
            assert!(hits(&mut handle, item, &clock), "a hit hits");
        });
    });
    group.finish();
    let counters = engine.stats(clock.now()).total.counters;
    assert!(counters.evicted >= next - 4 * ITEMS, "{} evictions", counters.evicted);
    engine.check();
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    EvictionKind::ALL.into_iter().for_each(|eviction| kind(&mut criterion, eviction));
    criterion.final_summary();
}
