//! Observes one server for a while.
//!
//! ```text
//!   counters --> Traffic: watches in a thread of its own --> counters, class table --> Observation
//!            '-> a slabwise with predictions: waits ------------^  '-- its predictions ---^
//! ```
//!
//! Invariants: the server gets only commands that change nothing; every wait ends with the time of the observation, and the
//! timeouts of the connector.

use crate::chunk_sizes::error::AdvisorError;
use crate::chunk_sizes::server;
use crate::estimate::Estimate;
use crate::observation::{ClassSeen, Observation, WhatIf};
use slabwise_base::Clock;
use slabwise_base::size_histogram::SizeHistogram;
use slabwise_client::{ClientError, Connection, Connector, Row};
use slabwise_observer::ObserverError;
use slabwise_observer::counters::{ClassCounters, Counters};
use slabwise_observer::traffic::{Cost, Options, Recording, Traffic, TrafficError};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// The time between two looks for an error of the observation.
const LOOK: Duration = Duration::from_millis(100);
/// The command whose reply has the predictions of a slabwise.
const PROFILE: &str = "stats profile";
/// A memcached from this version on reports deletes to watchers.
const DELETES_SINCE: [u32; 3] = [1, 6, 20];

/// An error of an observation. The caller adds the address of the server.
#[derive(Debug, thiserror::Error)]
pub enum ObserveError {
    #[error("{0}")]
    Client(#[from] ClientError),
    #[error("{0}")]
    Counters(#[from] ObserverError),
    #[error("{0}")]
    Traffic(#[from] TrafficError),
    #[error("{0}")]
    State(#[from] AdvisorError),
    #[error("the server was restarted while it was observed: start the command again")]
    Restarted,
    #[error(
        "the counts of the server were reset while it was observed (`stats reset`): start the command again"
    )]
    Reset,
    #[error(
        "the server wrote no lines: it had no requests, or used too little processor time to be watched; watch it \
         longer (--for), or allow a higher cost (--cost-share-max)"
    )]
    NoTraffic,
}

/// Observes a server for this time, or until `stopped` is true. A slabwise that predicts its misses itself is not watched.
pub fn observe(
    connector: &Connector,
    options: Options,
    duration: Duration,
    stopped: &AtomicBool,
) -> Result<Observation, ObserveError> {
    let clock = Clock::real();
    let mut connection = connector.open()?;
    let before = Counters::read(&mut connection)?;
    let start_nanos = clock.nanos();
    let predicts = !what_if(&mut connection)?.is_empty();
    drop(connection);
    let state_before = server::state(connector)?;
    let traffic = if predicts { None } else { Some(Traffic::start(connector, options)?) };
    let elapsed = || Duration::from_nanos(clock.nanos() - start_nanos);
    let mut error = None;
    while elapsed() < duration && !stopped.load(Ordering::Relaxed) && error.is_none() {
        thread::park_timeout(duration.saturating_sub(elapsed()).min(LOOK));
        error = traffic.as_ref().and_then(Traffic::error);
    }
    let has_lines = traffic.as_ref().is_some_and(|traffic| traffic.cost().lines > 0);
    if let Some(error) = error.take_if(|_| !has_lines) {
        return Err(error.into());
    }
    let mut error = error.map(|error| error.to_string());
    let mut seconds = elapsed().as_secs_f64();
    let end = match End::read(connector, predicts) {
        Ok(end) => end,
        // A server that has stopped, or does not answer any more: the report is about the time until then.
        Err(failed) => match traffic.as_ref().filter(|_| has_lines).and_then(Traffic::last) {
            Some((after, time)) => {
                seconds = time.as_secs_f64();
                error.get_or_insert_with(|| failed.to_string());
                End { after, state: state_before, what_if: vec![] }
            }
            None => return Err(failed),
        },
    };
    let after = end.after;
    if !before.process.is_same_process(after.process) {
        return Err(ObserveError::Restarted);
    }
    if was_reset(&before, &after) {
        return Err(ObserveError::Reset);
    }
    let mut observation = counted(&before, &after, end.state, seconds);
    observation.server = connector.address.to_string();
    match &traffic {
        Some(_) if !has_lines => return Err(ObserveError::NoTraffic),
        Some(traffic) => add_traffic(&mut observation, traffic),
        None => observation.what_if = end.what_if,
    }
    if let Some(error) = error {
        observation.notes.push(format!("The observation ended after {seconds:.0} s: {error}."));
    }
    if after.has_storage {
        observation.notes.push(
            "The server moves values to files (extstore), which no prediction considers."
                .to_owned(),
        );
    }
    let moves = after.pages_moved.saturating_sub(before.pages_moved);
    if moves > 0 && !predicts {
        observation.notes.push(format!(
            "The server moved {moves} pages meanwhile: its misses may not be settled."
        ));
    }
    Ok(observation)
}

/// What is read at the end of an observation.
struct End {
    after: Counters,
    state: server::ServerState,
    what_if: Vec<WhatIf>,
}

impl End {
    fn read(connector: &Connector, predicts: bool) -> Result<End, ObserveError> {
        let mut connection = connector.open()?;
        let after = Counters::read(&mut connection)?;
        let what_if = if predicts { what_if(&mut connection)? } else { vec![] };
        Ok(End { after, state: server::state(connector)?, what_if })
    }
}

/// Returns true if a count has decreased.
fn was_reset(before: &Counters, after: &Counters) -> bool {
    let mut classes =
        after.classes.iter().filter_map(|it| Some((before.class(it.shown.class)?, it)));
    after.gets < before.gets
        || after.misses < before.misses
        || classes.any(|(before, after)| {
            after.shown.hits < before.shown.hits || after.shown.sets < before.shown.sets
        })
}

/// Returns the observation as far as the counters give it.
fn counted(
    before: &Counters,
    after: &Counters,
    state: server::ServerState,
    seconds: f64,
) -> Observation {
    let seen = |class: &ClassCounters| {
        let evicted = before.class(class.shown.class).map_or(0, |before| before.shown.evicted);
        ClassSeen { counters: *class, evicted: class.shown.evicted.saturating_sub(evicted) }
    };
    let classes: Vec<ClassSeen> = after.classes.iter().map(seen).collect();
    // A page in the pool can be on its way from one class to another.
    let evicts = after.pages_free == 0 || classes.iter().any(|class| class.evicted > 0);
    Observation {
        server: String::new(),
        state,
        memory_limit_bytes: after.memory_limit_bytes,
        seconds,
        gets: after.gets.saturating_sub(before.gets),
        misses: after.misses.saturating_sub(before.misses),
        is_memory_full: after.is_memory_full() && evicts,
        classes,
        curves: vec![],
        curves_without: vec![],
        what_if: vec![],
        unknown_miss_share: 0.0,
        item_sizes: SizeHistogram::default(),
        recording: Recording::default(),
        cost: Cost::default(),
        notes: vec![],
    }
}

/// Adds what watching has shown.
fn add_traffic(observation: &mut Observation, traffic: &Traffic) {
    observation.curves = traffic.curves();
    observation.curves_without = traffic.curves_without_groups().to_vec();
    observation.unknown_miss_share = traffic.unknown_miss_share();
    observation.item_sizes = traffic.item_sizes();
    observation.cost = traffic.cost();
    observation.recording = traffic.take_recording();
    observation.notes = notes(observation);
}

/// Returns the miss ratios that a slabwise predicts for other memory; none for another server.
fn what_if(connection: &mut Connection) -> Result<Vec<WhatIf>, ObserveError> {
    let rows = match connection.ask_rows(PROFILE) {
        Ok(rows) => rows,
        Err(ClientError::Refused(_)) => return Ok(vec![]),
        Err(error) => return Err(error.into()),
    };
    let number = |name: &str, percent: u64| {
        let value = rows.get(&format!("{name}:{percent}"))?.value.parse::<f64>().ok()?;
        (0.0..=1.0).contains(&value).then_some(value)
    };
    let point = |row: &Row| {
        let memory_percent = row.name.strip_prefix("what_if:")?.parse().ok()?;
        let value = number("what_if", memory_percent)?;
        let low = number("what_if_low", memory_percent)?.min(value);
        let high = number("what_if_high", memory_percent)?.max(value);
        Some(WhatIf { memory_percent, miss_ratio: Estimate { value, low, high } })
    };
    let mut points: Vec<WhatIf> = rows.0.iter().filter_map(point).collect();
    points.sort_by_key(|point| point.memory_percent);
    points.dedup_by_key(|point| point.memory_percent);
    points.retain(|point| point.memory_percent > 0);
    Ok(points)
}

/// Returns what the command could not see, as sentences.
fn notes(observation: &Observation) -> Vec<String> {
    /// Shares of lines and of time above which a note says so.
    const DROPPED_SHARE: f64 = 0.01;
    const UNWATCHED_SHARE: f64 = 0.2;
    const UNKNOWN_SHARE: f64 = 0.1;
    let Observation { cost, seconds, .. } = observation;
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
    let unknown = observation.unknown_miss_share;
    if unknown > UNKNOWN_SHARE {
        notes.push(format!(
            "After {:.0} % of the misses, no client stored the key. They are the same in every prediction.",
            unknown * 100.0
        ));
    }
    let version = number_of(&observation.state.version);
    if version.is_some_and(|version| version < DELETES_SINCE) {
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
    use super::{number_of, was_reset};
    use slabwise_observer::counters::{ClassCounters, Counters};

    #[test]
    fn counts_that_decrease_were_reset() {
        let reading = |gets, sets| {
            let mut class = ClassCounters::default();
            class.shown.sets = sets;
            Counters { gets, classes: vec![class], ..Counters::default() }
        };
        assert!(!was_reset(&reading(10, 5), &reading(10, 5)));
        assert!(was_reset(&reading(10, 5), &reading(9, 5)));
        assert!(was_reset(&reading(10, 5), &reading(11, 4)), "the gets are more again");
    }

    #[test]
    fn a_version_has_three_numbers() {
        assert_eq!(number_of("1.6.18"), Some([1, 6, 18]));
        assert_eq!(number_of("slabwise 0.1.0"), None);
        assert!(number_of("1.6.45") > Some(super::DELETES_SINCE));
    }
}
