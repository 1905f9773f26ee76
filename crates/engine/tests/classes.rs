//! The class table changes while the cache holds items: what is refused, where new items go, how retired
//! classes drain, and that nothing is lost but for want of memory.

use slabwise_base::{ClassId, Clock, Expiry, Now, Random};
use slabwise_engine::{
    ClassChangeError, ClassTable, ClassTableError, Engine, EngineConfig, ItemMeta, MoverKind,
    MoverStep, ReassignError, StoreMode, StoreOutcome,
};
use std::time::Duration;

const META: ItemMeta = ItemMeta { client_flags: 0, expiry: Expiry::NEVER, cost: None };
const PAGE_SIZE_BYTES: usize = 16 << 10;
const LARGEST: usize = 4096;

fn config(pages: u64) -> EngineConfig {
    let mut config = EngineConfig::new(pages * PAGE_SIZE_BYTES as u64);
    config.page_size_bytes = PAGE_SIZE_BYTES;
    config.classes =
        ClassTable::explicit(&[128, 512, LARGEST], PAGE_SIZE_BYTES).expect("a valid table");
    config.index_within_limit = false;
    config
}

fn engine(pages: u64) -> Engine {
    Engine::new(config(pages)).expect("the arena can be reserved")
}

fn key(number: u32) -> Vec<u8> {
    format!("key-{number:07}").into_bytes()
}

/// A value of its key's own.
fn value(number: u32, len: usize) -> Vec<u8> {
    let mut words = Random::new(u64::from(number));
    let words = std::iter::repeat_with(|| words.next_u64().to_le_bytes());
    words.flatten().take(len).collect()
}

fn set(engine: &Engine, number: u32, len: usize, now: Now) {
    let outcome = engine.handle().set(&key(number), &value(number, len), META, StoreMode::Set, now);
    assert!(matches!(outcome, StoreOutcome::Stored { .. }), "{number}: {outcome:?}");
}

/// Whether the item is there, whole.
fn has(engine: &Engine, number: u32, len: usize, now: Now) -> bool {
    let read = |view: slabwise_engine::ItemView<'_, '_>| view.value().flatten().copied().collect();
    let seen: Option<Vec<u8>> = engine.handle().get(&key(number), now, read);
    seen.is_some_and(|seen| {
        assert_eq!(seen, value(number, len), "key {number} shows another value");
        true
    })
}

fn ids(engine: &Engine) -> Vec<u8> {
    engine.class_table().ids().map(|id| id.0).collect()
}

fn retired(engine: &Engine, now: Now) -> usize {
    engine.class_stats(now).iter().filter(|class| class.retired).count()
}

/// Steps until the mover has nothing to do; panics if that does not come.
fn drain(engine: &Engine, now: Now) {
    let idle = (0..1_000_000).any(|_| engine.mover_step(64, now) == MoverStep::Idle);
    assert!(idle, "the mover does not come to rest");
    engine.check();
}

#[test]
fn what_is_no_table_is_refused_with_the_reason_and_changes_nothing() {
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
fn sizes_keep_their_numbers_and_the_largest_is_added() {
    let (engine, now) = (engine(8), Clock::manual().now());
    set(&engine, 1, 300, now);
    engine.change_classes(&[64, 512]).expect("a table");
    assert_eq!(engine.class_table().sizes(), [64, 512, LARGEST as u32]);
    assert_eq!(ids(&engine), [3, 1, 2]);
    engine.change_classes(&[64, 128, 256]).expect("a table");
    // 128 owned no page, so its number was vacant at once. 512 owns one and is retired: its number is its own
    // as long as it drains.
    assert_eq!(ids(&engine), [3, 0, 4, 2]);
    assert_eq!(retired(&engine, now), 1);
    // A size that comes back meanwhile finds its class.
    engine.change_classes(&[64, 512]).expect("a table");
    assert_eq!(ids(&engine), [3, 1, 2]);
    assert_eq!(retired(&engine, now), 0);
    assert!(has(&engine, 1, 300, now));
    engine.check();
}

#[test]
fn a_retired_class_takes_nothing_and_drains_without_loss_while_there_is_room() {
    let (engine, now) = (engine(64), Clock::manual().now());
    let lens = |number: u32| [60, 400, 3000, 9000][number as usize % 4];
    (0..80).for_each(|number| set(&engine, number, lens(number), now));
    let shown = engine.class_stats(now);
    let used: u64 = shown[..2].iter().map(|class| class.used_chunks).sum();
    engine.change_classes(&[104, 256, 448]).expect("a table");
    assert_eq!(retired(&engine, now), 2);
    (80..120).for_each(|number| set(&engine, number, lens(number), now));
    let classes = engine.class_stats(now);
    let left: u64 =
        classes.iter().filter(|class| class.retired).map(|class| class.used_chunks).sum();
    assert_eq!(left, used, "a retired class gets no new item");
    let sizes: Vec<usize> = classes.iter().map(|class| class.chunk_size_bytes).collect();
    assert!(sizes.is_sorted() && sizes.len() == 6, "both tables are shown by size: {sizes:?}");
    let old = ClassId(0);
    assert_eq!(engine.reassign(None, Some(old), "test", now), Err(ReassignError::BadClass));

    drain(&engine, now);
    assert_eq!(retired(&engine, now), 0);
    assert_eq!(engine.class_ids(), engine.class_table().ids().collect::<Vec<_>>());
    assert_eq!(engine.reassign(Some(old), None, "test", now), Err(ReassignError::BadClass));
    for number in 0..120 {
        assert!(has(&engine, number, lens(number), now), "key {number} is lost");
    }
    assert_eq!(engine.stats(now).total.counters.evicted, 0);
}

/// A full cache of one class, whose items were used one after the other.
fn full(pages: u64, mover: MoverKind) -> (Engine, Clock, u32) {
    let engine = Engine::new(EngineConfig { mover, ..config(pages) }).expect("it can be reserved");
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
fn a_full_cache_loses_its_coldest_only_and_never_takes_more_memory() {
    for mover in [MoverKind::WARM, MoverKind::STOCK, MoverKind::BASE, MoverKind::FAST] {
        let pages = 16;
        let (engine, clock, count) = full(pages, mover);
        let now = clock.now();
        // The same items in chunks that hold a fifth less of them.
        engine.change_classes(&[640]).expect("a table");
        let mut steps = 0;
        while engine.mover_step(16, now) != MoverStep::Idle {
            assert!(engine.page_stats().held <= pages, "{mover:?}: beyond the limit");
            steps += 1;
            assert!(steps < 100_000, "{mover:?}: it comes to rest");
        }
        engine.check();
        assert_eq!(retired(&engine, now), 0, "{mover:?}");
        let kept: Vec<u32> = (0..count).filter(|&number| has(&engine, number, 400, now)).collect();
        // What fits, less a page that is emptied before the next can be filled, and one half full.
        let fit = (pages as usize - 2) * (PAGE_SIZE_BYTES / 640);
        assert!(kept.len() >= fit, "{mover:?}: {} of {fit} are kept", kept.len());
        // Places are found near the ends of a queue only: some of the middle may go before their time.
        let hottest = count - fit as u32 / 2;
        let lost = (hottest..count).filter(|number| !kept.contains(number)).count();
        assert_eq!(lost, 0, "{mover:?}: hot items are carried");
    }
}

#[test]
fn an_upload_begun_under_the_old_table_is_published_and_carried_later() {
    let (engine, now) = (engine(8), Clock::manual().now());
    let mut handle = engine.handle();
    let mut upload = handle.reserve(&key(1), 400, META, now).expect("there is memory");
    upload.fill(&value(1, 400)[..100]);
    engine.change_classes(&[128, 640]).expect("a table");
    // It is in somebody's hand: the page waits for it.
    (0..10).for_each(|_| {
        engine.mover_step(64, now);
    });
    assert_eq!(retired(&engine, now), 1);
    upload.fill(&value(1, 400)[100..]);
    let outcome = handle.store(upload, StoreMode::Set, now);
    assert!(matches!(outcome, StoreOutcome::Stored { .. }), "{outcome:?}");
    drain(&engine, now);
    assert_eq!(retired(&engine, now), 0);
    assert!(has(&engine, 1, 400, now));
}

#[test]
fn a_page_that_cannot_be_emptied_is_given_up_and_others_go_on() {
    let (engine, clock) = (engine(16), Clock::manual());
    set(&engine, 1, 400, clock.now());
    clock.advance(Duration::from_secs(1));
    set(&engine, 2, 60, clock.now());
    let mut handle = engine.handle();
    let pin = handle.get(&key(1), clock.now(), |view| view.pin()).flatten().expect("a pin");
    engine.change_classes(&[96, 640]).expect("a table");
    let deadline = 10_000;
    let freed = (0..deadline).any(|_| {
        engine.mover_step(64, clock.now());
        clock.advance(Duration::from_millis(20));
        retired(&engine, clock.now()) == 1
    });
    assert!(freed, "the class that nobody holds drains");
    assert!(engine.mover_counters().aborted > 0, "the held page was given up");
    assert_eq!(pin.value_len(), 400);
    drop(pin);
    clock.advance(Duration::from_secs(10));
    let freed = (0..deadline).any(|_| {
        engine.mover_step(64, clock.now());
        clock.advance(Duration::from_millis(20));
        retired(&engine, clock.now()) == 0
    });
    assert!(freed, "and the other when it is let go");
    let now = clock.now();
    assert!(has(&engine, 1, 400, now) && has(&engine, 2, 60, now));
    engine.check();
}

#[test]
fn without_eviction_nothing_is_lost_and_what_finds_no_room_waits() {
    let mut config = config(2);
    config.eviction_enabled = false;
    let engine = Engine::new(config).expect("the arena can be reserved");
    let clock = Clock::manual();
    let count = 2 * (PAGE_SIZE_BYTES / 512) as u32;
    (0..count).for_each(|number| set(&engine, number, 400, clock.now()));
    engine.change_classes(&[640]).expect("a table");
    for _ in 0..1_000 {
        engine.mover_step(64, clock.now());
        clock.advance(Duration::from_millis(20));
    }
    let now = clock.now();
    assert!((0..count).all(|number| has(&engine, number, 400, now)));
    engine.check();
    // Room comes with deletes.
    (0..count - 10).for_each(|number| assert!(engine.handle().delete(&key(number), now)));
    for _ in 0..1_000 {
        engine.mover_step(64, clock.now());
        clock.advance(Duration::from_millis(20));
    }
    let now = clock.now();
    assert_eq!(retired(&engine, now), 0);
    assert!((count - 10..count).all(|number| has(&engine, number, 400, now)));
    engine.check();
}

#[test]
fn a_move_to_a_class_that_is_retired_meanwhile_ends_in_the_pool() {
    let (engine, now) = (engine(8), Clock::manual().now());
    (0..100).for_each(|number| set(&engine, number, 60, now));
    set(&engine, 1_000, 400, now);
    engine.reassign(Some(ClassId(0)), Some(ClassId(1)), "test", now).expect("it has a page");
    assert_eq!(engine.mover_step(1, now), MoverStep::Working);
    engine.change_classes(&[128]).expect("a table");
    drain(&engine, now);
    assert!((0..100).all(|number| has(&engine, number, 60, now)));
    assert!(has(&engine, 1_000, 400, now));
    assert!(engine.class_stats(now).iter().all(|class| !class.retired));
}

#[test]
fn too_many_changes_before_the_first_has_drained_are_refused_and_sums_never_fall() {
    let engine = engine(256);
    let clock = Clock::manual();
    let now = clock.now();
    let mut sets_before = 0;
    let mut refused = None;
    for turn in 0..200_usize {
        let sizes: Vec<usize> = (0..10).map(|index| 80 + 8 * (turn % 30) + 300 * index).collect();
        match engine.change_classes(&sizes) {
            Ok(()) => {}
            Err(error) => {
                refused = Some(error);
                break;
            }
        }
        for (index, size) in sizes.iter().enumerate() {
            set(&engine, (turn * 10 + index) as u32, size - 60, now);
        }
        let sets = engine.stats(now).total.sets;
        assert!(sets > sets_before, "sums rise: {sets} after {sets_before}");
        sets_before = sets;
    }
    assert!(matches!(refused, Some(ClassChangeError::Draining { .. })), "{refused:?}");
    drain(&engine, now);
    assert_eq!(engine.stats(now).total.sets, sets_before);
    engine.change_classes(&[72, 80]).expect("all have drained");
    assert_eq!(engine.stats(now).total.sets, sets_before, "also when numbers are used again");
    let shown = engine.class_stats(now);
    let of_new: u64 = shown.iter().filter(|class| !class.retired).map(|class| class.sets).sum();
    assert_eq!(of_new, 0, "new classes begin at zero");
    engine.check();
}
