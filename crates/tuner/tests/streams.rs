//! Tests of profiling: a stream of requests has the same curve with every get command. Dropped accesses do not move
//! hits to short stack distances.

use slabwise_base::{ClassId, Clock, Expiry, Moment, Random};
use slabwise_engine::{
    ClassTable, Engine, EngineConfig, GetOptions, Handle, ItemMeta, StoreMode, Vivify,
};
use slabwise_policy::{ClassProfile, PagePolicy};
use slabwise_profile::ProfilerOptions;
use slabwise_tuner::{
    MoveBudget, Profiling, ProfilingOptions, Tuner, TunerStep, WorkerTime, snapshot,
};
use std::sync::Arc;
use std::time::Duration;

const PAGE_SIZE_BYTES: usize = 16 << 10;
const META: ItemMeta = ItemMeta { client_flags: 0, expiry: Expiry::NEVER, cost: None };
const REQUEST: Duration = Duration::from_micros(10);
const REQUESTS: u64 = 24_000;
/// The number of keys: about twice the number of items that fit into the cache.
const KEYS: u64 = 1_500;

/// Options with which every key is sampled and no count decays.
const EVERYTHING: ProfilingOptions = ProfilingOptions {
    profiler: ProfilerOptions { keys_max: 100_000, rate_max: 1.0, half_life_references: u64::MAX },
    queue_len_max: 1_000,
    lowers_rate_if_full: false,
};

/// The command with which a client gets a key.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Command {
    /// `get`.
    Get,
    /// `gat`.
    GetAndTouch,
    /// `mg` with the flag `T`.
    MetaTouch,
    /// `mg` with the flag `N`: a get that misses creates an empty item, and then the client stores the value.
    Vivify,
    /// `get`, and before it an `mg` of another key with the flag `u`, which does not count as a use.
    Unmarked,
}

impl Command {
    /// Gets the key. Returns true if the key has an item with a value.
    fn get(self, handle: &mut Handle<'_>, key: &[u8], other: &[u8], clock: &Clock) -> bool {
        let (now, expiry) = (clock.now(), Expiry::NEVER);
        let touching = GetOptions { touch: Some(expiry), ..GetOptions::default() };
        let vivify = Some(Vivify { expiry, cas: None });
        let vivifying = GetOptions { vivify, ..GetOptions::default() };
        let unmarked = GetOptions { marks: false, ..GetOptions::default() };
        let mut get_with = |key: &[u8], options: &GetOptions| {
            let found = handle.get_with(key, options, now, |_, effects| !effects.is_new);
            found.expect("there is memory for a new item").unwrap_or(false)
        };
        match self {
            Command::MetaTouch => get_with(key, &touching),
            Command::Vivify => get_with(key, &vivifying),
            Command::Unmarked => {
                get_with(other, &unmarked);
                handle.get(key, now, |_| ()).is_some()
            }
            Command::Get => handle.get(key, now, |_| ()).is_some(),
            Command::GetAndTouch => {
                let found = handle.get_and_touch(key, expiry, now, |_| ());
                found.expect("there is memory for the item").is_some()
            }
        }
    }
}

/// Runs a stream of gets with a store after each miss, and steps the tuner every `requests_per_step` requests. Returns
/// the profile of the only class, the number of hits, and the number of dropped accesses.
fn profile(command: Command, requests_per_step: u64, seed: u64) -> (ClassProfile, u64, u64) {
    let mut config = EngineConfig::new(6 * PAGE_SIZE_BYTES as u64);
    config.page_size_bytes = PAGE_SIZE_BYTES;
    config.classes = ClassTable::explicit(&[128], PAGE_SIZE_BYTES).expect("the table is valid");
    config.index_within_limit = false;
    config.hash_seed = seed;
    let engine = Engine::new(config).expect("the arena can be reserved");
    let clock = Arc::new(Clock::manual());
    let profiling = Profiling::start(&engine, EVERYTHING, Arc::clone(&clock), clock.now());
    let budget = MoveBudget::default();
    let mut tuner = Tuner::new(PagePolicy::none(), budget, 1).with_profiling(profiling);
    let mut step = || {
        let at: Moment = clock.moment();
        let step = tuner.step(&engine, WorkerTime::default(), at);
        assert!(matches!(step, TunerStep::Idle { .. }), "no page moves: {step:?}");
    };
    let (mut handle, mut random) = (engine.handle(), Random::new(seed));
    let mut hits = 0;
    for number in 0..REQUESTS {
        let key = format!("k{}", random.below(KEYS));
        let other = format!("k{}", random.below(KEYS));
        if command.get(&mut handle, key.as_bytes(), other.as_bytes(), &clock) {
            hits += 1;
        } else {
            handle.set(key.as_bytes(), &[b'v'; 50], META, StoreMode::Set, clock.now());
        }
        clock.advance(REQUEST);
        if number % requests_per_step == 0 {
            step();
        }
    }
    // A second later, the tuner reports the size and the hits of the class to the profiler a last time.
    clock.advance(Duration::from_secs(1));
    step();
    step();
    let view = snapshot(&engine, clock.now());
    let profiling = tuner.profiling().expect("profiling is on");
    let dropped = profiling.stats().accesses_dropped;
    (profiling.profiles(&view).remove(0), hits, dropped)
}

/// Asserts that the curve is that of uniformly distributed keys: the hit ratio is the number of chunks divided by the
/// number of keys.
fn assert_is_uniform(profile: &ClassProfile, of: &str) {
    for chunks in (0..=KEYS).step_by(100) {
        let (found, expected) =
            (profile.curve.miss_ratio(chunks), 1.0 - chunks as f64 / KEYS as f64);
        assert!(
            (found - expected).abs() < 0.08,
            "{of}, {chunks} chunks: the miss ratio is about {expected}, not {found}"
        );
    }
}

#[test]
fn every_get_command_gives_the_same_curve() {
    for seed in 1..=2 {
        let (expected, hits, _) = profile(Command::Get, 100, seed);
        assert!(
            (REQUESTS / 4..REQUESTS).contains(&hits),
            "seed {seed}: at least a quarter of the requests hit, not {hits}"
        );
        assert_is_uniform(&expected, "get");
        let commands =
            [Command::GetAndTouch, Command::MetaTouch, Command::Vivify, Command::Unmarked];
        for command in commands {
            let (found, others_hits, dropped) = profile(command, 100, seed);
            assert_eq!(dropped, 0, "seed {seed}, {command:?}: no access is dropped");
            assert_eq!(
                found.curve, expected.curve,
                "seed {seed}, {command:?}: the curve is that of get"
            );
            // While a value replaces a vivified item, the key has two items, so another item is evicted earlier.
            if command != Command::Vivify {
                assert_eq!(
                    others_hits, hits,
                    "seed {seed}, {command:?}: the hits are those of get"
                );
                assert_eq!(
                    found.misses, expected.misses,
                    "seed {seed}, {command:?}: the misses are those of get"
                );
            }
        }
    }
}

#[test]
fn dropped_hits_are_not_counted_at_short_distances() {
    for seed in 1..=2 {
        let (profile, _, dropped) = profile(Command::Get, 4_000, seed);
        assert!(
            dropped > REQUESTS / 2,
            "seed {seed}: over half of the requests are dropped, not {dropped}"
        );
        // Only parts of the stream that are as long as the queue are profiled. These parts have all short stack
        // distances, but few of the long ones.
        let near = 1.0 - profile.curve.miss_ratio(100);
        assert!(
            near < 0.15,
            "seed {seed}: the hit ratio with 100 chunks is below 0.15, not {near}"
        );
    }
}

#[test]
fn psa_counts_misses_with_profiling_and_stores_without() {
    let seed = 4;
    let step = |is_profiled: bool| {
        let mut config = EngineConfig::new(6 * PAGE_SIZE_BYTES as u64);
        config.page_size_bytes = PAGE_SIZE_BYTES;
        config.classes =
            ClassTable::explicit(&[128, 1_024], PAGE_SIZE_BYTES).expect("the table is valid");
        config.index_within_limit = false;
        config.hash_seed = seed;
        let engine = Engine::new(config).expect("the arena can be reserved");
        let clock = Arc::new(Clock::manual());
        let policy = PagePolicy::parse("psa:misses=500").expect("the policy is valid");
        let mut tuner = Tuner::new(policy, MoveBudget::default(), 1);
        if is_profiled {
            let start = Profiling::start(&engine, EVERYTHING, Arc::clone(&clock), clock.now());
            tuner = tuner.with_profiling(start);
        }
        let mut handle = engine.handle();
        // Gets of small items miss, and then the items are stored. Large items are stored more often, without gets.
        for number in 0..4_000 {
            let now = clock.now();
            let small = format!("s{number}");
            handle.get(small.as_bytes(), now, |_| ());
            handle.set(small.as_bytes(), &[b'v'; 50], META, StoreMode::Set, now);
            for large in 0..3 {
                let large = format!("l{}", (3 * number + large) % 40);
                handle.set(large.as_bytes(), &[b'v'; 900], META, StoreMode::Set, now);
            }
            clock.advance(REQUEST * 50);
            tuner.step(&engine, WorkerTime::default(), clock.moment());
            if let Some((page_move, _)) = tuner.take_begun_moves().first() {
                return page_move.receiver;
            }
        }
        panic!("a page moves within 4,000 requests, but none did");
    };
    let [small, large] = [0, 1].map(ClassId);
    assert_eq!(step(false), Some(large), "the large class has the most stores");
    assert_eq!(step(true), Some(small), "the small class has all misses");
}
