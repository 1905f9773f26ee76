//! One stream of requests gives one curve, by whatever commands it comes, and where some of it is lost.

use slabwise_base::{ClassId, Clock, Expiry, Moment, Random};
use slabwise_engine::{
    ClassTable, Engine, EngineConfig, GetOptions, Handle, ItemMeta, StoreMode, Vivify,
};
use slabwise_policy::{ClassProfile, PagePolicy};
use slabwise_profile::ProfilerOptions;
use slabwise_tuner::{Load, MoveBudget, Profiling, ProfilingOptions, Tuner, TunerStep, snapshot};
use std::sync::Arc;
use std::time::Duration;

const PAGE_SIZE_BYTES: usize = 16 << 10;
const META: ItemMeta = ItemMeta { client_flags: 0, expiry: Expiry::NEVER, cost: None };
const REQUEST: Duration = Duration::from_micros(10);
const REQUESTS: u64 = 24_000;
/// Twice as many as fit.
const KEYS: u64 = 1_500;

/// Every key, and nothing fades.
const EVERYTHING: ProfilingOptions = ProfilingOptions {
    profiler: ProfilerOptions { keys_max: 100_000, rate_max: 1.0, window_references: u64::MAX },
    queue_len_max: 1_000,
    accesses_per_second_max: u64::MAX,
};

/// How a client gets.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Command {
    Get,
    /// `gat`.
    GetAndTouch,
    /// `mg T`.
    MetaTouch,
    /// `mg N`: whoever misses finds an empty item, and stores.
    Vivify,
    /// `get`, and before each an `mg u` of another key.
    Unmarked,
}

impl Command {
    /// Whether the key's item is there and full.
    fn get(self, handle: &mut Handle<'_>, key: &[u8], other: &[u8], clock: &Clock) -> bool {
        let (now, expiry) = (clock.now(), Expiry::NEVER);
        let touching = GetOptions { touch: Some(expiry), ..GetOptions::default() };
        let vivify = Some(Vivify { expiry, cas: None });
        let vivifying = GetOptions { vivify, ..GetOptions::default() };
        let unmarked = GetOptions { marks: false, ..GetOptions::default() };
        let mut get_with = |key: &[u8], options: &GetOptions| {
            let found = handle.get_with(key, options, now, |_, met| !met.is_new);
            found.expect("there is memory").unwrap_or(false)
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
                found.expect("there is memory").is_some()
            }
        }
    }
}

/// What is known of the class in which all items are, and of how many hits, after a stream of gets of which the
/// missing ones are followed by a store; the tuner is stepped every so many requests.
fn profile(command: Command, requests_per_step: u64, seed: u64) -> (ClassProfile, u64, u64) {
    let mut config = EngineConfig::new(6 * PAGE_SIZE_BYTES as u64);
    config.page_size_bytes = PAGE_SIZE_BYTES;
    config.classes = ClassTable::explicit(&[128], PAGE_SIZE_BYTES).expect("a valid table");
    config.index_within_limit = false;
    config.hash_seed = seed;
    let engine = Engine::new(config).expect("the arena can be reserved");
    let clock = Arc::new(Clock::manual());
    let profiling = Profiling::start(&engine, EVERYTHING, Arc::clone(&clock), clock.now());
    let budget = MoveBudget::for_pages_of(PAGE_SIZE_BYTES);
    let mut tuner = Tuner::new(PagePolicy::none(), budget, 1).with_profiling(profiling);
    let mut step = || {
        let at: Moment = clock.moment();
        let step = tuner.step(&engine, Load::Idle, at);
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
    // Time for a last look.
    clock.advance(Duration::from_secs(1));
    step();
    step();
    let view = snapshot(&engine, clock.now());
    let profiling = tuner.profiling().expect("it profiles");
    let dropped = profiling.stats().accesses_dropped;
    (profiling.profiles(&view).remove(0), hits, dropped)
}

/// Uniform references: in so many chunks their share of the keys hit, but for the first of each.
fn assert_is_uniform(profile: &ClassProfile, of: &str) {
    for chunks in (0..=KEYS).step_by(100) {
        let (found, expected) =
            (profile.curve.miss_ratio(chunks), 1.0 - chunks as f64 / KEYS as f64);
        assert!((found - expected).abs() < 0.08, "{of}, {chunks} chunks: {found} miss");
    }
}

#[test]
fn whatever_command_gets_the_curve_is_the_same() {
    for seed in 1..=2 {
        let (expected, hits, _) = profile(Command::Get, 100, seed);
        assert!((REQUESTS / 4..REQUESTS).contains(&hits), "seed {seed}: {hits} hits");
        assert_is_uniform(&expected, "get");
        let commands =
            [Command::GetAndTouch, Command::MetaTouch, Command::Vivify, Command::Unmarked];
        for command in commands {
            let (found, others_hits, dropped) = profile(command, 100, seed);
            assert_eq!(dropped, 0, "seed {seed}, {command:?}");
            assert_eq!(found.curve, expected.curve, "seed {seed}, {command:?}");
            // A key that is vivified has two items for a moment, so another is evicted earlier.
            if command != Command::Vivify {
                assert_eq!(others_hits, hits, "seed {seed}, {command:?}");
                assert_eq!(found.misses, expected.misses, "seed {seed}, {command:?}");
            }
        }
    }
}

#[test]
fn hits_that_were_dropped_are_not_taken_for_near_ones() {
    for seed in 1..=2 {
        let (profile, _, dropped) = profile(Command::Get, 4_000, seed);
        assert!(dropped > REQUESTS / 2, "seed {seed}: {dropped} dropped");
        // A queue's length of a stream at a time says little of long distances, and all of the near ones.
        let near = 1.0 - profile.curve.miss_ratio(100);
        assert!(near < 0.15, "seed {seed}: {near} hit in 100 chunks of {KEYS}");
    }
}

#[test]
fn psa_counts_misses_where_keys_are_profiled_and_stores_where_not() {
    let seed = 4;
    let step = |is_profiled: bool| {
        let mut config = EngineConfig::new(6 * PAGE_SIZE_BYTES as u64);
        config.page_size_bytes = PAGE_SIZE_BYTES;
        config.classes = ClassTable::explicit(&[128, 1_024], PAGE_SIZE_BYTES).expect("it is valid");
        config.index_within_limit = false;
        config.hash_seed = seed;
        let engine = Engine::new(config).expect("the arena can be reserved");
        let clock = Arc::new(Clock::manual());
        let policy = PagePolicy::parse("psa:misses=500").expect("it is well written");
        let mut tuner = Tuner::new(policy, MoveBudget::for_pages_of(PAGE_SIZE_BYTES), 1);
        if is_profiled {
            let start = Profiling::start(&engine, EVERYTHING, Arc::clone(&clock), clock.now());
            tuner = tuner.with_profiling(start);
        }
        let mut handle = engine.handle();
        // Small items are missed and stored; large ones are stored anew, more often, and never missed.
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
            if let TunerStep::Asked { page_move, .. } =
                tuner.step(&engine, Load::Idle, clock.moment())
            {
                return page_move.receiver;
            }
        }
        panic!("no page moves");
    };
    let [small, large] = [0, 1].map(ClassId);
    assert_eq!(step(false), Some(large), "it has most stores");
    assert_eq!(step(true), Some(small), "it has all misses");
}
