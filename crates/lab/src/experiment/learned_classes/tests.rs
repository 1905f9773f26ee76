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

fn found(outcome: &Outcome, measure: &str, variant: &str) -> (f64, Option<f64>) {
    let mut rows = outcome.rows.iter();
    let row = rows.find(|row| row.measure == measure && row.variant == variant);
    let row = row.unwrap_or_else(|| panic!("no row {measure}, {variant}"));
    (row.ours.unwrap_or_else(|| panic!("{measure}, {variant}: {:?}", row.note)), row.published)
}

#[test]
fn the_exact_sizes_recover_at_least_what_was_published() {
    let (spec, setup) = spec();
    let outcome = setup.run(&Job::of(&spec, SCALE, SEED));
    let outcome = outcome.unwrap_or_else(|error| panic!("{error}"));
    let text = outcome.text();
    assert!(outcome.rows.iter().all(|row| row.ours.is_some() || row.note.is_some()), "{text}");
    let mut pages = (0.0, 0.0);
    for distribution in &setup.distributions {
        let of = |measure, what: &str| {
            found(&outcome, measure, &format!("{}, {what}", distribution.name))
        };
        let (exact, published) = of("recovered_percent", "exact");
        let published = published.expect("every distribution has one");
        if !distribution.new_sizes.is_empty() {
            assert!(exact >= published, "seed {SEED}: {exact} %, {published} % published: {text}");
            let (printed, published) = of("recovered_percent", "printed sizes");
            let published = published.expect("it has one");
            assert!((printed - published).abs() < 2.0, "{printed} %, not {published} %: {text}");
            pages.0 += of("pages", "exact").0;
            pages.1 += of("pages", "old sizes").0;
        }
        let (climbed, _) = of("recovered_percent", "hill climbing, best");
        assert!(climbed <= exact, "{text}");
        let (free, _) = of("recovered_percent", "exact, all of memcached's");
        assert!(exact <= free, "{text}");
    }
    // A single distribution of a few MiB may take the same number of pages.
    assert!(pages.0 < pages.1, "{text}");
}

#[test]
fn memcached_takes_the_same_pages_if_it_is_installed() {
    let (spec, mut setup) = spec();
    setup.distributions.truncate(1);
    let outcome = setup.run(&Job { live: true, ..Job::of(&spec, SCALE, SEED) });
    let outcome = outcome.unwrap_or_else(|error| panic!("{error}"));
    let text = outcome.text();
    if text.contains("skipped: memcached cannot be started: No such file") {
        println!("not run: memcached is not installed");
        return;
    }
    let pages = |outcome: &Outcome, what: &str| found(outcome, "pages", what).0;
    let name = &setup.distributions[0].name;
    let inside = setup.run(&Job::of(&spec, SCALE, SEED));
    let inside = inside.unwrap_or_else(|error| panic!("{error}"));
    for what in ["old sizes", "printed sizes", "exact"] {
        // The engine uses memcached's item layout here.
        let real = pages(&outcome, &format!("{name}, memcached, {what}"));
        assert_eq!(real, pages(&inside, &format!("{name}, {what}")), "{what}: {text}");
    }
}
