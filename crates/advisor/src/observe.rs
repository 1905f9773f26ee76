//! Observes one server for a while.
//!
//! ```text
//!   counters, settings --> Traffic: watches in a thread of its own --> counters, class table --> Observation
//!                             '-- an error of the server, or the end of the time
//! ```
//!
//! Invariants: the server gets only commands that change nothing; every wait ends with the time of the observation, and the
//! timeouts of the connector.

use crate::chunk_sizes::error::AdvisorError;
use crate::chunk_sizes::server;
use crate::observation::{ClassSeen, Observation};
use slabwise_base::Clock;
use slabwise_client::{ClientError, Connector};
use slabwise_observer::ObserverError;
use slabwise_observer::counters::{ClassCounters, Counters};
use slabwise_observer::traffic::{Options, Traffic, TrafficError};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// The time between two looks for an error of the observation.
const LOOK: Duration = Duration::from_millis(100);
/// A memcached from this version on reports deletes to watchers.
const DELETES_SINCE: [u32; 3] = [1, 6, 19];

/// An error of an observation. The caller adds the address of the server.
#[derive(Debug, thiserror::Error)]
pub enum ObserveError {
    #[error("cannot connect: {0}")]
    Connect(#[from] ClientError),
    #[error("{0}")]
    Counters(#[from] ObserverError),
    #[error("{0}")]
    Traffic(#[from] TrafficError),
    #[error("{0}")]
    State(#[from] AdvisorError),
    #[error(
        "{row} is {value}, above the limit of {limit}: check whether the server is a memcached"
    )]
    Implausible { row: &'static str, value: u64, limit: u64 },
    #[error("the server was restarted while it was observed: start the command again")]
    Restarted,
    #[error(
        "the server wrote no lines: it had no requests, or used too little processor time to be watched; watch it \
         longer (--for), or allow a higher cost (--cost-share-max)"
    )]
    NoTraffic,
}

/// Observes a server for this time, or until `stopped` is true.
pub fn observe(
    connector: &Connector,
    options: Options,
    duration: Duration,
    stopped: &AtomicBool,
) -> Result<Observation, ObserveError> {
    let clock = Clock::real();
    let before = Counters::read(&mut connector.open()?)?;
    let start_nanos = clock.nanos();
    let traffic = Traffic::start(connector, options)?;
    let elapsed = || Duration::from_nanos(clock.nanos() - start_nanos);
    while elapsed() < duration && !stopped.load(Ordering::Relaxed) {
        if let Some(error) = traffic.error() {
            return Err(error.into());
        }
        thread::park_timeout(duration.saturating_sub(elapsed()).min(LOOK));
    }
    let after = Counters::read(&mut connector.open()?)?;
    let seconds = elapsed().as_secs_f64();
    if !before.process.is_same_process(after.process) {
        return Err(ObserveError::Restarted);
    }
    if let Some(error) = traffic.error() {
        return Err(error.into());
    }
    check(&after)?;
    if traffic.cost().lines == 0 {
        return Err(ObserveError::NoTraffic);
    }
    let state = server::state(connector)?;
    let seen = |class: &ClassCounters| {
        let evicted = before.class(class.shown.class).map_or(0, |before| before.shown.evicted);
        ClassSeen { counters: *class, evicted: class.shown.evicted.saturating_sub(evicted) }
    };
    Ok(Observation {
        server: connector.address.to_string(),
        memory_limit_bytes: after.memory_limit_bytes,
        seconds,
        gets: after.gets.saturating_sub(before.gets),
        misses: after.misses.saturating_sub(before.misses),
        is_memory_full: after.is_memory_full() && after.pages_free == 0,
        classes: after.classes.iter().map(seen).collect(),
        curves: traffic.curves(),
        curves_without: traffic.curves_without_groups().to_vec(),
        unknown_miss_share: traffic.unknown_miss_share(),
        item_sizes: traffic.item_sizes(),
        cost: traffic.cost(),
        recording: traffic.take_recording(),
        notes: notes(
            &state.version,
            &traffic,
            seconds,
            after.pages_moved.saturating_sub(before.pages_moved),
        ),
        state,
    })
}

/// Refuses numbers that no memcached has, and whose products would overflow.
fn check(counters: &Counters) -> Result<(), ObserveError> {
    const MEMORY_BYTES_MAX: u64 = 1 << 50;
    const PAGES_MAX: u64 = 1 << 30;
    const CHUNKS_MAX: u64 = 1 << 40;
    const CHUNK_MAX: u64 = 1 << 30;
    let general = [("limit_maxbytes", counters.memory_limit_bytes, MEMORY_BYTES_MAX)];
    let of_class = counters.classes.iter().flat_map(|class| {
        let shown = class.shown;
        [
            ("total_pages", shown.pages, PAGES_MAX),
            ("chunks_per_page", shown.chunks_per_page as u64, CHUNK_MAX),
            ("chunk_size", shown.chunk_size_bytes as u64, CHUNK_MAX),
            ("used_chunks", shown.used_chunks, CHUNKS_MAX),
            ("number", class.items, CHUNKS_MAX),
        ]
    });
    match general.into_iter().chain(of_class).find(|&(_, value, limit)| value > limit) {
        Some((row, value, limit)) => Err(ObserveError::Implausible { row, value, limit }),
        None => Ok(()),
    }
}

/// Returns what the command could not see, as sentences.
fn notes(version: &str, traffic: &Traffic, seconds: f64, moves: u64) -> Vec<String> {
    /// Shares of lines and of time above which a note says so.
    const DROPPED_SHARE: f64 = 0.01;
    const UNWATCHED_SHARE: f64 = 0.2;
    const UNKNOWN_SHARE: f64 = 0.1;
    let cost = traffic.cost();
    let mut notes = vec![];
    let dropped = cost.dropped as f64 / (cost.dropped + cost.lines).max(1) as f64;
    if dropped > DROPPED_SHARE {
        notes.push(format!(
            "The server dropped {:.0} % of the lines, because it was busy: the predictions are less precise.",
            dropped * 100.0
        ));
    }
    let watched = cost.watched.as_secs_f64() / seconds.max(1e-9);
    if watched < 1.0 - UNWATCHED_SHARE {
        notes.push(format!(
            "The command watched {:.0} % of the time, because it had seen enough or to limit its cost.",
            watched * 100.0
        ));
    }
    if moves > 0 {
        notes.push(format!(
            "The server moved {moves} pages meanwhile: its misses may not be settled."
        ));
    }
    let unknown = traffic.unknown_miss_share();
    if unknown > UNKNOWN_SHARE {
        notes.push(format!(
            "After {:.0} % of the misses, no client stored the key. They are the same in every prediction.",
            unknown * 100.0
        ));
    }
    if number_of(version).is_some_and(|version| version < DELETES_SINCE) {
        notes.push(
            "This version does not report deletes: keys that clients delete make the predictions less precise."
                .to_owned(),
        );
    }
    notes
}

/// Returns the three numbers of a version of memcached.
fn number_of(version: &str) -> Option<[u32; 3]> {
    let numbers: Vec<u32> = version.split('.').map_while(|number| number.parse().ok()).collect();
    numbers.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::{check, number_of};
    use slabwise_observer::counters::{ClassCounters, Counters};

    #[test]
    fn numbers_that_no_memcached_has_are_refused() {
        let mut counters = Counters { memory_limit_bytes: 64 << 20, ..Counters::default() };
        assert!(check(&counters).is_ok());
        counters.classes.push(ClassCounters { items: u64::MAX, ..ClassCounters::default() });
        let error = check(&counters).expect_err("there are too many items").to_string();
        assert!(error.starts_with("number is 18446744073709551615, above the limit"), "{error}");
        counters.classes.clear();
        counters.memory_limit_bytes = 1 << 60;
        assert!(check(&counters).is_err());
    }

    #[test]
    fn a_version_has_three_numbers() {
        assert_eq!(number_of("1.6.18"), Some([1, 6, 18]));
        assert_eq!(number_of("slabwise 0.1.0"), None);
        assert!(number_of("1.6.45") > Some(super::DELETES_SINCE));
    }
}
