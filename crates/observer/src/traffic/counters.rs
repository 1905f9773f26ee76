//! What the counters of the server say about its watchers and its curves.

use super::estimates::Present;
use super::options::TrafficError;
use crate::counters::{Counters, LineCounts};
use std::collections::BTreeMap;
use std::time::Duration;

/// What an observation of the traffic needs of the counters.
#[derive(Clone, Debug)]
pub struct Reading {
    /// The processor time of the server since its start.
    pub server: Duration,
    /// The lines for watchers.
    pub lines: LineCounts,
    /// All counters.
    pub counters: Counters,
}

impl Reading {
    /// Returns an error if the server does not report what an observation needs.
    pub fn of(counters: Counters) -> Result<Reading, TrafficError> {
        let missing = |row| TrafficError::MissingRow { command: "stats", row };
        let server = counters.processor_time.ok_or_else(|| missing("rusage_user"))?;
        let lines = counters.lines.ok_or_else(|| missing("log_worker_written"))?;
        Ok(Reading { server, lines, counters })
    }

    /// Returns the number of items of all classes.
    pub fn items(&self) -> u64 {
        self.counters.classes.iter().map(|class| class.items).sum()
    }
}

/// The hits and misses of several readings. Older ones have less weight.
#[derive(Debug, Default)]
pub struct Counted {
    last: Option<Reading>,
    /// The weight of the misses of all classes.
    misses: f64,
    classes: BTreeMap<u8, Present>,
}

impl Counted {
    /// Adds what changed since the last reading. Counters that decreased, for example by `stats reset`, add nothing.
    pub fn add(&mut self, reading: Reading) {
        let last = self.last.replace(reading.clone()).unwrap_or_else(|| reading.clone());
        let (now, before) = (&reading.counters, &last.counters);
        self.misses += now.misses.saturating_sub(before.misses) as f64;
        for class in &now.classes {
            let id = class.shown.class;
            let hits_before = before.class(id).map_or(0, |class| class.shown.hits);
            // A class number is below 256.
            let present = self.classes.entry(id.wire() as u8).or_default();
            present.chunks = class.items;
            present.hits += class.shown.hits.saturating_sub(hits_before) as f64;
        }
    }

    /// Multiplies all weights by this factor.
    pub fn scale(&mut self, factor: f64) {
        self.misses *= factor;
        self.classes.values_mut().for_each(|class| class.hits *= factor);
    }

    /// Returns the weight of the misses of all classes.
    pub fn misses(&self) -> f64 {
        self.misses
    }

    /// Returns the hits and the items of each class. The misses are 0.
    pub fn classes(&self) -> &BTreeMap<u8, Present> {
        &self.classes
    }

    /// Returns the last reading.
    pub fn last(&self) -> Option<&Reading> {
        self.last.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::{Counted, Reading};
    use crate::counters::{ClassCounters, Counters, LineCounts};
    use slabwise_base::ClassId;
    use slabwise_policy::ClassSnapshot;
    use std::time::Duration;

    fn counters(misses: u64, hits: u64) -> Counters {
        let shown = ClassSnapshot { hits, ..ClassSnapshot::empty(ClassId(4), 96, 10_000) };
        Counters {
            misses,
            processor_time: Some(Duration::from_secs(2)),
            lines: Some(LineCounts { written: 100, dropped: 7 }),
            classes: vec![ClassCounters { shown, items: 42, ..ClassCounters::default() }],
            ..Counters::default()
        }
    }

    #[test]
    fn a_server_without_watchers_is_an_error_that_names_the_row() {
        let valid = Reading::of(counters(7, 9)).expect("all counters are there");
        assert_eq!((valid.items(), valid.lines.dropped), (42, 7));
        for (counters, row) in [
            (Counters { processor_time: None, ..counters(0, 0) }, "rusage_user"),
            (Counters { lines: None, ..counters(0, 0) }, "log_worker_written"),
        ] {
            let error = Reading::of(counters).expect_err("a row is missing").to_string();
            assert!(error.contains(row), "{error}");
        }
    }

    #[test]
    fn counts_are_the_changes_between_readings() {
        let mut counted = Counted::default();
        for (misses, hits) in [(100, 1_000), (110, 1_050), (0, 0), (5, 20)] {
            counted.add(Reading::of(counters(misses, hits)).expect("all counters are there"));
        }
        assert_eq!((counted.misses(), counted.classes()[&5].hits), (15.0, 70.0));
        counted.scale(0.5);
        assert_eq!((counted.misses(), counted.classes()[&5].hits), (7.5, 35.0));
        assert_eq!(counted.classes()[&5].chunks, 42);
    }
}
