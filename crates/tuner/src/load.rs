//! Measurements of the clients' load, and the budget of page moves.

use slabwise_base::Moment;
use std::time::Duration;

/// Whether clients are being served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// Clients send few or no requests.
    Idle,
    /// The requests of clients need every core.
    Serving,
}

/// Classifies the load by the rate at which bytes arrive.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoadClassifier {
    measured_nanos: u64,
    bytes_read: u64,
    is_serving: bool,
}

impl LoadClassifier {
    /// The minimum time between two measurements; long compared with a request.
    const MEASURE_NANOS: u64 = 10_000_000;
    /// The rate from which clients are being served: some ten thousand requests a second.
    const BYTES_PER_SECOND_MIN: u64 = 1 << 20;

    /// The current load if clients have sent this many bytes since the start; [`Load::Idle`] before the first
    /// measurement.
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

/// The moving average of the time from receiving requests to sending their answers.
#[derive(Clone, Copy, Debug, Default)]
pub struct HitTime {
    shares: u64,
    nanos: u64,
    mean_us: Option<f64>,
}

impl HitTime {
    const SHARES_MIN: u64 = 1_000;
    /// The weight of the newest mean in the average.
    const WEIGHT_NEW: f64 = 0.2;

    /// Returns the average in microseconds if it has changed. Takes the number of timed requests (shares) and the sum
    /// of their times in nanoseconds, both since the start.
    pub fn update(&mut self, (shares, nanos): (u64, u64)) -> Option<f64> {
        let new_shares = shares - self.shares;
        if new_shares < HitTime::SHARES_MIN {
            return None;
        }
        let new_us = (nanos.saturating_sub(self.nanos)) as f64 / 1e3 / new_shares as f64;
        (self.shares, self.nanos) = (shares, nanos);
        let before = self.mean_us.unwrap_or(new_us);
        self.mean_us = Some(before + (new_us - before) * HitTime::WEIGHT_NEW);
        self.mean_us
    }
}

/// Limits of the work of page moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MoveBudget {
    /// Chunks that the mover visits in one step while clients are served; at least 1.
    pub chunks_per_step: usize,
    /// Pages that may move in a second while clients are served; at least 1. Otherwise pages move as fast as they
    /// can.
    pub pages_per_second: u32,
}

impl MoveBudget {
    /// A step takes some ten microseconds, so a request that waits for it is not among the slow ones.
    pub const CHUNKS_PER_STEP_DEFAULT: usize = 32;

    const CHUNKS_PER_STEP_IDLE: usize = 256;

    /// Bytes of pages that move in a second by default. A mebibyte takes a millisecond, twice that for small chunks, so
    /// few requests in a hundred wait for a step.
    const BYTES_PER_SECOND_DEFAULT: usize = 16 << 20;

    /// The default budget for pages of this size.
    pub fn for_pages_of(page_size_bytes: usize) -> MoveBudget {
        let pages_per_second = (Self::BYTES_PER_SECOND_DEFAULT / page_size_bytes).max(1) as u32;
        MoveBudget { chunks_per_step: Self::CHUNKS_PER_STEP_DEFAULT, pages_per_second }
    }

    /// The maximum number of bytes that a step copies: it visits fewer large chunks.
    const STEP_SIZE_BYTES_MAX: usize = 32 << 10;

    pub(crate) fn chunks(
        &self,
        load: Load,
        chunks_per_page: usize,
        page_size_bytes: usize,
    ) -> usize {
        let chunk_size_bytes = page_size_bytes / chunks_per_page;
        let few = (MoveBudget::STEP_SIZE_BYTES_MAX / chunk_size_bytes).max(1);
        match load {
            Load::Idle => MoveBudget::CHUNKS_PER_STEP_IDLE.max(self.chunks_per_step),
            Load::Serving => self.chunks_per_step.min(few),
        }
    }

    pub(crate) fn rest(&self, chunks: usize, chunks_per_page: usize) -> Duration {
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
        assert_eq!(load(1 << 20, 9), Load::Idle, "before the first measurement");
        assert_eq!(load(1 << 20, 10), Load::Serving);
        assert_eq!(load(1 << 20, 19), Load::Serving, "measurements are 10 ms apart");
        assert_eq!(load((1 << 20) + 10_485, 20), Load::Idle, "a byte too few");
        assert_eq!(load((1 << 20) + 10_485 + 1_048_576, 1_020), Load::Serving);
        assert_eq!(load((1 << 20) + 10_485 + 1_048_576, 1_021), Load::Serving);
        assert_eq!(load((1 << 20) + 10_485 + 1_048_576, 1_030), Load::Idle);
    }

    #[test]
    fn the_average_moves_a_fifth_towards_the_newest_mean() {
        let mut hit_time = HitTime::default();
        assert_eq!(hit_time.update((999, 999_000)), None, "too few");
        assert_eq!(hit_time.update((1_000, 10_000_000)), Some(10.0));
        assert_eq!(hit_time.update((1_500, 20_000_000)), None);
        assert_eq!(hit_time.update((2_000, 30_000_000)), Some(12.0), "10 and a fifth of 20 - 10");
        assert_eq!(hit_time.update((3_000, 0)), Some(9.6), "a time that went back counts as 0");
    }
}
