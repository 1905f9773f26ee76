//! The history of the server: samples of its counters, in bounded memory.
//!
//! ```text
//!   every second --> recent: a sample per second, 10 minutes --every tenth--> older: 6 hours
//! ```

use crate::shared::DurationCounts;
use crate::stats::StatsContext;
use serde::Serialize;
use std::collections::VecDeque;

/// The number of samples that are one second apart.
const RECENT_MAX: usize = 600;
/// The number of older samples, which are [`OLDER_SECONDS`] apart.
const OLDER_MAX: usize = 6 * 3600 / OLDER_SECONDS as usize;
const OLDER_SECONDS: u64 = 10;

/// The counters of the server at one time. Counts are since the start of the server.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Sample {
    /// Unix time in seconds.
    time_seconds: u64,
    gets: u64,
    get_hits: u64,
    sets: u64,
    deletes: u64,
    evictions: u64,
    page_moves: u64,
    items: u64,
    item_bytes: u64,
    held_bytes: u64,
    connections: u64,
    /// The median of the durations of gets since the sample before, in microseconds; `None` if none was measured.
    get_median_us: Option<f32>,
    /// The 99th percentile of the same durations.
    get_p99_us: Option<f32>,
}

/// The samples, oldest first.
#[derive(Debug, Default)]
pub(super) struct History {
    recent: VecDeque<Sample>,
    older: VecDeque<Sample>,
    /// The durations of gets at the last sample.
    durations: DurationCounts,
    /// The durations of gets at the last sample in `older`.
    older_durations: DurationCounts,
}

impl History {
    /// Adds a sample. The caller calls this function once a second.
    pub fn record(&mut self, context: StatsContext<'_>) {
        let shared = context.shared;
        let stats = shared.engine.stats(context.now);
        let hits = stats.total.get_hits();
        let durations = shared.durations().map(|[gets, ..]| gets).unwrap_or_default();
        let since = durations.since(&self.durations);
        self.durations = durations;
        let sample = Sample {
            time_seconds: shared.unix_seconds(context.now.seconds),
            gets: hits + stats.get_misses,
            get_hits: hits,
            sets: stats.total.sets,
            deletes: stats.total.delete_hits + stats.delete_misses,
            evictions: stats.total.counters.evicted,
            page_moves: stats.mover.moved,
            items: stats.items,
            item_bytes: stats.bytes,
            held_bytes: stats.pages * stats.page_size_bytes,
            connections: shared.open_connections(),
            get_median_us: since.quantile_us(0.5),
            get_p99_us: since.quantile_us(0.99),
        };
        push(&mut self.recent, sample, RECENT_MAX);
        let is_due = self
            .older
            .back()
            .is_none_or(|last| last.time_seconds + OLDER_SECONDS <= sample.time_seconds);
        if is_due {
            let since = durations.since(&self.older_durations);
            self.older_durations = durations;
            let (get_median_us, get_p99_us) = (since.quantile_us(0.5), since.quantile_us(0.99));
            push(&mut self.older, Sample { get_median_us, get_p99_us, ..sample }, OLDER_MAX);
        }
    }

    /// Returns the samples of the last seconds, at most `points_max` of them, oldest first.
    pub fn last(&self, seconds: u64, points_max: usize) -> Vec<Sample> {
        let Some(last) = self.recent.back() else { return Vec::new() };
        let samples = if seconds <= RECENT_MAX as u64 { &self.recent } else { &self.older };
        let from = last.time_seconds.saturating_sub(seconds);
        let first = samples.partition_point(|sample| sample.time_seconds < from);
        let step = (samples.len() - first).div_ceil(points_max).max(1);
        let mut chosen: Vec<Sample> =
            samples.iter().skip(first).rev().step_by(step).copied().collect();
        chosen.reverse();
        chosen
    }
}

fn push(samples: &mut VecDeque<Sample>, sample: Sample, count_max: usize) {
    if samples.len() == count_max {
        samples.pop_front();
    }
    samples.push_back(sample);
}

#[cfg(test)]
mod tests {
    use super::{History, OLDER_MAX, RECENT_MAX, Sample, push};

    fn history(seconds: u64) -> History {
        let mut history = History::default();
        for time_seconds in 0..seconds {
            let sample = Sample { time_seconds, ..Sample::default() };
            push(&mut history.recent, sample, RECENT_MAX);
            if time_seconds.is_multiple_of(super::OLDER_SECONDS) {
                push(&mut history.older, sample, OLDER_MAX);
            }
        }
        history
    }

    #[test]
    fn samples_are_bounded_and_the_newest_is_kept() {
        let history = history(100_000);
        assert_eq!((history.recent.len(), history.older.len()), (RECENT_MAX, OLDER_MAX));
        for (seconds, points_max) in [(60, 600), (600, 100), (3_600, 300), (1 << 30, 300)] {
            let found = history.last(seconds, points_max);
            assert!(found.len() <= points_max && found.len() > points_max / 11, "{}", found.len());
            assert!(found.is_sorted_by_key(|sample| sample.time_seconds));
            let span = 99_999 - found[0].time_seconds;
            assert!(span <= seconds + 10, "{seconds} s: {span} s");
        }
    }

    #[test]
    fn a_new_server_has_no_history() {
        assert!(History::default().last(60, 600).is_empty());
    }
}
