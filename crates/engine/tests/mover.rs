//! Tests of the page mover: the choice of the page, the counters, pinned items, and the last page of a class.

use slabwise_base::{ClassId, Clock, Expiry, Now, PageId, Seconds};
use slabwise_engine::{
    Busy, ClassTable, Engine, EngineConfig, ItemMeta, MoveOutcome, MoverKind, MoverStep, Pinned,
    ReassignError, StoreMode, StoreOutcome,
};
use std::time::Duration;

const META: ItemMeta = ItemMeta { client_flags: 0, expiry: Expiry::NEVER, cost: None };
const PAGE_SIZE_BYTES: usize = 16 << 10;
/// The number of chunks of 128 bytes on a page.
const PER_PAGE: u32 = (PAGE_SIZE_BYTES / 128) as u32;
const KINDS: [MoverKind; 5] =
    [MoverKind::WARM, MoverKind::BASE, MoverKind::BASE_NEXT, MoverKind::FAST, MoverKind::STOCK];

fn engine(pages: u64, chunk_sizes: &[usize], mover: MoverKind) -> Engine {
    let mut config = EngineConfig::new(pages * PAGE_SIZE_BYTES as u64);
    config.page_size_bytes = PAGE_SIZE_BYTES;
    config.classes =
        ClassTable::explicit(chunk_sizes, PAGE_SIZE_BYTES).expect("the class table is valid");
    config.index_within_limit = false;
    config.mover = mover;
    Engine::new(config).expect("the arena can be reserved")
}

fn store(engine: &Engine, number: u32, now: Now) {
    let outcome = engine.handle().set(&key(number), b"value", META, StoreMode::Set, now);
    assert!(
        matches!(outcome, StoreOutcome::Stored { .. }),
        "item {number} must be stored, but: {outcome:?}"
    );
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
fn stock_moves_the_page_that_the_victim_has_owned_longest() {
    let engine = engine(4, &[128], MoverKind::STOCK);
    let now = Clock::manual().now();
    for number in 0..3 * PER_PAGE {
        store(&engine, number, now);
    }
    // In each round the class loses the page that it has owned longest, and gets it back. So in the next round, the
    // page after that one is the page that the class has owned longest.
    for round in 0..3 {
        engine.reassign(None, None, "test", now).expect("the class has a page to move");
        while engine.mover_step(64, now) != MoverStep::Done {}
        for number in 0..PER_PAGE {
            store(&engine, 1_000 * (round + 1) + number, now);
        }
        for number in 0..3 * PER_PAGE {
            let kept = number >= (round + 1) * PER_PAGE;
            assert_eq!(
                holds(&engine, number, now),
                kept,
                "after move {round}, item {number} must be stored: {kept}"
            );
        }
    }
    engine.check();
}

#[test]
fn base_visits_a_busy_chunk_again_at_once_and_base_next_after_the_other_chunks() {
    for (kind, visits_before_the_last) in [
        (MoverKind::BASE, 2 * u64::from(PER_PAGE) - 1),
        (MoverKind::BASE_NEXT, u64::from(PER_PAGE)),
    ] {
        let engine = engine(2, &[128], kind);
        let now = Clock::manual().now();
        for number in 0..2 * PER_PAGE {
            store(&engine, number, now);
        }
        engine.reassign(None, None, "test", now).expect("the class has a page to move");
        // No chunk is free on the other page, so the mover unlinks every item of the page.
        while engine.mover_counters().unlinked < u64::from(PER_PAGE) {
            assert_ne!(engine.mover_step(1, now), MoverStep::Done, "{kind:?}");
        }
        assert_eq!(engine.mover_counters().visits, visits_before_the_last, "{kind:?}");
        while engine.mover_step(1, now) != MoverStep::Done {}
        assert_eq!(engine.mover_counters().visits, 2 * u64::from(PER_PAGE), "{kind:?}");
        engine.check();
    }
}

#[test]
fn items_that_leave_for_a_page_move_are_no_shortage_of_stores() {
    for mover in KINDS {
        for expires in [false, true] {
            let engine = engine(2, &[128], mover);
            let clock = Clock::manual();
            let expiry = if expires { Expiry::at(Seconds(10)) } else { Expiry::NEVER };
            for number in 0..PER_PAGE {
                let (key, meta) = (key(number), ItemMeta { expiry, ..META });
                engine.handle().set(&key, b"value", meta, StoreMode::Set, clock.now());
            }
            (PER_PAGE..2 * PER_PAGE).for_each(|number| store(&engine, number, clock.now()));
            clock.advance(Duration::from_secs(20));
            let now = clock.now();
            engine.reassign(None, None, "test", now).expect("the class has a page to move");
            while engine.mover_step(64, now) != MoverStep::Done {}
            let counters = engine.stats(now).total.counters;
            let is_counted = if expires { counters.reclaimed > 0 } else { counters.evicted > 0 };
            assert!(is_counted, "{mover:?}, expires: {expires}: {counters:?}");
            assert_eq!(engine.evictions_ever(), 0, "{mover:?}, expires: {expires}");
            engine.check();
        }
    }
}

#[test]
fn stock_counts_dropped_items_as_evictions_and_as_busy_chunks() {
    let engine = engine(2, &[128], MoverKind::STOCK);
    let now = Clock::manual().now();
    for number in 0..2 * PER_PAGE {
        store(&engine, number, now);
    }
    engine.reassign(None, None, "test", now).expect("the class has a page to move");
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
    // The first page has one pinned item less than it has chunks. The second page has a free chunk for each of these
    // items.
    assert!(engine.handle().delete(&key(PER_PAGE - 1), now));
    let held: Vec<_> = (0..PER_PAGE - 1).map(|number| pin(&engine, number, now)).collect();
    engine.reassign(None, None, "test", now).expect("the class has a page to move");
    let mut passes = 0;
    while passes < 10 {
        passes += u32::from(matches!(engine.mover_step(64, now), MoverStep::Pause(_)));
    }
    let mover = engine.stats(now).mover;
    assert_eq!((mover.moved, mover.last_busy), (0, Some(Busy::Unlinked)));
    assert_eq!((mover.rescued, mover.evicted), (u64::from(PER_PAGE) - 1, 0));
    assert!(
        (0..PER_PAGE - 1).all(|number| holds(&engine, number, now)),
        "all pinned items are still stored"
    );
    engine.check();

    // A later reader pins the copy, and this pin does not block the move.
    let late = pin(&engine, 0, now);
    assert!(
        held.iter().all(|pinned| pinned.value().flatten().eq(b"value")),
        "pinned items are unchanged"
    );
    drop(held);
    while engine.mover_step(64, now) != MoverStep::Done {}
    assert!(late.value().flatten().eq(b"value"), "the pinned copy is unchanged");
    drop(late);
    engine.check();
}

/// Runs the mover until the move ends, and advances the clock by each pause that the mover requests.
fn run_move(engine: &Engine, clock: &Clock) -> MoverStep {
    for _ in 0..100_000 {
        match engine.mover_step(64, clock.now()) {
            MoverStep::Working => {}
            MoverStep::Pause(pause) => clock.advance(pause),
            ended => return ended,
        }
    }
    panic!("the move has not ended after 100,000 steps");
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
        assert!(
            matches!(outcome, StoreOutcome::Stored { .. }),
            "{kind:?}: the item must be stored, but: {outcome:?}"
        );
        let (victim, receiver) = (ClassId(0), ClassId(1));
        engine
            .reassign(Some(victim), Some(receiver), "test", clock.now())
            .expect("the class has a page to move");
        assert_eq!(run_move(&engine, &clock), MoverStep::Done, "{kind:?}: the move succeeds");
        assert_eq!(pages(&engine, clock.now()), [0, 2], "{kind:?}: the receiver owns the page");
        assert_eq!(
            engine.stats(clock.now()).items,
            1,
            "{kind:?}: only the large item is left, because the other items have no page"
        );
        engine.check();
        // The victim now has no page that could be moved, but it gets a page at its next store.
        let again = engine.reassign(Some(victim), Some(receiver), "test", clock.now());
        assert_eq!(
            again,
            Err(ReassignError::NoMovablePage),
            "{kind:?}: the class has no page left"
        );
        store(&engine, 1_000, clock.now());
        assert!(holds(&engine, 1_000, clock.now()), "{kind:?}: the class stores items again");
        assert_eq!(pages(&engine, clock.now()), [1, 1], "{kind:?}: the class got a page back");
        engine.check();
    }
}

#[test]
fn the_last_page_of_a_class_moves_without_loss_if_a_page_is_free() {
    let engine = engine(2, &[128, 1024], MoverKind::WARM);
    let clock = Clock::manual();
    for number in 0..PER_PAGE {
        store(&engine, number, clock.now());
    }
    engine
        .reassign(Some(ClassId(0)), Some(ClassId(1)), "test", clock.now())
        .expect("the class has a page to move");
    assert_eq!(run_move(&engine, &clock), MoverStep::Done);
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
        assert_eq!(
            unused,
            Err(ReassignError::NoMovablePage),
            "{kind:?}: the class never had a page"
        );
        let none = engine.reassign(None, None, "test", now);
        assert_eq!(none, Err(ReassignError::NoMovablePage), "{kind:?}: no class has a page");
        for number in 0..2 * PER_PAGE {
            store(&engine, number, now);
        }
        for number in 0..2 * PER_PAGE {
            assert!(engine.handle().delete(&key(number), now));
        }
        for left in [1, 0] {
            engine
                .reassign(Some(ClassId(0)), None, "test", now)
                .expect("the class has an empty page");
            assert_eq!(run_move(&engine, &clock), MoverStep::Done, "{kind:?}: the move succeeds");
            assert_eq!(pages(&engine, now)[0], left, "{kind:?}: the class has one page less");
            engine.check();
        }
        assert_eq!(engine.mover_counters().evicted, 0, "{kind:?}: empty pages cause no evictions");
        let again = engine.reassign(Some(ClassId(0)), None, "test", now);
        assert_eq!(
            again,
            Err(ReassignError::NoMovablePage),
            "{kind:?}: the class has no page left"
        );
        store(&engine, 1_000, now);
        engine.check();
    }
}

#[test]
fn a_move_blocked_by_pins_is_given_up_and_its_page_stays_usable() {
    for kind in KINDS {
        let engine = engine(2, &[128], kind);
        let clock = Clock::manual();
        for number in 0..2 * PER_PAGE {
            store(&engine, number, clock.now());
        }
        // Pins the first and the last item of each page.
        let held: Vec<_> = [0, PER_PAGE - 1, PER_PAGE, 2 * PER_PAGE - 1]
            .map(|number| pin(&engine, number, clock.now()))
            .into();
        engine
            .reassign(Some(ClassId(0)), None, "test", clock.now())
            .expect("the class has a page to move");
        assert_eq!(
            run_move(&engine, &clock),
            MoverStep::GivenUp,
            "{kind:?}: the pins block the move"
        );
        assert!(
            clock.nanos() < 70 * 1_000_000_000,
            "{kind:?}: the move must be given up within 70 s"
        );
        let record = *engine.move_log().last().expect("the move has a record");
        assert_eq!(
            record.outcome,
            MoveOutcome::GivenUp,
            "{kind:?}: the record shows that the move was given up"
        );
        assert_eq!(pages(&engine, clock.now()), [2], "{kind:?}: the page stays in its class");
        engine.check();
        // The mover may have dropped some items, but the class can hold as many items as before.
        for number in 0..2 * PER_PAGE {
            store(&engine, 1_000 + number, clock.now());
        }
        assert_eq!(
            engine.stats(clock.now()).total.free_chunks,
            0,
            "{kind:?}: stores use every chunk of the class"
        );
        assert!(
            held.iter().all(|pinned| pinned.value().flatten().eq(b"value")),
            "{kind:?}: pinned items are unchanged"
        );
        drop(held);
        engine.check();
        engine
            .reassign(Some(ClassId(0)), None, "test", clock.now())
            .expect("the class has a page to move");
        clock.advance(Duration::from_secs(1));
        assert_eq!(
            run_move(&engine, &clock),
            MoverStep::Done,
            "{kind:?}: without pins, the move succeeds"
        );
        engine.check();
    }
}

#[test]
fn a_record_counts_one_move_and_a_difference_of_readings_the_moves_between_them() {
    let engine = engine(3, &[128], MoverKind::WARM);
    let now = Clock::manual().now();
    (0..3 * PER_PAGE).for_each(|number| store(&engine, number, now));
    for _ in 0..2 {
        // The second move starts when the counters already include the first move.
        engine.reassign(None, None, "test", now).expect("the class has a page to move");
        assert_eq!(engine.mover_step(PER_PAGE as usize / 2, now), MoverStep::Working);
        let earlier = engine.stats(now);
        while engine.mover_step(64, now) != MoverStep::Done {}
        let moved = engine.move_log().pop().expect("a move is recorded");
        let later = engine.stats(now).since(&earlier).mover;
        assert_eq!(later.moved, 1, "one move ended between the two readings: {later:?}");
        // The class gets the page back from the page pool.
        (3 * PER_PAGE..4 * PER_PAGE).for_each(|number| store(&engine, number, now));
        assert_eq!(
            moved.evicted,
            u64::from(PER_PAGE),
            "a move of a page of a full class evicts a page of items: {moved:?}"
        );
        assert!(
            moved.rescued <= u64::from(PER_PAGE),
            "at most a page of items is carried: {moved:?}"
        );
    }
    engine.check();
}

#[test]
fn evict_page_drops_all_items_of_a_named_page_and_no_other() {
    // The first class has two pages, and free chunks on neither. The other class owns one page.
    let engine = engine(3, &[128, 1024], MoverKind::WARM);
    let clock = Clock::manual();
    for number in 0..2 * PER_PAGE {
        store(&engine, number, clock.now());
    }
    engine.note_page_accesses(true, clock.now());
    clock.advance(Duration::from_secs(1));
    let hit = engine.handle().get(&key(2 * PER_PAGE - 1), clock.now(), |_| ());
    assert_eq!(hit, Some(()), "this get is an access of page 1");
    let owned = engine.owned_pages();
    let accessed = |id| {
        let page = owned.iter().find(|it| it.id == PageId(id)).and_then(|it| it.accessed_at);
        page.map(|at| at.0)
    };
    assert!(accessed(1) > accessed(0), "only page 1 was accessed later: {owned:?}");
    let (first, now) = (ClassId(0), clock.now());
    engine.evict_page(PageId(0), ClassId(1), "test", now).expect("the class owns the page");
    let again = engine.evict_page(PageId(1), ClassId(1), "test", now);
    assert_eq!(again, Err(ReassignError::Running));
    assert_eq!(run_move(&engine, &clock), MoverStep::Done);
    let kept = (0..2 * PER_PAGE).filter(|&it| holds(&engine, it, clock.now()));
    assert!(kept.eq(PER_PAGE..2 * PER_PAGE), "the items of page 1 are stored, and no others");
    assert_eq!(pages(&engine, clock.now())[..2], [1, 1]);
    let stats = engine.stats(clock.now());
    assert_eq!((stats.mover.evicted, stats.mover.rescued), (u64::from(PER_PAGE), 0));
    let moved = engine.owned_pages().into_iter().find(|it| it.id == PageId(0));
    assert_eq!(moved.map(|it| (it.class, it.accessed_at)), Some((ClassId(1), None)));
    // The receiver may be the owner: the page is emptied and stays.
    engine.evict_page(PageId(1), first, "test", clock.now()).expect("the class owns the page");
    assert_eq!(run_move(&engine, &clock), MoverStep::Done);
    assert_eq!(pages(&engine, clock.now())[..2], [1, 1]);
    assert!((0..2 * PER_PAGE).all(|number| !holds(&engine, number, clock.now())));
    let unowned = engine.evict_page(PageId(2), first, "test", clock.now());
    assert_eq!(unowned, Err(ReassignError::NoMovablePage));
    engine.check();
}
