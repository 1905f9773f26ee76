//! Tests of policies that consider costs, on caches whose items have costs and that carry out the plans.

use crate::PagePolicy;
use crate::testing::cache::{TestCache, zipf_key};
use slabwise_base::Random;
use slabwise_profile::ProfilerOptions;

/// The options of the profiler: it samples a quarter of the keys.
const PROFILER: ProfilerOptions =
    ProfilerOptions { keys_max: 25_000, rate_max: 0.25, half_life_references: 250_000 };

fn policy(text: &str) -> PagePolicy {
    PagePolicy::parse(text).expect("the text is valid")
}

/// Returns a cache of 100 pages of 16 KiB under the policy `text`, with two classes of almost equal chunk sizes.
fn cache(text: &str, costs: [u64; 2]) -> TestCache {
    let mut cache = TestCache::new(policy(text), &[240, 256], 100, 2_000, PROFILER);
    cache.costs = costs.to_vec();
    cache
}

/// Returns a generator of gets with Zipf distributions. Each class has its own 20,000 keys. `share` is the share of the
/// second class in the gets.
fn zipfs(seed: u64, share: f64) -> impl FnMut() -> (usize, u64) {
    let mut random = Random::new(seed);
    move || (usize::from(random.unit() < share), zipf_key(&mut random, 20_000))
}

/// Runs `gets` gets and returns their mean miss cost per get.
fn cost_of(cache: &mut TestCache, gets: u64, request: impl FnMut() -> (usize, u64)) -> f64 {
    let before = cache.cost;
    cache.run(gets, request);
    (cache.cost - before) as f64 / gets as f64
}

#[test]
fn of_two_classes_with_equal_loads_the_costlier_class_receives_more_pages() {
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
                "{name}, seed {seed}: miss cost per get {by_cost} with pages {pages:?}, \
                 for objective=miss_ratio {by_misses} with pages {even:?}"
            );
            assert!(even[0].abs_diff(even[1]) < 15, "equal loads have about equal pages: {found}");
            assert!(
                pages[1] > 80 && by_cost < 0.8 * by_misses,
                "the costlier class has over 80 pages: {found}"
            );
            assert_eq!(moves, 0, "{found}: no page moves under a steady workload");
        }
    }
}

#[test]
fn after_the_costs_are_swapped_the_other_class_has_more_pages() {
    for seed in 1..=2 {
        let mut cache = cache("marginal", [20, 400]);
        cache.run(700_000, zipfs(seed, 0.5));
        let before = cache.pages();
        cache.costs = vec![400, 20];
        cache.run(700_000, zipfs(seed + 10, 0.5));
        let after = cache.pages();
        assert!(before[1] > 75 && after[0] > 75, "seed {seed}: pages {before:?}, then {after:?}");
    }
}

#[test]
fn with_equal_costs_plans_for_cost_equal_plans_for_the_miss_ratio() {
    for (seed, cost) in [(1, 0), (2, 1), (3, 4_000_000_000)] {
        for name in ["marginal", "lama:curve=distance:period_gets=30000"] {
            let mut cache = cache(&format!("{name}:objective=cost"), [cost; 2]);
            cache.twin = Some(policy(&format!("{name}:objective=miss_ratio")));
            cache.run(300_000, zipfs(seed, 0.2));
            cache.run(300_000, zipfs(seed, 0.8));
            assert!(
                cache.moves > 20,
                "{name}, seed {seed}: over 20 pages move, not {}",
                cache.moves
            );
        }
    }
}

#[test]
fn a_class_without_costs_has_the_mean_cost() {
    for seed in 1..=2 {
        let pages = |costs| {
            let mut cache = cache("marginal", costs);
            cache.run(700_000, zipfs(seed, 0.4));
            cache.pages()
        };
        let (one_known, none_known) = (pages([400, 0]), pages([0, 0]));
        assert_eq!(one_known, none_known, "seed {seed}: one known cost changes no plan");
    }
}

#[test]
fn reserved_cost_moves_pages_to_the_costlier_class_after_the_hit_ratio_drops() {
    for seed in 1..=2 {
        // A second has 64 ticks of 100 gets, so an evaluation follows every 25,600 gets.
        let mut cache = TestCache::new(policy("reserved_cost"), &[240, 256], 100, 100, PROFILER);
        cache.costs = vec![20, 400];
        cache.run(500_000, zipfs(seed, 0.05));
        assert_eq!(cache.moves, 0, "seed {seed}: no page moves before the hit ratio drops");
        let before = cache.pages();
        cache.run(250_000, zipfs(seed + 10, 0.95));
        let (after, evaluations) = (cache.pages(), 250_000 / 25_600);
        let found =
            format!("seed {seed}: pages {before:?}, then {after:?} after {} moves", cache.moves);
        let is_limited = (1..=evaluations + 1).contains(&cache.moves);
        assert!(
            after[1] > before[1] && is_limited,
            "an evaluation moves at most one page: {found}"
        );
        // If the load shifts to the cheap class and the hit ratio drops, the costly class receives pages, too.
        let mut cache = TestCache::new(policy("reserved_cost"), &[240, 256], 100, 100, PROFILER);
        cache.costs = vec![20, 400];
        cache.run(500_000, zipfs(seed, 0.95));
        let before = cache.pages();
        cache.run(250_000, zipfs(seed + 10, 0.05));
        let after = cache.pages();
        assert!(
            cache.moves > 0 && after[1] > before[1],
            "seed {seed}: pages {before:?}, then {after:?}"
        );
    }
}
