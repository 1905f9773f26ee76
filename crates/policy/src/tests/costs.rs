//! Caches whose items have costs, under policies that consider costs; the caches carry out their plans.

use crate::PagePolicy;
use crate::testing::cache::{TestCache, zipf_key};
use slabwise_base::Random;
use slabwise_profile::ProfilerOptions;

/// A quarter of the keys is sampled.
const PROFILER: ProfilerOptions =
    ProfilerOptions { keys_max: 25_000, rate_max: 0.25, window_references: 250_000 };

fn policy(text: &str) -> PagePolicy {
    PagePolicy::parse(text).expect("the text is valid")
}

/// A cache of 100 pages of 16 KiB for two sizes that differ by a few bytes.
fn cache(text: &str, costs: [u64; 2]) -> TestCache {
    let mut cache = TestCache::new(policy(text), &[240, 256], 100, 2_000, PROFILER);
    cache.costs = costs.to_vec();
    cache
}

/// Gets with a Zipf distribution; `share` of them are of the second class. Each class has its own 20,000 keys.
fn zipfs(seed: u64, share: f64) -> impl FnMut() -> (usize, u64) {
    let mut random = Random::new(seed);
    move || (usize::from(random.unit() < share), zipf_key(&mut random, 20_000))
}

/// The cost of misses per get in the next `gets` gets.
fn cost_of(cache: &mut TestCache, gets: u64, request: impl FnMut() -> (usize, u64)) -> f64 {
    let before = cache.cost;
    cache.run(gets, request);
    (cache.cost - before) as f64 / gets as f64
}

#[test]
fn the_costly_class_of_two_equal_ones_gets_more_pages() {
    for seed in 1..=2 {
        let run = |text: &str| {
            let mut cache = cache(text, [20, 400]);
            cache.run(1_000_000, zipfs(seed, 0.5));
            let moves = cache.moves;
            let cost = cost_of(&mut cache, 200_000, zipfs(seed + 100, 0.5));
            (cost, cache.pages(), cache.moves - moves)
        };
        for name in ["marginal", "lama:curve=distance:period_gets=50000"] {
            let (by_misses, even, _) = run(&format!("{name}:objective=miss_ratio"));
            let (by_cost, pages, moves) = run(&format!("{name}:objective=cost"));
            let found = format!(
                "{name}, seed {seed}: {by_cost} with {pages:?}, by misses {by_misses} with {even:?}"
            );
            assert!(even[0].abs_diff(even[1]) < 15, "{found}");
            assert!(pages[1] > 80 && by_cost < 0.8 * by_misses, "{found}");
            assert_eq!(moves, 0, "{found}: pages move under a steady workload");
        }
    }
}

#[test]
fn adapts_to_changed_costs() {
    for seed in 1..=2 {
        let mut cache = cache("marginal", [20, 400]);
        cache.run(700_000, zipfs(seed, 0.5));
        let before = cache.pages();
        cache.costs = vec![400, 20];
        cache.run(700_000, zipfs(seed + 10, 0.5));
        let after = cache.pages();
        assert!(before[1] > 75 && after[0] > 75, "seed {seed}: {before:?}, then {after:?}");
    }
}

#[test]
fn without_cost_differences_plans_are_those_of_the_miss_ratio() {
    for (seed, cost) in [(1, 0), (2, 1), (3, 4_000_000_000)] {
        for name in ["marginal", "lama:curve=distance:period_gets=30000"] {
            let mut cache = cache(&format!("{name}:objective=cost"), [cost; 2]);
            cache.twin = Some(policy(&format!("{name}:objective=miss_ratio")));
            cache.run(300_000, zipfs(seed, 0.2));
            cache.run(300_000, zipfs(seed, 0.8));
            assert!(cache.moves > 20, "{name}, seed {seed}: only {} moves", cache.moves);
        }
    }
}

#[test]
fn a_class_without_costs_counts_as_the_mean() {
    for seed in 1..=2 {
        let pages = |costs| {
            let mut cache = cache("marginal", costs);
            cache.run(700_000, zipfs(seed, 0.4));
            cache.pages()
        };
        let (unknown, none) = (pages([400, 0]), pages([0, 0]));
        assert_eq!(unknown, none, "seed {seed}");
    }
}

#[test]
fn reserved_cost_moves_pages_to_the_costly_class_after_a_drop() {
    for seed in 1..=2 {
        // A second has 6,400 gets.
        let mut cache = TestCache::new(policy("reserved_cost"), &[240, 256], 100, 100, PROFILER);
        cache.costs = vec![20, 400];
        cache.run(500_000, zipfs(seed, 0.05));
        assert_eq!(cache.moves, 0, "seed {seed}: the hit ratio did not drop");
        let before = cache.pages();
        cache.run(250_000, zipfs(seed + 10, 0.95));
        let (after, evaluations) = (cache.pages(), 250_000 / 25_600);
        let found = format!("seed {seed}: {before:?}, then {after:?} by {} moves", cache.moves);
        assert!(after[1] > before[1] && (1..=evaluations + 1).contains(&cache.moves), "{found}");
        // If the hit ratio of the cheap class drops, the costly class receives a page, too.
        let mut cache = TestCache::new(policy("reserved_cost"), &[240, 256], 100, 100, PROFILER);
        cache.costs = vec![20, 400];
        cache.run(500_000, zipfs(seed, 0.95));
        let before = cache.pages();
        cache.run(250_000, zipfs(seed + 10, 0.05));
        let after = cache.pages();
        assert!(cache.moves > 0 && after[1] > before[1], "seed {seed}: {before:?}, then {after:?}");
    }
}
