//! Rows: an option of the server, a scenario, and the expected relation to a reference. Each row is a test.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

use super::scenario::Scenario;

/// The environment variable with the number of seeds; 1 by default. Margins are set from the figures of five seeds:
/// `POLICY_SEEDS=5 cargo test --test integration policies:: -- --nocapture`.
const SEEDS_VARIABLE: &str = "POLICY_SEEDS";
/// A run that waits for a score has at most this multiple of the rounds of its scenario.
const ROUNDS_FACTOR: usize = 20;
/// The options of the server whose score is the reference of all rows.
const REFERENCE: &str = "page_policy=none,eviction=lru";

/// A relation of a score to the score of the reference. A number is the quotient of the two scores.
#[derive(Clone, Copy, Debug)]
pub enum Expected {
    /// The score falls to this part of the reference.
    Falls(f64),
    /// The score rises to this multiple of the reference.
    Rises(f64),
    /// At the end of the scenario, the score is still above this part of the reference.
    Stays(f64),
}

/// A row.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// A name in the registry.
    pub name: &'static str,
    /// Options after the name.
    pub options: &'static str,
    pub scenario: &'static Scenario,
    pub expected: Expected,
}

/// Returns a row.
pub const fn row(
    name: &'static str,
    options: &'static str,
    scenario: &'static Scenario,
    expected: Expected,
) -> Row {
    Row { name, options, scenario, expected }
}

/// Checks rows. `server_options` returns the options of `-o` for a name with its options.
pub fn check(rows: &[Row], server_options: impl Fn(&Row) -> String) {
    let seeds = std::env::var(SEEDS_VARIABLE).map_or(1, |seeds| {
        seeds.parse().unwrap_or_else(|_| panic!("{SEEDS_VARIABLE} is a number, not {seeds}"))
    });
    let mut failures = Vec::new();
    for row in rows {
        for seed in 1..=seeds {
            let options = server_options(row);
            let line = run(row, &options, seed);
            println!("{line}");
            failures.extend(line.starts_with("fails").then_some(line));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Runs a row, and returns a line of text that starts with "fails" or "holds".
fn run(row: &Row, options: &str, seed: u64) -> String {
    let Row { scenario, expected, .. } = *row;
    let reference = reference_score(scenario, seed);
    let is_met = |score: f64| match expected {
        Expected::Falls(part) => score <= part * reference,
        Expected::Rises(part) | Expected::Stays(part) => score >= part * reference,
    };
    let outcome = match expected {
        Expected::Stays(_) => scenario.run_whole(options, seed),
        _ => scenario.run(options, seed, scenario.rounds() * ROUNDS_FACTOR, is_met),
    };
    let verdict = if is_met(outcome.score) { "holds" } else { "fails" };
    format!(
        "{verdict}: {options}, scenario {}, seed {seed}: {expected:?}, score {:.1} %, reference {reference:.1} %, \
         {} pages moved in {} rounds",
        scenario.name, outcome.score, outcome.pages_moved, outcome.rounds
    )
}

/// Returns the score of the reference at the end of a scenario. Tests share the runs.
fn reference_score(scenario: &Scenario, seed: u64) -> f64 {
    type Scores = HashMap<(&'static str, u64), Arc<OnceLock<f64>>>;
    static SCORES: Mutex<Option<Scores>> = Mutex::new(None);
    let score = {
        let mut scores = SCORES.lock().expect("no test panics while it holds the lock");
        let scores = scores.get_or_insert_default();
        Arc::clone(scores.entry((scenario.name, seed)).or_default())
    };
    *score.get_or_init(|| scenario.run_whole(REFERENCE, seed).score)
}

/// Checks that the names with rows are these names without the exceptions.
pub fn check_names(rows: &[&[Row]], names: &[&str], exceptions: &[&str]) {
    for rows in rows {
        for name in names.iter().filter(|name| !exceptions.contains(name)) {
            let has_row = rows.iter().any(|row| row.name == *name);
            assert!(has_row, "{name} has no row in a table of tests/policies: add one to each");
        }
        for row in *rows {
            assert!(names.contains(&row.name), "the registry has no name {}", row.name);
        }
    }
}
