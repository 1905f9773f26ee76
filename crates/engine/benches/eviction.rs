//! What each eviction kind costs an operation, where items have costs.
//!
//! Three loads on a full cache of one class: hits of random keys, stores that evict, and a look-aside load (a
//! get; on a miss a set), by gets and sets. Each bench checks that it measures what its name says.

use criterion::{BatchSize, Criterion, Throughput};
use slabwise_base::{Clock, Cost, Random};
use slabwise_engine::{
    ClassTable, Engine, EngineConfig, EvictionKind, Handle, ItemMeta, StoreMode, StoreOutcome,
};
use std::hint::black_box;
use std::time::{Duration, Instant};

const PAGE_SIZE_BYTES: usize = 1 << 18;
const CHUNK_SIZE_BYTES: usize = 320;
const PAGES: u64 = 512;
const ITEMS: u64 = PAGES * (PAGE_SIZE_BYTES / CHUNK_SIZE_BYTES) as u64;
const VALUE: [u8; 256] = [7; 256];
/// Requests are this far apart.
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

/// Four of five cost 10 to 30 units, others up to 450.
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

#[expect(clippy::disallowed_methods, reason = "a bench measures the machine's time")]
fn kind(criterion: &mut Criterion, eviction: EvictionKind) {
    let (engine, clock) = (engine(eviction), Clock::manual());
    let mut handle = engine.handle();
    let mut random = Random::new(1);
    (0..ITEMS).for_each(|item| store(&mut handle, item, &clock));
    let mut group = criterion.benchmark_group(format!("eviction={}", eviction.name()));
    group.throughput(Throughput::Elements(1));
    group.bench_function("get hit, random keys", |bench| {
        bench.iter_batched(
            || random.below(ITEMS),
            |item| assert!(hits(&mut handle, item, &clock), "a hit hits"),
            BatchSize::SmallInput,
        );
    });
    let mut next = ITEMS;
    group.bench_function("set evicting", |bench| {
        bench.iter(|| {
            next += 1;
            store(&mut handle, next, &clock);
        });
    });
    // Half of the keys are asked for eight times as often as the others.
    let mut drawn = || {
        let bound = if random.below(9) > 0 { ITEMS * 3 / 4 } else { ITEMS * 3 / 2 };
        random.below(bound)
    };
    let mut operations = |count: u64| {
        let mut done = 0;
        while done < count {
            let item = drawn();
            done += 1;
            if !hits(&mut handle, item, &clock) {
                store(&mut handle, item, &clock);
                done += 1;
            }
        }
    };
    operations(4 * ITEMS);
    group.bench_function("look-aside", |bench| {
        bench.iter_custom(|count| {
            let start = Instant::now();
            operations(count);
            start.elapsed()
        });
    });
    group.finish();
    let counters = engine.stats(clock.now()).total.counters;
    assert!(counters.evicted >= next - ITEMS, "{} evictions", counters.evicted);
    engine.check();
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    EvictionKind::ALL.into_iter().for_each(|eviction| kind(&mut criterion, eviction));
    criterion.final_summary();
}
