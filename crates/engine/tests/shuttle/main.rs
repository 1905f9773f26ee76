//! Runs whole engines under the model checker shuttle, which draws the schedule of the threads. The invariants are
//! those of the stress test (`tests/stress/main.rs`). They are checked in thousands of schedules of a few operations
//! each.
//!
//! ```text
//!   threads on one tiny engine:
//!     clients   set, add, replace, cas, append, incr, get, delete, pin; small, large and chained values
//!     mover     moves pages with one kind of mover; advances the clock when the mover pauses
//!     table     changes the class table, in some tests
//! ```
//!
//! The schedule can switch to another thread before each access to a lock, a state word, a CAS value or the size map.
//! Switches and operations are drawn from a seed. Each test uses two schedulers. The first selects the next thread at
//! random. The second, PCT, runs the thread of the highest priority, and changes priorities at a few points only (S.
//! Burckhardt et al., "A Randomized Scheduler with Probabilistic Guarantees of Finding Bugs", ASPLOS 2010).
//!
//! A failed test prints its seed and its schedule. To replay that schedule:
//!
//! ```text
//!   SLABWISE_SCHEDULE=<the printed string> RUSTFLAGS="--cfg shuttle" \
//!       cargo test -p slabwise-engine --release --test shuttle -- <the test's name>
//! ```
//!
//! `SLABWISE_SEED` sets the seed. `SLABWISE_SCHEDULES` sets the number of schedules per scheduler and test.
#![cfg(shuttle)]

#[path = "../stress/history.rs"]
mod history;
mod scenario;
#[path = "../stress/values.rs"]
mod values;
#[path = "../stress/worker.rs"]
mod worker;
#[path = "../stress/world.rs"]
mod world;

use history::History;
use scenario::{Events, Memory, Scenario, Table};
use shuttle::scheduler::{PctScheduler, RandomScheduler, ReplayScheduler, Scheduler};
use shuttle::{Config, Runner, thread};
use slabwise_base::{Clock, Expiry};
use slabwise_engine::{ItemMeta, MoverKind, StoreMode};
use std::sync::{Arc, Mutex};
use world::World;

/// The largest number of client threads.
pub(crate) const THREADS: usize = 3;
/// The numbers of keys of each kind that `tests/stress/main.rs` defines. They are small, so that clients often use the
/// same key.
pub(crate) const REGISTERS: u32 = 3;
pub(crate) const LOGS: u32 = 1;
pub(crate) const COUNTERS: u32 = 1;

const SEED_DEFAULT: u64 = 20_261_122;
const SCHEDULES_DEFAULT: usize = 1000;
const PRIORITY_CHANGES: usize = 4;
const STACK_SIZE_BYTES: usize = 256 << 10;
const META: ItemMeta = ItemMeta { client_flags: 0, expiry: Expiry::NEVER, cost: None };

fn number_from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// The source of a test's schedules.
#[derive(PartialEq, Eq)]
enum ScheduleSource {
    /// The schedules were drawn from the seed.
    Drawn,
    /// One schedule was replayed, the one in `SLABWISE_SCHEDULE`.
    Replayed,
}

/// Runs `model` under drawn schedules of both schedulers. If `SLABWISE_SCHEDULE` is set, runs it under that schedule
/// only.
fn explore(model: impl Fn() + Clone + Send + Sync + 'static) -> ScheduleSource {
    if let Ok(schedule) = std::env::var("SLABWISE_SCHEDULE") {
        run(ReplayScheduler::new_from_encoded(schedule.trim()), model);
        return ScheduleSource::Replayed;
    }
    let seed = number_from_environment("SLABWISE_SEED").unwrap_or(SEED_DEFAULT);
    let schedules = number_from_environment("SLABWISE_SCHEDULES")
        .map_or(SCHEDULES_DEFAULT, |count| count as usize);
    println!("rerun with SLABWISE_SEED={seed} SLABWISE_SCHEDULES={schedules}");
    run(RandomScheduler::new_from_seed(seed, schedules), model.clone());
    run(PctScheduler::new_from_seed(seed, PRIORITY_CHANGES, schedules), model);
    ScheduleSource::Drawn
}

/// Runs `model` under the schedules of one scheduler.
fn run(scheduler: impl Scheduler + 'static, model: impl Fn() + Send + Sync + 'static) {
    let mut config = Config::new();
    config.stack_size = STACK_SIZE_BYTES;
    config.silence_warnings = true;
    // While the first panic unwinds, destructors may detect more broken invariants. A second panic would abort the
    // process, so the run ends at the first panic.
    config.ungraceful_shutdown_config.immediately_return_on_panic = true;
    Runner::new(scheduler, config).run(model);
}

/// Runs drawn scenarios. Panics if a scenario fails, or if the events under test occur in none of the scenarios.
fn run_scenarios(mover: MoverKind, memory: Memory, table: Table) {
    let events = Arc::new(Mutex::new(Events::default()));
    let noted = Arc::clone(&events);
    let explored = explore(move || {
        let events = Scenario::draw(mover, memory, table).run();
        noted.lock().expect("no thread has panicked while it held the lock").add(events);
    });
    let events = *events.lock().expect("no thread has panicked while it held the lock");
    println!("{events:?}");
    if explored == ScheduleSource::Drawn {
        events.check(memory, table);
    }
}

#[test]
fn shuttle_warm_moves_with_ample_memory_lose_nothing() {
    run_scenarios(MoverKind::WARM, Memory::Ample, Table::Stays);
}

#[test]
fn shuttle_warm_moves_with_short_memory_keep_the_invariants() {
    run_scenarios(MoverKind::WARM, Memory::Short, Table::Stays);
}

#[test]
fn shuttle_base_moves_keep_the_invariants() {
    run_scenarios(MoverKind::BASE, Memory::Short, Table::Stays);
}

#[test]
fn shuttle_base_next_moves_keep_the_invariants() {
    run_scenarios(MoverKind::BASE_NEXT, Memory::Short, Table::Stays);
}

#[test]
fn shuttle_fast_moves_keep_the_invariants() {
    run_scenarios(MoverKind::FAST, Memory::Short, Table::Stays);
}

#[test]
fn shuttle_stock_moves_keep_the_invariants() {
    run_scenarios(MoverKind::STOCK, Memory::Short, Table::Stays);
}

#[test]
fn shuttle_table_changes_with_ample_memory_lose_nothing() {
    run_scenarios(MoverKind::WARM, Memory::Ample, Table::Changes);
}

#[test]
fn shuttle_table_changes_with_short_memory_keep_the_invariants() {
    run_scenarios(MoverKind::WARM, Memory::Short, Table::Changes);
}

#[test]
fn shuttle_table_changes_during_base_moves_keep_the_invariants() {
    run_scenarios(MoverKind::BASE, Memory::Short, Table::Changes);
}

#[test]
fn shuttle_table_changes_during_fast_moves_keep_the_invariants() {
    run_scenarios(MoverKind::FAST, Memory::Short, Table::Changes);
}

#[test]
fn shuttle_table_changes_during_stock_moves_keep_the_invariants() {
    run_scenarios(MoverKind::STOCK, Memory::Short, Table::Changes);
}

/// A test of the schedulers. Two clients read a number, add one and store the result. In some schedule, the second
/// client must read the number before the first client stores, so that one increment is lost.
#[test]
#[should_panic(expected = "an increment was lost")]
fn shuttle_canary_a_lost_update_is_detected() {
    explore(|| {
        let (engine, now) =
            (scenario::engine(MoverKind::WARM, Memory::Ample, 0), Clock::manual().now());
        engine.handle().set(b"n", &[0], META, StoreMode::Set, now);
        let increment = || {
            let mut handle = engine.handle();
            let read = handle.get(b"n", now, |view| view.value().flatten().next().copied());
            let count = read.flatten().expect("the item is stored");
            handle.set(b"n", &[count + 1], META, StoreMode::Set, now);
        };
        thread::scope(|scope| {
            scope.spawn(increment);
            increment();
        });
        let read = engine.handle().get(b"n", now, |view| view.value().flatten().next().copied());
        assert_eq!(read.flatten(), Some(2), "an increment was lost");
    });
}

/// A test of the checks: they must detect a get that returns a value that was read before the get started.
#[test]
#[should_panic(expected = "invariant FRESH")]
fn shuttle_canary_a_stale_answer_is_detected() {
    explore(|| {
        let engine = scenario::engine(MoverKind::WARM, Memory::Ample, 0);
        let world = World::new(&engine, 8, false);
        let history: &History = &world.registers[0];
        let write = |writer| {
            let mut value = Vec::new();
            let begin = world.stamps.take();
            values::compose_register(0, writer, begin, 40, &mut value);
            engine.handle().set(b"register-0", &value, META, StoreMode::Set, world.clock.now());
            history.write_ended(begin, &world.stamps);
        };
        write(0);
        thread::scope(|scope| {
            scope.spawn(|| write(1));
            let mut value = Vec::new();
            let now = world.clock.now();
            engine.handle().get(b"register-0", now, |view| view.copy_value(&mut value));
            thread::yield_now();
            let started = history.get_started(&world.stamps);
            let begin = values::parse_register(0, &value, &mut Vec::new());
            history.hit(&started, begin, &world.stamps);
        });
    });
}
