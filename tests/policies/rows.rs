//! Rows: an option of the server, a scenario, and the expected relation to a reference server. Each row is a test.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

use super::scenario::{End, Outcome, Scenario};

/// If this environment variable is a number of seeds, the tests do not stop a run when it has the expected score, and
/// print the figures of all seeds. `Row::measured` is from `POLICY_SEEDS=5 cargo test --test integration policies:: --
/// --nocapture`.
const SEEDS_VARIABLE: &str = "POLICY_SEEDS";
/// While figures are measured, a run that waits for a score has this number of rounds.
const MEASURED_ROUNDS: usize = 500;
/// The options of the reference server.
const REFERENCE: &str = "page_policy=none,eviction=lru";
/// A bound is at least this far from the measured quotients.
const MARGIN: f64 = 0.05;
/// The number of runs of which one must show that a server does not adapt.
const ATTEMPTS: usize = 3;

/// A relation to the reference. A bound is the quotient of the score and the reference's score.
#[derive(Clone, Copy, Debug)]
pub enum Expected {
    /// The quotient falls to this bound.
    Falls(f64),
    /// The quotient rises to this bound.
    Rises(f64),
    /// At the end of the scenario, the quotient is still above this bound.
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
    /// The lowest and the highest quotient that five seeds reached in 500 rounds, or at the end of the scenario.
    pub measured: (f64, f64),
}

/// Returns a row.
pub const fn row(
    name: &'static str,
    options: &'static str,
    scenario: &'static Scenario,
    expected: Expected,
    measured: (f64, f64),
) -> Row {
    Row { name, options, scenario, expected, measured }
}

impl Row {
    /// Runs the row with a seed. Returns the quotient of the scores, and all figures if the row does not hold.
    fn run(&self, options: &str, seed: u64, is_measurement: bool) -> (f64, Option<String>) {
        let reference = reference(self.scenario, seed);
        let end = match self.expected {
            Expected::Stays(_) => End::Whole,
            _ if is_measurement => End::Rounds(MEASURED_ROUNDS),
            Expected::Falls(bound) => End::AtMost(bound * reference.score),
            Expected::Rises(bound) => End::AtLeast(bound * reference.score),
        };
        let outcome = self.scenario.run(options, seed, end);
        let holds = |score: f64| match self.expected {
            Expected::Falls(bound) => score <= bound * reference.score,
            Expected::Rises(bound) | Expected::Stays(bound) => score >= bound * reference.score,
        };
        // A run that waits for a score waits for its lowest or highest window.
        let reached = match self.expected {
            Expected::Falls(_) => outcome.lowest,
            Expected::Rises(_) => outcome.highest,
            Expected::Stays(_) => outcome.score,
        };
        let quotient = reached / reference.score;
        let Outcome { score, pages_moved, rounds, .. } = outcome;
        let figures = format!(
            "{options}, scenario {}, seed {seed}: {:?}, quotient {quotient:.3}: {score:.1} %, reference {:.1} %, \
             {pages_moved} pages moved, {rounds} rounds",
            self.scenario.name, self.expected, reference.score
        );
        println!("{figures}");
        // A row that the reference fulfils, too, would never fail.
        let is_trivial = match self.expected {
            Expected::Falls(_) => holds(reference.lowest),
            Expected::Rises(_) => holds(reference.highest),
            Expected::Stays(_) => false,
        };
        let fails = !holds(reached) || is_trivial;
        (quotient, fails.then_some(figures))
    }

    /// True if the bound is outside of the measured quotients by the margin.
    fn has_margin(&self) -> bool {
        let (low, high) = self.measured;
        match self.expected {
            Expected::Falls(bound) => bound >= high + MARGIN,
            Expected::Rises(bound) | Expected::Stays(bound) => bound <= low - MARGIN,
        }
    }
}

/// Runs rows. `server_options` returns the options of `-o` for a row.
pub fn check(rows: &[Row], server_options: impl Fn(&Row) -> String) {
    let seeds = std::env::var(SEEDS_VARIABLE).ok().map(|seeds| {
        seeds.parse().unwrap_or_else(|_| panic!("{SEEDS_VARIABLE} is a number, not {seeds}"))
    });
    let mut failures = Vec::new();
    for row in rows {
        let options = server_options(row);
        // Seconds that pass also age items. So in a slow run, a cache follows its traffic after fewer requests.
        let attempts = if matches!(row.expected, Expected::Stays(_)) { ATTEMPTS } else { 1 };
        let run = |seed| {
            let mut runs = (0..attempts).map(|_| row.run(&options, seed, seeds.is_some()));
            let first = runs.next().expect("there is an attempt");
            if first.1.is_none() { first } else { runs.find(|it| it.1.is_none()).unwrap_or(first) }
        };
        let (mut low, mut high) = (f64::MAX, f64::MIN);
        for (quotient, failure) in (1..=seeds.unwrap_or(1)).map(run) {
            (low, high) = (low.min(quotient), high.max(quotient));
            failures.extend(failure);
        }
        println!("{} {}: {low:.2} to {high:.2}", row.name, row.scenario.name);
    }
    assert!(failures.is_empty(), "these rows do not hold:\n{}", failures.join("\n"));
}

/// Returns the outcome of the reference server in a scenario. Tests share the runs.
fn reference(scenario: &Scenario, seed: u64) -> Outcome {
    type Outcomes = HashMap<(&'static str, u64), Arc<OnceLock<Outcome>>>;
    static OUTCOMES: Mutex<Option<Outcomes>> = Mutex::new(None);
    let outcome = {
        let mut outcomes = OUTCOMES.lock().expect("no test panics while it holds the lock");
        let outcomes = outcomes.get_or_insert_default();
        Arc::clone(outcomes.entry((scenario.name, seed)).or_default())
    };
    *outcome.get_or_init(|| scenario.run(REFERENCE, seed, End::Whole))
}

/// Checks that each table has a row for each of these names, except for the exceptions, and that the bounds of the rows
/// have a margin.
pub fn check_tables(tables: &[&[Row]], names: &[&str], exceptions: &[&str]) {
    for table in tables {
        for name in names.iter().filter(|name| !exceptions.contains(name)) {
            let has_row = table.iter().any(|row| row.name == *name);
            assert!(has_row, "{name} needs a row for its strength and a row for its weakness");
        }
        for row in *table {
            assert!(names.contains(&row.name), "the registry has no name {}", row.name);
            assert!(row.has_margin(), "the bound of a row is too near to its figures: {row:?}");
        }
    }
}
