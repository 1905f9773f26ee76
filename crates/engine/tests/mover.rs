//! The page mover: which page it takes, what it counts, what becomes of items that are held.

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
    pinned.expect("it is there")
}

#[test]
fn stock_takes_the_page_that_its_class_has_had_longest() {
    let engine = engine(4, &[128], MoverKind::STOCK);
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
fn what_stock_drops_counts_as_evicted_and_as_busy() {
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
fn stock_carries_an_item_that_is_held_and_waits_for_the_old_chunk() {
    let engine = engine(4, &[128], MoverKind::STOCK);
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

/// Steps until the move has ended, time passing as it asks for.
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

/// Pages of each class.
fn pages(engine: &Engine, now: Now) -> Vec<u64> {
    engine.class_stats(now).iter().map(|class| class.pages).collect()
}

#[test]
fn the_last_page_of_a_class_moves_and_the_class_goes_on() {
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
        assert_eq!(
            engine.stats(clock.now()).items,
            1,
            "{kind:?}: there was no room for the others"
        );
        engine.check();
        // The class has none to give, and takes one when it needs it.
        let again = engine.reassign(Some(victim), Some(receiver), "test", clock.now());
        assert_eq!(again, Err(ReassignError::NoSpare), "{kind:?}");
        store(&engine, 1_000, clock.now());
        assert!(holds(&engine, 1_000, clock.now()), "{kind:?}");
        assert_eq!(pages(&engine, clock.now()), [1, 1], "{kind:?}");
        engine.check();
    }
}

#[test]
fn the_last_page_of_a_class_costs_nothing_while_the_pool_has_another() {
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
fn a_class_that_is_empty_gives_its_pages_without_a_loss_and_has_none_after_that() {
    for kind in KINDS {
        let engine = engine(4, &[128, 1024], kind);
        let clock = Clock::manual();
        let now = clock.now();
        let unused = engine.reassign(Some(ClassId(1)), None, "test", now);
        assert_eq!(unused, Err(ReassignError::NoSpare), "{kind:?}: it never had a page");
        let none = engine.reassign(None, None, "test", now);
        assert_eq!(none, Err(ReassignError::NoSpare), "{kind:?}: no class has one");
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
fn a_move_that_pins_hold_up_for_ever_is_given_up_and_harms_nobody() {
    for kind in KINDS {
        let engine = engine(2, &[128], kind);
        let clock = Clock::manual();
        for number in 0..2 * PER_PAGE {
            store(&engine, number, clock.now());
        }
        // On every page, at its beginning and at its end.
        let held: Vec<_> = [0, PER_PAGE - 1, PER_PAGE, 2 * PER_PAGE - 1]
            .map(|number| pin(&engine, number, clock.now()))
            .into();
        engine.reassign(Some(ClassId(0)), None, "test", clock.now()).expect("a page to move");
        assert_eq!(finish(&engine, &clock), MoverStep::GivenUp, "{kind:?}");
        assert!(clock.nanos() < 70 * 1_000_000_000, "{kind:?}: within a minute or so");
        let record = *engine.move_log().last().expect("a record");
        assert_eq!(record.outcome, MoveOutcome::GivenUp, "{kind:?}");
        assert_eq!(pages(&engine, clock.now()), [2], "{kind:?}: the page is handed back");
        engine.check();
        // The class takes as many items as ever, for all that was dropped meanwhile.
        for number in 0..2 * PER_PAGE {
            store(&engine, 1_000 + number, clock.now());
        }
        assert_eq!(engine.stats(clock.now()).total.free_chunks, 0, "{kind:?}: every chunk serves");
        assert!(held.iter().all(|pinned| pinned.value().flatten().eq(b"value")), "{kind:?}");
        drop(held);
        engine.check();
        engine.reassign(Some(ClassId(0)), None, "test", clock.now()).expect("a page to move");
        clock.advance(Duration::from_secs(1));
        assert_eq!(finish(&engine, &clock), MoverStep::Done, "{kind:?}: nobody holds it");
        engine.check();
    }
}

#[test]
fn a_record_counts_its_own_move_alone_and_so_does_a_difference_of_readings() {
    let engine = engine(3, &[128], MoverKind::WARM);
    let now = Clock::manual().now();
    (0..3 * PER_PAGE).for_each(|number| store(&engine, number, now));
    for _ in 0..2 {
        // The second move begins with counters that the first has left.
        engine.reassign(None, None, "test", now).expect("a page to move");
        assert_eq!(engine.mover_step(PER_PAGE as usize / 2, now), MoverStep::Working);
        let earlier = engine.stats(now);
        while engine.mover_step(64, now) != MoverStep::Done {}
        let moved = engine.move_log().pop().expect("a move is recorded");
        let later = engine.stats(now).since(&earlier).mover;
        assert_eq!(later.moved, 1, "the move ended after the earlier reading: {later:?}");
        // The pool's page serves the class again.
        (3 * PER_PAGE..4 * PER_PAGE).for_each(|number| store(&engine, number, now));
        assert_eq!(moved.evicted, u64::from(PER_PAGE), "the class was full: {moved:?}");
        assert!(moved.rescued <= u64::from(PER_PAGE), "{moved:?}");
    }
    engine.check();
}
