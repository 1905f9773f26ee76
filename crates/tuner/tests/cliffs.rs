//! Tests of the page policy `cliffhanger` with the eviction kind that divides queues, on a cache whose only class is on
//! a cliff of its hit curve.

use slabwise_base::{Clock, Expiry, Moment, Random};
use slabwise_engine::{ClassTable, Engine, EngineConfig, EvictionKind, ItemMeta, StoreMode};
use slabwise_policy::PagePolicy;
use slabwise_profile::ProfilerOptions;
use slabwise_tuner::{MoveBudget, Profiling, ProfilingOptions, Tuner, TunerStep, WorkerTime};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

const PAGE_SIZE_BYTES: usize = 16 << 10;
/// The cache has 2,048 chunks.
const PAGES: u64 = 16;
/// All gets have stack distances from the first to the second of these numbers, with a density that rises from 0. So
/// the hit ratio of an LRU of n chunks is the square of (n - 1,000) / 2,500.
const CLIFF: [f64; 2] = [1_000.0, 3_500.0];
const META: ItemMeta = ItemMeta { client_flags: 0, expiry: Expiry::NEVER, cost: None };

fn engine(eviction: EvictionKind, seed: u64) -> Engine {
    let mut config = EngineConfig::new(PAGES * PAGE_SIZE_BYTES as u64);
    config.page_size_bytes = PAGE_SIZE_BYTES;
    config.classes = ClassTable::explicit(&[128], PAGE_SIZE_BYTES).expect("the table is valid");
    config.index_within_limit = false;
    config.hash_seed = seed;
    config.eviction = eviction;
    Engine::new(config).expect("the arena can be reserved")
}

/// The requests of a client, whose keys are drawn by their stack distance.
struct Requests {
    /// All keys, the last used first.
    keys: VecDeque<u64>,
    random: Random,
}

impl Requests {
    fn next(&mut self) -> u64 {
        let [start, end] = CLIFF;
        let distance = start + (end - start) * self.random.unit().sqrt();
        let key = self.keys.remove(distance as usize).expect("there are more keys than distances");
        self.keys.push_front(key);
        key
    }
}

/// A cache with its tuner and its client.
struct Cache<'e> {
    engine: &'e Engine,
    tuner: Tuner,
    clock: Arc<Clock>,
    requests: Requests,
}

impl<'e> Cache<'e> {
    fn new(engine: &'e Engine, policy: &str, seed: u64) -> Cache<'e> {
        let clock = Arc::new(Clock::manual());
        let options = ProfilingOptions {
            profiler: ProfilerOptions {
                keys_max: 100_000,
                rate_max: 1.0,
                half_life_references: u64::MAX,
            },
            queue_len_max: 1_000,
            lowers_rate_if_full: false,
        };
        let profiling = Profiling::start(engine, options, Arc::clone(&clock), clock.now());
        let policy = PagePolicy::parse(policy).expect("the policy is valid");
        let budget = MoveBudget::default();
        let tuner = Tuner::new(policy, budget, 1).with_profiling(profiling);
        let requests = Requests { keys: (0..4_000).collect(), random: Random::new(seed) };
        Cache { engine, tuner, clock, requests }
    }

    /// Serves this many gets, each with a store after a miss. Returns the hit ratio.
    fn serve(&mut self, gets: u64) -> f64 {
        let (mut handle, mut hits) = (self.engine.handle(), 0);
        for number in 0..gets {
            self.clock.advance(Duration::from_micros(50));
            let (key, now) = (self.requests.next().to_le_bytes(), self.clock.now());
            if handle.get(&key, now, |_| ()).is_some() {
                hits += 1;
            } else {
                handle.set(&key, &[b'v'; 50], META, StoreMode::Set, now);
            }
            if number.is_multiple_of(200) {
                let at: Moment = self.clock.moment();
                let step = self.tuner.step(self.engine, WorkerTime::default(), at);
                assert!(matches!(step, TunerStep::Idle { .. }), "no page moves: {step:?}");
            }
        }
        hits as f64 / gets as f64
    }
}

#[test]
fn a_divided_class_has_the_hits_of_the_line_across_the_cliff() {
    let seed = 1;
    let hits = |eviction, policy| {
        let engine = engine(eviction, seed);
        let mut cache = Cache::new(&engine, policy, seed);
        cache.serve(400_000);
        let hits = cache.serve(100_000);
        engine.check();
        hits
    };
    let lru = hits(EvictionKind::Lru, "cliffhanger");
    assert!((0.15..0.21).contains(&lru), "seed {seed}: an LRU hits 17.6 %, not {lru}");
    let undivided = hits(EvictionKind::SplitLru, "cliffhanger:cliffs=off");
    assert!((undivided - lru).abs() < 0.01, "seed {seed}: {undivided} undivided, {lru} LRU");
    let divided = hits(EvictionKind::SplitLru, "cliffhanger");
    assert!(divided > 0.35, "seed {seed}: the line has 41.9 %, and the class {divided}");
}

#[test]
fn another_policy_joins_the_queues() {
    let seed = 3;
    let engine = engine(EvictionKind::SplitLru, seed);
    let mut cache = Cache::new(&engine, "cliffhanger", seed);
    cache.serve(400_000);
    assert!(cache.serve(50_000) > 0.35, "seed {seed}: the queue is divided");
    cache.tuner.set_policy(PagePolicy::none());
    cache.serve(50_000);
    let hits = cache.serve(50_000);
    assert!(hits < 0.21, "seed {seed}: the queue is an exact LRU again: {hits}");
}
