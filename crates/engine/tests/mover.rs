//! The page mover: which page it moves, what it counts, and how it treats pinned items.

use slabwise_base::{ClassId, Clock, Expiry, Now};
use slabwise_engine::{
    Busy, ClassTable, Engine, EngineConfig, ItemMeta, MoveOutcome, MoverKind, MoverStep, Pinned,
    ReassignError, StoreMode, StoreOutcome,
};
use std::time::Duration;

const META: ItemMeta = ItemMeta { client_flags: 0, expiry: Expiry::NEVER, cost: None };
const PAGE_SIZE_BYTES: usize = 16 << 10;
const PER_PAGE: u32 = (PAGE_SIZE_BYTES / 128) as u32;
const KINDS: [MoverKind; 4] = [MoverKind::WARM, MoverKind::BASE, MoverKind::FAST, MoverKind::STOCK];

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
    pinned.expect("the item is stored")
}

#[test]
fn stock_moves_the_page_that_its_class_has_owned_longest() {
    let engine = engine(4, &[128], MoverKind::STOCK);
    let now = Clock::manual().now();
    for number in 0..3 * PER_PAGE {
        store(&engine, number, now);
    }
    // The class gives up its first page and gets it back, so its second page is now the oldest.
    for round in 0..3 {
        engine.reassign(None, None, "test", now).expect("a page to move");
        while engine.mover_step(64, now) != MoverStep::Done {}
        for number in 0..PER_PAGE {
            store(&engine, 1_000 * (round + 1) + number, now);
        }
        for number in 0..3 * PER_PAGE {
            let kept = number >= (round + 1) * PER_PAGE;
            assert_eq!(holds(&engine, number, now), kept, "item {number} after move {round}");
        }
    }
    engine.check();
}

#[test]
fn items_dropped_by_stock_count_as_evicted_and_as_busy() {
    let engine = engine(2, &[128], MoverKind::STOCK);
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
fn stock_copies_a_pinned_item_and_waits_for_the_old_chunk() {
    let engine = engine(4, &[128], MoverKind::STOCK);
    let clock = Clock::manual();
    let now = clock.now();
    for number in 0..PER_PAGE + 1 {
        store(&engine, number, now);
    }
    // The other page has as many free chunks as this page has pinned items.
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

    // A later reader pins the copy, which does not block the move.
    let late = pin(&engine, 0, now);
    assert!(held.iter().all(|pinned| pinned.value().flatten().eq(b"value")));
    drop(held);
    while engine.mover_step(64, now) != MoverStep::Done {}
    assert!(late.value().flatten().eq(b"value"));
    drop(late);
    engine.check();
}

/// Steps until the move ends, advancing the clock by each requested rest.
fn finish(engine: &Engine, clock: &Clock) -> MoverStep {
    for _ in 0..100_000 {
        match engine.mover_step(64, clock.now()) {
            MoverStep::Working => {}
            MoverStep::Rest(rest) => clock.advance(rest),
            ended => return ended,
        }
    }
    panic!("the move does not end");
}

/// Returns the number of pages of each class.
fn pages(engine: &Engine, now: Now) -> Vec<u64> {
    engine.class_stats(now).iter().map(|class| class.pages).collect()
}

#[test]
fn the_last_page_of_a_class_can_move() {
    for kind in KINDS {
        let engine = engine(2, &[128, 1024], kind);
        let clock = Clock::manual();
        for number in 0..PER_PAGE {
            store(&engine, number, clock.now());
        }
        let large = vec![7; 900];
        let outcome = engine.handle().set(b"large", &large, META, StoreMode::Set, clock.now());
        assert!(matches!(outcome, StoreOutcome::Stored { .. }), "{kind:?}: {outcome:?}");
        let (victim, receiver) = (ClassId(0), ClassId(1));
        engine.reassign(Some(victim), Some(receiver), "test", clock.now()).expect("its only page");
        assert_eq!(finish(&engine, &clock), MoverStep::Done, "{kind:?}");
        assert_eq!(pages(&engine, clock.now()), [0, 2], "{kind:?}");
        assert_eq!(engine.stats(clock.now()).items, 1, "{kind:?}: the other items do not fit");
        engine.check();
        // The class has no page to give, and gets one when it needs it.
        let again = engine.reassign(Some(victim), Some(receiver), "test", clock.now());
        assert_eq!(again, Err(ReassignError::NoSpare), "{kind:?}");
        store(&engine, 1_000, clock.now());
        assert!(holds(&engine, 1_000, clock.now()), "{kind:?}");
        assert_eq!(pages(&engine, clock.now()), [1, 1], "{kind:?}");
        engine.check();
    }
}

#[test]
fn the_last_page_moves_without_loss_while_pages_are_free() {
    let engine = engine(2, &[128, 1024], MoverKind::WARM);
    let clock = Clock::manual();
    for number in 0..PER_PAGE {
        store(&engine, number, clock.now());
    }
    engine
        .reassign(Some(ClassId(0)), Some(ClassId(1)), "test", clock.now())
        .expect("its only page");
    assert_eq!(finish(&engine, &clock), MoverStep::Done);
    assert_eq!(pages(&engine, clock.now()), [1, 1]);
    assert!((0..PER_PAGE).all(|number| holds(&engine, number, clock.now())));
    engine.check();
}

#[test]
fn an_empty_class_gives_up_all_its_pages() {
    for kind in KINDS {
        let engine = engine(4, &[128, 1024], kind);
        let clock = Clock::manual();
        let now = clock.now();
        let unused = engine.reassign(Some(ClassId(1)), None, "test", now);
        assert_eq!(unused, Err(ReassignError::NoSpare), "{kind:?}: the class never had a page");
        let none = engine.reassign(None, None, "test", now);
        assert_eq!(none, Err(ReassignError::NoSpare), "{kind:?}: no class has a page");
        for number in 0..2 * PER_PAGE {
            store(&engine, number, now);
        }
        for number in 0..2 * PER_PAGE {
            assert!(engine.handle().delete(&key(number), now));
        }
        for left in [1, 0] {
            engine.reassign(Some(ClassId(0)), None, "test", now).expect("an empty page");
            assert_eq!(finish(&engine, &clock), MoverStep::Done, "{kind:?}");
            assert_eq!(pages(&engine, now)[0], left, "{kind:?}");
            engine.check();
        }
        assert_eq!(engine.mover_counters().evicted, 0, "{kind:?}");
        let again = engine.reassign(Some(ClassId(0)), None, "test", now);
        assert_eq!(again, Err(ReassignError::NoSpare), "{kind:?}");
        store(&engine, 1_000, now);
        engine.check();
    }
}

#[test]
fn a_move_blocked_by_pins_is_given_up_without_harm() {
    for kind in KINDS {
        let engine = engine(2, &[128], kind);
        let clock = Clock::manual();
        for number in 0..2 * PER_PAGE {
            store(&engine, number, clock.now());
        }
        // Pins at the start and the end of every page.
        let held: Vec<_> = [0, PER_PAGE - 1, PER_PAGE, 2 * PER_PAGE - 1]
            .map(|number| pin(&engine, number, clock.now()))
            .into();
        engine.reassign(Some(ClassId(0)), None, "test", clock.now()).expect("a page to move");
        assert_eq!(finish(&engine, &clock), MoverStep::GivenUp, "{kind:?}");
        assert!(clock.nanos() < 70 * 1_000_000_000, "{kind:?}: after more than 70 s");
        let record = *engine.move_log().last().expect("a record");
        assert_eq!(record.outcome, MoveOutcome::GivenUp, "{kind:?}");
        assert_eq!(pages(&engine, clock.now()), [2], "{kind:?}: the page stays in its class");
        engine.check();
        // The class holds as many items as before, although the mover dropped some meanwhile.
        for number in 0..2 * PER_PAGE {
            store(&engine, 1_000 + number, clock.now());
        }
        assert_eq!(
            engine.stats(clock.now()).total.free_chunks,
            0,
            "{kind:?}: every chunk is usable"
        );
        assert!(held.iter().all(|pinned| pinned.value().flatten().eq(b"value")), "{kind:?}");
        drop(held);
        engine.check();
        engine.reassign(Some(ClassId(0)), None, "test", clock.now()).expect("a page to move");
        clock.advance(Duration::from_secs(1));
        assert_eq!(finish(&engine, &clock), MoverStep::Done, "{kind:?}: no pin blocks the move");
        engine.check();
    }
}

#[test]
fn a_move_record_and_a_difference_count_only_their_own_move() {
    let engine = engine(3, &[128], MoverKind::WARM);
    let now = Clock::manual().now();
    (0..3 * PER_PAGE).for_each(|number| store(&engine, number, now));
    for _ in 0..2 {
        // The counters already hold the first move when the second starts.
        engine.reassign(None, None, "test", now).expect("a page to move");
        assert_eq!(engine.mover_step(PER_PAGE as usize / 2, now), MoverStep::Working);
        let earlier = engine.stats(now);
        while engine.mover_step(64, now) != MoverStep::Done {}
        let moved = engine.move_log().pop().expect("a move is recorded");
        let later = engine.stats(now).since(&earlier).mover;
        assert_eq!(later.moved, 1, "the move ended after the earlier reading: {later:?}");
        // The class gets the page back from the pool.
        (3 * PER_PAGE..4 * PER_PAGE).for_each(|number| store(&engine, number, now));
        assert_eq!(moved.evicted, u64::from(PER_PAGE), "the class was full: {moved:?}");
        assert!(moved.rescued <= u64::from(PER_PAGE), "{moved:?}");
    }
    engine.check();
}
