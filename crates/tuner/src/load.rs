//! What a driver measures of the clients, and what page moves may take beside them.

use slabwise_base::Moment;
use std::time::Duration;

/// Whether clients are being served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// They ask for little or nothing.
    Idle,
    /// They ask for so much that a core that is taken from them is missed.
    Serving,
}

/// Classifies the load by the rate at which bytes arrive.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoadClassifier {
    looked_nanos: u64,
    bytes_read: u64,
    is_serving: bool,
}

impl LoadClassifier {
    /// Between two looks, at least: long beside a request.
    const LOOK_NANOS: u64 = 10_000_000;
    /// From this rate on clients are being served: some ten thousand requests a second.
    const BYTES_PER_SECOND_MIN: u64 = 1 << 20;

    /// The load now, when clients have sent this many bytes since the start; [`Load::Idle`] before the first look.
    pub fn load(&mut self, bytes_read: u64, at: Moment) -> Load {
        let nanos = at.nanos.saturating_sub(self.looked_nanos);
        if nanos >= LoadClassifier::LOOK_NANOS {
            let bytes = u128::from(bytes_read.saturating_sub(self.bytes_read));
            let bytes_per_second = bytes * 1_000_000_000 / u128::from(nanos);
            self.is_serving = bytes_per_second >= u128::from(Self::BYTES_PER_SECOND_MIN);
            (self.looked_nanos, self.bytes_read) = (at.nanos, bytes_read);
        }
        if self.is_serving { Load::Serving } else { Load::Idle }
    }
}

/// The average so far, of timed turns: the time from receiving requests to sending their answers.
#[derive(Clone, Copy, Debug, Default)]
pub struct HitTime {
    shares: u64,
    nanos: u64,
    mean_us: Option<f64>,
}

impl HitTime {
    /// A mean of fewer shares says little.
    const SHARES_MIN: u64 = 1_000;
    /// The weight of the newest mean beside those before it.
    const WEIGHT_NEW: f64 = 0.2;

    /// The average in microseconds, when there is a new one. Takes the shares of all timed turns and their
    /// nanoseconds, both since the start.
    pub fn look(&mut self, (shares, nanos): (u64, u64)) -> Option<f64> {
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

/// How much of the machine page moves may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MoveBudget {
    /// Chunks that the mover visits in one step while clients are served; at least 1.
    pub chunks_per_step: usize,
    /// Pages that may move in a second while clients are served; at least 1. When nobody is, pages move as
    /// fast as they can.
    pub pages_per_second: u32,
}

impl MoveBudget {
    /// A step is some ten microseconds' work: a request that has to wait for it is not among the slow ones.
    pub const CHUNKS_PER_STEP_DEFAULT: usize = 32;

    /// When nobody has to wait.
    const CHUNKS_PER_STEP_IDLE: usize = 256;

    /// Bytes of pages that move in a second by default. At a millisecond a mebibyte, and twice that for small
    /// chunks, few requests in a hundred meet a step.
    const BYTES_PER_SECOND_DEFAULT: usize = 16 << 20;

    /// The default for pages of this size.
    pub fn for_pages_of(page_size_bytes: usize) -> MoveBudget {
        let pages_per_second = (Self::BYTES_PER_SECOND_DEFAULT / page_size_bytes).max(1) as u32;
        MoveBudget { chunks_per_step: Self::CHUNKS_PER_STEP_DEFAULT, pages_per_second }
    }

    /// Bytes that a step may have to copy: of large chunks it visits fewer.
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
    fn clients_that_send_a_mebibyte_a_second_are_served_until_a_look_finds_less() {
        let mut classifier = LoadClassifier::default();
        let mut load =
            |bytes, millis: u64| classifier.load(bytes, Moment::from_nanos(millis * 1_000_000));
        assert_eq!(load(1 << 20, 9), Load::Idle, "it has not looked yet");
        assert_eq!(load(1 << 20, 10), Load::Serving);
        assert_eq!(load(1 << 20, 19), Load::Serving, "looks are 10 ms apart");
        assert_eq!(load((1 << 20) + 10_485, 20), Load::Idle, "a byte too few");
        assert_eq!(load((1 << 20) + 10_485 + 1_048_576, 1_020), Load::Serving);
        assert_eq!(load((1 << 20) + 10_485 + 1_048_576, 1_021), Load::Serving);
        assert_eq!(load((1 << 20) + 10_485 + 1_048_576, 1_030), Load::Idle);
    }

    #[test]
    fn the_average_follows_the_newest_thousand_by_a_fifth() {
        let mut hit_time = HitTime::default();
        assert_eq!(hit_time.look((999, 999_000)), None, "too few");
        assert_eq!(hit_time.look((1_000, 10_000_000)), Some(10.0));
        assert_eq!(hit_time.look((1_500, 20_000_000)), None);
        assert_eq!(hit_time.look((2_000, 30_000_000)), Some(12.0), "10 and a fifth of 20 - 10");
        assert_eq!(hit_time.look((3_000, 0)), Some(9.6), "time that went back is no time");
    }
}
