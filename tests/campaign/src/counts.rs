//! Counts of requests and faults.

use crate::excuse::Excuse;
use crate::operation::{Outcome, Verb};
use crate::protocol::Protocol;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

/// The kinds of outcomes that are counted.
pub const OUTCOMES: [&str; 10] = [
    "hit",
    "number",
    "not found",
    "stored",
    "not stored",
    "exists",
    "deleted",
    "touched",
    "refused",
    "unknown",
];

/// Returns the position of an outcome in [`OUTCOMES`].
fn outcome_index(outcome: &Outcome<'_>) -> usize {
    match outcome {
        Outcome::Hit { .. } => 0,
        Outcome::Number(_) => 1,
        Outcome::Miss => 2,
        Outcome::Stored(_) => 3,
        Outcome::NotStored => 4,
        Outcome::Exists => 5,
        Outcome::Deleted => 6,
        Outcome::Touched => 7,
        Outcome::Refused(_) => 8,
        Outcome::Silent | Outcome::Lost => 9,
    }
}

/// Counts of requests and faults.
#[derive(Debug, Default)]
pub struct Counts {
    requests: [[[AtomicU64; OUTCOMES.len()]; Verb::ALL.len()]; Protocol::ALL.len()],
    /// Stores, appends and prepends of small values by clients that behave well.
    pub small_values: AtomicU64,
    /// Those of them that were refused.
    pub small_refused: AtomicU64,
    /// Judgements that found no version, because the request took very long.
    pub too_late: AtomicU64,
    /// Exchanges that a disruption has ended.
    pub closed: AtomicU64,
    /// Exchanges that the server has ended because it took the client for one that does not read.
    pub slow_readers: AtomicU64,
    faults: Mutex<BTreeMap<&'static str, u64>>,
    refusals: Mutex<BTreeMap<String, u64>>,
}

impl Counts {
    /// Adds the counts of another server.
    pub fn add(&self, other: &Counts) {
        let add = |to: &AtomicU64, from: &AtomicU64| {
            to.fetch_add(from.load(Ordering::Relaxed), Ordering::Relaxed);
        };
        let pairs = self.requests.as_flattened().as_flattened();
        let pairs = pairs.iter().zip(other.requests.as_flattened().as_flattened());
        pairs.for_each(|(to, from)| add(to, from));
        add(&self.small_values, &other.small_values);
        add(&self.small_refused, &other.small_refused);
        add(&self.too_late, &other.too_late);
        add(&self.closed, &other.closed);
        add(&self.slow_readers, &other.slow_readers);
        for (name, count) in other.faults() {
            *lock(&self.faults).entry(name).or_default() += count;
        }
        for (text, count) in other.refusals() {
            *lock(&self.refusals).entry(text).or_default() += count;
        }
    }

    /// Counts a request.
    pub fn request(&self, protocol: Protocol, verb: Verb, outcome: &Outcome<'_>) {
        let counts = &self.requests[protocol as usize][verb as usize];
        counts[outcome_index(outcome)].fetch_add(1, Ordering::Relaxed);
        if let Outcome::Refused(text) = outcome {
            let text = String::from_utf8_lossy(text).into_owned();
            *lock(&self.refusals).entry(text).or_default() += 1;
        }
    }

    /// Counts an exchange that ended early for this reason.
    pub fn excuse(&self, excuse: Excuse) {
        let count = match excuse {
            Excuse::Disruption => &self.closed,
            Excuse::SlowReader => &self.slow_readers,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an event of a fault.
    pub fn fault(&self, name: &'static str) {
        *lock(&self.faults).entry(name).or_default() += 1;
    }

    /// Returns the number of events of a fault.
    pub fn fault_count(&self, name: &str) -> u64 {
        let faults = lock(&self.faults);
        faults.get(name).copied().unwrap_or_default()
    }

    /// Returns the number of all faults, by name.
    pub fn faults(&self) -> BTreeMap<&'static str, u64> {
        lock(&self.faults).clone()
    }

    /// Returns the number of refused requests, by the text of the refusal.
    pub fn refusals(&self) -> BTreeMap<String, u64> {
        lock(&self.refusals).clone()
    }

    /// Returns the number of requests with a verb, by outcome.
    pub fn outcomes(&self, verb: Verb) -> [u64; OUTCOMES.len()] {
        let sum = |at| Protocol::ALL.iter().map(|&it| self.outcomes_of(it, verb)[at]).sum();
        std::array::from_fn(sum)
    }

    /// Returns the number of requests with a protocol and a verb, by outcome.
    pub fn outcomes_of(&self, protocol: Protocol, verb: Verb) -> [u64; OUTCOMES.len()] {
        let counts = &self.requests[protocol as usize][verb as usize];
        std::array::from_fn(|at| counts[at].load(Ordering::Relaxed))
    }

    /// Returns the number of requests of a protocol.
    pub fn protocol(&self, protocol: Protocol) -> u64 {
        let outcomes = Verb::ALL.iter().flat_map(|&verb| self.outcomes_of(protocol, verb));
        outcomes.sum()
    }

    /// Returns the number of all requests.
    pub fn total(&self) -> u64 {
        Protocol::ALL.iter().map(|&it| self.protocol(it)).sum()
    }

    /// Returns the number of gets that found an item, and of those that did not.
    pub fn hits_and_misses(&self) -> (u64, u64) {
        let reads = Verb::ALL.iter().filter(|verb| verb.reads()).map(|&verb| self.outcomes(verb));
        reads.fold((0, 0), |(hits, misses), counts| (hits + counts[0], misses + counts[2]))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no thread panics with this lock")
}
