//! The counters of the server that calibrate the curves, and that give the budget.

use super::estimates::Present;
use super::options::TrafficError;
use slabwise_client::{Connection, Rows};
use std::collections::BTreeMap;
use std::time::Duration;

/// The largest number of items of a class. A server that reports more is none; sums of such numbers would overflow.
const ITEMS_MAX: u64 = 1 << 40;

/// One reading of the counters.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counters {
    /// The processor time of the server since its start.
    pub server: Duration,
    /// The number of gets that missed.
    pub misses: u64,
    /// The lines that workers did not write because their buffers were full, and those that were not sent because the
    /// connection was too slow.
    pub dropped: u64,
    /// The lines that workers wrote.
    pub written: u64,
    /// The classes by their numbers.
    pub classes: BTreeMap<u8, ClassCounters>,
}

/// The counters of a class.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ClassCounters {
    /// The number of items.
    pub items: u64,
    /// The number of gets that hit.
    pub hits: u64,
}

impl Counters {
    /// Reads `stats`, `stats slabs` and `stats items`.
    pub fn read(connection: &mut Connection) -> Result<Counters, TrafficError> {
        let general = connection.ask_rows("stats")?;
        let (slabs, items) =
            (connection.ask_rows("stats slabs")?, connection.ask_rows("stats items")?);
        Counters::of(&general, &slabs, &items)
    }

    /// Takes the counters from the rows of `stats`, `stats slabs` and `stats items`.
    fn of(general: &Rows, slabs: &Rows, items: &Rows) -> Result<Counters, TrafficError> {
        let mut classes: BTreeMap<u8, ClassCounters> = BTreeMap::new();
        for row in slabs.0.iter().chain(&items.0) {
            let Some((class, field)) = row.class_field() else { continue };
            let (Ok(class), Ok(value)) = (class.parse(), row.value.parse()) else { continue };
            match field {
                "get_hits" => classes.entry(class).or_default().hits = value,
                "number" => classes.entry(class).or_default().items = ITEMS_MAX.min(value),
                _ => {}
            }
        }
        Ok(Counters {
            server: seconds(general, "rusage_user")?
                .saturating_add(seconds(general, "rusage_system")?),
            misses: count(general, "get_misses")?,
            dropped: count(general, "log_worker_dropped")?
                .saturating_add(count(general, "log_watcher_skipped")?),
            written: count(general, "log_worker_written")?,
            classes,
        })
    }

    /// Returns the number of items of all classes.
    pub fn items(&self) -> u64 {
        self.classes.values().map(|class| class.items).sum()
    }
}

fn count(rows: &Rows, row: &'static str) -> Result<u64, TrafficError> {
    value(rows, row, |text| text.parse().ok())
}

fn seconds(rows: &Rows, row: &'static str) -> Result<Duration, TrafficError> {
    value(rows, row, |text| Duration::try_from_secs_f64(text.parse().ok()?).ok())
}

fn value<T>(
    rows: &Rows,
    row: &'static str,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<T, TrafficError> {
    let found = rows.get(row).and_then(|row| parse(&row.value));
    found.ok_or(TrafficError::MissingRow { command: "stats", row })
}

/// The hits and misses of several readings. Older ones have less weight.
#[derive(Debug, Default)]
pub struct Counted {
    last: Option<Counters>,
    /// The weight of the misses of all classes.
    misses: f64,
    classes: BTreeMap<u8, Present>,
}

impl Counted {
    /// Adds what changed since the last reading. Counters that decreased, for example by `stats reset`, add nothing.
    pub fn add(&mut self, counters: Counters) {
        let last = self.last.replace(counters.clone()).unwrap_or_else(|| counters.clone());
        self.misses += counters.misses.saturating_sub(last.misses) as f64;
        for (&number, class) in &counters.classes {
            let before = last.classes.get(&number).copied().unwrap_or_default();
            let present = self.classes.entry(number).or_default();
            present.chunks = class.items;
            present.hits += class.hits.saturating_sub(before.hits) as f64;
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
    pub fn last(&self) -> Option<&Counters> {
        self.last.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::{Counted, Counters};
    use slabwise_client::{Row, Rows};
    use std::time::Duration;

    fn rows(lines: &[(&str, &str)]) -> Rows {
        let row =
            |&(name, value): &(&str, &str)| Row { name: name.to_owned(), value: value.to_owned() };
        Rows(lines.iter().map(row).collect())
    }

    fn counters(user: &str, misses: &str, hits: &str) -> Result<Counters, String> {
        let general = rows(&[
            ("rusage_user", user),
            ("rusage_system", "0.5"),
            ("get_misses", misses),
            ("log_worker_dropped", "3"),
            ("log_watcher_skipped", "4"),
            ("log_worker_written", "100"),
        ]);
        let slabs = rows(&[("5:get_hits", hits), ("5:chunk_size", "96"), ("active_slabs", "1")]);
        let items = rows(&[("items:5:number", "42")]);
        Counters::of(&general, &slabs, &items).map_err(|error| error.to_string())
    }

    #[test]
    fn rows_give_the_counters() {
        let found = counters("1.25", "7", "9").expect("all rows are valid");
        assert_eq!((found.server, found.misses), (Duration::from_millis(1_750), 7));
        assert_eq!((found.dropped, found.written, found.items()), (7, 100, 42));
        assert_eq!(found.classes[&5].hits, 9);
    }

    #[test]
    fn an_invalid_row_is_an_error_that_names_it() {
        for (user, misses, row) in
            [("-1", "0", "rusage_user"), ("NaN", "0", "rusage_user"), ("1", "x", "get_misses")]
        {
            let error = counters(user, misses, "0").expect_err("a row is invalid");
            assert!(error.contains(row), "{error}");
        }
    }

    #[test]
    fn counts_are_the_changes_between_readings() {
        let mut counted = Counted::default();
        for (misses, hits) in [("100", "1000"), ("110", "1050"), ("0", "0"), ("5", "20")] {
            counted.add(counters("1", misses, hits).expect("all rows are valid"));
        }
        assert_eq!((counted.misses(), counted.classes()[&5].hits), (15.0, 70.0));
        counted.scale(0.5);
        assert_eq!((counted.misses(), counted.classes()[&5].hits), (7.5, 35.0));
        assert_eq!(counted.classes()[&5].chunks, 42);
    }
}
