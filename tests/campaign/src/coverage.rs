//! What a campaign must have checked. A server that refuses or loses nearly everything would pass all other checks.

use crate::counts::{Counts, OUTCOMES};
use crate::operation::Verb;
use crate::protocol::Protocol;
use std::sync::atomic::Ordering;

/// The part of the gets that must find an item, in percent. If nearly everything misses, the checker checks too little.
const HITS_PERCENT_MIN: u64 = 10;
/// One of this number of small values may be refused. Under several faults at once a server may refuse nearly all stores
/// for about a second. In runs of three minutes, 0 to 0.4 % of the small values were refused.
const SMALL_REFUSED_ONE_IN: u64 = 50;
/// The names of outcomes that show that a request was carried out.
const SUCCESSES: [&str; 5] = ["hit", "number", "stored", "deleted", "touched"];

/// Returns what the requests should have shown, but did not. `is_complete` is true if each kind of request must have
/// succeeded, because the campaign had time for it.
pub fn problems(counts: &Counts, is_complete: bool) -> Vec<String> {
    let mut problems = Vec::new();
    let (hits, misses) = counts.hits_and_misses();
    if hits * 100 < (hits + misses) * HITS_PERCENT_MIN {
        problems.push(format!("only {hits} of {} gets have found an item", hits + misses));
    }
    let small = counts.small_values.load(Ordering::Relaxed);
    let refused = counts.small_refused.load(Ordering::Relaxed);
    if refused * SMALL_REFUSED_ONE_IN > small {
        problems.push(format!(
            "{refused} of {small} small values were refused; one of {SMALL_REFUSED_ONE_IN} may be"
        ));
    }
    if is_complete {
        let kinds = Protocol::ALL.into_iter().flat_map(|it| Verb::ALL.map(|verb| (it, verb)));
        let failed = kinds.filter(|&(protocol, verb)| {
            protocol.has(verb) && successes(counts, protocol, verb) == 0
        });
        problems.extend(failed.map(|(protocol, verb)| {
            format!("no {} of the {} protocol has succeeded", verb.name(), protocol.name())
        }));
    }
    problems
}

fn successes(counts: &Counts, protocol: Protocol, verb: Verb) -> u64 {
    let outcomes = OUTCOMES.iter().zip(counts.outcomes_of(protocol, verb));
    outcomes.filter(|(name, _)| SUCCESSES.contains(name)).map(|(_, count)| count).sum()
}
