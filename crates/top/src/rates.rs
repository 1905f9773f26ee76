//! Rates: the difference of two samples of one server, per second.

use crate::sample::{Class, Sample};

/// A sample, and the rates since the sample before it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    /// The sample.
    pub sample: Sample,
    /// The seconds since the sample before it; `None` for the first sample, and after a restart of the server.
    pub elapsed_seconds: Option<f64>,
    /// The rates of the whole server.
    pub rates: Rates,
    /// The classes of the sample with their rates, in the order of the sample.
    pub classes: Vec<ClassReading>,
}

/// The rates of a server. A rate is `None` if there is no earlier sample, or if a counter is lower than before.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rates {
    /// Requests per second.
    pub requests_per_second: Option<f64>,
    /// Gets per second.
    pub gets_per_second: Option<f64>,
    /// The fraction of gets that hit. `None` also if there was no get.
    pub hit_ratio: Option<f64>,
    /// Evicted items per second.
    pub evictions_per_second: Option<f64>,
    /// Page moves per second.
    pub page_moves_per_second: Option<f64>,
}

/// A class with its rates.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClassReading {
    /// The class.
    pub class: Class,
    /// Gets that hit per second.
    pub hits_per_second: Option<f64>,
    /// Sets per second.
    pub sets_per_second: Option<f64>,
    /// Evicted items per second.
    pub evictions_per_second: Option<f64>,
}

impl Reading {
    /// Computes the rates of `sample` since `before`, an earlier sample of the same server.
    pub fn new(sample: Sample, before: Option<&Sample>) -> Reading {
        let before = before.filter(|before| !restarted(before, &sample));
        let elapsed_seconds = before.and_then(|before| {
            let nanos = sample.nanos.checked_sub(before.nanos).filter(|&nanos| nanos > 0)?;
            Some(nanos as f64 / 1e9)
        });
        let rates = Rates::new(&sample, before, elapsed_seconds);
        let classes = sample.classes.iter().map(|class| {
            let earlier = before.and_then(|before| class_before(before, class));
            ClassReading::new(class.clone(), earlier, elapsed_seconds)
        });
        Reading { classes: classes.collect(), elapsed_seconds, rates, sample }
    }
}

impl Rates {
    fn new(sample: &Sample, before: Option<&Sample>, elapsed_seconds: Option<f64>) -> Rates {
        let Some(before) = before else { return Rates::default() };
        let (old, new) = (&before.totals, &sample.totals);
        let moves = old.page_moves.zip(new.page_moves);
        Rates {
            requests_per_second: rate(old.requests, new.requests, elapsed_seconds),
            gets_per_second: rate(old.gets, new.gets, elapsed_seconds),
            hit_ratio: hit_ratio((old.hits, old.gets), (new.hits, new.gets)),
            evictions_per_second: rate(old.evictions, new.evictions, elapsed_seconds),
            page_moves_per_second: moves.and_then(|(old, new)| rate(old, new, elapsed_seconds)),
        }
    }
}

impl ClassReading {
    fn new(class: Class, before: Option<&Class>, elapsed_seconds: Option<f64>) -> ClassReading {
        let per_second =
            |counter: fn(&Class) -> u64| rate(counter(before?), counter(&class), elapsed_seconds);
        ClassReading {
            hits_per_second: per_second(|class| class.hits),
            sets_per_second: per_second(|class| class.sets),
            evictions_per_second: per_second(|class| class.evictions),
            class,
        }
    }
}

/// Returns the same class in an earlier sample. A class number with another chunk size is another class: slabwise uses
/// the number of a retired class again.
fn class_before<'a>(before: &'a Sample, class: &Class) -> Option<&'a Class> {
    let same = |other: &&Class| {
        (other.number, other.chunk_size_bytes) == (class.number, class.chunk_size_bytes)
    };
    before.classes.iter().find(same)
}

/// True if the server was restarted between the samples.
fn restarted(before: &Sample, after: &Sample) -> bool {
    let (before, after) = (&before.totals, &after.totals);
    before.pid != after.pid || after.uptime_seconds < before.uptime_seconds
}

/// Returns the increase of a counter per second, or `None` if the counter is lower than before.
fn rate(before: u64, after: u64, elapsed_seconds: Option<f64>) -> Option<f64> {
    Some(after.checked_sub(before)? as f64 / elapsed_seconds?)
}

/// Returns the fraction of gets that hit between two pairs of hits and gets, or `None` if there was no get.
fn hit_ratio(before: (u64, u64), after: (u64, u64)) -> Option<f64> {
    let hits = after.0.checked_sub(before.0)?;
    let gets = after.1.checked_sub(before.1).filter(|&gets| gets > 0)?;
    // The server may count a get after its hit, so the sample may have the hit and not the get.
    Some((hits as f64 / gets as f64).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::{Rates, Reading};
    use crate::sample::{Class, Sample, Totals};

    fn sample(nanos: u64, requests: u64, gets: u64, hits: u64) -> Sample {
        let totals = Totals {
            pid: 1,
            uptime_seconds: nanos / 1_000_000_000,
            requests,
            gets,
            hits,
            page_moves: Some(requests / 10),
            ..Totals::default()
        };
        Sample { nanos, totals, ..Sample::default() }
    }

    #[test]
    fn a_rate_is_a_difference_per_second() {
        let before = sample(1_000_000_000, 100, 80, 60);
        let reading = Reading::new(sample(3_000_000_000, 500, 280, 210), Some(&before));
        assert_eq!(reading.elapsed_seconds, Some(2.0));
        assert_eq!(reading.rates.requests_per_second, Some(200.0));
        assert_eq!(reading.rates.hit_ratio, Some(0.75));
        assert_eq!(reading.rates.evictions_per_second, Some(0.0));
        assert_eq!(reading.rates.page_moves_per_second, Some(20.0));
    }

    #[test]
    fn the_first_sample_has_no_rates() {
        let reading = Reading::new(sample(1, 100, 80, 60), None);
        assert_eq!((reading.elapsed_seconds, reading.rates), (None, Rates::default()));
    }

    #[test]
    fn a_restarted_server_has_no_rates() {
        let before = sample(9_000_000_000, 100, 80, 60);
        let mut other_process = sample(10_000_000_000, 500, 280, 210);
        other_process.totals.pid = 2;
        assert_eq!(Reading::new(other_process, Some(&before)).rates, Rates::default());
        let mut lower_uptime = sample(10_000_000_000, 500, 280, 210);
        lower_uptime.totals.uptime_seconds = 3;
        assert_eq!(Reading::new(lower_uptime, Some(&before)).rates, Rates::default());
    }

    #[test]
    fn a_counter_that_is_lower_than_before_has_no_rate() {
        let before = sample(1_000_000_000, 100, 80, 60);
        let reading = Reading::new(sample(2_000_000_000, 10, 8, 6), Some(&before));
        assert_eq!(reading.rates.requests_per_second, None);
        assert_eq!(reading.rates.hit_ratio, None);
        assert_eq!(reading.rates.evictions_per_second, Some(0.0), "this counter did not decrease");
    }

    #[test]
    fn the_hit_ratio_needs_a_get() {
        let before = sample(1_000_000_000, 100, 80, 60);
        let reading = Reading::new(sample(2_000_000_000, 110, 80, 60), Some(&before));
        assert_eq!(reading.rates.hit_ratio, None);
        assert_eq!(reading.rates.requests_per_second, Some(10.0));
    }

    #[test]
    fn a_class_with_another_chunk_size_is_another_class() {
        let class = |chunk_size_bytes, hits| Class {
            number: 3,
            chunk_size_bytes,
            hits,
            ..Class::default()
        };
        let mut before = sample(1_000_000_000, 0, 0, 0);
        before.classes = vec![class(96, 10)];
        let mut after = sample(2_000_000_000, 0, 0, 0);
        after.classes = vec![class(96, 30), class(120, 30)];
        let reading = Reading::new(after, Some(&before));
        let hits: Vec<_> = reading.classes.iter().map(|class| class.hits_per_second).collect();
        assert_eq!(hits, [Some(20.0), None]);
    }
}
