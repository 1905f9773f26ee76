//! Runs `learned-classes` at a small scale.

use super::LearnedClassesSetup;
use crate::experiment::{Experiment, Job};
use crate::registry;
use crate::result::{Outcome, Spec};

const SCALE: f64 = 0.03;
const SEED: u64 = 7;

fn spec() -> (Spec, LearnedClassesSetup) {
    let (spec, setup) = registry::parsed("learned-classes");
    let setup = LearnedClassesSetup { restarts: 10, ..setup };
    (spec, setup)
}

/// Returns our value and the published value of a measure and a variant. Panics if there is no value of ours.
fn found(outcome: &Outcome, measure: &str, variant: &str) -> (f64, Option<f64>) {
    let mut rows = outcome.rows.iter();
    let row = rows.find(|row| row.measure == measure && row.variant == variant);
    let row = row.unwrap_or_else(|| panic!("the outcome has a row for {measure}, {variant}"));
    let ours = row.ours;
    let ours =
        ours.unwrap_or_else(|| panic!("{measure}, {variant} has a value, not: {:?}", row.note));
    (ours, row.published)
}

#[test]
fn the_exact_sizes_recover_at_least_the_published_waste() {
    let (spec, setup) = spec();
    let outcome = setup.run(&Job::of(&spec, SCALE, SEED));
    let outcome = outcome.unwrap_or_else(|error| panic!("{error}"));
    let text = outcome.text();
    assert!(outcome.rows.iter().all(|row| row.ours.is_some() || row.note.is_some()), "{text}");
    let (mut exact_pages, mut old_pages) = (0.0, 0.0);
    for distribution in &setup.distributions {
        let of = |measure, table: &str| {
            found(&outcome, measure, &format!("{}, {table}", distribution.name))
        };
        let (exact, published) = of("recovered_percent", "exact");
        let published = published.expect("every distribution has a published recovered waste");
        if !distribution.new_sizes.is_empty() {
            let context = format!("recovered {exact} %, published {published} %, seed {SEED}");
            assert!(exact >= published, "{context}: {text}");
            let (printed, published) = of("recovered_percent", "printed sizes");
            let published = published.expect("the recovered waste of printed sizes is published");
            let context = format!("printed sizes recover {printed} %, published {published} %");
            assert!((printed - published).abs() < 2.0, "{context}: {text}");
            exact_pages += of("pages", "exact").0;
            old_pages += of("pages", "old sizes").0;
        }
        let (climbed, _) = of("recovered_percent", "hill climbing, best");
        assert!(climbed <= exact, "{text}");
        let (all_replaced, _) = of("recovered_percent", "exact, all of memcached's sizes replaced");
        assert!(exact <= all_replaced, "{text}");
    }
    // The test compares sums, because a few MiB of a single distribution may take the same number of pages with both
    // tables.
    assert!(exact_pages < old_pages, "{text}");
}

#[test]
fn memcached_needs_the_same_number_of_pages_if_it_is_installed() {
    let (spec, mut setup) = spec();
    setup.distributions.truncate(1);
    let outcome = setup.run(&Job { live: true, ..Job::of(&spec, SCALE, SEED) });
    let outcome = outcome.unwrap_or_else(|error| panic!("{error}"));
    let text = outcome.text();
    if text.contains("skipped: memcached cannot be started: No such file") {
        println!("skipped: memcached is not installed");
        return;
    }
    let pages = |outcome: &Outcome, variant: &str| found(outcome, "pages", variant).0;
    let name = &setup.distributions[0].name;
    let in_engine = setup.run(&Job::of(&spec, SCALE, SEED));
    let in_engine = in_engine.unwrap_or_else(|error| panic!("{error}"));
    for table in ["old sizes", "printed sizes", "exact"] {
        // In this experiment the engine counts the sizes of items as memcached does.
        let in_memcached = pages(&outcome, &format!("{name}, memcached, {table}"));
        let in_engine = pages(&in_engine, &format!("{name}, {table}"));
        assert_eq!(in_memcached, in_engine, "{table}: {text}");
    }
}
