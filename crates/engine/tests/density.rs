//! Tests of `eviction=density`: which items stay in a full cache, for hit densities that a test sets.

#[path = "support/one_class.rs"]
mod one_class;

use one_class::{CHUNK_SIZE_BYTES, PAGE_SIZE_BYTES, config};
use slabwise_base::density::{AGE_LEVELS, Densities};
use slabwise_base::sampling::THRESHOLD_ALL;
use slabwise_base::{ClassId, Clock, Cost, Expiry, Now, Seconds, Uses};
use slabwise_engine::{
    AccessKind, AccessObserver, ClassTable, Engine, EngineConfig, EvictionKind, ItemMeta,
    KeyAccess, MoverStep, StoreMode, StoreOutcome,
};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const PAGES: u64 = 64;
/// The number of items that fill the cache.
const CAPACITY: u32 = (PAGES as usize * PAGE_SIZE_BYTES / CHUNK_SIZE_BYTES) as u32;

fn engine() -> Engine {
    Engine::new(config(PAGES, EvictionKind::Density)).expect("the arena can be reserved")
}

fn store(engine: &Engine, key: &str, meta: ItemMeta, now: Now) {
    let outcome = engine.handle().set(key.as_bytes(), b"value", meta, StoreMode::Set, now);
    assert!(matches!(outcome, StoreOutcome::Stored { .. }), "{key}: {outcome:?}");
}

fn get(engine: &Engine, key: &str, now: Now) -> bool {
    engine.handle().get(key.as_bytes(), now, |_| ()).is_some()
}

/// Returns the number of these items that are in the cache.
fn held(engine: &Engine, name: &str, count: u32, now: Now) -> usize {
    let is_held =
        |at: &u32| engine.handle().peek(format!("{name}{at}").as_bytes(), now, |_| ()).is_some();
    (0..count).filter(is_held).count()
}

/// Sets densities that depend only on the number of requests.
fn set_densities(engine: &Engine, of: impl Fn(u32) -> f64) {
    engine.set_densities(&Arc::new(Densities::new(|uses| [of(uses.count()); AGE_LEVELS])));
}

/// Stores twice as many items as the cache holds.
fn flood(engine: &Engine, meta: ItemMeta, now: Now) {
    (0..2 * CAPACITY).for_each(|at| store(engine, &format!("flood{at}"), meta, now));
}

#[test]
fn items_with_a_high_density_stay() {
    let (engine, now) = (engine(), Clock::manual().now());
    let names = || (0..CAPACITY / 4).map(|at| format!("often{at}"));
    names().for_each(|name| store(&engine, &name, ItemMeta::default(), now));
    for _ in 0..2 {
        names().for_each(|name| assert!(get(&engine, &name, now)));
    }
    set_densities(&engine, |count| if count >= 3 { 0.1 } else { 0.001 });
    flood(&engine, ItemMeta::default(), now);
    assert_eq!(held(&engine, "often", CAPACITY / 4, now), (CAPACITY / 4) as usize);
    // With the opposite densities, these items are evicted first.
    set_densities(&engine, |count| if count >= 3 { 0.001 } else { 0.1 });
    flood(&engine, ItemMeta::default(), now);
    assert_eq!(held(&engine, "often", CAPACITY / 4, now), 0);
    engine.check();
}

#[test]
fn expired_items_are_removed_although_an_older_key_was_stored_again() {
    let (engine, clock) = (engine(), Clock::manual());
    let store_until = |key: &str, second: u32| {
        let meta = ItemMeta { expiry: Expiry::at(Seconds(second)), ..ItemMeta::default() };
        store(&engine, key, meta, clock.now());
    };
    (0..100).for_each(|at| store_until(&format!("item{at}"), 100));
    clock.advance(Duration::from_secs(50));
    store_until("item0", 1_000);
    clock.advance(Duration::from_secs(60));
    for _ in 0..200 {
        engine.maintain_step(1_000, clock.now());
    }
    assert_eq!(engine.stats(clock.now()).total.items.iter().sum::<u64>(), 1);
    engine.check();
}

#[test]
fn an_item_that_replaces_another_one_counts_with_its_own_size_and_cost() {
    let (engine, now) = (engine(), Clock::manual().now());
    let set = |value: &[u8], cost: Option<Cost>| {
        let meta = ItemMeta { cost, ..ItemMeta::default() };
        engine.handle().set(b"key".as_slice(), value, meta, StoreMode::Set, now);
        engine.check();
    };
    set(b"a long value", None);
    set(b"short", Some(Cost::from_units(7)));
    set(b"a longer value again", Some(Cost::from_units(3)));
    set(b"", None);
    assert_eq!(engine.stats(now).total.items.iter().sum::<u64>(), 1);
}

/// Records the accesses to all keys.
#[derive(Default)]
struct Recorder(Mutex<Vec<KeyAccess>>);

impl AccessObserver for Recorder {
    fn accessed(&self, access: &KeyAccess) {
        self.0.lock().expect("no thread has panicked").push(*access);
    }
}

#[test]
fn an_evicted_or_deleted_key_returns_with_its_requests() {
    let (engine, now) = (engine(), Clock::manual().now());
    let recorder = Arc::new(Recorder::default());
    engine.observers().set_access_observer(Arc::clone(&recorder) as Arc<dyn AccessObserver>);
    engine.observers().sample_accesses(THRESHOLD_ALL);
    let last_count = || {
        let accesses = std::mem::take(&mut *recorder.0.lock().expect("no thread has panicked"));
        accesses.last().map(|access| (access.kind, access.uses.count()))
    };
    store(&engine, "key", ItemMeta::default(), now);
    assert_eq!(last_count(), Some((AccessKind::Store, Uses::FIRST.count())));
    (0..3).for_each(|_| assert!(get(&engine, "key", now)));
    assert_eq!(last_count(), Some((AccessKind::Hit, 4)));
    store(&engine, "key", ItemMeta::default(), now);
    assert_eq!(last_count(), Some((AccessKind::Store, 4)), "a store over an item is no request");
    engine.handle().delete(b"key", now);
    store(&engine, "key", ItemMeta::default(), now);
    assert_eq!(last_count(), Some((AccessKind::Store, 5)));
    set_densities(&engine, |count| 1.0 / f64::from(count));
    for at in 0..100 * CAPACITY {
        store(&engine, &format!("flood{at}"), ItemMeta::default(), now);
        if engine.handle().peek(b"key", now, |_| ()).is_none() {
            break;
        }
    }
    assert!(engine.handle().peek(b"key", now, |_| ()).is_none(), "the key was evicted");
    store(&engine, "key", ItemMeta::default(), now);
    let (_, count) = last_count().expect("the store is reported");
    assert!((5..=7).contains(&count), "the count {count} is the old one or one level above it");
}

#[test]
fn expired_items_are_evicted_first() {
    let (engine, clock) = (engine(), Clock::manual());
    let short = ItemMeta { expiry: Expiry::at(Seconds(10)), ..ItemMeta::default() };
    for at in 0..CAPACITY {
        let (name, meta) = match at % 4 {
            0 => ("short", short),
            _ => ("long", ItemMeta::default()),
        };
        store(&engine, &format!("{name}{at}"), meta, clock.now());
    }
    let before = engine.stats(clock.now()).total.counters;
    clock.advance(Duration::from_secs(20));
    let now = clock.now();
    let stored = CAPACITY / 8;
    (0..stored).for_each(|at| store(&engine, &format!("new{at}"), ItemMeta::default(), now));
    let counters = engine.stats(now).total.counters;
    let evicted = counters.evicted - before.evicted;
    // A search evicts a valid item only if none of its candidates has expired. At least an eighth of the items has.
    assert!(evicted <= u64::from(stored) / 20, "{evicted} of {stored} victims were valid");
}

#[test]
fn the_tail_age_is_the_inverse_of_the_density_of_the_next_victim() {
    let (engine, now) = (engine(), Clock::manual().now());
    let tail_ages =
        || -> Vec<u32> { engine.stats(now).total.tail_age_work.into_iter().flatten().collect() };
    assert_eq!(tail_ages(), Vec::<u32>::new(), "the cache is empty");
    set_densities(&engine, |count| if count == 1 { 1.0 / 64.0 } else { 0.5 });
    (0..CAPACITY / 2).for_each(|at| store(&engine, &format!("{at}"), ItemMeta::default(), now));
    assert_eq!(tail_ages(), [64], "no item was evicted yet");
    flood(&engine, ItemMeta::default(), now);
    assert_eq!(tail_ages(), [64]);
    // The class evicts no more, and all its items become more valuable.
    set_densities(&engine, |_| 0.25);
    assert_eq!(tail_ages(), [64], "the last evictions were just now");
}

#[test]
fn items_with_a_high_cost_stay() {
    let (engine, now) = (engine(), Clock::manual().now());
    let of_cost = |units| ItemMeta { cost: Some(Cost::from_units(units)), ..ItemMeta::default() };
    let count = CAPACITY / 4;
    (0..count).for_each(|at| store(&engine, &format!("costly{at}"), of_cost(100), now));
    (0..count).for_each(|at| store(&engine, &format!("free{at}"), of_cost(0), now));
    set_densities(&engine, |_| 0.01);
    flood(&engine, of_cost(1), now);
    assert_eq!(held(&engine, "costly", count, now), count as usize);
    assert_eq!(held(&engine, "free", count, now), 0);
}

#[test]
fn of_chained_items_the_one_with_the_fewest_hits_per_byte_is_evicted_first() {
    let mut config = config(PAGES, EvictionKind::Density);
    config.item_size_bytes_max = 1 << 20;
    let engine = Engine::new(config).expect("the arena can be reserved");
    let now = Clock::manual().now();
    set_densities(&engine, |_| 0.01);
    let memory = PAGES as usize * PAGE_SIZE_BYTES;
    let chained = |name: &str, value_len: usize| {
        let value = vec![7; value_len];
        let outcome =
            engine.handle().set(name.as_bytes(), &value, ItemMeta::default(), StoreMode::Set, now);
        assert!(matches!(outcome, StoreOutcome::Stored { .. }), "{name}: {outcome:?}");
    };
    chained("small0", memory / 40);
    chained("large0", memory / 4);
    chained("small1", memory / 40);
    // The memory has no room for one more large item.
    chained("other", memory / 2);
    assert_eq!((held(&engine, "large", 1, now), held(&engine, "small", 2, now)), (0, 2));
    engine.check();
}

#[test]
fn a_hit_saves_the_item_that_would_be_the_next_victim() {
    let (engine, now) = (engine(), Clock::manual().now());
    let names = || (0..CAPACITY).map(|at| format!("old{at}"));
    names().for_each(|name| store(&engine, &name, ItemMeta::default(), now));
    set_densities(&engine, |count| if count == 1 { 0.001 } else { 0.1 });
    store(&engine, "new0", ItemMeta::default(), now);
    let hits = names().filter(|name| get(&engine, name, now)).count();
    (1..4).for_each(|at| store(&engine, &format!("new{at}"), ItemMeta::default(), now));
    assert_eq!(held(&engine, "old", CAPACITY, now), hits, "only new items are evicted");
    engine.check();
}

#[test]
fn the_tail_age_has_a_limit() {
    let (engine, now) = (engine(), Clock::manual().now());
    let of_cost = |units| ItemMeta { cost: Some(Cost::from_units(units)), ..ItemMeta::default() };
    store(&engine, "costly", of_cost(1 << 30), now);
    (0..CAPACITY / 2).for_each(|at| store(&engine, &format!("{at}"), of_cost(0), now));
    set_densities(&engine, |_| 0.001);
    let ages: Vec<u32> = engine.stats(now).total.tail_age_work.into_iter().flatten().collect();
    assert_eq!(ages, [1 << 31]);
}

#[test]
fn a_class_without_a_page_takes_one_from_the_class_with_the_fewest_hits_per_byte() {
    let (page_size_bytes, sizes) = (16 << 10, [128, 1 << 10, 8 << 10]);
    let mut config = EngineConfig::new(9 * page_size_bytes as u64);
    config.page_size_bytes = page_size_bytes;
    config.classes = ClassTable::explicit(&sizes, page_size_bytes).expect("the table is valid");
    config.item_size_bytes_max = 8 << 10;
    config.index_within_limit = false;
    config.eviction = EvictionKind::Density;
    let engine = Engine::new(config).expect("the arena can be reserved");
    let now = Clock::manual().now();
    let store_large = |key: &str, len: usize| {
        let value = vec![b'v'; len];
        let outcome =
            engine.handle().set(key.as_bytes(), &value, ItemMeta::default(), StoreMode::Set, now);
        assert!(matches!(outcome, StoreOutcome::Stored { .. }), "{key}: {outcome:?}");
    };
    let pages = || -> Vec<u64> { engine.class_stats(now).iter().map(|it| it.pages).collect() };

    (0..5 * 128).for_each(|at| store(&engine, &format!("small{at}"), ItemMeta::default(), now));
    (0..4 * 16).for_each(|at| store_large(&format!("medium{at}"), 900));
    set_densities(&engine, |_| 0.001);
    assert_eq!(pages(), [5, 4, 0]);
    store_large("large", 7_000);
    assert_eq!(pages(), [5, 3, 1], "a byte of a medium item has the fewest hits");

    // The free chunks of a class that has just received a page are for its own items.
    let [small, medium] = [ClassId(0), ClassId(1)];
    engine.reassign(Some(medium), Some(small), "test", now).expect("the class has a page");
    while engine.mover_step(64, now) != MoverStep::Done {}
    let large = Some(ClassId(2));
    engine.reassign(None, large, "test", now).expect("a class has a page");
    while engine.mover_step(64, now) != MoverStep::Done {}
    assert_eq!(pages(), [6, 1, 2]);
    engine.check();
}
