//! Tests of spare chunks: their limits, their recall, and what statistics show.

use super::{Handle, StoreMode, StoreOutcome};
use crate::{
    ClassTable, Engine, EngineConfig, EvictionKind, ItemMeta, MoverKind, MoverStep, SpareConfig,
};
use slabwise_base::{ClassId, Clock, Now};

const PAGE_SIZE_BYTES: usize = 16 << 10;
/// The class of the small items, with 128 chunks per page.
const SMALL: ClassId = ClassId(0);
const PER_PAGE: u64 = 128;

/// Returns a configuration with this number of pages and chunks of 128 and 8192 bytes. Two handles may have spare
/// chunks, which together take at most half of the memory.
fn config(pages: u64) -> EngineConfig {
    let mut config = EngineConfig::new(pages * PAGE_SIZE_BYTES as u64);
    config.page_size_bytes = PAGE_SIZE_BYTES;
    config.classes =
        ClassTable::explicit(&[128, 8192], PAGE_SIZE_BYTES).expect("the class table is valid");
    config.index_within_limit = false;
    config.spares = SpareConfig { holders_max: 2, memory_divisor: 2 };
    config
}

fn engine(config: EngineConfig) -> Engine {
    Engine::new(config).expect("the arena can be reserved")
}

fn now() -> Now {
    Clock::manual().now()
}

fn store(handle: &mut Handle<'_>, key: u64, value_len: usize) -> StoreOutcome {
    let (key, value) = (key.to_be_bytes(), vec![7; value_len]);
    handle.set(&key, &value, ItemMeta::default(), StoreMode::Set, now())
}

/// Stores small items under these keys.
fn fill(handle: &mut Handle<'_>, keys: std::ops::Range<u64>) {
    for key in keys {
        let outcome = store(handle, key, 60);
        assert!(matches!(outcome, StoreOutcome::Stored { .. }), "key {key}: {outcome:?}");
    }
}

fn delete(handle: &mut Handle<'_>, keys: std::ops::Range<u64>) {
    keys.for_each(|key| assert!(handle.delete(&key.to_be_bytes(), now()), "key {key} has an item"));
}

fn spare_count(engine: &Engine) -> u64 {
    engine.check();
    engine.class_ids().into_iter().map(|class| engine.space().spares.count(class)).sum()
}

fn items(engine: &Engine) -> u64 {
    engine.stats(now()).items
}

#[test]
fn the_chunk_of_a_deleted_item_is_spare_and_counts_as_free() {
    let engine = engine(config(4));
    let mut handle = engine.handle();
    fill(&mut handle, 0..20);
    let spare_before = spare_count(&engine);
    assert!(spare_before <= 8, "{spare_before}");
    delete(&mut handle, 0..20);
    assert!((1..=8).contains(&spare_count(&engine)), "the other chunks returned to the class");
    let total = engine.stats(now()).total;
    assert_eq!((total.used_chunks, total.free_chunks), (0, PER_PAGE));
    drop(handle);
    assert_eq!(spare_count(&engine), 0, "a dropped handle has no spare chunks");
    assert_eq!(engine.stats(now()).total.free_chunks, PER_PAGE);
}

#[test]
fn spare_chunks_are_within_their_limit_and_not_above_4_kib() {
    let mut config = config(64);
    config.classes = ClassTable::explicit(&[128, 1024, 4096, 4104, 8192], PAGE_SIZE_BYTES)
        .expect("the class table is valid");
    config.spares = SpareConfig { holders_max: 2, memory_divisor: 8 };
    let engine = engine(config);
    // 1 MiB / 8 / 2 holders are 64 KiB; less a chunk of 4 KiB, each of three classes gets 20 KiB of a holder.
    let count_max = |class| engine.space().spares.count_max(class);
    let counts: Vec<usize> = engine.class_ids().into_iter().map(count_max).collect();
    assert_eq!(counts, [8, 8, 5, 0, 0]);
    let (mut one, mut two, mut third) = (engine.handle(), engine.handle(), engine.handle());
    for (index, handle) in [&mut one, &mut two, &mut third].into_iter().enumerate() {
        for value_len in [60, 900, 4000, 4050, 8000] {
            let keys = index as u64 * 1000..index as u64 * 1000 + 12;
            keys.clone().for_each(|key| _ = store(handle, key, value_len));
            delete(handle, keys);
        }
    }
    let spares = |class| engine.space().spares.count(class);
    let counts: Vec<u64> = engine.class_ids().into_iter().map(spares).collect();
    assert!(counts[0] > 0 && counts[2] > 0, "{counts:?}");
    assert!(counts.iter().zip([16, 16, 10, 0, 0]).all(|(&count, max)| count <= max), "{counts:?}");
    engine.check();
}

#[test]
fn a_small_memory_has_no_spare_chunks() {
    let mut config = config(4);
    config.spares = SpareConfig::for_workers(4);
    let engine = engine(config);
    let mut handle = engine.handle();
    fill(&mut handle, 0..20);
    delete(&mut handle, 0..20);
    assert_eq!(spare_count(&engine), 0);
}

#[test]
fn a_batch_of_evictions_loses_few_items() {
    let engine = engine(config(16));
    let mut handle = engine.handle();
    fill(&mut handle, 0..3 * 16 * PER_PAGE);
    let (items, spares) = (items(&engine), spare_count(&engine));
    assert_eq!(items + spares, 16 * PER_PAGE, "all chunks hold an item or are spare");
    assert!(spares < 8, "{spares}");
    assert_eq!(engine.stats(now()).total.free_chunks, spares);
}

/// Without eviction, a store gets the spare chunks of another handle.
#[test]
fn without_eviction_a_store_fails_only_if_no_chunk_is_spare() {
    let engine = engine(EngineConfig { eviction_enabled: false, ..config(1) });
    let (mut one, mut two) = (engine.handle(), engine.handle());
    fill(&mut one, 0..PER_PAGE);
    assert_eq!(store(&mut two, 1000, 60), StoreOutcome::OutOfMemory);
    delete(&mut one, 0..5);
    assert!(spare_count(&engine) > 0);
    fill(&mut two, 1000..1005);
    assert_eq!(store(&mut two, 1005, 60), StoreOutcome::OutOfMemory);
    assert_eq!((spare_count(&engine), items(&engine)), (0, PER_PAGE));
}

/// A class without items gets the chunks that another class holds as spare chunks.
#[test]
fn a_page_of_spare_chunks_moves_to_another_class() {
    let engine = engine(config(1));
    let (mut idle, mut busy) = (engine.handle(), engine.handle());
    fill(&mut idle, 0..8);
    delete(&mut idle, 0..8);
    assert!(spare_count(&engine) > 0);
    let outcome = store(&mut busy, 9, 8000);
    assert!(matches!(outcome, StoreOutcome::Stored { .. }), "{outcome:?}");
    assert_eq!((spare_count(&engine), items(&engine)), (0, 1));
}

#[test]
fn a_draining_page_gets_its_spare_chunks_back_in_one_step() {
    for mover in [MoverKind::WARM, MoverKind::STOCK] {
        let engine = engine(EngineConfig { mover, ..config(4) });
        let mut handle = engine.handle();
        fill(&mut handle, 0..PER_PAGE + 8);
        engine.reassign(Some(SMALL), None, "test", now()).expect("the class has a page to move");
        assert_eq!(spare_count(&engine), 0, "the class of the move has no spare chunks");
        // The chunks of these items are on the pages of the class, one of which drains.
        delete(&mut handle, 0..4);
        delete(&mut handle, PER_PAGE..PER_PAGE + 4);
        let step = engine.mover_step(PER_PAGE as usize, now());
        assert_ne!(step, MoverStep::GivenUp, "{}", mover.name());
        while engine.mover_step(PER_PAGE as usize, now()) != MoverStep::Idle {}
        let stats = engine.stats(now());
        assert_eq!((stats.mover.moved, stats.mover.busy), (1, 0), "{}", mover.name());
        assert_eq!(stats.items, PER_PAGE, "the move loses no item");
        engine.check();
    }
}

#[test]
fn a_retired_class_has_no_spare_chunks() {
    let engine = engine(config(4));
    let mut handle = engine.handle();
    fill(&mut handle, 0..20);
    delete(&mut handle, 0..4);
    engine.change_classes(&[256, 8192]).expect("the table can change");
    assert_eq!(spare_count(&engine), 0);
    delete(&mut handle, 4..8);
    assert_eq!(spare_count(&engine), 0, "a chunk of a retired class does not become spare");
    while engine.mover_step(64, now()) != MoverStep::Idle {}
    assert_eq!((engine.class_ids().len(), items(&engine)), (2, 12));
    fill(&mut handle, 20..40);
    delete(&mut handle, 20..24);
    assert!(spare_count(&engine) > 0, "a class of the new table has spare chunks");
}

#[test]
fn a_lower_memory_limit_recalls_all_spare_chunks() {
    let engine = engine(config(16));
    let mut handle = engine.handle();
    fill(&mut handle, 0..20);
    delete(&mut handle, 0..20);
    assert!(spare_count(&engine) > 0);
    engine.set_memory_limit(PAGE_SIZE_BYTES as u64 / 128).expect("a lower limit is possible");
    assert_eq!(spare_count(&engine), 0);
}

#[test]
fn nothing_is_spare_if_evictions_must_be_exact() {
    let exact = [
        EngineConfig { eviction: EvictionKind::Lru, ..config(4) },
        EngineConfig { eviction: EvictionKind::SplitLru, ..config(4) },
        EngineConfig { eviction: EvictionKind::GdWheel, ..config(4) },
        EngineConfig { eviction: EvictionKind::Reserved, ..config(4) },
        EngineConfig { mover: MoverKind::BASE, ..config(4) },
        EngineConfig { mover: MoverKind::FAST, ..config(4) },
        EngineConfig { first_page_beyond_limit: true, ..config(4) },
    ];
    for config in exact {
        let engine = engine(config.clone());
        let mut handle = engine.handle();
        fill(&mut handle, 0..8 * PER_PAGE);
        delete(&mut handle, 7 * PER_PAGE..7 * PER_PAGE + 8);
        assert_eq!(spare_count(&engine), 0, "{config:?}");
    }
    let engine = engine(config(4));
    let mut handle = engine.handle();
    fill(&mut handle, 0..8 * PER_PAGE);
    delete(&mut handle, 8 * PER_PAGE - 8..8 * PER_PAGE);
    assert!(spare_count(&engine) > 0);
    engine.set_segmented(false);
    assert_eq!(spare_count(&engine), 0, "a switch to exact order recalls all spare chunks");
    delete(&mut handle, 8 * PER_PAGE - 16..8 * PER_PAGE - 8);
    assert_eq!(spare_count(&engine), 0);
    engine.set_segmented(true);
    delete(&mut handle, 8 * PER_PAGE - 24..8 * PER_PAGE - 16);
    assert!(spare_count(&engine) > 0);
}
