//! Planned page moves, and the help of stores with them.

use slabwise_base::{ClassId, Clock};
use slabwise_engine::{
    ClassTable, Engine, EngineConfig, Handle, ItemMeta, MoverKind, PlannedMove, ReassignError,
    StoreMode,
};

const PAGE_SIZE_BYTES: usize = 16 << 10;
const PAGES: u64 = 16;
/// A small and a large class.
const SMALL: ClassId = ClassId(0);
const LARGE: ClassId = ClassId(1);
const CHUNK_SIZES: [usize; 2] = [128, 1024];

fn engine(mover: MoverKind) -> Engine {
    let mut config = EngineConfig::new(PAGES * PAGE_SIZE_BYTES as u64);
    config.page_size_bytes = PAGE_SIZE_BYTES;
    config.classes =
        ClassTable::explicit(&CHUNK_SIZES, PAGE_SIZE_BYTES).expect("the class table is valid");
    config.index_within_limit = false;
    config.mover = mover;
    Engine::new(config).expect("the arena can be reserved")
}

/// Stores `count` items with values of this length, under keys that begin with `first`.
fn store(handle: &mut Handle<'_>, clock: &Clock, first: u64, count: u64, value_len: usize) {
    let value = vec![7; value_len];
    for number in first..first + count {
        let key = number.to_le_bytes();
        handle.set(&key, &value, ItemMeta::default(), StoreMode::Set, clock.now());
    }
}

fn pages(engine: &Engine, clock: &Clock) -> [u64; 2] {
    let classes = engine.class_stats(clock.now());
    [SMALL, LARGE].map(|id| {
        let found = classes.iter().find(|class| class.class == Some(id));
        found.map_or(0, |class| class.pages)
    })
}

fn planned(count: usize) -> Vec<PlannedMove> {
    let to_large = PlannedMove { victim: SMALL, page: None, receiver: Some(LARGE), reason: "test" };
    vec![to_large; count]
}

/// Fills the memory with small items, and plans six moves to the large class. Returns the pages of both classes.
fn fill_and_plan(engine: &Engine, handle: &mut Handle<'_>, clock: &Clock) -> [u64; 2] {
    store(handle, clock, 0, 5_000, 50);
    let pages = pages(engine, clock);
    engine.plan_moves(planned(6));
    pages
}

#[test]
fn stores_in_the_receiver_carry_out_the_plan() {
    let (engine, clock) = (engine(MoverKind::WARM), Clock::manual());
    let mut handle = engine.handle();
    let [small, large] = fill_and_plan(&engine, &mut handle, &clock);
    // The first move begins with a step of the mover.
    engine.mover_step(1, clock.now());
    // Stores in the victim do not help.
    store(&mut handle, &clock, 10_000, 500, 50);
    assert_eq!(pages(&engine, &clock), [small, large]);
    let chunks_per_page = (PAGE_SIZE_BYTES / CHUNK_SIZES[0]) as u64;
    // Each store visits two chunks, and those that find a free chunk none.
    let stores = 6 * (chunks_per_page / 2 + (PAGE_SIZE_BYTES / CHUNK_SIZES[1]) as u64 + 8);
    store(&mut handle, &clock, 20_000, stores, 900);
    assert_eq!(pages(&engine, &clock), [small - 6, large + 6]);
    let begun = engine.take_begun_moves();
    assert_eq!(begun.len(), 6);
    assert!(begun.iter().all(|(_, outcome)| *outcome == Ok(())), "{begun:?}");
    engine.check();
}

#[test]
fn stores_do_not_help_published_movers_and_not_if_help_is_off() {
    for (mover, help) in [(MoverKind::BASE, 2.0), (MoverKind::WARM, 0.0)] {
        let (engine, clock) = (engine(mover), Clock::manual());
        let mut handle = engine.handle();
        engine.set_help_chunks(help);
        // Without a page of its own, a store would take one from the other class.
        store(&mut handle, &clock, 10_000, 20, 900);
        store(&mut handle, &clock, 0, 5_000, 50);
        engine.plan_moves(planned(1));
        engine.mover_step(1, clock.now());
        let before = engine.mover_counters().visits;
        store(&mut handle, &clock, 20_000, 1_000, 900);
        assert_eq!(engine.mover_counters().visits, before, "{}, {help} chunks", mover.name());
        engine.check();
    }
}

#[test]
fn a_new_plan_replaces_the_moves_that_have_not_begun() {
    let (engine, clock) = (engine(MoverKind::WARM), Clock::manual());
    let mut handle = engine.handle();
    let [small, large] = fill_and_plan(&engine, &mut handle, &clock);
    engine.mover_step(1, clock.now());
    let to_itself = PlannedMove { victim: LARGE, receiver: Some(LARGE), ..planned(1)[0] };
    engine.plan_moves(vec![to_itself]);
    while engine.mover_step(64, clock.now()) != slabwise_engine::MoverStep::Idle {}
    assert_eq!(pages(&engine, &clock), [small - 1, large + 1]);
    let outcomes: Vec<_> = engine.take_begun_moves().into_iter().map(|(_, it)| it).collect();
    assert_eq!(outcomes, [Ok(()), Err(ReassignError::SameClass)]);
}
