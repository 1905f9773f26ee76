//! Compares the engine with a model. Random operations run on the engine, and the model, called the oracle, checks each
//! answer: a cache may lose items, but must not return wrong ones.
//!
//! ```text
//!   seed --> scenario: configuration, keys, weight of each operation
//!              |
//!              v
//!            driver --operation--> engine --answer--> oracle: is this answer permitted?
//! ```
//!
//! The file `oracle.rs` lists the permitted answers. A failed run prints its seed and its last operations.
//! `SLABWISE_SEED=n` runs only that seed. `SLABWISE_MODEL_SEEDS=n` sets the number of seeds. `SLABWISE_MODEL_MINUTES=n`
//! sets the virtual time of the long run of each eviction kind.

mod checks;
mod conditional;
mod driver;
mod held;
mod oracle;
mod pages;
mod restart;
mod scenario;
mod tables;

use driver::{Driver, RunState};
use oracle::{Marks, Oracle, Rules, Seen};
use scenario::{Memory, Operation, Scenario};
use slabwise_base::random::mix;
use slabwise_base::{Clock, Expiry, Now, Random, Seconds};
use slabwise_engine::{
    Engine, EvictionKind, ItemMeta, MoverCounters, MoverKind, StoreMode, StoreOutcome,
};

const OPERATIONS_PER_SEED: usize = 2_000;
const SEEDS_DEFAULT: u64 = 20;

/// Returns the number in an environment variable.
fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")))
}

fn seeds() -> Vec<u64> {
    match number("SLABWISE_SEED") {
        Some(seed) => vec![seed],
        None => (0..number("SLABWISE_MODEL_SEEDS").unwrap_or(SEEDS_DEFAULT)).collect(),
    }
}

fn run(memory: Memory, seed: u64) {
    // The test harness prints this only if the run fails.
    println!("{memory:?} seed {seed}: rerun with SLABWISE_SEED={seed}");
    let mut random = Random::new(mix(seed) ^ memory as u64);
    let scenario = Scenario::random(memory, &mut random);
    let engine = Engine::new(scenario.config.clone()).expect("the arena fits the address space");
    let mut driver = Driver::new(&engine, &scenario, RunState::new(&scenario, random));
    for _ in 0..OPERATIONS_PER_SEED {
        driver.step();
    }
    driver.finish();
}

#[test]
fn with_ample_memory_no_item_is_lost() {
    seeds().into_iter().for_each(|seed| run(Memory::Ample, seed));
}

#[test]
fn with_little_memory_no_wrong_item_is_returned() {
    seeds().into_iter().for_each(|seed| run(Memory::Short, seed));
}

#[test]
fn without_eviction_stores_are_refused_and_no_item_is_lost() {
    seeds().into_iter().for_each(|seed| run(Memory::Refusing, seed));
}

/// The virtual time of each long run, in minutes, unless `SLABWISE_MODEL_MINUTES` sets another one.
const MINUTES_DEFAULT: u64 = 10;

#[test]
fn caches_whose_pages_and_classes_change_stay_correct_for_a_long_time() {
    let minutes = number("SLABWISE_MODEL_MINUTES").unwrap_or(MINUTES_DEFAULT);
    let counters = EvictionKind::ALL.iter().map(|&kind| run_for(kind, minutes));
    let all: Vec<MoverCounters> = counters.collect();
    // In some of the caches a page has only one chunk, so their moves carry nothing.
    let kinds_with =
        |count: fn(&MoverCounters) -> u64| all.iter().filter(|it| count(it) > 0).count();
    let (carry, evict) = (kinds_with(MoverCounters::carried), kinds_with(|it| it.evicted));
    assert!(2 * carry > all.len() && 2 * evict > all.len(), "moves carry and evict: {all:?}");
}

/// Runs a cache with this eviction kind for some virtual time. Returns the counters of its mover.
fn run_for(kind: EvictionKind, minutes: u64) -> MoverCounters {
    const REQUIRED: [Operation; 5] = [
        Operation::Advance,
        Operation::ChangeClasses,
        Operation::Reassign,
        Operation::MoverStep,
        Operation::PlanMoves,
    ];
    let is_suitable = |scenario: &Scenario| {
        let has_all = REQUIRED.iter().all(|&operation| scenario.has(operation));
        let (has_keys, config) = (scenario.keys.len() >= 100, &scenario.config);
        has_all && has_keys && config.eviction == kind && config.mover == MoverKind::WARM
    };
    let (seed, scenario, random) = (number("SLABWISE_SEED").unwrap_or(0)..)
        .map(|seed| {
            let mut random = Random::new(mix(seed));
            (seed, Scenario::random(Memory::Short, &mut random), random)
        })
        .find(|(_, scenario, _)| is_suitable(scenario))
        .expect("some scenario is suitable");
    let variables = format!("SLABWISE_SEED={seed} SLABWISE_MODEL_MINUTES={minutes}");
    println!("{kind:?}: rerun with {variables}");
    let engine = Engine::new(scenario.config.clone()).expect("the arena fits the address space");
    let mut driver = Driver::new(&engine, &scenario, RunState::new(&scenario, random));
    let end = driver.now().seconds.0 + 60 * minutes as u32;
    let mut operations = 0_u64;
    while driver.now().seconds.0 < end {
        driver.step();
        operations += 1;
    }
    driver.finish();
    let counters = engine.mover_counters();
    println!("{operations} operations, {counters:?}");
    assert!(counters.moved > operations / 10_000, "pages move all the time: {counters:?}");
    counters
}

/// The rules of a cache with ample memory.
const STRICT: Rules =
    Rules { losses_allowed: false, out_of_memory_allowed: false, item_size_bytes_max: 1 << 20 };

/// Returns an oracle that has seen one store, with CAS value 1.
fn oracle_with(key: &[u8], value: &[u8], now: Now) -> Oracle {
    let mut oracle = Oracle::new(STRICT);
    let outcome = StoreOutcome::Stored { cas: 1, value_len: value.len() };
    oracle.store(key, value, ItemMeta::default(), StoreMode::Set.into(), outcome, now);
    oracle
}

/// Returns an answer with this value. All other fields match the store of `oracle_with`.
fn seen(value: &[u8]) -> Seen {
    let value = value.to_vec();
    let marks = Marks { stale: false, claimed: false };
    Seen {
        value,
        client_flags: 0,
        cost: None,
        expiry: Expiry::NEVER,
        cas: 1,
        fetched: false,
        marks,
    }
}

/// A test of the oracle: a run must fail if one value in the oracle is changed half way through.
#[test]
#[should_panic(expected = "invariant ")]
fn canary_a_wrong_model_is_detected() {
    let mut random = Random::new(1);
    let scenario = Scenario::random(Memory::Ample, &mut random);
    let engine = Engine::new(scenario.config.clone()).expect("the arena fits the address space");
    let mut driver = Driver::new(&engine, &scenario, RunState::new(&scenario, random));
    for _ in 0..OPERATIONS_PER_SEED / 2 {
        driver.step();
    }
    driver.corrupt_oracle();
    driver.finish();
}

#[test]
#[should_panic(expected = "invariant LAST-WRITE")]
fn canary_a_changed_byte_is_detected() {
    let now = Clock::manual().now();
    oracle_with(b"k", b"value", now).hit(b"k", &seen(b"valuf"), true);
}

#[test]
#[should_panic(expected = "invariant NO-LOSS")]
fn canary_a_loss_is_detected() {
    oracle_with(b"k", b"value", Clock::manual().now()).miss(b"k");
}

#[test]
#[should_panic(expected = "invariant NO-GHOSTS")]
fn canary_a_value_from_before_a_flush_is_detected() {
    let now = Clock::manual().now();
    let mut oracle = oracle_with(b"k", b"value", now);
    oracle.flush(Some(Seconds(now.seconds.0 + 1)), now);
    oracle.settle(Now { seconds: Seconds(now.seconds.0 + 1), ..now });
    oracle.hit(b"k", &seen(b"value"), true);
}

#[test]
#[should_panic(expected = "invariant CAS")]
fn canary_a_duplicate_cas_value_is_detected() {
    let now = Clock::manual().now();
    let mut oracle = oracle_with(b"k", b"value", now);
    let outcome = StoreOutcome::Stored { cas: 1, value_len: 5 };
    oracle.store(b"j", b"value", ItemMeta::default(), StoreMode::Set.into(), outcome, now);
}
