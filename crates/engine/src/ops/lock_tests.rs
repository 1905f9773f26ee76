//! Tests of the number of locks that a set takes, with and without spare chunks.

use super::{Handle, StoreMode, StoreOutcome};
use crate::lock_counts::counts;
use crate::{ClassTable, Engine, EngineConfig, ItemMeta, SpareConfig};
use slabwise_base::Clock;

const SETS: u64 = 10_000;
/// More items than fit into the memory of the tests.
const ITEMS: u64 = 300_000;

/// Returns an engine with one class of small items.
fn engine(spares: SpareConfig) -> Engine {
    let mut config = EngineConfig::new(32 << 20);
    config.classes = ClassTable::explicit(&[160, 65_536], config.page_size_bytes)
        .expect("the class table is valid");
    config.index_within_limit = false;
    config.spares = spares;
    Engine::new(config).expect("the arena can be reserved")
}

fn set(handle: &mut Handle<'_>, key: u64, clock: &Clock) {
    let (key, value) = (key.to_be_bytes(), [7; 100]);
    let outcome = handle.set(&key, &value, ItemMeta::default(), StoreMode::Set, clock.now());
    assert!(matches!(outcome, StoreOutcome::Stored { .. }), "{outcome:?}");
}

/// Returns the mean number of locks that a set of these keys takes: of a stripe, of a class, and of the page pool.
fn locks_per_set(handle: &mut Handle<'_>, keys: std::ops::Range<u64>, clock: &Clock) -> [f64; 3] {
    let (before, count) = (counts(), (keys.end - keys.start) as f64);
    keys.for_each(|key| set(handle, key, clock));
    let after = counts();
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

fn measure(spares: SpareConfig) -> Locks {
    let (engine, clock) = (engine(spares), Clock::manual());
    let mut handle = engine.handle();
    (0..SETS).for_each(|key| set(&mut handle, key, &clock));
    let new = locks_per_set(&mut handle, SETS..2 * SETS, &clock);
    (2 * SETS..ITEMS).for_each(|key| set(&mut handle, key, &clock));
    let evicted = || engine.stats(clock.now()).total.counters.evicted;
    let before = evicted();
    let evicting = locks_per_set(&mut handle, ITEMS..ITEMS + SETS, &clock);
    assert!((evicted() - before).abs_diff(SETS) <= 8, "each set evicts one item in the mean");
    let replacing = locks_per_set(&mut handle, ITEMS..ITEMS + SETS, &clock);
    let locks = Locks { new, replacing, evicting };
    println!("{spares:?}: {locks:?}");
    drop(handle);
    engine.check();
    locks
}

fn sum(locks: [f64; 3]) -> f64 {
    locks.iter().sum()
}

/// Without spare chunks, sets take 3 locks (new key), 5 - 1 (replacement; one lock of the class serves both the old and
/// the new item) and 6 locks (eviction).
#[test]
fn spare_chunks_halve_the_locks_of_a_set() {
    let (without, with) = (measure(SpareConfig::NONE), measure(SpareConfig::for_workers(4)));
    assert!(
        sum(without.new) < 3.01 && sum(without.replacing) < 4.01 && sum(without.evicting) < 6.01
    );
    assert!(with.new[0] < 1.01 && with.new[1] + with.new[2] < 1.2, "{with:?}");
    assert!(with.replacing[0] < 1.01 && with.replacing[1] + with.replacing[2] < 1.01, "{with:?}");
    assert!(with.evicting[0] < 2.01 && with.evicting[1] + with.evicting[2] < 1.3, "{with:?}");
}
