//! Whole engines under orders that shuttle draws: the laws of the stress test, in thousands of schedules of
//! a few operations each.
//!
//! ```text
//!   clients   set, add, replace, cas, append, incr, get, delete, pin; small, large and chained values
//!   mover     moves pages, of every kind in turn; time passes where it asks for a rest
//!   table     changes the class table, in some tests                        all on one tiny engine
//! ```
//!
//! Between any two uses of a lock, a state word, a CAS value or the table of sizes another thread may run.
//! Which one, and what each thread does, follows from a seed. The schedulers are two: uniform at random, and
//! PCT, which runs the thread of the highest priority and changes priorities at a few points only
//! (S. Burckhardt et al., "A Randomized Scheduler with Probabilistic Guarantees of Finding Bugs", ASPLOS
//! 2010).
//!
//! When a test fails it prints its seed and the schedule that failed. To see that schedule again:
//!
//! ```text
//!   SLABWISE_SCHEDULE=<the printed string> RUSTFLAGS="--cfg shuttle" \
//!       cargo test -p slabwise-engine --release --test shuttle -- <the test's name>
//! ```
//!
//! `SLABWISE_SEED` sets the seed, `SLABWISE_SCHEDULES` how many schedules each scheduler draws for a test.
#![cfg(shuttle)]

#[path = "../stress/history.rs"]
mod history;
mod scene;
#[path = "../stress/values.rs"]
mod values;
#[path = "../stress/worker.rs"]
mod worker;
#[path = "../stress/world.rs"]
mod world;

use history::History;
use scene::{Memory, Scene, Seen, Table};
use shuttle::scheduler::{PctScheduler, RandomScheduler, ReplayScheduler, Scheduler};
use shuttle::{Config, Runner, thread};
use slabwise_base::{Clock, Expiry};
use slabwise_engine::{ItemMeta, MoverKind, StoreMode};
use std::sync::{Arc, Mutex};
use world::World;

/// The most clients.
pub(crate) const THREADS: usize = 3;
/// Few keys, so that clients meet.
pub(crate) const REGISTERS: u32 = 3;
pub(crate) const LOGS: u32 = 1;
pub(crate) const COUNTERS: u32 = 1;

const SEED_DEFAULT: u64 = 20_261_122;
const SCHEDULES_DEFAULT: usize = 1000;
const PRIORITY_CHANGES: usize = 4;
const STACK_SIZE_BYTES: usize = 256 << 10;
const META: ItemMeta = ItemMeta { client_flags: 0, expiry: Expiry::NEVER, cost: None };

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// How the schedules of a test came to be.
#[derive(PartialEq, Eq)]
enum Explored {
    /// Drawn, many of them.
    Drawn,
    /// One, given.
    Replayed,
}

/// Runs the model under schedules of both kinds, or under the one that is asked for.
fn explore(model: impl Fn() + Clone + Send + Sync + 'static) -> Explored {
    if let Ok(schedule) = std::env::var("SLABWISE_SCHEDULE") {
        run(ReplayScheduler::new_from_encoded(schedule.trim()), model);
        return Explored::Replayed;
    }
    let seed = number("SLABWISE_SEED").unwrap_or(SEED_DEFAULT);
    let schedules = number("SLABWISE_SCHEDULES").map_or(SCHEDULES_DEFAULT, |count| count as usize);
    println!("rerun with SLABWISE_SEED={seed} SLABWISE_SCHEDULES={schedules}");
    run(RandomScheduler::new_from_seed(seed, schedules), model.clone());
    run(PctScheduler::new_from_seed(seed, PRIORITY_CHANGES, schedules), model);
    Explored::Drawn
}

fn run(scheduler: impl Scheduler + 'static, model: impl Fn() + Send + Sync + 'static) {
    let mut config = Config::new();
    config.stack_size = STACK_SIZE_BYTES;
    config.silence_warnings = true;
    // What is dropped on the way out may find more laws broken, and a second panic would end the process.
    config.ungraceful_shutdown_config.immediately_return_on_panic = true;
    Runner::new(scheduler, config).run(model);
}

/// Plays scenes; where nothing of what they are about has happened in any of them, that is a failure, too.
fn play(mover: MoverKind, memory: Memory, table: Table) {
    let seen = Arc::new(Mutex::new(Seen::default()));
    let noted = Arc::clone(&seen);
    let explored = explore(move || {
        let seen = Scene::drawn(mover, memory, table).play();
        noted.lock().expect("never held by who fails").add(seen);
    });
    let seen = *seen.lock().expect("never held by who fails");
    println!("{seen:?}");
    if explored == Explored::Drawn {
        seen.check(memory, table);
    }
}

#[test]
fn shuttle_warm_moves_with_room_lose_nothing() {
    play(MoverKind::WARM, Memory::Ample, Table::Stays);
}

#[test]
fn shuttle_warm_moves_without_room_tell_no_lie() {
    play(MoverKind::WARM, Memory::Short, Table::Stays);
}

#[test]
fn shuttle_base_moves_tell_no_lie() {
    play(MoverKind::BASE, Memory::Short, Table::Stays);
}

#[test]
fn shuttle_fast_moves_tell_no_lie() {
    play(MoverKind::FAST, Memory::Short, Table::Stays);
}

#[test]
fn shuttle_stock_moves_tell_no_lie() {
    play(MoverKind::STOCK, Memory::Short, Table::Stays);
}

#[test]
fn shuttle_a_table_that_changes_with_room_loses_nothing() {
    play(MoverKind::WARM, Memory::Ample, Table::Changes);
}

#[test]
fn shuttle_a_table_that_changes_without_room_tells_no_lie() {
    play(MoverKind::WARM, Memory::Short, Table::Changes);
}

#[test]
fn shuttle_a_table_that_changes_while_base_moves_tells_no_lie() {
    play(MoverKind::BASE, Memory::Short, Table::Changes);
}

#[test]
fn shuttle_a_table_that_changes_while_fast_moves_tells_no_lie() {
    play(MoverKind::FAST, Memory::Short, Table::Changes);
}

#[test]
fn shuttle_a_table_that_changes_while_stock_moves_tells_no_lie() {
    play(MoverKind::STOCK, Memory::Short, Table::Changes);
}

/// The canary of the schedules: two clients that read, add one and store are not one after the other in all
/// of them.
#[test]
#[should_panic(expected = "an increment was lost")]
fn shuttle_canary_a_lost_update_is_found() {
    explore(|| {
        let (engine, now) =
            (scene::engine(MoverKind::WARM, Memory::Ample, 0), Clock::manual().now());
        engine.handle().set(b"n", &[0], META, StoreMode::Set, now);
        let increment = || {
            let mut handle = engine.handle();
            let read = handle.get(b"n", now, |view| view.value().flatten().next().copied());
            let count = read.flatten().expect("it is there");
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

/// The canary of the judges: a client that answers from what it read before its get began is found out.
#[test]
#[should_panic(expected = "law FRESH")]
fn shuttle_canary_a_stale_answer_is_found() {
    explore(|| {
        let engine = scene::engine(MoverKind::WARM, Memory::Ample, 0);
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
            let begun = history.get_begun(&world.stamps);
            let begin = values::parse_register(0, &value, &mut Vec::new());
            history.hit(&begun, begin, &world.stamps);
        });
    });
}
