//! Runs `page-policies` at a tiny scale.

use super::PoliciesSetup;
use super::setup::Variant;
use crate::experiment::{Experiment, Job};
use crate::registry;
use crate::result::{Outcome, Row, Spec};
use slabwise_policy::PagePolicy;

const SEED: u64 = 7;
const FILES: [&str; 7] = [
    "toy",
    "etc-steady",
    "etc-settled",
    "etc-memory-sweep",
    "three-phase",
    "time-varying",
    "multi-tenant",
];

fn setup(name: &str) -> (Spec, PoliciesSetup) {
    registry::parsed(name)
}

fn outcome(spec: &Spec, setup: &PoliciesSetup, scale: f64) -> Outcome {
    let outcome = setup.run(&Job::of(spec, scale, SEED));
    let outcome = outcome.unwrap_or_else(|error| panic!("{error}"));
    assert!(outcome.unexplained().is_empty(), "{}", outcome.text());
    outcome
}

fn found(outcome: &Outcome, measure: &str, variant: &str) -> f64 {
    let is_it = |row: &&Row| row.measure == measure && row.variant == variant;
    let row = outcome.rows.iter().find(is_it).unwrap_or_else(|| panic!("{measure}, {variant}"));
    row.ours.unwrap_or_else(|| panic!("{measure}, {variant}: {:?}", row.note))
}

/// Removes all other variants and the comparisons with them.
fn only(setup: &mut PoliciesSetup, names: &[&str]) {
    setup.variants.retain(|variant| names.contains(&variant.name.as_str()));
    let is_kept = |name: &String| names.contains(&name.as_str()) || name == "bound";
    setup.against.retain(|pair| pair.iter().all(is_kept));
    setup.rank_among.retain(is_kept);
}

#[test]
fn the_toy_has_the_published_hits() {
    let (spec, setup) = setup("toy");
    let outcome = outcome(&spec, &setup, 1.0);
    assert_eq!(found(&outcome, "hits", "none"), 0.0, "{}", outcome.text());
    assert_eq!(found(&outcome, "hits", "best"), 6.0, "{}", outcome.text());
    let checked = spec.check_scale(0.5);
    assert!(checked.is_err_and(|error| error.to_string().contains("runs at 1 only")));
}

/// Includes all policies and oracle allocations, from either start.
#[test]
fn no_variant_beats_the_bound_and_the_oracle_reaches_it() {
    const SCALE: f64 = 0.01;
    let (spec, setup) = setup("etc-steady");
    for name in PagePolicy::NAMES {
        let is_it = |variant: &Variant| variant.policy.as_deref() == Some(name);
        assert!(setup.variants.iter().any(is_it), "{name} has no row");
    }
    let outcome = outcome(&spec, &setup, SCALE);
    let text = outcome.text();
    let steady = |variant: &str| found(&outcome, "steady_miss_ratio", variant);
    // The bound charges the mean miss cost of the class, a run charges the cost of each miss.
    let time = |variant: &str| found(&outcome, "steady_answer_time", variant);
    for Variant { name, .. } in &setup.variants {
        assert!(steady(name) > steady("bound") * (1.0 - 1e-9), "{name}, seed {SEED}: {text}");
        assert!(time(name) > time("bound") * 0.998, "{name}, seed {SEED}: {text}");
    }
    assert!(steady("best") < steady("bound") * 1.001, "seed {SEED}: {text}");
    assert!(found(&outcome, "potential_reached", "lama against none") > 80.0, "{text}");
    assert!(time("lama") < time("none"), "seed {SEED}: {text}");
}

#[test]
fn a_policy_gains_from_a_start_with_longer_values() {
    let (spec, mut setup) = setup("etc-steady");
    only(&mut setup, &["none", "tail_age", "none, from empty", "tail_age, from empty"]);
    let outcome = outcome(&spec, &setup, 0.01);
    let (text, less) = (outcome.text(), |pair| found(&outcome, "fewer_misses", pair));
    assert!(less("tail_age against none") > 10.0, "seed {SEED}: {text}");
    // From an empty cache, under a stream that does not change, the ages are equal anyway.
    let from_empty = less("tail_age, from empty against none, from empty");
    assert!(from_empty.abs() < 2.0, "seed {SEED}: {text}");
    assert_eq!(found(&outcome, "rank", "tail_age, steady"), 1.0, "{text}");
    assert_eq!(found(&outcome, "pages_moved_steady", "none"), 0.0, "{text}");
    let moved = |measure| found(&outcome, measure, "tail_age");
    assert!(moved("pages_moved_steady") < moved("pages_moved"), "{text}");
}

#[test]
fn a_sweep_reports_the_range_over_memory_sizes() {
    let (spec, mut setup) = setup("etc-memory-sweep");
    only(&mut setup, &["none", "space_time"]);
    setup.memory_mib.truncate(2);
    let outcome = outcome(&spec, &setup, 0.004);
    let less = |measure| found(&outcome, measure, "space_time against none");
    let [least, mean, most] = ["fewer_misses_least", "fewer_misses", "fewer_misses_most"].map(less);
    assert!(least <= mean && mean <= most, "{}", outcome.text());
    assert!(
        found(&outcome, "steady_miss_ratio", "none, 128 MiB")
            > found(&outcome, "steady_miss_ratio", "none, 256 MiB")
    );
}

#[test]
fn phases_are_ranked() {
    let (spec, mut setup) = setup("three-phase");
    only(&mut setup, &["none", "tail_age"]);
    let outcome = outcome(&spec, &setup, 0.003);
    assert_eq!(found(&outcome, "rank", "tail_age, phase 3"), 1.0, "{}", outcome.text());
    assert_eq!(found(&outcome, "rank", "none, phase 3"), 2.0, "{}", outcome.text());
}

#[test]
fn an_oracle_allocation_is_decided_repeatedly() {
    let (spec, mut setup) = setup("time-varying");
    only(&mut setup, &["none", "base", "fast", "warm"]);
    let outcome = outcome(&spec, &setup, 0.000_1);
    let text = outcome.text();
    let misses = |variant| found(&outcome, "mean_miss_ratio", variant);
    assert!(misses("warm") <= misses("fast") && misses("fast") <= misses("base"), "{text}");
    assert!(
        found(&outcome, "pages_moved", "warm") > found(&outcome, "pages_moved", "base"),
        "{text}"
    );
    assert_eq!(found(&outcome, "case_3", "fast"), 0.0, "{text}");
}

#[test]
fn an_oracle_allocation_is_decided_once() {
    let (spec, mut setup) = setup("multi-tenant");
    only(&mut setup, &["none", "fast", "warm"]);
    let outcome = outcome(&spec, &setup, 0.000_5);
    let text = outcome.text();
    let stretch = |variant: &str| {
        found(&outcome, "stretch_miss_ratio", &format!("{variant}, 300 to 460 million"))
    };
    assert!(stretch("warm") < stretch("none") && stretch("fast") < stretch("none"), "{text}");
    assert!(found(&outcome, "allocation_at_target", "warm") > 300_000.0 * 0.5, "{text}");
}

#[test]
fn a_run_is_determined_by_its_seed() {
    let (spec, mut setup) = setup("three-phase");
    only(&mut setup, &["tail_age"]);
    let rows = || outcome(&spec, &setup, 0.001).rows.into_iter().map(|row| row.ours);
    assert!(rows().eq(rows()));
}

#[test]
fn files_name_only_known_variants_and_policies() {
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
