//! Tests of the number of locks that a set takes, with and without spare chunks.

use super::{Handle, StoreMode, StoreOutcome};
use crate::{Engine, EngineConfig, ItemMeta, SpareConfig};
use slabwise_base::Clock;

const SETS: u64 = 10_000;
/// More items than fit into the memory of the tests.
const ITEMS: u64 = 300_000;

/// Returns the length of the value of an item, in bytes.
type ValueLen = fn(u64) -> usize;

/// All items are in one class.
const ONE_SIZE: ValueLen = |_| 100;
/// The items are in 15 classes.
const MANY_SIZES: ValueLen = |key| 50 + (key * 7919 % 950) as usize;

/// Returns an engine with slabwise's default class table.
fn engine(spares: SpareConfig) -> Engine {
    let mut config = EngineConfig::new(32 << 20);
    config.index_within_limit = false;
    config.spares = spares;
    Engine::new(config).expect("the arena can be reserved")
}

fn set(handle: &mut Handle<'_>, key: u64, value_len: ValueLen, clock: &Clock) {
    let (key, value) = (key.to_be_bytes(), &[7; 1000][..value_len(key)]);
    let outcome = handle.set(&key, value, ItemMeta::default(), StoreMode::Set, clock.now());
    assert!(matches!(outcome, StoreOutcome::Stored { .. }), "{outcome:?}");
}

/// Returns how often the locks of the stripes, of the classes and of the page pool were taken.
fn counts(engine: &Engine) -> [u64; 3] {
    let [_, stripe, class, pool] = engine.lock_stats().map(|locks| locks.total());
    assert_eq!(stripe.contended + class.contended + pool.contended, 0, "there is one thread");
    [stripe.taken, class.taken, pool.taken]
}

/// Returns the mean number of locks that a set of these keys takes: of a stripe, of a class, and of the page pool.
fn locks_per_set(
    (engine, handle): (&Engine, &mut Handle<'_>),
    keys: std::ops::Range<u64>,
    value_len: ValueLen,
    clock: &Clock,
) -> [f64; 3] {
    let (before, count) = (counts(engine), (keys.end - keys.start) as f64);
    keys.for_each(|key| set(handle, key, value_len, clock));
    let after = counts(engine);
    std::array::from_fn(|row| (after[row] - before[row]) as f64 / count)
}

/// The mean numbers of locks that a set takes: of a stripe, of a class, and of the page pool.
#[derive(Debug)]
struct Locks {
    /// Sets of new keys while chunks are free.
    new: [f64; 3],
    /// Sets that replace items of the same size.
    replacing: [f64; 3],
    /// Sets of new keys that evict items.
    evicting: [f64; 3],
}

fn measure(spares: SpareConfig, value_len: ValueLen) -> Locks {
    let (engine, clock) = (engine(spares), Clock::manual());
    let mut handle = engine.handle();
    (0..SETS).for_each(|key| set(&mut handle, key, value_len, &clock));
    let new = locks_per_set((&engine, &mut handle), SETS..2 * SETS, value_len, &clock);
    (2 * SETS..ITEMS).for_each(|key| set(&mut handle, key, value_len, &clock));
    let evicted = || engine.stats(clock.now()).total.counters.evicted;
    let before = evicted();
    let evicting = locks_per_set((&engine, &mut handle), ITEMS..ITEMS + SETS, value_len, &clock);
    let per_set = (evicted() - before) as f64 / SETS as f64;
    assert!((0.95..1.05).contains(&per_set), "a set evicts {per_set} items in the mean");
    let replacing = locks_per_set((&engine, &mut handle), ITEMS..ITEMS + SETS, value_len, &clock);
    let locks = Locks { new, replacing, evicting };
    println!("{spares:?}: {locks:.2?}");
    drop(handle);
    engine.check();
    locks
}

/// Without spare chunks, a set of a new key locks the stripe once, and the class twice: for the chunk and for the
/// queue. A replacement locks the class a third time, to free the old chunk. An eviction also locks the class and the
/// stripe of the victim, and the page pool.
#[test]
fn without_spare_chunks_a_set_takes_three_to_six_locks() {
    for value_len in [ONE_SIZE, MANY_SIZES] {
        let Locks { new, replacing, evicting } = measure(SpareConfig::NONE, value_len);
        let is_near = |locks: [f64; 3], expected: [f64; 3]| {
            locks.into_iter().zip(expected).all(|(count, near)| (count - near).abs() < 0.1)
        };
        assert!(is_near(new, [1.0, 2.0, 0.0]), "{new:?}");
        assert!(is_near(replacing, [1.0, 3.0, 0.0]), "{replacing:?}");
        assert!(is_near(evicting, [2.0, 3.0, 1.0]), "{evicting:?}");
    }
}

/// A set locks its class for the queue. It takes further locks of the class and of the page pool once per batch.
#[test]
fn with_spare_chunks_a_set_into_a_large_class_locks_it_about_once() {
    let locks = measure(SpareConfig::for_workers(4), ONE_SIZE);
    assert!(locks.new[0] < 1.01 && locks.new[1] + locks.new[2] < 1.2, "{locks:?}");
    assert!(locks.replacing[0] < 1.01 && locks.replacing[1] + locks.replacing[2] < 1.01);
    assert!(locks.evicting[0] < 2.01 && locks.evicting[1] + locks.evicting[2] < 1.3, "{locks:?}");
}

/// With many classes, each has few chunks, so fewer of them are spare. New keys fill even smaller classes.
#[test]
fn with_spare_chunks_a_set_into_many_classes_takes_fewer_locks() {
    let locks = measure(SpareConfig::for_workers(4), MANY_SIZES);
    assert!(locks.replacing[1] + locks.replacing[2] < 1.5, "{locks:?}");
    assert!(locks.evicting[1] + locks.evicting[2] < 3.0, "{locks:?}");
}
