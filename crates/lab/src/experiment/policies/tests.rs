//! Runs experiments that compare page policies, at a small scale.

use super::PoliciesSetup;
use super::setup::Variant;
use crate::experiment::{Experiment, Job};
use crate::registry;
use crate::result::{Outcome, Row, Series, Spec};
use crate::trial::visits::VisitTime;
use slabwise_policy::PagePolicy;

const SEED: u64 = 7;
/// The experiments whose set-up is a [`PoliciesSetup`].
const FILES: [&str; 8] = [
    "toy",
    "etc-steady",
    "etc-settled",
    "etc-sweeps",
    "etc-memory-sweep",
    "three-phase",
    "time-varying",
    "multi-tenant",
];

fn setup(name: &str) -> (Spec, PoliciesSetup) {
    registry::parsed(name)
}

/// Runs an experiment with given times of visits, so that the seed determines the result.
fn outcome(spec: &Spec, setup: &PoliciesSetup, scale: f64) -> Outcome {
    let visits = ["base=200", "fast=400", "warm=300"];
    let visits = visits.map(|time| time.parse::<VisitTime>().expect("the time is valid"));
    let job = Job { visits: visits.into_iter().collect(), ..Job::of(spec, scale, SEED) };
    let outcome = setup.run(&job);
    outcome.unwrap_or_else(|error| panic!("{error}"))
}

/// Returns our value of a measure and a variant. Panics if there is none.
fn found(outcome: &Outcome, measure: &str, variant: &str) -> f64 {
    let is_match = |row: &&Row| row.measure == measure && row.variant == variant;
    let row = outcome.rows.iter().find(is_match);
    let row = row.unwrap_or_else(|| panic!("the outcome has a row for {measure}, {variant}"));
    row.ours.unwrap_or_else(|| panic!("{measure}, {variant} has a value, not: {:?}", row.note))
}

/// Removes all variants except `names`, and all comparisons with removed variants.
fn retain_variants(setup: &mut PoliciesSetup, names: &[&str]) {
    setup.variants.retain(|variant| names.contains(&variant.name.as_str()));
    let is_kept = |name: &String| names.contains(&name.as_str()) || name == "bound";
    setup.against.retain(|pair| pair.iter().all(is_kept));
    setup.rank_among.retain(is_kept);
}

#[test]
fn the_experiment_toy_has_the_published_hits() {
    let (spec, setup) = setup("toy");
    let outcome = outcome(&spec, &setup, 1.0);
    assert_eq!(found(&outcome, "hits", "none"), 0.0, "{}", outcome.text());
    assert_eq!(found(&outcome, "hits", "best"), 6.0, "{}", outcome.text());
    let checked = spec.check_scale(0.5);
    assert!(checked.is_err_and(|error| error.to_string().contains("runs only at scale 1")));
}

/// Checks all policies, and oracle allocations, both with an empty and with a full cache at the start.
#[test]
fn no_variant_has_fewer_misses_than_the_bound_and_the_oracle_has_about_the_same() {
    const SCALE: f64 = 0.01;
    let (spec, setup) = setup("etc-steady");
    for name in PagePolicy::NAMES {
        let is_match = |variant: &Variant| variant.policy.as_deref() == Some(name);
        assert!(
            setup.variants.iter().any(is_match),
            "experiments/etc-steady.toml has the policy {name}"
        );
    }
    let outcome = outcome(&spec, &setup, SCALE);
    let text = outcome.text();
    let steady = |variant: &str| found(&outcome, "steady_miss_ratio", variant);
    // The response time of the bound is computed with the mean value length of each class. A run uses the value length
    // of each miss, so its response time can be slightly lower.
    let time = |variant: &str| found(&outcome, "steady_response_time", variant);
    for Variant { name, .. } in &setup.variants {
        assert!(steady(name) > steady("bound") * (1.0 - 1e-9), "{name}, seed {SEED}: {text}");
        assert!(time(name) > time("bound") * 0.998, "{name}, seed {SEED}: {text}");
    }
    assert!(steady("best") < steady("bound") * 1.001, "seed {SEED}: {text}");
    assert!(found(&outcome, "potential_reached", "lama against none") > 80.0, "{text}");
    assert!(time("lama") < time("none"), "seed {SEED}: {text}");
}

#[test]
fn tail_age_gains_only_if_the_cache_starts_with_longer_values() {
    let (spec, mut setup) = setup("etc-steady");
    retain_variants(&mut setup, &["none", "tail_age", "none, from empty", "tail_age, from empty"]);
    let outcome = outcome(&spec, &setup, 0.01);
    let (text, fewer) = (outcome.text(), |pair| found(&outcome, "fewer_misses", pair));
    assert!(fewer("tail_age against none") > 5.0, "seed {SEED}: {text}");
    // If an empty cache is filled by a stream that does not change, all classes have the same tail age, and the policy
    // moves no pages.
    let from_empty = fewer("tail_age, from empty against none, from empty");
    assert!(from_empty.abs() < 2.0, "seed {SEED}: {text}");
    assert_eq!(found(&outcome, "pages_moved_steady", "none"), 0.0, "{text}");
    let pages = |measure| found(&outcome, measure, "tail_age");
    assert!(pages("pages_moved_steady") < pages("pages_moved"), "{text}");
}

/// The slides start from an empty cache.
#[test]
fn published_values_of_etc_are_compared_with_variants_that_start_from_an_empty_cache() {
    for name in ["etc-steady", "etc-memory-sweep"] {
        let (spec, setup) = setup(name);
        let from_empty: Vec<&str> = setup
            .variants
            .iter()
            .filter(|variant| variant.from_empty)
            .map(|variant| variant.name.as_str())
            .collect();
        for published in &spec.published {
            let variant = published.variant.strip_suffix(", steady").unwrap_or(&published.variant);
            for side in variant.split(" against ") {
                let is_cold = side == "bound" || from_empty.contains(&side);
                assert!(is_cold, "{name}.toml compares {variant} with a published value");
            }
        }
        for ranked in &setup.rank_among {
            assert!(from_empty.contains(&ranked.as_str()), "{name}.toml ranks {ranked}");
        }
    }
}

#[test]
fn from_an_empty_cache_lama_has_about_the_published_reductions() {
    let (spec, mut setup) = setup("etc-steady");
    let names = ["none, from empty", "psa, from empty", "lama, from empty"];
    setup.bound = false;
    retain_variants(&mut setup, &names);
    let outcome = outcome(&spec, &setup, 0.02);
    for (pair, published) in [
        ("lama, from empty against none, from empty", 47.2),
        ("lama, from empty against psa, from empty", 18.08),
    ] {
        let row = outcome.rows.iter().find(|row| row.variant == pair);
        let row = row.unwrap_or_else(|| panic!("the outcome has a row for {pair}"));
        assert_eq!((row.measure.as_str(), row.published), ("fewer_misses", Some(published)));
        let off = row.ours.map(|ours| (ours - published).abs());
        assert!(off.is_some_and(|off| off < 4.0), "seed {SEED}: {}", outcome.text());
    }
    let rank = |measure| found(&outcome, measure, "lama, from empty, steady");
    assert_eq!(rank("rank"), 1.0, "{}", outcome.text());
    assert!(rank("rank_steady_since") >= 1.0);
    let of = |series: &&Series| series.name == "response time" && series.variant == names[2];
    let series = outcome.series.iter().find(of).expect("lama has a series of the response time");
    assert_eq!((series.x.len(), series.x.last()), (50, Some(&1_000_000.0)));
    assert!(series.y.iter().all(|&us| us > 200.0 && us < 10_000.0), "{series:?}");
}

#[test]
fn a_sweep_has_a_row_and_a_point_for_each_value() {
    let (spec, mut setup) = setup("etc-sweeps");
    for sweep in &mut setup.sweeps {
        sweep.values.truncate(2);
    }
    let names = ["none", "lama", "none, from empty", "lama, from empty"];
    retain_variants(&mut setup, &names);
    let outcome = outcome(&spec, &setup, 0.002);
    let text = outcome.text();
    let fewer = |pair: &str| found(&outcome, "fewer_misses", pair);
    assert!(fewer("lama, from empty against none, from empty, exponent 0") > 10.0, "{text}");
    for (parameter, values, pairs) in [
        ("exponent", ["0", "0.2"], 2),
        ("length of earlier values", ["0.25", "0.5"], 1),
        ("share of earlier values", ["0", "0.25"], 1),
    ] {
        let [first, second] =
            values.map(|value| fewer(&format!("lama against none, {parameter} {value}")));
        let name = format!("fewer misses by {parameter}");
        let series: Vec<&Series> =
            outcome.series.iter().filter(|series| series.name == name).collect();
        assert_eq!(series.len(), pairs, "variants from empty have no earlier values: {text}");
        let of = |series: &&&Series| series.variant == "lama against none";
        let points = series.iter().find(of).expect("the pair has a curve");
        assert_eq!(points.y, [first, second], "{text}");
        let of_sweep = format!("lama against none, by {parameter}");
        assert_eq!(found(&outcome, "fewer_misses_sweep_max", &of_sweep), first.max(second));
    }
}

#[test]
fn several_memory_limits_have_rows_with_the_minimum_and_the_maximum() {
    let (spec, mut setup) = setup("etc-memory-sweep");
    retain_variants(&mut setup, &["none", "space_time"]);
    setup.memory_mib.truncate(3);
    let outcome = outcome(&spec, &setup, 0.004);
    let fewer = |measure| found(&outcome, measure, "space_time against none");
    let measures = ["fewer_misses_min", "fewer_misses", "fewer_misses_max"];
    let [minimum, mean, maximum] = measures.map(fewer);
    assert!(minimum <= mean && mean <= maximum, "{}", outcome.text());
    let less = found(&outcome, "less_memory", "space_time against none");
    assert!((0.0..100.0).contains(&less), "{}", outcome.text());
    let is_curve = |series: &&Series| series.name == "steady miss ratio by memory";
    let curves: Vec<&Series> = outcome.series.iter().filter(is_curve).collect();
    assert_eq!(curves.len(), 3, "two variants and the bound have a curve");
    assert!(curves.iter().all(|curve| curve.x.len() == 3 && curve.y.is_sorted_by(|a, b| a >= b)));
    assert!(
        found(&outcome, "steady_miss_ratio", "none, 128 MiB")
            > found(&outcome, "steady_miss_ratio", "none, 256 MiB")
    );
}

#[test]
fn variants_are_ranked_in_each_phase() {
    let (spec, mut setup) = setup("three-phase");
    retain_variants(&mut setup, &["none", "tail_age"]);
    let outcome = outcome(&spec, &setup, 0.003);
    assert_eq!(found(&outcome, "rank", "tail_age, phase 3"), 1.0, "{}", outcome.text());
    assert_eq!(found(&outcome, "rank", "none, phase 3"), 2.0, "{}", outcome.text());
}

#[test]
fn in_time_varying_the_oracle_allocation_is_computed_repeatedly() {
    let (spec, mut setup) = setup("time-varying");
    retain_variants(&mut setup, &["none", "base", "fast", "warm"]);
    let outcome = outcome(&spec, &setup, 0.000_1);
    let text = outcome.text();
    let misses = |variant| found(&outcome, "mean_miss_ratio", variant);
    assert!(misses("warm") <= misses("fast") && misses("fast") <= misses("base"), "{text}");
    assert!(
        found(&outcome, "pages_moved", "warm") > found(&outcome, "pages_moved", "base"),
        "{text}"
    );
    assert_eq!(found(&outcome, "case_3", "fast"), 0.0, "{text}");
    let gets = |measure: &str, mover| found(&outcome, measure, mover);
    for mover in ["base", "fast", "warm"] {
        assert!(gets("gets_per_page_mean", mover) > 0.0, "{mover}: {text}");
    }
    let [base, fast] = ["base", "fast"].map(|mover| gets("gets_per_page_mean", mover));
    assert!(base > fast, "{text}");
    assert_eq!(found(&outcome, "visit_cost", "fast"), 400.0, "{text}");
}

#[test]
fn in_multi_tenant_the_oracle_allocation_is_computed_once() {
    let (spec, mut setup) = setup("multi-tenant");
    retain_variants(&mut setup, &["none", "fast", "warm"]);
    let outcome = outcome(&spec, &setup, 0.000_5);
    let text = outcome.text();
    let miss_ratio = |variant: &str| {
        found(&outcome, "stretch_miss_ratio", &format!("{variant}, 300 to 460 million"))
    };
    assert!(miss_ratio("warm") < miss_ratio("none"), "{text}");
    assert!(miss_ratio("fast") < miss_ratio("none"), "{text}");
    assert!(found(&outcome, "allocation_at_target", "warm") > 300_000.0 * 0.5, "{text}");
}

#[test]
fn two_runs_with_the_same_seed_have_equal_rows() {
    let (spec, mut setup) = setup("three-phase");
    retain_variants(&mut setup, &["tail_age"]);
    let rows = || outcome(&spec, &setup, 0.001).rows.into_iter().map(|row| row.ours);
    assert!(rows().eq(rows()));
}

#[test]
fn files_contain_only_known_variants_and_policies() {
    for name in FILES {
        let (spec, setup) = setup(name);
        let names: Vec<&str> = setup.variants.iter().map(|variant| variant.name.as_str()).collect();
        for pair in &setup.against {
            let is_known = |name: &String| names.contains(&name.as_str()) || name == "bound";
            assert!(pair.iter().all(is_known), "{}: {pair:?}", spec.name);
        }
        for variant in &setup.variants {
            let policy = super::policy(variant, 1.0);
            assert!(policy.is_ok(), "{}, {}: {policy:?}", spec.name, variant.name);
        }
    }
}
