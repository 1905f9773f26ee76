//! Four threads on one engine, and every answer judged while they run.
//!
//! Three kinds of keys, each with its law:
//!
//! - *registers*: set, add, replace, cas, delete, get, pin. A hit shows one whole value of that key
//!   (never torn, never another key's), and one that no write, delete, flush or miss known before
//!   the get had already made an end of (`history.rs` says when that is).
//! - *logs*: append. A hit shows whole records; of each writer consecutive ones, the last of them
//!   no older than the last append that had ended before the get.
//! - *counters*: incr by one. No two increments of one life of a counter have the same result, and
//!   the results of a life are 1, 2, 3, ... without a gap.
//!
//! With ample memory a miss needs a removal to explain it. CAS values are unique over all threads.
//! Pages move, the class table changes, the maintainer and the crawler run, and time passes meanwhile; afterwards `check()`.
//!
//! `SLABWISE_STRESS_OPS` sets the operations of a thread, `SLABWISE_SEED` the seed.

mod history;
mod values;
mod worker;

use history::{History, Stamps};
use slabwise_base::{Clock, Random};
use slabwise_engine::{ClassTable, Engine, EngineConfig, MoverKind, MoverStep};
use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use worker::{Findings, Worker};

pub(crate) const THREADS: usize = 4;
pub(crate) const REGISTERS: u32 = 256;
pub(crate) const LOGS: u32 = 16;
pub(crate) const COUNTERS: u32 = 16;
const OPERATIONS_DEFAULT: usize = 60_000;
/// The most stamps that one operation takes (a flush takes one for each register).
const STAMPS_PER_OPERATION_MAX: usize = 4;

/// What all threads share.
pub(crate) struct World<'e> {
    pub engine: &'e Engine,
    pub clock: Clock,
    pub stamps: Stamps,
    pub registers: Vec<History>,
    /// Of each log and writer, how many of its records have been stored.
    pub appended: Vec<[AtomicU64; THREADS]>,
    /// Of each counter, how many lives were tried.
    pub lives: Vec<AtomicU64>,
    pub operations: usize,
    /// Whether memory is short: then items may be lost, are flushed, and pins are held.
    pub short: bool,
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

fn stress(mut config: EngineConfig, short: bool) {
    let seed = number("SLABWISE_SEED").unwrap_or(20_261_121);
    println!("rerun with SLABWISE_SEED={seed} (threads interleave anew each time)");
    config.hash_seed = seed;
    let engine = Engine::new(config).expect("the arena fits the address space");
    let operations = number("SLABWISE_STRESS_OPS").map_or(OPERATIONS_DEFAULT, |n| n as usize);
    let flush_stamps = operations / worker::FLUSH_EVERY * REGISTERS as usize;
    let final_stamps = 4 * REGISTERS as usize;
    let stamps_max =
        THREADS * (operations * STAMPS_PER_OPERATION_MAX + flush_stamps + final_stamps);
    let world = World {
        engine: &engine,
        clock: Clock::manual(),
        stamps: Stamps::new(stamps_max),
        registers: (0..REGISTERS).map(|_| History::default()).collect(),
        appended: (0..LOGS).map(|_| Default::default()).collect(),
        lives: (0..COUNTERS).map(|_| AtomicU64::new(0)).collect(),
        operations,
        short,
    };
    let findings = std::thread::scope(|scope| {
        let world = &world;
        let threads: Vec<_> = (0..THREADS as u32)
            .map(|id| {
                let random = Random::new(seed.wrapping_add(u64::from(id)));
                scope.spawn(move || Worker::new(world, id, random).run())
            })
            .collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, Findings>| match thread.join() {
            Ok(findings) => findings,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        threads.into_iter().map(join).collect::<Vec<_>>()
    });
    afterwards(&world, &findings, seed);
}

fn afterwards(world: &World<'_>, findings: &[Findings], seed: u64) {
    world.engine.check();
    let now = world.clock.now();
    let steps_max = 1_000_000;
    let ended = (0..steps_max).any(|_| world.engine.mover_step(64, now) != MoverStep::Working);
    assert!(ended, "law MOVER-ENDS: still working after {steps_max} steps with nothing held");
    world.engine.check();
    Worker::new(world, 0, Random::new(seed)).sweep();

    let mut cas: Vec<u64> = findings.iter().flat_map(|found| &found.cas).copied().collect();
    cas.sort_unstable();
    assert!(cas.windows(2).all(|pair| pair[0] != pair[1]), "law CAS: a value was given twice");

    let mut lives: HashMap<(u32, u64), Vec<u64>> = HashMap::new();
    for &result in findings.iter().flat_map(|found| &found.increments) {
        let (key, life, count) = values::split_counter(result);
        lives.entry((key, life)).or_default().push(count);
    }
    for ((key, life), mut counts) in lives {
        counts.sort_unstable();
        let expected: Vec<u64> = (1..=counts.len() as u64).collect();
        assert_eq!(counts, expected, "law COUNTED: counter {key}, life {life}");
    }
    world.engine.check();
}

#[test]
fn four_threads_with_ample_memory_lose_nothing() {
    let mut config = EngineConfig::new(256 << 20);
    config.page_size_bytes = 16 << 10;
    config.classes = ClassTable::default_for(config.page_size_bytes);
    stress(config, false);
}

fn little_memory() -> EngineConfig {
    let mut config = EngineConfig::new(256 << 10);
    config.page_size_bytes = 4 << 10;
    config.classes = ClassTable::geometric(64, 1.6, 2048);
    config
}

#[test]
fn four_threads_with_little_memory_see_no_lie() {
    stress(little_memory(), true);
}

#[test]
fn four_threads_whose_pages_move_at_a_loss_see_no_lie() {
    stress(EngineConfig { mover: MoverKind::Stock, ..little_memory() }, true);
}

/// The canary: a value that a later, ended write replaced must be found out.
#[test]
#[should_panic(expected = "law FRESH")]
fn canary_a_stale_value_is_noticed() {
    let (stamps, history) = (Stamps::new(16), History::default());
    let (old, new) = (stamps.take(), stamps.take());
    history.write_ended(old, &stamps);
    let newer = stamps.take();
    history.write_ended(newer, &stamps);
    assert!(new < newer, "stamps rise");
    let get = history.get_begun(&stamps);
    history.hit(&get, old, &stamps);
}

#[test]
#[should_panic(expected = "law NO-LOSS")]
fn canary_a_loss_is_noticed() {
    let (stamps, history) = (Stamps::new(16), History::default());
    history.write_ended(stamps.take(), &stamps);
    history.miss(&history.get_begun(&stamps), false);
}

#[test]
#[should_panic(expected = "law WHOLE")]
fn canary_a_torn_value_is_noticed() {
    let (mut value, mut other) = (Vec::new(), Vec::new());
    values::compose_register(1, 2, 3, 100, &mut value);
    values::compose_register(1, 2, 4, 100, &mut other);
    value[60..].copy_from_slice(&other[60..]);
    values::parse_register(1, &value, &mut other);
}
