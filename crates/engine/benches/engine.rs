//! Measures the time of the engine's operations, on one thread unless the name says otherwise.
//!
//! Each bench checks that it measures what its name says: that hits are hits, misses are misses, and evictions evict.

use criterion::{BatchSize, Criterion, Throughput};
use slabwise_base::{Clock, Now, Random};
use slabwise_engine::{Engine, EngineConfig, Handle, ItemMeta, StoreMode, StoreOutcome};
use std::hint::black_box;
use std::time::{Duration, Instant};

const ITEMS: u64 = 1_000_000;
const VALUE: [u8; 100] = [7; 100];

fn key(item: u64) -> [u8; 15] {
    let mut key = *b"key-00000000000";
    let mut rest = item;
    for digit in key[4..].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    key
}

fn store(handle: &mut Handle<'_>, item: u64, now: Now) {
    let outcome = handle.set(&key(item), &VALUE, ItemMeta::default(), StoreMode::Set, now);
    assert!(matches!(outcome, StoreOutcome::Stored { .. }), "{outcome:?}");
}

fn filled(memory_limit_bytes: u64, items: u64) -> Engine {
    let engine =
        Engine::new(EngineConfig::new(memory_limit_bytes)).expect("the arena can be reserved");
    let now = Clock::manual().now();
    {
        let mut handle = engine.handle();
        (0..items).for_each(|item| store(&mut handle, item, now));
    }
    engine
}

fn one_thread(criterion: &mut Criterion) {
    let engine = filled(512 << 20, ITEMS);
    let now = Clock::manual().now();
    let mut handle = engine.handle();
    let mut random = Random::new(1);
    let mut group = criterion.benchmark_group("engine, 1 M items");
    group.throughput(Throughput::Elements(1));
    group.bench_function("get hit, random keys", |bench| {
        bench.iter_batched(
            || key(random.below(ITEMS)),
            |key| {
                let first = handle.get(&key, now, |view| view.value().next().map(|v| v[0]));
                assert!(black_box(first).is_some(), "a hit hits");
            },
            BatchSize::SmallInput,
        );
    });
    group.bench_function("get miss, random keys", |bench| {
        bench.iter_batched(
            || key(ITEMS + random.below(ITEMS)),
            |key| assert!(handle.get(&key, now, |_| ()).is_none(), "a miss misses"),
            BatchSize::SmallInput,
        );
    });
    group.bench_function("set over an item of the same size", |bench| {
        bench.iter_batched(
            || random.below(ITEMS),
            |item| store(&mut handle, item, now),
            BatchSize::SmallInput,
        );
    });
    group.bench_function("delete and set", |bench| {
        bench.iter_batched(
            || random.below(ITEMS),
            |item| {
                assert!(handle.delete(&key(item), now), "the item was stored");
                store(&mut handle, item, now);
            },
            BatchSize::SmallInput,
        );
    });
    group.finish();
    assert_eq!(engine.stats(now).total.counters.evicted, 0, "this bench must evict no item");
}

fn evicting(criterion: &mut Criterion) {
    let engine = filled(64 << 20, ITEMS);
    let now = Clock::manual().now();
    let mut handle = engine.handle();
    let before = engine.stats(now).total.counters.evicted;
    let mut next = ITEMS;
    let mut group = criterion.benchmark_group("engine, 64 MiB full");
    group.throughput(Throughput::Elements(1));
    group.bench_function("set evicting", |bench| {
        bench.iter(|| {
            next += 1;
            store(&mut handle, next, now);
        });
    });
    group.finish();
    let evicted = engine.stats(now).total.counters.evicted - before;
    assert!(evicted + 1_000 >= next - ITEMS, "{evicted} evictions for {} sets", next - ITEMS);
}

/// Returns the time from the start of two threads until each of them has done `count` gets.
#[expect(clippy::disallowed_methods, reason = "a bench measures the machine's time")]
fn two_threads_get(engine: &Engine, count: u64) -> Duration {
    let start = Instant::now();
    std::thread::scope(|scope| {
        for seed in 0..2 {
            scope.spawn(move || {
                let mut handle = engine.handle();
                let mut random = Random::new(seed);
                let now = Clock::manual().now();
                for _ in 0..count {
                    let hit = handle.get(&key(random.below(ITEMS)), now, |view| view.value_len());
                    assert_eq!(black_box(hit), Some(VALUE.len()), "a hit hits");
                }
            });
        }
    });
    start.elapsed()
}

fn two_threads(criterion: &mut Criterion) {
    let engine = filled(512 << 20, ITEMS);
    let mut group = criterion.benchmark_group("engine, 1 M items, 2 threads");
    group.throughput(Throughput::Elements(2));
    group.bench_function("get hit, random keys", |bench| {
        bench.iter_custom(|count| two_threads_get(&engine, count));
    });
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    one_thread(&mut criterion);
    evicting(&mut criterion);
    two_threads(&mut criterion);
    criterion.final_summary();
}
