//! The durations of requests by command, for the metrics.
//!
//! A worker measures one of 64 rounds on average. Every request of the round counts with the duration of the whole round,
//! from the receive call to the send call, because its client waits for the reply that long. Without `-o http` nothing is
//! counted.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The names of the groups of commands, in the order of [`DurationCounts`].
pub const COMMAND_NAMES: [&str; COMMANDS] = ["get", "set", "other"];
const COMMANDS: usize = 3;
/// Range `n` ends at 2^n microseconds. The last range has no end.
const RANGES: usize = 22;

/// The durations that one worker has measured. Only this worker adds durations.
#[derive(Debug, Default)]
pub struct Durations {
    commands: [CommandDurations; COMMANDS],
}

#[derive(Debug, Default)]
struct CommandDurations {
    ranges: [AtomicU64; RANGES],
    sum_nanos: AtomicU64,
}

/// The durations of a group of commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DurationCounts {
    ranges: [u64; RANGES],
    /// The sum of all durations, in nanoseconds.
    pub sum_nanos: u64,
}

impl DurationCounts {
    /// Returns the end of each range in seconds, which is infinite for the last one, and the number of requests in it.
    pub fn ranges(&self) -> impl Iterator<Item = (f64, u64)> + '_ {
        let end = |range: usize| match range {
            last if last == RANGES - 1 => f64::INFINITY,
            range => 1e-6 * (1u64 << range) as f64,
        };
        self.ranges.iter().enumerate().map(move |(range, &count)| (end(range), count))
    }

    /// Returns the durations since an earlier reading.
    #[must_use]
    pub fn since(&self, earlier: &DurationCounts) -> DurationCounts {
        let mut counts = *self;
        for (count, before) in counts.ranges.iter_mut().zip(earlier.ranges) {
            *count = count.saturating_sub(before);
        }
        counts.sum_nanos = self.sum_nanos.saturating_sub(earlier.sum_nanos);
        counts
    }

    /// Returns the duration, in microseconds, below which this share of the durations is, interpolated within its range;
    /// `None` if there are no durations.
    pub fn quantile_us(&self, share: f64) -> Option<f32> {
        let count: u64 = self.ranges.iter().sum();
        let mut left = share * count as f64;
        for (range, &in_range) in self.ranges.iter().enumerate().filter(|&(_, &n)| n > 0) {
            let in_range = in_range as f64;
            if left <= in_range {
                let end = (1u64 << range) as f64;
                let begin = if range == 0 { 0.0 } else { end / 2.0 };
                return Some((begin + (end - begin) * left / in_range) as f32);
            }
            left -= in_range;
        }
        None
    }

    fn add(&mut self, durations: &CommandDurations) {
        for (sum, count) in self.ranges.iter_mut().zip(&durations.ranges) {
            *sum += count.load(Relaxed);
        }
        self.sum_nanos += durations.sum_nanos.load(Relaxed);
    }
}

impl Durations {
    /// Counts the requests of a round: this number of gets and of other requests, which stored this number of items and
    /// took this number of nanoseconds.
    pub fn add_round(&self, gets: u32, other_requests: u32, stored: u64, nanos: u64) {
        let others = u64::from(other_requests);
        let sets = stored.min(others);
        let counts = [u64::from(gets), sets, others - sets];
        let range = range_of(nanos);
        for (command, count) in self.commands.iter().zip(counts) {
            if count > 0 {
                // Only one thread writes the counters, so no atomic addition is necessary.
                let add =
                    |counter: &AtomicU64, n| counter.store(counter.load(Relaxed) + n, Relaxed);
                add(&command.ranges[range], count);
                add(&command.sum_nanos, count * nanos);
            }
        }
    }

    /// Returns the sums over all workers, in the order of [`COMMAND_NAMES`].
    pub fn sum(workers: &[Durations]) -> [DurationCounts; COMMANDS] {
        let mut sums = [DurationCounts::default(); COMMANDS];
        for worker in workers {
            for (sum, durations) in sums.iter_mut().zip(&worker.commands) {
                sum.add(durations);
            }
        }
        sums
    }
}

/// Returns the range of a duration: the first one whose end is not below it.
fn range_of(nanos: u64) -> usize {
    let micros = nanos.div_ceil(1_000);
    (micros.max(1).next_power_of_two().ilog2() as usize).min(RANGES - 1)
}

#[cfg(test)]
mod tests {
    use super::{COMMAND_NAMES, Durations, RANGES, range_of};

    #[test]
    fn a_duration_is_in_the_first_range_whose_end_is_not_below_it() {
        for (nanos, range) in [
            (0, 0),
            (1_000, 0),
            (1_001, 1),
            (2_000, 1),
            (2_001, 2),
            (1 << 30, RANGES - 1),
            (1_048_576_000, 20),
            (u64::MAX, RANGES - 1),
        ] {
            assert_eq!(range_of(nanos), range, "{nanos} ns");
        }
    }

    #[test]
    fn each_request_of_a_round_counts_with_the_duration_of_the_round() {
        let workers = [Durations::default(), Durations::default()];
        workers[0].add_round(8, 2, 1, 3_000);
        workers[1].add_round(8, 2, 1, 5_000);
        let sums = Durations::sum(&workers);
        let [gets, sets, others] = sums;
        let sums_nanos = [gets, sets, others].map(|it| it.sum_nanos);
        assert_eq!(sums_nanos, [64_000, 8_000, 8_000]);
        let counted: Vec<_> = gets.ranges().filter(|&(_, count)| count > 0).collect();
        assert_eq!(counted, [(4e-6, 8), (8e-6, 8)]);
        assert_eq!(gets.ranges().last(), Some((f64::INFINITY, 0)));
        assert_eq!(COMMAND_NAMES.len(), sums.len());
        assert_eq!(gets.quantile_us(0.25), Some(3.0), "the middle of the range from 2 to 4");
        assert_eq!(gets.quantile_us(1.0), Some(8.0));
        assert_eq!(gets.since(&gets).quantile_us(0.5), None);
    }
}
