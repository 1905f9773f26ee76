//! Runs `classes-vs-misses` at a small scale.

use super::ClassCountsSetup;
use crate::experiment::{Experiment, Job};
use crate::registry;
use crate::result::{Outcome, Row, Spec};

const SCALE: f64 = 0.02;
const SEED: u64 = 7;

fn setup() -> (Spec, ClassCountsSetup) {
    registry::parsed("classes-vs-misses")
}

fn outcome(spec: &Spec, setup: &ClassCountsSetup) -> Outcome {
    let outcome = setup.run(&Job::of(spec, SCALE, SEED));
    let outcome = outcome.unwrap_or_else(|error| panic!("{error}"));
    let is_explained = |row: &Row| row.ours.is_some() || row.note.is_some();
    assert!(outcome.rows.iter().all(is_explained), "{}", outcome.text());
    outcome
}

/// Returns our value of a measure and a variant. Panics if there is none.
fn found(outcome: &Outcome, measure: &str, variant: &str) -> f64 {
    let is_match = |row: &&Row| row.measure == measure && row.variant == variant;
    let row = outcome.rows.iter().find(is_match);
    let row = row.unwrap_or_else(|| panic!("the outcome has a row for {measure}, {variant}"));
    row.ours.unwrap_or_else(|| panic!("{measure}, {variant} has a value, not: {:?}", row.note))
}

/// Returns the predicted miss ratios in the order of the number of classes, for a price of a class in pages.
fn predicted(outcome: &Outcome, stream: &str, price: f64) -> Vec<f64> {
    let variant = format!("{stream}, a class {price} pages");
    let series = outcome.series.iter().find(|series| series.variant == variant);
    series.unwrap_or_else(|| panic!("the outcome has a series for {variant}")).y.clone()
}

#[test]
fn with_more_classes_less_memory_is_wasted_in_every_workload() {
    let (spec, mut setup) = setup();
    setup.class_counts = vec![4, 16, 63];
    let outcome = outcome(&spec, &setup);
    let text = outcome.text();
    for stream in &setup.streams {
        let of =
            |measure, table: &str| found(&outcome, measure, &format!("{}, {table}", stream.name));
        let lost = |table| of("lost_inside", table) + of("lost_page_ends", table);
        let classes = |table| of("classes_used", table);
        assert!(lost("k = 63") < lost("k = 4"), "seed {SEED}: {text}");
        assert!(lost("k = 63") < lost("memcached's, 1.25"), "seed {SEED}: {text}");
        let free = predicted(&outcome, &stream.name, 0.0);
        // If a workload has few different item sizes, the table of 63 classes may use no more classes than that of 16.
        let uses_more = classes("k = 63") > classes("k = 16");
        let falls = |few: &f64, many: &f64| few > many || few == many && !uses_more;
        assert!(free.is_sorted_by(falls), "seed {SEED}, {free:?}: {text}");
        let costly = predicted(&outcome, &stream.name, 1.0);
        assert!(free.iter().zip(&costly).all(|(free, costly)| free < costly), "{costly:?}: {text}");
        // The price of a class has the largest effect in the table with the most classes.
        assert!(costly[2] - free[2] > costly[0] - free[0], "seed {SEED}, {costly:?}: {text}");
        let difference =
            of("best_partition_miss_ratio", "k = 16") - of("steady_miss_ratio", "k = 16");
        assert!(difference.abs() < 5.0, "seed {SEED}: {text}");
    }
    assert_eq!(outcome.series.len(), setup.streams.len() * (11 + setup.class_prices_pages.len()));
}

#[test]
fn two_runs_with_the_same_seed_differ_only_in_processor_times() {
    let (spec, mut setup) = setup();
    setup.class_counts = vec![8];
    setup.geometric.clear();
    setup.streams.truncate(1);
    let rows = || {
        let mut rows =
            setup.run(&Job::of(&spec, SCALE, SEED)).unwrap_or_else(|error| panic!("{error}")).rows;
        rows.retain(|row| row.measure != "operation_processor_time");
        rows.into_iter().map(|row| row.ours).collect::<Vec<_>>()
    };
    assert_eq!(rows(), rows());
}

#[test]
fn an_unknown_policy_is_an_error() {
    let (spec, mut setup) = setup();
    setup.policy = "best".to_owned();
    let refused = setup.run(&Job::of(&spec, SCALE, SEED));
    assert!(refused.is_err_and(|error| error.to_string().contains("best")));
}
