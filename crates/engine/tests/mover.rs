//! The page mover: which page it takes, what it counts, what becomes of items that are held.

use slabwise_base::{Clock, Expiry, Now};
use slabwise_engine::{
    Busy, ClassTable, Engine, EngineConfig, ItemMeta, MoverKind, MoverStep, Pinned, StoreMode,
    StoreOutcome,
};

const META: ItemMeta = ItemMeta { client_flags: 0, expiry: Expiry::NEVER };
const PAGE_SIZE_BYTES: usize = 16 << 10;
const PER_PAGE: u32 = (PAGE_SIZE_BYTES / 128) as u32;

fn engine(pages: u64, chunk_sizes: &[usize], mover: MoverKind) -> Engine {
    let mut config = EngineConfig::new(pages * PAGE_SIZE_BYTES as u64);
    config.page_size_bytes = PAGE_SIZE_BYTES;
    config.classes = ClassTable::explicit(chunk_sizes, PAGE_SIZE_BYTES).expect("a valid table");
    config.index_within_limit = false;
    config.mover = mover;
    Engine::new(config).expect("the arena can be reserved")
}

fn store(engine: &Engine, number: u32, now: Now) {
    let outcome = engine.handle().set(&key(number), b"value", META, StoreMode::Set, now);
    assert!(matches!(outcome, StoreOutcome::Stored { .. }), "item {number}: {outcome:?}");
}

fn key(number: u32) -> Vec<u8> {
    format!("k{number:07}").into_bytes()
}

fn holds(engine: &Engine, number: u32, now: Now) -> bool {
    engine.handle().peek(&key(number), now, |_| ()).is_some()
}

fn pin(engine: &Engine, number: u32, now: Now) -> Pinned<'_> {
    let pinned = engine.handle().peek(&key(number), now, |view| view.pin()).flatten();
    pinned.expect("it is there")
}

#[test]
fn base_takes_the_page_that_its_class_has_had_longest() {
    let engine = engine(4, &[128], MoverKind::Stock);
    let now = Clock::manual().now();
    for number in 0..3 * PER_PAGE {
        store(&engine, number, now);
    }
    // The class parts with its first page and takes it again, so that now its second is the oldest.
    for turn in 0..3 {
        engine.reassign(None, None, "test", now).expect("a page to move");
        while engine.mover_step(64, now) != MoverStep::Done {}
        for number in 0..PER_PAGE {
            store(&engine, 1_000 * (turn + 1) + number, now);
        }
        for number in 0..3 * PER_PAGE {
            let kept = number >= (turn + 1) * PER_PAGE;
            assert_eq!(holds(&engine, number, now), kept, "item {number} after move {turn}");
        }
    }
    engine.check();
}

#[test]
fn what_base_drops_counts_as_evicted_and_as_busy() {
    let engine = engine(2, &[128], MoverKind::Stock);
    let now = Clock::manual().now();
    for number in 0..2 * PER_PAGE {
        store(&engine, number, now);
    }
    engine.reassign(None, None, "test", now).expect("a page to move");
    while engine.mover_step(64, now) != MoverStep::Done {}
    let stats = engine.stats(now);
    assert_eq!(stats.total.counters.evicted, u64::from(PER_PAGE));
    assert_eq!(stats.mover.busy_without_room, u64::from(PER_PAGE));
    assert_eq!(stats.mover.last_busy, Some(Busy::NoRoom));
    engine.check();
}

#[test]
fn base_carries_an_item_that_is_held_and_waits_for_the_old_chunk() {
    let engine = engine(4, &[128], MoverKind::Stock);
    let clock = Clock::manual();
    let now = clock.now();
    for number in 0..PER_PAGE + 1 {
        store(&engine, number, now);
    }
    // As many chunks are free on the other page as items are held on this one.
    assert!(engine.handle().delete(&key(PER_PAGE - 1), now));
    let held: Vec<_> = (0..PER_PAGE - 1).map(|number| pin(&engine, number, now)).collect();
    engine.reassign(None, None, "test", now).expect("a page to move");
    let mut passes = 0;
    while passes < 10 {
        passes += u32::from(matches!(engine.mover_step(64, now), MoverStep::Rest(_)));
    }
    let mover = engine.stats(now).mover;
    assert_eq!((mover.moved, mover.last_busy), (0, Some(Busy::Unlinked)));
    assert_eq!((mover.rescued, mover.evicted), (u64::from(PER_PAGE) - 1, 0));
    assert!((0..PER_PAGE - 1).all(|number| holds(&engine, number, now)), "nothing is lost");
    engine.check();

    // Who comes now pins the copy, which is in nobody's way.
    let late = pin(&engine, 0, now);
    assert!(held.iter().all(|pinned| pinned.value().flatten().eq(b"value")));
    drop(held);
    while engine.mover_step(64, now) != MoverStep::Done {}
    assert!(late.value().flatten().eq(b"value"));
    drop(late);
    engine.check();
}
