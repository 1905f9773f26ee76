//! Four threads use one engine, and each thread checks every answer that it gets.
//!
//! There are three kinds of keys, and each kind has an invariant:
//!
//! - *Registers* are used by set, add, replace, cas, delete, get and pins. A hit returns one complete value of the key.
//!   No operation that ended before the get had replaced or removed this value (`history.rs` defines this exactly).
//! - *Logs* are used by append. A hit returns complete records, and the records of each writer have consecutive
//!   numbers. The last record of a writer is at least as new as the writer's last append that ended before the get.
//! - *Counters* are used by incr with a delta of one. A life of a counter is the time from its creation to its removal.
//!   The results of all increments during one life are 1, 2, 3, ..., each of them once.
//!
//! With ample memory, a lookup may miss only if an operation has removed the item. CAS values are unique over all
//! threads. The threads also move and evict pages, divide queues, record the accesses to pages, change the class table
//! and the eviction order, run the LRU maintainer and the crawler, and advance the clock. At the end, `Engine::check`
//! checks all invariants, and after all keys were deleted, no chunk is in use.
//!
//! `SLABWISE_STRESS_OPS` sets the number of operations per thread. `SLABWISE_SEED` sets the seed.

mod history;
mod values;
mod worker;
mod world;

use history::{History, Stamps};
use slabwise_base::Random;
use slabwise_engine::{
    ClassTable, Engine, EngineConfig, EvictionKind, MoverKind, MoverStep, SpareConfig,
};
use worker::Worker;
use world::World;

pub(crate) const THREADS: usize = 4;
pub(crate) const REGISTERS: u32 = 256;
pub(crate) const LOGS: u32 = 16;
pub(crate) const COUNTERS: u32 = 16;
const OPERATIONS_DEFAULT: usize = 60_000;

fn number_from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// Runs four threads on an engine and checks their findings. `short` is true if memory is short.
fn stress(mut config: EngineConfig, short: bool) {
    let seed = number_from_environment("SLABWISE_SEED").unwrap_or(20_261_121);
    println!("rerun with SLABWISE_SEED={seed} (the interleaving of threads still differs)");
    config.hash_seed = seed;
    let engine = Engine::new(config).expect("the arena fits the address space");
    let operations =
        number_from_environment("SLABWISE_STRESS_OPS").map_or(OPERATIONS_DEFAULT, |n| n as usize);
    let world = World::new(&engine, operations, short);
    let (findings, handles): (Vec<_>, Vec<_>) = std::thread::scope(|scope| {
        let world = &world;
        let threads: Vec<_> = (0..THREADS as u32)
            .map(|id| {
                let random = Random::new(seed.wrapping_add(u64::from(id)));
                scope.spawn(move || Worker::new(world, id, random).run())
            })
            .collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| match thread.join() {
            Ok(ended) => ended,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        threads.into_iter().map(join).unzip()
    });
    world.check_findings(&findings, seed);
    drop(handles);
    check_no_leak(&world);
}

/// Deletes every key and ends all moves. Then checks that no chunk is in use.
fn check_no_leak(world: &World<'_>) {
    world.delete_all(&mut world.engine.handle());
    let steps_max = 1_000_000;
    let is_idle = (0..steps_max).any(|_| match world.engine.mover_step(64, world.clock.now()) {
        MoverStep::Idle => true,
        MoverStep::Pause(pause) => {
            world.clock.advance(pause);
            false
        }
        MoverStep::Working | MoverStep::Done | MoverStep::GivenUp => false,
    });
    assert!(is_idle, "invariant MOVER-ENDS: the mover is not idle after {steps_max} steps");
    let stats = world.engine.stats(world.clock.now());
    assert_eq!(
        (stats.items, stats.total.used_chunks),
        (0, 0),
        "invariant NO-LEAK: without items, no chunk is in use"
    );
    world.engine.check();
}

#[test]
fn four_threads_with_ample_memory_lose_nothing() {
    let mut config = EngineConfig::new(256 << 20);
    config.page_size_bytes = 16 << 10;
    config.classes = ClassTable::default_for(config.page_size_bytes);
    config.spares = SpareConfig::for_workers(3);
    stress(config, false);
}

/// Returns a configuration with so little memory that items are evicted.
fn little_memory() -> EngineConfig {
    let mut config = EngineConfig::new(256 << 10);
    config.page_size_bytes = 4 << 10;
    config.classes = ClassTable::geometric(64, 1.6, 2048);
    config.spares = SpareConfig { holders_max: 4, memory_divisor: 2 };
    config
}

#[test]
fn four_threads_with_little_memory_keep_the_invariants() {
    stress(little_memory(), true);
}

#[test]
fn four_threads_without_eviction_keep_the_invariants() {
    stress(EngineConfig { eviction_enabled: false, ..little_memory() }, true);
}

#[test]
fn four_threads_with_page_moves_that_drop_items_keep_the_invariants() {
    stress(EngineConfig { mover: MoverKind::STOCK, ..little_memory() }, true);
}

#[test]
fn four_threads_with_divided_queues_keep_the_invariants() {
    stress(EngineConfig { eviction: EvictionKind::SplitLru, ..little_memory() }, true);
}

/// A test of the checks: they must detect a get that returns a value that a later write has replaced.
#[test]
#[should_panic(expected = "invariant FRESH")]
fn canary_a_stale_value_is_detected() {
    let (stamps, history) = (Stamps::new(16), History::default());
    let (old, unused) = (stamps.take(), stamps.take());
    history.write_ended(old, &stamps);
    let newer = stamps.take();
    history.write_ended(newer, &stamps);
    assert!(unused < newer, "stamps rise");
    let get = history.get_started(&stamps);
    history.hit(&get, old, &stamps);
}

#[test]
#[should_panic(expected = "invariant NO-LOSS")]
fn canary_a_loss_is_detected() {
    let (stamps, history) = (Stamps::new(16), History::default());
    history.write_ended(stamps.take(), &stamps);
    history.miss(&history.get_started(&stamps), false);
}

#[test]
#[should_panic(expected = "invariant WHOLE")]
fn canary_a_value_of_two_writes_is_detected() {
    let (mut value, mut other) = (Vec::new(), Vec::new());
    values::compose_register(1, 2, 3, 100, &mut value);
    values::compose_register(1, 2, 4, 100, &mut other);
    value[60..].copy_from_slice(&other[60..]);
    values::parse_register(1, &value, &mut other);
}
