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
//! `SLABWISE_SEED=n` runs only that seed. `SLABWISE_MODEL_SEEDS=n` sets the number of seeds.

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
use scenario::{Memory, Scenario};
use slabwise_base::random::mix;
use slabwise_base::{Clock, Expiry, Now, Random, Seconds};
use slabwise_engine::{Engine, ItemMeta, StoreMode, StoreOutcome};

const OPERATIONS_PER_SEED: usize = 2_000;
const SEEDS_DEFAULT: u64 = 20;

fn seeds() -> Vec<u64> {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
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
