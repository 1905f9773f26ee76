//! Tests on virtual time with items that have costs: the engine counts the costs, and policies move pages because of
//! them.

use slabwise_base::{Clock, Cost, Expiry, Random};
use slabwise_engine::{
    ClassTable, Engine, EngineConfig, EvictionKind, Handle, ItemMeta, StoreMode,
};
use slabwise_policy::PagePolicy;
use slabwise_tuner::{MoveBudget, Profiling, ProfilingOptions, Tuner, WorkerTime, snapshot};
use std::sync::Arc;
use std::time::Duration;

const PAGE_SIZE_BYTES: usize = 16 << 10;
const PAGES: u64 = 64;
/// The length of the values of each class, in bytes.
const VALUE_LENS: [usize; 2] = [170, 215];
/// The number of keys of each class.
const KEYS: u64 = 8_000;
/// The time between two requests.
const REQUEST: Duration = Duration::from_micros(100);
const REQUESTS_PER_STEP: u64 = 50;

/// The cost of the items of each class; `None` if the client supplies no cost.
type Costs = [Option<u32>; 2];

fn engine(eviction: EvictionKind, seed: u64) -> Engine {
    let mut config = EngineConfig::new(PAGES * PAGE_SIZE_BYTES as u64);
    config.page_size_bytes = PAGE_SIZE_BYTES;
    config.classes =
        ClassTable::explicit(&[232, 256], PAGE_SIZE_BYTES).expect("the table is valid");
    config.index_within_limit = false;
    config.hash_seed = seed;
    config.eviction = eviction;
    Engine::new(config).expect("the arena can be reserved")
}

fn store(handle: &mut Handle<'_>, key: &str, class: usize, costs: Costs, clock: &Clock) {
    let cost = costs[class].map(Cost::from_units);
    let meta = ItemMeta { client_flags: 0, expiry: Expiry::NEVER, cost };
    handle.set(key.as_bytes(), &vec![b'v'; VALUE_LENS[class]], meta, StoreMode::Set, clock.now());
}

/// The misses of each class in the last third of a run, and the pages of each class at the end of the run.
#[derive(Debug, PartialEq)]
struct Outcome {
    misses: [u64; 2],
    pages: Vec<u64>,
}

impl Outcome {
    /// Returns the cost of all counted misses.
    fn cost(&self, costs: [u64; 2]) -> u64 {
        self.misses[0] * costs[0] + self.misses[1] * costs[1]
    }
}

/// Gets keys of both classes in equal shares, with Zipf distributions, and stores a key after each miss. Only misses in
/// the last third of the requests count.
fn run(eviction: EvictionKind, policy: &str, costs: Costs, seed: u64) -> Outcome {
    const REQUESTS: u64 = 450_000;
    let engine = engine(eviction, seed);
    let clock = Arc::new(Clock::manual());
    let options = ProfilingOptions::within(1 << 20).expect("the memory is enough");
    let profiling = Profiling::start(&engine, options, Arc::clone(&clock), clock.now());
    let policy = PagePolicy::parse(policy).expect("the policy is valid");
    let budget = MoveBudget::default();
    let mut tuner = Tuner::new(policy, budget, seed).with_profiling(profiling);
    let (mut handle, mut random) = (engine.handle(), Random::new(seed));
    let mut misses = [0; 2];
    for number in 0..REQUESTS {
        let class = random.below(2) as usize;
        let rank = ((KEYS as f64 + 1.0).powf(random.unit()) - 1.0) as u64;
        let key = format!("{class}-{rank}");
        if handle.get(key.as_bytes(), clock.now(), |_| ()).is_none() {
            misses[class] += u64::from(number >= REQUESTS / 3 * 2);
            store(&mut handle, &key, class, costs, &clock);
        }
        clock.advance(REQUEST);
        if number % REQUESTS_PER_STEP == 0 {
            engine.maintain_step(1_000, clock.now());
            tuner.step(&engine, WorkerTime::default(), clock.moment());
        }
    }
    let pages = engine.class_stats(clock.now()).iter().map(|class| class.pages).collect();
    Outcome { misses, pages }
}

#[test]
fn a_snapshot_reports_client_supplied_costs() {
    let engine = engine(EvictionKind::Segmented, 1);
    let clock = Clock::manual();
    let mut handle = engine.handle();
    for (key, class, costs) in [
        ("a", 0, [Some(30), None]),
        ("b", 0, [None, None]),
        // The key exists, so this store does not count as an insertion.
        ("a", 0, [Some(50), None]),
        ("c", 1, [None, Some(7)]),
    ] {
        store(&mut handle, key, class, costs, &clock);
    }
    for key in ["a", "a", "b", "c", "d"] {
        handle.get(key.as_bytes(), clock.now(), |_| ());
    }
    let classes = snapshot(&engine, clock.now()).classes;
    let costs_of = |class: usize| {
        let class = &classes[class];
        let paid = (class.inserted, class.costs_known, class.cost_paid);
        (paid, class.cost_saved, class.cost_held)
    };
    assert_eq!([costs_of(0), costs_of(1)], [((2, 1, 30), 100, 50), ((1, 1, 7), 7, 7)]);
}

#[test]
fn with_the_cost_objective_the_costlier_class_has_more_pages() {
    for (seed, eviction) in [(1, EvictionKind::Segmented), (2, EvictionKind::CostBands)] {
        let run = |objective: &str| {
            run(eviction, &format!("marginal:objective={objective}"), [Some(20), Some(400)], seed)
        };
        let (by_cost, by_misses) = (run("cost"), run("miss_ratio"));
        let found = format!(
            "{eviction:?}, seed {seed}: {by_cost:?}, for objective=miss_ratio {by_misses:?}"
        );
        assert!(
            by_cost.pages[1] > by_misses.pages[1] + PAGES / 4,
            "the costlier class has more pages: {found}"
        );
        let costs = [20, 400];
        assert!(
            by_cost.cost(costs) * 10 < by_misses.cost(costs) * 8,
            "the miss cost falls by a fifth: {found}"
        );
    }
}

#[test]
fn with_eviction_by_density_the_costlier_class_has_more_pages() {
    let costs = [Some(20), Some(400)];
    let run = |costs| run(EvictionKind::Density, "space_time", costs, 1);
    let (known, unknown) = (run(costs), run([None, None]));
    let found = format!("{known:?}, without costs {unknown:?}");
    assert!(known.pages[1] > unknown.pages[1] + PAGES / 4, "more pages: {found}");
    assert!(
        known.cost([20, 400]) * 10 < unknown.cost([20, 400]) * 8,
        "the miss cost falls by a fifth: {found}"
    );
    let equal = |units| run([Some(units), Some(units)]);
    assert_eq!(equal(70), equal(700), "only the relative cost counts");
}

#[test]
fn equal_costs_do_not_change_misses_and_pages() {
    for (seed, costs) in [(1, [None, None]), (2, [Some(70), Some(70)])] {
        let (by_default, by_misses) = (
            run(EvictionKind::CostBands, "marginal", costs, seed),
            run(EvictionKind::Segmented, "marginal:objective=miss_ratio", costs, seed),
        );
        assert_eq!(by_default, by_misses, "seed {seed}, costs {costs:?}: both runs are equal");
    }
}
