//! Measurements of the clients' load, and the limits of the work of page moves.

use slabwise_base::Moment;
use std::time::Duration;

/// The clients' load, which decides how fast pages may move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// Clients send few or no requests. Pages move without pauses.
    Idle,
    /// Clients send many requests, which may need every core. Page moves are limited.
    Serving,
}

/// Classifies the load by the rate at which clients send bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoadClassifier {
    /// The time of the last measurement.
    measured_nanos: u64,
    /// The bytes that clients had sent since the start, at the last measurement.
    bytes_read: u64,
    is_serving: bool,
}

impl LoadClassifier {
    /// The minimum time between two measurements. It is long compared with the time of a request.
    const MEASURE_NANOS: u64 = 10_000_000;
    /// The minimum rate of [`Load::Serving`]. It corresponds to some ten thousand requests a second.
    const BYTES_PER_SECOND_MIN: u64 = 1 << 20;

    /// Returns the current load. `bytes_read` is the number of bytes that clients have sent since the start. Before the
    /// first measurement the load is [`Load::Idle`].
    pub fn load(&mut self, bytes_read: u64, at: Moment) -> Load {
        let nanos = at.nanos.saturating_sub(self.measured_nanos);
        if nanos >= LoadClassifier::MEASURE_NANOS {
            let bytes = u128::from(bytes_read.saturating_sub(self.bytes_read));
            let bytes_per_second = bytes * 1_000_000_000 / u128::from(nanos);
            self.is_serving = bytes_per_second >= u128::from(Self::BYTES_PER_SECOND_MIN);
            (self.measured_nanos, self.bytes_read) = (at.nanos, bytes_read);
        }
        if self.is_serving { Load::Serving } else { Load::Idle }
    }
}

/// The moving average of the time from the arrival of a request to its answer.
#[derive(Clone, Copy, Debug, Default)]
pub struct HitTime {
    /// The number of timed requests since the start, at the last update. A get of several keys counts once per key.
    requests: u64,
    /// The sum of the times of the timed requests, in nanoseconds.
    nanos: u64,
    /// The moving average; `None` before the first update.
    mean_us: Option<f64>,
}

impl HitTime {
    /// The minimum number of timed requests between two updates.
    const REQUESTS_MIN: u64 = 1_000;
    /// The weight of the mean of the newest requests in the moving average.
    const WEIGHT_NEW: f64 = 0.2;

    /// Updates the average if there are enough new requests. Returns the new average in microseconds, or `None` if it
    /// was not updated. The arguments are the number of timed requests and the sum of their times in nanoseconds, both
    /// since the start.
    pub fn update(&mut self, (requests, nanos): (u64, u64)) -> Option<f64> {
        let new_requests = requests - self.requests;
        if new_requests < HitTime::REQUESTS_MIN {
            return None;
        }
        let new_us = (nanos.saturating_sub(self.nanos)) as f64 / 1e3 / new_requests as f64;
        (self.requests, self.nanos) = (requests, nanos);
        let before = self.mean_us.unwrap_or(new_us);
        self.mean_us = Some(before + (new_us - before) * HitTime::WEIGHT_NEW);
        self.mean_us
    }
}

/// Limits of the work of page moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MoveBudget {
    /// The maximum number of chunks that the mover visits in one step while clients are served; at least 1.
    pub chunks_per_step: usize,
    /// The maximum number of pages that move in a second while clients are served; at least 1. Without load, the number
    /// is not limited.
    pub pages_per_second: u32,
}

impl MoveBudget {
    /// The default of [`MoveBudget::chunks_per_step`]. A step with this number of chunks takes some ten microseconds,
    /// which is short compared with the time of a slow request.
    pub const CHUNKS_PER_STEP_DEFAULT: usize = 32;

    /// The number of chunks that the mover visits in one step without load.
    const CHUNKS_PER_STEP_IDLE: usize = 256;

    /// The bytes of the pages that move in a second by default. The move of a mebibyte takes a millisecond, or two with
    /// small chunks. So the mover works at most 3 % of the time, and only few requests wait for a step.
    const BYTES_PER_SECOND_DEFAULT: usize = 16 << 20;

    /// Returns the default budget for pages of this size.
    pub fn for_pages_of(page_size_bytes: usize) -> MoveBudget {
        let pages_per_second = (Self::BYTES_PER_SECOND_DEFAULT / page_size_bytes).max(1) as u32;
        MoveBudget { chunks_per_step: Self::CHUNKS_PER_STEP_DEFAULT, pages_per_second }
    }

    /// The maximum number of bytes that a step copies while clients are served. If chunks are large, a step visits
    /// fewer of them.
    const STEP_SIZE_BYTES_MAX: usize = 32 << 10;

    /// Returns the number of chunks that the mover may visit in the next step.
    pub(crate) fn chunks(
        &self,
        load: Load,
        chunks_per_page: usize,
        page_size_bytes: usize,
    ) -> usize {
        let chunk_size_bytes = page_size_bytes / chunks_per_page;
        let chunks_max = (MoveBudget::STEP_SIZE_BYTES_MAX / chunk_size_bytes).max(1);
        match load {
            Load::Idle => MoveBudget::CHUNKS_PER_STEP_IDLE.max(self.chunks_per_step),
            Load::Serving => self.chunks_per_step.min(chunks_max),
        }
    }

    /// Returns the pause after a step that visited this many chunks of a page.
    pub(crate) fn pause(&self, chunks: usize, chunks_per_page: usize) -> Duration {
        let share = chunks as f64 / chunks_per_page as f64;
        Duration::from_secs_f64(share.min(1.0) / f64::from(self.pages_per_second))
    }
}

#[cfg(test)]
mod tests {
    use super::{HitTime, Load, LoadClassifier};
    use slabwise_base::Moment;

    #[test]
    fn a_mebibyte_per_second_is_classified_as_serving() {
        let mut classifier = LoadClassifier::default();
        let mut load =
            |bytes, millis: u64| classifier.load(bytes, Moment::from_nanos(millis * 1_000_000));
        assert_eq!(load(1 << 20, 9), Load::Idle, "the load is idle before the first measurement");
        assert_eq!(load(1 << 20, 10), Load::Serving);
        assert_eq!(load(1 << 20, 19), Load::Serving, "measurements are 10 ms apart");
        assert_eq!(
            load((1 << 20) + 10_485, 20),
            Load::Idle,
            "10,485 bytes in 10 ms are less than 1 MiB/s"
        );
        assert_eq!(load((1 << 20) + 10_485 + 1_048_576, 1_020), Load::Serving);
        assert_eq!(load((1 << 20) + 10_485 + 1_048_576, 1_021), Load::Serving);
        assert_eq!(load((1 << 20) + 10_485 + 1_048_576, 1_030), Load::Idle);
    }

    #[test]
    fn the_average_changes_by_a_fifth_of_the_difference_to_the_newest_mean() {
        let mut hit_time = HitTime::default();
        assert_eq!(hit_time.update((999, 999_000)), None, "999 requests do not update the average");
        assert_eq!(hit_time.update((1_000, 10_000_000)), Some(10.0));
        assert_eq!(hit_time.update((1_500, 20_000_000)), None);
        assert_eq!(
            hit_time.update((2_000, 30_000_000)),
            Some(12.0),
            "12 is 10 plus a fifth of 20 - 10"
        );
        assert_eq!(
            hit_time.update((3_000, 0)),
            Some(9.6),
            "if the sum decreases, the new time is 0"
        );
    }
}
