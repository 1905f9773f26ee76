//! Undamaged files: restored contents, and reasons for a cold start.

use super::{STARTED, Start, TestFile, config, contents, live, live_and_close, seeds, stop};
use crate::config::EngineConfig;
use crate::engine::Engine;
use crate::evict::Place;
use crate::layout::ItemMeta;
use crate::mem::QueueKind;
use crate::ops::{StoreMode, StoreOutcome};
use crate::{ColdReason, RestartError};
use slabwise_base::{Clock, Expiry, Now, Random, Seconds};
use std::time::Duration;

fn small() -> EngineConfig {
    EngineConfig::new(1 << 20)
}

/// The items of every queue of every class, as offsets from tail to head.
fn orders(engine: &Engine) -> Vec<Vec<usize>> {
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

/// Saves a cache of one item.
fn save_one_item(file: &TestFile, config: &EngineConfig) {
    let (engine, _) = file.open_at(config, STARTED);
    set(&engine, b"key", b"value", Expiry::NEVER, Now::from_nanos(0));
    engine.close(stop(&Clock::manual())).expect("it closes");
}

fn set(engine: &Engine, key: &[u8], value: &[u8], expiry: Expiry, now: Now) -> u64 {
    let meta = ItemMeta { expiry, ..ItemMeta::default() };
    match engine.handle().set(key, value, meta, StoreMode::Set, now) {
        StoreOutcome::Stored { cas, .. } => cas,
        other => panic!("{other:?}"),
    }
}

/// The CAS value of the next store.
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
        let (known, mut clock) = live_and_close(&file, &config, &mut random);
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
        live(&engine, &clock, &mut random);
        engine.check();
    }
    let enough = items > 20 * seeds().len() || seeds().len() == 1;
    assert!(enough, "{items} items are too few for this test");
}

#[test]
fn queue_order_classes_and_counts_are_restored() {
    for seed in seeds() {
        println!("seed {seed}");
        let mut random = Random::new(seed);
        let (file, config) = (TestFile::new(), config(&mut random));
        let (engine, _) = file.open_at(&config, STARTED);
        let clock = Clock::manual();
        live(&engine, &clock, &mut random);
        let (before, cas) = (orders(&engine), next_cas(&engine));
        let (table, classes) = (engine.class_table(), engine.class_ids());
        let stats = engine.stats(clock.now());
        engine.close(stop(&clock)).expect("it closes");
        let (engine, _) = file.open_warm(&config);
        assert_eq!(orders(&engine), before);
        assert_eq!((engine.class_table(), engine.class_ids()), (table, classes));
        assert_eq!(next_cas(&engine), cas);
        let after = engine.stats(clock.now());
        assert_eq!((after.items, after.bytes), (stats.items, stats.bytes));
        assert_eq!(after.total.tail_age_ticks, stats.total.tail_age_ticks);
        assert!(after.index_buckets >= stats.index_buckets);
    }
}

#[test]
fn ttls_continue_while_no_process_runs() {
    let (file, config) = (TestFile::new(), small());
    let (engine, _) = file.open_at(&config, STARTED);
    let clock = Clock::manual();
    let end = |ttl| Expiry::at(Seconds(clock.now().seconds.0 + ttl));
    set(&engine, b"short", b"value", end(60), clock.now());
    set(&engine, b"long", b"value", end(100), clock.now());
    clock.advance(Duration::from_secs(30));
    engine.close(stop(&clock)).expect("it closes");
    let (engine, start) = file.open_at(&config, STARTED + Duration::from_secs(75));
    let Start::Warm(warm) = start else { panic!("{start:?}") };
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
    let (file, config) = (TestFile::new(), small());
    let (engine, _) = file.open_at(&config, STARTED);
    let clock = Clock::manual();
    set(&engine, b"flushed", b"value", Expiry::NEVER, clock.now());
    engine.flush_all(None, clock.now());
    set(&engine, b"key", b"value", Expiry::NEVER, clock.now());
    engine.flush_all(Some(Seconds(clock.now().seconds.0 + 50)), clock.now());
    engine.close(stop(&clock)).expect("it closes");
    let (engine, _) = file.open_at(&config, STARTED + Duration::from_secs(10));
    clock.advance(Duration::from_secs(10));
    let mut handle = engine.handle();
    assert!(handle.get(b"flushed", clock.now(), |_| ()).is_none());
    assert!(handle.get(b"key", clock.now(), |_| ()).is_some());
    clock.advance(Duration::from_secs(40));
    assert!(handle.get(b"key", clock.now(), |_| ()).is_none());
}

#[test]
fn an_unsaved_or_already_restored_file_starts_cold() {
    let (file, config) = (TestFile::new(), small());
    let (engine, start) = file.open_at(&config, STARTED);
    assert!(matches!(start, Start::Cold(ColdReason::NothingSaved)));
    set(&engine, b"key", b"value", Expiry::NEVER, Now::from_nanos(0));
    drop(engine);
    assert_eq!(file.open_cold(&config).1, ColdReason::NothingSaved);
    // A saved cache is restored only once, even with a copy of its .meta file.
    save_one_item(&file, &config);
    let meta = std::fs::read(file.meta()).expect("it was written");
    drop(file.open_warm(&config));
    assert!(!file.meta().exists());
    std::fs::write(file.meta(), meta).expect("the copy is written");
    assert_eq!(file.open_cold(&config).1, ColdReason::OtherArena);
}

#[test]
fn a_changed_setting_starts_cold_and_is_named() {
    let base = small();
    let others = [
        ("memory_limit_bytes", EngineConfig { memory_limit_bytes: 2 << 20, ..base.clone() }),
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
        let ColdReason::OtherSetting { name, .. } = reason else { panic!("{reason:?}") };
        assert_eq!(name, expected);
        drop(engine);
        save_one_item(&file, &other);
        assert_eq!(file.open_warm(&other).1.items, 1, "the new setting is saved");
    }
}

#[test]
fn a_date_before_the_stop_starts_cold() {
    let (file, config) = (TestFile::new(), small());
    save_one_item(&file, &config);
    let (_engine, start) = file.open_at(&config, STARTED - Duration::from_secs(1));
    assert!(matches!(start, Start::Cold(ColdReason::ClockBack)), "{start:?}");
}

#[test]
fn two_processes_do_not_share_a_file() {
    let (file, config) = (TestFile::new(), small());
    let (_engine, _) = file.open_at(&config, STARTED);
    assert!(matches!(file.try_open(&config), Err(RestartError::InUse(_))));
}

#[test]
fn a_directory_is_refused() {
    let (file, config) = (TestFile::new(), small());
    std::fs::create_dir(&file.0).expect("a directory");
    assert!(matches!(file.try_open(&config), Err(RestartError::Io { .. })));
}

#[test]
fn a_changed_class_table_and_retired_classes_are_restored() {
    let (file, config) = (TestFile::new(), small());
    let (engine, _) = file.open_at(&config, STARTED);
    let clock = Clock::manual();
    let value = [7; 400];
    let key = |number: u32| format!("key{number}").into_bytes();
    (0..200).for_each(|number| {
        set(&engine, &key(number), &value, Expiry::NEVER, clock.now());
    });
    let table = engine.class_table();
    let sizes = [table.sizes()[0] as usize, 100, 600];
    engine.change_classes(&sizes).expect("a table");
    // The retired class drains in part before the stop.
    (0..2).for_each(|_| {
        engine.mover_step(8, clock.now());
    });
    let retired = |engine: &Engine| engine.class_ids().len() - engine.class_table().count();
    let (table, ids) = (engine.class_table(), engine.class_ids());
    assert_eq!(retired(&engine), 1);
    engine.close(stop(&clock)).expect("it closes");

    let (engine, warm) = file.open_warm(&config);
    assert_eq!((warm.items, engine.class_table(), engine.class_ids()), (200, table, ids));
    engine.check();
    assert!((0..100_000).any(|_| engine.mover_step(64, clock.now()) == crate::MoverStep::Idle));
    assert_eq!(retired(&engine), 0);
    engine.check();
    let mut handle = engine.handle();
    assert!((0..200).all(|number| handle.get(&key(number), clock.now(), |_| ()).is_some()));
}
