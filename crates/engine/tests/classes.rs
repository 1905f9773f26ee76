//! Tests of changes of the class table while the cache holds items: refused tables, the classes of new items, the
//! draining of retired classes, and evictions.

use slabwise_base::{ClassId, Clock, Expiry, Now, Random};
use slabwise_engine::{
    ClassChangeError, ClassTable, ClassTableError, Engine, EngineConfig, ItemMeta, MoverKind,
    MoverStep, ReassignError, StoreMode, StoreOutcome,
};
use std::time::Duration;

const META: ItemMeta = ItemMeta { client_flags: 0, expiry: Expiry::NEVER, cost: None };
const PAGE_SIZE_BYTES: usize = 16 << 10;
/// The largest chunk size of every table, in bytes.
const LARGEST: usize = 4096;

fn config(pages: u64) -> EngineConfig {
    let mut config = EngineConfig::new(pages * PAGE_SIZE_BYTES as u64);
    config.page_size_bytes = PAGE_SIZE_BYTES;
    config.classes = ClassTable::explicit(&[128, 512, LARGEST], PAGE_SIZE_BYTES)
        .expect("the class table is valid");
    config.index_within_limit = false;
    config
}

fn engine(pages: u64) -> Engine {
    Engine::new(config(pages)).expect("the arena can be reserved")
}

fn key(number: u32) -> Vec<u8> {
    format!("key-{number:07}").into_bytes()
}

/// Returns a value of this length for the key with this number. No two keys have the same value.
fn value(number: u32, len: usize) -> Vec<u8> {
    let mut words = Random::new(u64::from(number));
    let words = std::iter::repeat_with(|| words.next_u64().to_le_bytes());
    words.flatten().take(len).collect()
}

fn set(engine: &Engine, number: u32, len: usize, now: Now) {
    let outcome = engine.handle().set(&key(number), &value(number, len), META, StoreMode::Set, now);
    assert!(
        matches!(outcome, StoreOutcome::Stored { .. }),
        "item {number} must be stored, but: {outcome:?}"
    );
}

/// True if a get of this key hits. Panics if the get returns a wrong value.
fn has(engine: &Engine, number: u32, len: usize, now: Now) -> bool {
    let read = |view: slabwise_engine::ItemView<'_, '_>| view.value().flatten().copied().collect();
    let seen: Option<Vec<u8>> = engine.handle().get(&key(number), now, read);
    seen.is_some_and(|seen| {
        assert_eq!(seen, value(number, len), "a get of key {number} returns the stored value");
        true
    })
}

/// Returns the numbers of the classes in the table, in ascending order of chunk sizes.
fn class_numbers(engine: &Engine) -> Vec<u8> {
    engine.class_table().ids().map(|id| id.0).collect()
}

/// Returns the number of retired classes.
fn retired_count(engine: &Engine, now: Now) -> usize {
    engine.class_stats(now).iter().filter(|class| class.retired).count()
}

/// Runs the mover until it is idle, and checks all invariants. Panics if the mover does not become idle.
fn drain(engine: &Engine, now: Now) {
    let idle = (0..1_000_000).any(|_| engine.mover_step(64, now) == MoverStep::Idle);
    assert!(idle, "the mover must become idle within 1,000,000 steps");
    engine.check();
}

#[test]
fn invalid_tables_are_refused_and_change_nothing() {
    let engine = engine(8);
    let before = engine.class_table();
    let bad = |error| Err(ClassChangeError::BadTable(error));
    let many: Vec<usize> = (8..72).map(|size| 8 * size).collect();
    for (sizes, refusal) in [
        (&[][..], bad(ClassTableError::Empty)),
        (&[96, 96], bad(ClassTableError::NotAscending { size_bytes: 96 })),
        (&[96, 100, 101], bad(ClassTableError::NotAscending { size_bytes: 101 })),
        (&[16, 96], bad(ClassTableError::TooSmall { size_bytes: 16 })),
        (&many, bad(ClassTableError::TooMany { count: 65 })),
        (
            &[96, LARGEST + 1],
            Err(ClassChangeError::AboveLargest {
                size_bytes: LARGEST + 1,
                size_bytes_max: LARGEST,
            }),
        ),
    ] {
        assert_eq!(engine.change_classes(sizes), refusal);
        assert_eq!(engine.class_table(), before);
    }
    engine.check();
}

#[test]
fn a_size_keeps_its_class_number_and_the_largest_size_is_added() {
    let (engine, now) = (engine(8), Clock::manual().now());
    set(&engine, 1, 300, now);
    engine.change_classes(&[64, 512]).expect("the class table is valid");
    assert_eq!(engine.class_table().sizes(), [64, 512, LARGEST as u32]);
    assert_eq!(class_numbers(&engine), [3, 1, 2]);
    engine.change_classes(&[64, 128, 256]).expect("the class table is valid");
    // The class with chunks of 128 bytes owned no page, so its number was vacant at once. The class with chunks of 512
    // bytes owns a page, so it is retired and keeps its number until it has drained.
    assert_eq!(class_numbers(&engine), [3, 0, 4, 2]);
    assert_eq!(retired_count(&engine, now), 1);
    // The size 512 is in the table again before its class has drained, so this class is revived.
    engine.change_classes(&[64, 512]).expect("the class table is valid");
    assert_eq!(class_numbers(&engine), [3, 1, 2]);
    assert_eq!(retired_count(&engine, now), 0);
    assert!(has(&engine, 1, 300, now));
    engine.check();
}

#[test]
fn a_retired_class_gets_no_items_and_drains_without_loss() {
    let (engine, now) = (engine(64), Clock::manual().now());
    let lens = |number: u32| [60, 400, 3000, 9000][number as usize % 4];
    (0..80).for_each(|number| set(&engine, number, lens(number), now));
    let shown = engine.class_stats(now);
    let used: u64 = shown[..2].iter().map(|class| class.used_chunks).sum();
    engine.change_classes(&[104, 256, 448]).expect("the class table is valid");
    assert_eq!(retired_count(&engine, now), 2);
    (80..120).for_each(|number| set(&engine, number, lens(number), now));
    let classes = engine.class_stats(now);
    let used_by_retired: u64 =
        classes.iter().filter(|class| class.retired).map(|class| class.used_chunks).sum();
    assert_eq!(used_by_retired, used, "a retired class gets no new items");
    let sizes: Vec<usize> = classes.iter().map(|class| class.chunk_size_bytes).collect();
    assert!(
        sizes.is_sorted() && sizes.len() == 6,
        "the statistics list the classes of both tables by size: {sizes:?}"
    );
    let old = ClassId(0);
    assert_eq!(engine.reassign(None, Some(old), "test", now), Err(ReassignError::BadClass));

    drain(&engine, now);
    assert_eq!(retired_count(&engine, now), 0);
    assert_eq!(engine.class_ids(), engine.class_table().ids().collect::<Vec<_>>());
    assert_eq!(engine.reassign(Some(old), None, "test", now), Err(ReassignError::BadClass));
    for number in 0..120 {
        assert!(has(&engine, number, lens(number), now), "key {number} is lost");
    }
    assert_eq!(engine.stats(now).total.counters.evicted, 0);
}

/// Returns a full cache of one class, its clock and the number of items. The items were stored one after the other, so
/// item 0 is the coldest.
fn full_cache(pages: u64, mover: MoverKind) -> (Engine, Clock, u32) {
    let engine =
        Engine::new(EngineConfig { mover, ..config(pages) }).expect("the arena can be reserved");
    let clock = Clock::manual();
    let count = pages as u32 * (PAGE_SIZE_BYTES / 512) as u32;
    for number in 0..count {
        set(&engine, number, 400, clock.now());
        clock.advance(Duration::from_millis(20));
    }
    assert_eq!(engine.stats(clock.now()).items, u64::from(count));
    (engine, clock, count)
}

#[test]
fn a_table_change_in_a_full_cache_evicts_the_coldest_items() {
    let kinds =
        [MoverKind::WARM, MoverKind::STOCK, MoverKind::BASE, MoverKind::BASE_NEXT, MoverKind::FAST];
    for mover in kinds {
        let pages = 16;
        let (engine, clock, count) = full_cache(pages, mover);
        let now = clock.now();
        // A page has 25 chunks of 640 bytes, or 32 chunks of 512 bytes. So the memory holds about a fifth fewer items
        // than before.
        engine.change_classes(&[640]).expect("the class table is valid");
        let mut steps = 0;
        while engine.mover_step(16, now) != MoverStep::Idle {
            assert!(
                engine.page_stats().held <= pages,
                "{mover:?}: memory must stay within the limit"
            );
            steps += 1;
            assert!(steps < 100_000, "{mover:?}: the mover must become idle within 100,000 steps");
        }
        engine.check();
        assert_eq!(retired_count(&engine, now), 0, "{mover:?}: the retired class has drained");
        let kept: Vec<u32> = (0..count).filter(|&number| has(&engine, number, 400, now)).collect();
        // Two pages are not full: one page was emptied before the next could be filled, and one page is partly filled.
        let fit = (pages as usize - 2) * (PAGE_SIZE_BYTES / 640);
        assert!(kept.len() >= fit, "{mover:?}: {} items are kept, but {fit} fit", kept.len());
        // The mover searches the new position of an item only near the ends of the queue. So some items in the middle
        // may be evicted too early. This test checks the hottest items only.
        let hottest = count - fit as u32 / 2;
        let lost = (hottest..count).filter(|number| !kept.contains(number)).count();
        assert_eq!(lost, 0, "{mover:?}: the hottest items are carried, not evicted");
    }
}

#[test]
fn an_upload_that_spans_a_table_change_is_published() {
    let (engine, now) = (engine(8), Clock::manual().now());
    let mut handle = engine.handle();
    let mut upload = handle.reserve(&key(1), 400, META, now).expect("there is memory");
    upload.fill(&value(1, 400)[..100]);
    engine.change_classes(&[128, 640]).expect("the class table is valid");
    // The chunk of the upload is in use and not published, so the mover cannot empty its page.
    (0..10).for_each(|_| {
        engine.mover_step(64, now);
    });
    assert_eq!(retired_count(&engine, now), 1);
    upload.fill(&value(1, 400)[100..]);
    let outcome = handle.store(upload, StoreMode::Set, now);
    assert!(
        matches!(outcome, StoreOutcome::Stored { .. }),
        "the item must be stored, but: {outcome:?}"
    );
    drain(&engine, now);
    assert_eq!(retired_count(&engine, now), 0);
    assert!(has(&engine, 1, 400, now));
}

#[test]
fn the_move_of_a_page_with_a_pin_is_given_up_and_other_classes_drain() {
    let (engine, clock) = (engine(16), Clock::manual());
    set(&engine, 1, 400, clock.now());
    clock.advance(Duration::from_secs(1));
    set(&engine, 2, 60, clock.now());
    let mut handle = engine.handle();
    let pin =
        handle.get(&key(1), clock.now(), |view| view.pin()).flatten().expect("the item is stored");
    engine.change_classes(&[96, 640]).expect("the class table is valid");
    let steps_max = 10_000;
    let freed = (0..steps_max).any(|_| {
        engine.mover_step(64, clock.now());
        clock.advance(Duration::from_millis(20));
        retired_count(&engine, clock.now()) == 1
    });
    assert!(freed, "the class without pinned items drains");
    assert!(engine.mover_counters().aborted > 0, "the move of the page with the pin is given up");
    assert_eq!(pin.value_len(), 400);
    drop(pin);
    clock.advance(Duration::from_secs(10));
    let freed = (0..steps_max).any(|_| {
        engine.mover_step(64, clock.now());
        clock.advance(Duration::from_millis(20));
        retired_count(&engine, clock.now()) == 0
    });
    assert!(freed, "the other class drains after its item is unpinned");
    let now = clock.now();
    assert!(has(&engine, 1, 400, now) && has(&engine, 2, 60, now));
    engine.check();
}

#[test]
fn without_eviction_a_retired_class_keeps_its_items_until_memory_is_free() {
    let mut config = config(2);
    config.eviction_enabled = false;
    let engine = Engine::new(config).expect("the arena can be reserved");
    let clock = Clock::manual();
    let count = 2 * (PAGE_SIZE_BYTES / 512) as u32;
    (0..count).for_each(|number| set(&engine, number, 400, clock.now()));
    engine.change_classes(&[640]).expect("the class table is valid");
    for _ in 0..1_000 {
        engine.mover_step(64, clock.now());
        clock.advance(Duration::from_millis(20));
    }
    let now = clock.now();
    assert!((0..count).all(|number| has(&engine, number, 400, now)));
    engine.check();
    // The class can drain after these deletes have freed memory.
    (0..count - 10).for_each(|number| assert!(engine.handle().delete(&key(number), now)));
    for _ in 0..1_000 {
        engine.mover_step(64, clock.now());
        clock.advance(Duration::from_millis(20));
    }
    let now = clock.now();
    assert_eq!(retired_count(&engine, now), 0);
    assert!((count - 10..count).all(|number| has(&engine, number, 400, now)));
    engine.check();
}

#[test]
fn the_page_pool_gets_a_page_whose_receiver_was_retired_meanwhile() {
    let (engine, now) = (engine(8), Clock::manual().now());
    (0..100).for_each(|number| set(&engine, number, 60, now));
    set(&engine, 1_000, 400, now);
    engine
        .reassign(Some(ClassId(0)), Some(ClassId(1)), "test", now)
        .expect("the class has a page to move");
    assert_eq!(engine.mover_step(1, now), MoverStep::Working);
    engine.change_classes(&[128]).expect("the class table is valid");
    drain(&engine, now);
    assert!((0..100).all(|number| has(&engine, number, 60, now)));
    assert!(has(&engine, 1_000, 400, now));
    assert!(engine.class_stats(now).iter().all(|class| !class.retired));
}

#[test]
fn changes_are_refused_while_too_many_classes_drain_and_totals_never_decrease() {
    let engine = engine(256);
    let clock = Clock::manual();
    let now = clock.now();
    let mut sets_before = 0;
    let mut refused = None;
    for round in 0..200_usize {
        let sizes: Vec<usize> = (0..10).map(|index| 80 + 8 * (round % 30) + 300 * index).collect();
        match engine.change_classes(&sizes) {
            Ok(()) => {}
            Err(error) => {
                refused = Some(error);
                break;
            }
        }
        for (index, size) in sizes.iter().enumerate() {
            set(&engine, (round * 10 + index) as u32, size - 60, now);
        }
        let sets = engine.stats(now).total.sets;
        assert!(sets > sets_before, "the total of stores grows: {sets} after {sets_before}");
        sets_before = sets;
    }
    assert!(
        matches!(refused, Some(ClassChangeError::Draining { .. })),
        "a change must be refused because too many classes drain, but: {refused:?}"
    );
    drain(&engine, now);
    assert_eq!(engine.stats(now).total.sets, sets_before);
    engine
        .change_classes(&[72, 80])
        .expect("all retired classes have drained, so there are vacant numbers");
    assert_eq!(
        engine.stats(now).total.sets,
        sets_before,
        "a new class with the number of an earlier class does not change the totals"
    );
    let shown = engine.class_stats(now);
    let sets_of_new: u64 =
        shown.iter().filter(|class| !class.retired).map(|class| class.sets).sum();
    assert_eq!(sets_of_new, 0, "the counters of new classes start at zero");
    engine.check();
}
