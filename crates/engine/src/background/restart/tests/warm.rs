//! Starts with undamaged files: the restored contents, and the reasons for starting with an empty cache.

use super::{STARTED, Start, TestFile, config, contents, operate, operate_and_close, seeds, stop};
use crate::config::EngineConfig;
use crate::engine::Engine;
use crate::evict::Place;
use crate::layout::ItemMeta;
use crate::mem::QueueKind;
use crate::ops::{StoreMode, StoreOutcome};
use crate::{ColdReason, RestartError};
use slabwise_base::{Clock, Expiry, Now, Random, Seconds};
use std::time::Duration;

pub(super) fn small_config() -> EngineConfig {
    EngineConfig::new(1 << 20)
}

/// Returns the queues of all classes. Each queue is a list of the offsets of its items, from tail to head.
pub(super) fn queue_orders(engine: &Engine) -> Vec<Vec<usize>> {
    let mut orders = Vec::new();
    for class in &engine.space().classes {
        let state = class.lock();
        let queues =
            |lane| QueueKind::ALL.map(|kind| state.lanes.queue(Place { lane, queue: kind }));
        for queue in state.lanes.all().flat_map(queues) {
            let queue = queue.iter_from_tail(&state.pages.token);
            orders.push(queue.map(|item| item.address().offset()).collect());
        }
    }
    orders
}

/// Creates a cache with one item and saves it to `file`.
pub(super) fn save_one_item(file: &TestFile, config: &EngineConfig) {
    let (engine, _) = file.open_at(config, STARTED);
    set(&engine, b"key", b"value", Expiry::NEVER, Now::from_nanos(0));
    engine.close(stop(&Clock::manual())).expect("the cache is saved");
}

fn set(engine: &Engine, key: &[u8], value: &[u8], expiry: Expiry, now: Now) -> u64 {
    let meta = ItemMeta { expiry, ..ItemMeta::default() };
    match engine.handle().set(key, value, meta, StoreMode::Set, now) {
        StoreOutcome::Stored { cas, .. } => cas,
        other => panic!("the item must be stored, but: {other:?}"),
    }
}

/// Returns the CAS value that the next store will get.
fn next_cas(engine: &Engine) -> u64 {
    engine.space().flush.saved().last_cas + 1
}

#[test]
fn every_unexpired_item_is_restored() {
    let mut items = 0;
    for seed in seeds() {
        println!("seed {seed}");
        let mut random = Random::new(seed);
        let (file, config) = (TestFile::new(), config(&mut random));
        let (known, mut clock) = operate_and_close(&file, &config, &mut random);
        let new_seed = EngineConfig { hash_seed: random.next_u64(), ..config.clone() };
        let (engine, warm) = file.open_warm(&new_seed);
        engine.check();
        clock.resume(warm.elapsed - Duration::from_nanos(clock.nanos()));
        let now = clock.now();
        let alive = known.iter().filter(|(_, item)| !item.expiry.is_past(now.seconds));
        let found = contents(&engine, now);
        items += found.len();
        assert_eq!(found, alive.map(|(key, item)| (key.clone(), item.clone())).collect());
        assert!(
            engine.handle().peek(b"half", now, |_| ()).is_none(),
            "an unfinished upload is not restored"
        );
        operate(&engine, &clock, &mut random);
        engine.check();
    }
    let enough = items > 20 * seeds().len() || seeds().len() == 1;
    assert!(enough, "the caches held only {items} items, too few for this test");
}

#[test]
fn queue_order_classes_and_counts_are_restored() {
    for seed in seeds() {
        println!("seed {seed}");
        let mut random = Random::new(seed);
        let (file, config) = (TestFile::new(), config(&mut random));
        let (engine, _) = file.open_at(&config, STARTED);
        let clock = Clock::manual();
        operate(&engine, &clock, &mut random);
        let (before, cas) = (queue_orders(&engine), next_cas(&engine));
        let (table, classes) = (engine.class_table(), engine.class_ids());
        let stats = engine.stats(clock.now());
        engine.close(stop(&clock)).expect("the cache is saved");
        let (engine, _) = file.open_warm(&config);
        assert_eq!(queue_orders(&engine), before);
        assert_eq!((engine.class_table(), engine.class_ids()), (table, classes));
        assert_eq!(next_cas(&engine), cas);
        let after = engine.stats(clock.now());
        assert_eq!((after.items, after.bytes), (stats.items, stats.bytes));
        // With hit densities the tail age is an estimate from the last victims, which a stop does not save.
        if !config.eviction.info().counts_uses {
            assert_eq!(after.total.tail_age_work, stats.total.tail_age_work);
        }
        assert!(after.index_buckets >= stats.index_buckets);
    }
}

#[test]
fn ttls_also_elapse_while_no_process_runs() {
    let (file, config) = (TestFile::new(), small_config());
    let (engine, _) = file.open_at(&config, STARTED);
    let clock = Clock::manual();
    let end = |ttl| Expiry::at(Seconds(clock.now().seconds.0 + ttl));
    set(&engine, b"short", b"value", end(60), clock.now());
    set(&engine, b"long", b"value", end(100), clock.now());
    clock.advance(Duration::from_secs(30));
    engine.close(stop(&clock)).expect("the cache is saved");
    let (engine, start) = file.open_at(&config, STARTED + Duration::from_secs(75));
    let Start::Warm(warm) = start else { panic!("the items must be restored, but: {start:?}") };
    assert_eq!(warm.elapsed, Duration::from_secs(75));
    let mut clock = Clock::manual();
    clock.resume(warm.elapsed);
    let mut handle = engine.handle();
    assert!(handle.get(b"short", clock.now(), |_| ()).is_none());
    assert!(handle.get(b"long", clock.now(), |_| ()).is_some());
    clock.advance(Duration::from_secs(25));
    assert!(handle.get(b"long", clock.now(), |_| ()).is_none());
}

#[test]
fn past_and_delayed_flushes_are_restored() {
    let (file, config) = (TestFile::new(), small_config());
    let (engine, _) = file.open_at(&config, STARTED);
    let clock = Clock::manual();
    set(&engine, b"flushed", b"value", Expiry::NEVER, clock.now());
    engine.flush_all(None, clock.now());
    set(&engine, b"key", b"value", Expiry::NEVER, clock.now());
    engine.flush_all(Some(Seconds(clock.now().seconds.0 + 50)), clock.now());
    engine.close(stop(&clock)).expect("the cache is saved");
    let (engine, _) = file.open_at(&config, STARTED + Duration::from_secs(10));
    clock.advance(Duration::from_secs(10));
    let mut handle = engine.handle();
    assert!(handle.get(b"flushed", clock.now(), |_| ()).is_none());
    assert!(handle.get(b"key", clock.now(), |_| ()).is_some());
    clock.advance(Duration::from_secs(40));
    assert!(handle.get(b"key", clock.now(), |_| ()).is_none());
}

#[test]
fn a_start_with_a_file_that_was_not_saved_or_was_restored_before_is_cold() {
    let (file, config) = (TestFile::new(), small_config());
    let (engine, start) = file.open_at(&config, STARTED);
    assert!(matches!(start, Start::Cold(ColdReason::NothingSaved)));
    set(&engine, b"key", b"value", Expiry::NEVER, Now::from_nanos(0));
    drop(engine);
    assert_eq!(file.open_cold(&config).1, ColdReason::NothingSaved);
    // A saved cache is restored only once, even with a copy of its .meta file.
    save_one_item(&file, &config);
    let meta = std::fs::read(file.meta()).expect("the file was written");
    drop(file.open_warm(&config));
    assert!(!file.meta().exists());
    std::fs::write(file.meta(), meta).expect("the copy is written");
    assert_eq!(file.open_cold(&config).1, ColdReason::OtherArena);
}

#[test]
fn a_start_with_a_changed_setting_is_cold_and_names_the_setting() {
    let base = small_config();
    let others = [
        ("page_size_bytes", EngineConfig { page_size_bytes: 32 << 10, ..base.clone() }),
        (
            "chunk_sizes",
            EngineConfig { classes: super::ClassTable::default_for(8 << 10), ..base.clone() },
        ),
    ];
    for (expected, other) in others {
        let file = TestFile::new();
        save_one_item(&file, &base);
        let (engine, reason) = file.open_cold(&other);
        engine.check();
        let ColdReason::OtherSetting { name, .. } = reason else {
            panic!("the setting {expected} has changed, but: {reason:?}")
        };
        assert_eq!(name, expected);
        drop(engine);
        save_one_item(&file, &other);
        assert_eq!(file.open_warm(&other).1.items, 1, "the file is saved with the new setting");
    }
}

#[test]
fn a_start_at_a_date_before_the_stop_is_cold() {
    let (file, config) = (TestFile::new(), small_config());
    save_one_item(&file, &config);
    let (_engine, start) = file.open_at(&config, STARTED - Duration::from_secs(1));
    assert!(
        matches!(start, Start::Cold(ColdReason::ClockBack)),
        "the date is before the stop, but: {start:?}"
    );
}

#[test]
fn a_memory_file_in_use_is_refused() {
    let (file, config) = (TestFile::new(), small_config());
    let (_engine, _) = file.open_at(&config, STARTED);
    assert!(matches!(file.try_open(&config), Err(RestartError::InUse(_))));
}

#[test]
fn a_directory_as_memory_file_is_refused() {
    let (file, config) = (TestFile::new(), small_config());
    std::fs::create_dir(&file.0).expect("the directory is created");
    assert!(matches!(file.try_open(&config), Err(RestartError::Io { .. })));
}

#[test]
fn a_changed_class_table_and_retired_classes_are_restored() {
    let (file, config) = (TestFile::new(), small_config());
    let (engine, _) = file.open_at(&config, STARTED);
    let clock = Clock::manual();
    let value = [7; 400];
    let key = |number: u32| format!("key{number}").into_bytes();
    (0..200).for_each(|number| {
        set(&engine, &key(number), &value, Expiry::NEVER, clock.now());
    });
    let table = engine.class_table();
    let sizes = [table.sizes()[0] as usize, 100, 600];
    engine.change_classes(&sizes).expect("the table is valid");
    // The mover empties a part of the retired class's pages before the stop.
    (0..2).for_each(|_| {
        engine.mover_step(8, clock.now());
    });
    let retired_count = |engine: &Engine| engine.class_ids().len() - engine.class_table().count();
    let (table, ids) = (engine.class_table(), engine.class_ids());
    assert_eq!(retired_count(&engine), 1);
    engine.close(stop(&clock)).expect("the cache is saved");

    let (engine, warm) = file.open_warm(&config);
    assert_eq!((warm.items, engine.class_table(), engine.class_ids()), (200, table, ids));
    engine.check();
    assert!((0..100_000).any(|_| engine.mover_step(64, clock.now()) == crate::MoverStep::Idle));
    assert_eq!(retired_count(&engine), 0);
    engine.check();
    let mut handle = engine.handle();
    assert!((0..200).all(|number| handle.get(&key(number), clock.now(), |_| ()).is_some()));
}
