//! Tests of spare chunks: their limits, their recall, what statistics show, and the items that they cost.

use super::{Handle, StoreMode, StoreOutcome};
use crate::mem::PageState;
use crate::{
    ClassTable, Engine, EngineConfig, EvictionKind, ItemMeta, MoverKind, MoverStep, SpareConfig,
};
use slabwise_base::{ClassId, Clock, Now, PageId};

const PAGE_SIZE_BYTES: usize = 16 << 10;
/// The class of the small items, with 128 chunks per page.
const SMALL: ClassId = ClassId(0);
const PER_PAGE: u64 = 128;

/// Returns a configuration with this number of pages and chunks of 128 and 8192 bytes. Two handles may have spare
/// chunks, each one quarter of the chunks of a class and at most eight.
fn config(pages: u64) -> EngineConfig {
    let mut config = EngineConfig::new(pages * PAGE_SIZE_BYTES as u64);
    config.page_size_bytes = PAGE_SIZE_BYTES;
    config.classes = classes(&[128, 8192]);
    config.index_within_limit = false;
    config.spares = SpareConfig { holders_max: 2, memory_divisor: 2 };
    config
}

fn classes(chunk_sizes: &[usize]) -> ClassTable {
    ClassTable::explicit(chunk_sizes, PAGE_SIZE_BYTES).expect("the class table is valid")
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

fn evicted(engine: &Engine) -> u64 {
    engine.stats(now()).total.counters.evicted
}

fn items(engine: &Engine) -> u64 {
    engine.stats(now()).items
}

#[test]
fn the_chunk_of_a_deleted_item_is_spare_and_counts_as_free() {
    let engine = engine(config(4));
    let mut handle = engine.handle();
    fill(&mut handle, 0..20);
    assert_eq!(spare_count(&engine), 4, "20 stores took 3 batches of 8 chunks");
    delete(&mut handle, 0..20);
    // The fifth chunk finds eight spare ones, and returns to the class with four of them. Then this repeats.
    assert_eq!(spare_count(&engine), 4);
    let total = engine.stats(now()).total;
    assert_eq!((total.used_chunks, total.free_chunks), (0, PER_PAGE));
    drop(handle);
    assert_eq!(spare_count(&engine), 0, "a dropped handle has no spare chunks");
    assert_eq!(engine.stats(now()).total.free_chunks, PER_PAGE);
}

#[test]
fn the_limit_of_a_class_is_a_part_of_its_chunks_and_0_above_4_kib() {
    let mut config = config(64);
    config.classes = classes(&[128, 1024, 4096, 4104, 8192]);
    config.spares = SpareConfig { holders_max: 2, memory_divisor: 8 };
    let engine = engine(config);
    let (mut one, mut two, mut third) = (engine.handle(), engine.handle(), engine.handle());
    // 19 items take 1 page of 128 chunks, 2 of 16, 5 of 4, 7 of 3, and 10 of 2.
    for handle in [&mut one, &mut two, &mut third] {
        for value_len in [60, 900, 4000, 4050, 8000] {
            let keys = value_len as u64..value_len as u64 + 19;
            keys.clone().for_each(|key| _ = store(handle, key, value_len));
            delete(handle, keys);
        }
    }
    let of_each_class = |count: &dyn Fn(ClassId) -> u64| -> Vec<u64> {
        engine.class_ids().into_iter().map(count).collect()
    };
    let limits = of_each_class(&|class| engine.space().spares.count_max(class) as u64);
    assert_eq!(limits, [8, 2, 1, 0, 0], "a handle may keep a sixteenth of the chunks");
    let counts = of_each_class(&|class| engine.space().spares.count(class));
    assert!(counts[..3].iter().all(|&count| count > 0), "{counts:?}");
    assert!(counts.iter().zip(&limits).all(|(&count, limit)| count <= 2 * limit), "{counts:?}");
    drop((one, two));
    assert_eq!(spare_count(&engine), 0, "only two handles have spare chunks");
}

/// In a class with few chunks, nothing is spare. So another handle finds the chunks of deleted items without an
/// eviction, even if the memory is large.
#[test]
fn a_small_class_loses_no_item_to_spare_chunks() {
    let mut config = config(64);
    config.spares = SpareConfig::for_workers(2);
    let engine = engine(config);
    let (mut one, mut two) = (engine.handle(), engine.handle());
    fill(&mut one, 0..PER_PAGE);
    (1000..1126).for_each(|key| _ = store(&mut one, key, 8000));
    delete(&mut one, 0..8);
    fill(&mut two, 2000..2008);
    assert_eq!((evicted(&engine), items(&engine)), (0, PER_PAGE + 126));
    engine.check();
}

#[test]
fn the_limit_of_a_class_falls_with_its_pages() {
    let mut config = config(4);
    config.spares = SpareConfig { holders_max: 2, memory_divisor: 32 };
    let engine = engine(config);
    let mut handle = engine.handle();
    fill(&mut handle, 0..4 * PER_PAGE);
    delete(&mut handle, 10..4 * PER_PAGE);
    let limit = || engine.space().spares.count_max(SMALL);
    assert_eq!(limit(), 8);
    assert!(spare_count(&engine) > 2);
    for _ in 0..3 {
        engine.reassign(Some(SMALL), None, "test", now()).expect("the class has a page to move");
        // The handle gets spare chunks again while the page moves.
        fill(&mut handle, 1000..1004);
        delete(&mut handle, 1000..1004);
        while engine.mover_step(64, now()) == MoverStep::Working {}
        engine.check();
    }
    assert_eq!((limit(), spare_count(&engine)), (2, 0));
    delete(&mut handle, 0..8);
    assert!((1..=2).contains(&spare_count(&engine)));
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
    let capacity = 16 * PER_PAGE;
    fill(&mut handle, 0..3 * capacity + 3);
    // The last batch has eight chunks. The last three stores took three of them.
    let total = engine.stats(now()).total;
    assert_eq!((spare_count(&engine), total.free_chunks), (5, 5));
    assert_eq!((items(&engine), evicted(&engine)), (capacity - 5, 2 * capacity + 8));
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

/// The chunks of a class hold only heads of chained items, reservations and spare chunks. A store in the class takes a
/// spare chunk and evicts no chained item, although these are the only items that it could evict.
#[test]
fn spare_chunks_are_used_before_a_chained_item_is_evicted() {
    let engine = engine(config(5));
    let (mut idle, _other, mut busy) = (engine.handle(), engine.handle(), engine.handle());
    (0..4).for_each(|key| _ = store(&mut idle, key, 12_000));
    fill(&mut idle, 10..10 + PER_PAGE - 4);
    delete(&mut idle, 10..10 + PER_PAGE - 4);
    let spares = spare_count(&engine);
    assert!(spares > 0);
    let reserve = |key: u64| busy.reserve(&key.to_be_bytes()[..], 60, ItemMeta::default(), now());
    let keys = 1000..1000 + PER_PAGE - 4 - spares;
    let reserved: Vec<_> = keys.map(reserve).map(|it| it.expect("a chunk is free")).collect();
    assert_eq!(spare_count(&engine), spares, "no chunk was missing so far");
    fill(&mut busy, 2000..2000 + spares);
    assert_eq!((spare_count(&engine), evicted(&engine), items(&engine)), (0, 0, 4 + spares));
    drop(reserved);
    engine.check();
}

/// The class for small items can get no page. A store takes the handle's own spare chunk of the next larger class
/// before it evicts an item there.
#[test]
fn an_own_spare_chunk_of_a_larger_class_is_used_before_an_eviction() {
    let mut config = config(1);
    config.classes = classes(&[128, 192, 8192]);
    let engine = engine(config);
    let mut handle = engine.handle();
    let per_page = (PAGE_SIZE_BYTES / 192) as u64;
    (0..per_page).for_each(|key| _ = store(&mut handle, key, 140));
    delete(&mut handle, 0..5);
    assert_eq!(spare_count(&engine), 5);
    fill(&mut handle, 1000..1001);
    assert_eq!((spare_count(&engine), evicted(&engine), items(&engine)), (4, 0, per_page - 4));
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

/// Without eviction, only a class with a page's worth of free chunks gives a page. Two classes have one, if their spare
/// chunks count.
#[test]
fn without_eviction_a_lower_memory_limit_is_reached_although_chunks_are_spare() {
    let mut config = EngineConfig { eviction_enabled: false, ..config(4) };
    config.classes = classes(&[128, 256, 8192]);
    let engine = engine(config);
    let mut idle = engine.handle();
    for value_len in [60, 200] {
        (0..8).for_each(|key| _ = store(&mut idle, key, value_len));
        delete(&mut idle, 0..8);
    }
    assert_eq!((spare_count(&engine), engine.page_stats().held), (16, 2));
    engine.set_memory_limit(PAGE_SIZE_BYTES as u64).expect("a lower limit is possible");
    while engine.mover_step(64, now()) != MoverStep::Idle {}
    assert_eq!(engine.page_stats().held, 1);
    engine.check();
}

#[test]
fn the_mover_counts_spare_chunks_as_free_when_it_chooses_a_page() {
    let engine = engine(config(4));
    let mut handle = engine.handle();
    fill(&mut handle, 0..PER_PAGE + 8);
    delete(&mut handle, PER_PAGE..PER_PAGE + 8);
    assert_eq!(spare_count(&engine), 8);
    engine.reassign(Some(SMALL), None, "test", now()).expect("the class has a page to move");
    assert_eq!(engine.mover_step(64, now()), MoverStep::Done);
    let used_counts: Vec<u32> = engine.move_log().iter().map(|record| record.chunks).collect();
    assert_eq!(used_counts, [0], "the page has only spare chunks");
}

/// A worker puts a chunk into a slot just after the mover has recalled the spare chunks of the page that drains.
#[test]
fn a_chunk_that_became_spare_too_late_returns_to_its_page_at_the_end_of_a_pass() {
    for mover in [MoverKind::WARM, MoverKind::STOCK] {
        let engine = engine(EngineConfig { mover, ..config(4) });
        let (mut handle, space) = (engine.handle(), engine.space());
        fill(&mut handle, 0..PER_PAGE + PER_PAGE / 2);
        delete(&mut handle, 10..PER_PAGE);
        drop(handle);
        let chunk = space.class(SMALL).lock().pages.take_beside(PageId(1));
        engine.reassign(Some(SMALL), None, "test", now()).expect("the class has a page to move");
        assert_eq!(space.memory.page(PageId(0)).state(), PageState::Draining);
        let chunk = chunk.expect("page 0 had a free chunk");
        space.spares.holders()[0].put(0, chunk).expect("the slot is empty");
        let step = engine.mover_step(2 * PER_PAGE as usize, now());
        assert_eq!(step, MoverStep::Done, "{}", mover.name());
        assert_eq!((spare_count(&engine), items(&engine)), (0, PER_PAGE / 2 + 10));
    }
}

/// After a move has begun, a store evicts a batch in the victim's class, and keeps seven chunks.
#[test]
fn a_warm_move_evicts_no_item_for_a_chunk_that_is_spare() {
    let engine = engine(config(4));
    let mut handle = engine.handle();
    fill(&mut handle, 0..4 * PER_PAGE);
    // So the last page has the fewest items, and moves. Its free chunk counts for the move, but is not allocated.
    delete(&mut handle, 3 * PER_PAGE..3 * PER_PAGE + 1);
    engine.reassign(Some(SMALL), None, "test", now()).expect("the class has a page to move");
    fill(&mut handle, 1000..1001);
    assert_eq!((spare_count(&engine), evicted(&engine)), (7, 8));
    while engine.mover_step(16, now()) == MoverStep::Working {}
    assert_eq!(engine.mover_counters().evicted, PER_PAGE - 8);
    assert_eq!((spare_count(&engine), items(&engine)), (0, 3 * PER_PAGE));
}

#[test]
fn a_retired_class_has_no_spare_chunks() {
    let engine = engine(config(4));
    let mut handle = engine.handle();
    fill(&mut handle, 0..20);
    delete(&mut handle, 0..4);
    assert!(spare_count(&engine) > 0);
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
fn nothing_is_spare_if_evictions_must_be_exact() {
    let kinds = [
        EvictionKind::Lru,
        EvictionKind::SplitLru,
        EvictionKind::GreedyDualSize,
        EvictionKind::GdWheel,
        EvictionKind::Reserved,
    ];
    let movers = [MoverKind::BASE, MoverKind::BASE_NEXT, MoverKind::FAST];
    let exact = kinds.map(|eviction| EngineConfig { eviction, ..config(4) }).into_iter();
    let exact = exact.chain(movers.map(|mover| EngineConfig { mover, ..config(4) }));
    let exact = exact.chain([EngineConfig { first_page_beyond_limit: true, ..config(4) }]);
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

/// A worker puts a chunk into a slot just after the switch to exact order has recalled all spare chunks.
#[test]
fn in_exact_order_a_chunk_that_became_spare_too_late_is_used_before_an_eviction() {
    let engine = engine(config(1));
    let (idle, mut busy) = (engine.handle(), engine.handle());
    fill(&mut busy, 0..PER_PAGE);
    delete(&mut busy, 0..1);
    engine.set_segmented(false);
    let space = engine.space();
    let chunk = space.class(SMALL).lock().pages.take().expect("a chunk is free");
    space.spares.holders()[0].put(0, chunk).expect("the slot is empty");
    fill(&mut busy, 1000..1001);
    assert_eq!((spare_count(&engine), evicted(&engine), items(&engine)), (0, 0, PER_PAGE));
    drop(idle);
}
