//! The time that page moves may take, compared with the time of the workers.
//!
//! ```text
//!   rate      = share x busy time of the workers / elapsed time   (moves take time from clients)
//!             + idle part of the workers' time                    (moves take time that nobody needs)
//!   each step of the mover adds its time to a debt, and the debt falls at this rate; the mover pauses while it has debt
//! ```
//!
//! So the pace of moves follows the traffic: the busier the workers are, the more time moves may take, and the cost for
//! clients is bounded at any rate of requests.

use slabwise_base::Moment;
use std::time::Duration;

/// The processor time of the workers since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkerTime {
    /// The sum over all workers.
    pub busy: Duration,
    /// The number of workers, at least 1.
    pub workers: u32,
}

/// The shares of the workers' processor time that page moves may take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MoveShares {
    /// The share under a steady load.
    pub steady: f64,
    /// The share while classes evict items although a better division of the memory is planned.
    pub pressed: f64,
}

impl Default for MoveShares {
    fn default() -> MoveShares {
        MoveShares { steady: 0.05, pressed: 0.25 }
    }
}

impl MoveShares {
    /// Moves take as much time as they need.
    pub const UNLIMITED: MoveShares = MoveShares { steady: f64::INFINITY, pressed: f64::INFINITY };
}

/// Limits of the work of page moves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MoveBudget {
    /// The maximum number of chunks that the mover visits in one step while the workers are busy; at least 1.
    pub chunks_per_step: usize,
    /// The shares of the workers' time.
    pub shares: MoveShares,
}

impl Default for MoveBudget {
    /// A step with the default number of chunks takes some ten microseconds, which is short compared with the time of a
    /// slow request.
    fn default() -> MoveBudget {
        MoveBudget { chunks_per_step: 32, shares: MoveShares::default() }
    }
}

impl MoveBudget {
    /// The number of chunks that the mover visits in one step while the workers are mostly idle.
    const CHUNKS_PER_STEP_IDLE: usize = 256;
    /// The maximum number of bytes that a step copies while the workers are busy. If chunks are large, a step visits
    /// fewer of them.
    const STEP_SIZE_BYTES_MAX: usize = 32 << 10;

    /// Returns the number of chunks of this size that the mover may visit in the next step.
    fn chunks(&self, is_idle: bool, chunk_size_bytes: usize) -> usize {
        if is_idle {
            return MoveBudget::CHUNKS_PER_STEP_IDLE.max(self.chunks_per_step);
        }
        let chunks_max = (MoveBudget::STEP_SIZE_BYTES_MAX / chunk_size_bytes).max(1);
        self.chunks_per_step.min(chunks_max)
    }
}

/// Limits the time of page moves to a share of the workers' time.
#[derive(Clone, Debug)]
pub(crate) struct MovePacer {
    budget: MoveBudget,
    /// The time that moves may take in each nanosecond, in nanoseconds.
    rate: f64,
    /// The time that moves have taken beyond the allowed time, in nanoseconds.
    debt_nanos: f64,
    /// The time at which the debt was last reduced.
    reduced_at_nanos: u64,
    /// The time of the last measurement of the rate, and the workers' processor time at that time.
    measured: Option<(u64, Duration)>,
}

impl MovePacer {
    /// The minimum time between two measurements of the rate.
    const MEASURE_NANOS: u64 = 2_000_000;
    /// The mover works without a pause until its debt is above this value, so that it does not pause after each step.
    const DEBT_MAX_NANOS: f64 = 200_000.0;
    /// The longest pause.
    const PAUSE_MAX: Duration = Duration::from_millis(100);
    /// Above this rate the workers count as mostly idle.
    const RATE_IDLE: f64 = 0.5;

    /// Returns a pacer that allows moves without pauses until the first measurement.
    pub fn new(budget: MoveBudget) -> MovePacer {
        let (debt_nanos, reduced_at_nanos, measured) = (0.0, 0, None);
        MovePacer { budget, rate: 1.0, debt_nanos, reduced_at_nanos, measured }
    }

    /// Reduces the debt by the allowed time, and measures the rate if this is due. `is_pressed` is true if classes evict
    /// items although a better division is planned; the pacer calls it only if a measurement is due.
    pub fn advance(&mut self, workers: WorkerTime, is_pressed: impl FnOnce() -> bool, at: Moment) {
        let elapsed_nanos = at.nanos.saturating_sub(self.reduced_at_nanos) as f64;
        self.debt_nanos = (self.debt_nanos - self.rate * elapsed_nanos).max(0.0);
        self.reduced_at_nanos = at.nanos;
        let (measured_at_nanos, busy_before) =
            *self.measured.get_or_insert((at.nanos, workers.busy));
        let elapsed_nanos = at.nanos.saturating_sub(measured_at_nanos);
        if elapsed_nanos >= MovePacer::MEASURE_NANOS {
            let busy =
                workers.busy.saturating_sub(busy_before).as_nanos() as f64 / elapsed_nanos as f64;
            self.rate = self.rate_at(busy, workers.workers, is_pressed());
            self.measured = Some((at.nanos, workers.busy));
        }
    }

    /// Returns the rate if the workers together are busy for `busy` nanoseconds in each nanosecond.
    fn rate_at(&self, busy: f64, workers: u32, is_pressed: bool) -> f64 {
        let MoveShares { steady, pressed } = self.budget.shares;
        let share = if is_pressed { pressed.max(steady) } else { steady };
        // If the workers are busy for half of the time, there may be no idle core.
        let idle = (1.0 - 2.0 * busy / f64::from(workers.max(1))).max(0.0);
        // A rate above 0 keeps every pause finite.
        (share * busy + idle).max(1e-4)
    }

    /// Adds the time of a step of the mover.
    pub fn charge(&mut self, time: Duration) {
        self.debt_nanos += time.as_nanos() as f64;
    }

    /// Returns the pause before the next step of the mover; `None` if the mover may work at once.
    pub fn pause(&self) -> Option<Duration> {
        (self.debt_nanos > MovePacer::DEBT_MAX_NANOS && self.rate < 1.0).then(|| {
            let nanos = self.debt_nanos / self.rate;
            Duration::from_nanos(nanos as u64).min(MovePacer::PAUSE_MAX)
        })
    }

    /// Returns the number of chunks of this size that the mover may visit in the next step.
    pub fn chunks(&self, chunk_size_bytes: usize) -> usize {
        self.budget.chunks(self.rate > MovePacer::RATE_IDLE, chunk_size_bytes)
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

#[cfg(test)]
mod tests {
    use super::{HitTime, MoveBudget, MovePacer, WorkerTime};
    use slabwise_base::Moment;
    use std::time::Duration;

    /// Lets a mover work for a second beside `workers` workers that are busy for `busy` of the time. Each step takes 10
    /// us. Returns the share of the workers' busy time that the mover took, and the share of the elapsed time.
    fn shares_of_mover(busy: f64, workers: u32, is_pressed: bool) -> [f64; 2] {
        let mut pacer = MovePacer::new(MoveBudget::default());
        let (mut nanos, mut worked) = (0u64, 0u64);
        let step = Duration::from_micros(10);
        while nanos < 1_000_000_000 {
            let busy = Duration::from_nanos((nanos as f64 * busy * f64::from(workers)) as u64);
            let time = WorkerTime { busy, workers };
            pacer.advance(time, || is_pressed, Moment::from_nanos(nanos));
            match pacer.pause() {
                Some(pause) => nanos += pause.as_nanos() as u64,
                None => {
                    pacer.charge(step);
                    (nanos, worked) = (nanos + 10_000, worked + 10_000);
                }
            }
        }
        let elapsed = nanos as f64;
        [worked as f64 / (elapsed * busy * f64::from(workers)), worked as f64 / elapsed]
    }

    #[test]
    fn busy_workers_give_the_mover_a_share_of_their_time() {
        for (workers, is_pressed, expected) in
            [(1, false, 0.05), (4, false, 0.05), (1, true, 0.25), (2, true, 0.25)]
        {
            let [of_busy, _] = shares_of_mover(1.0, workers, is_pressed);
            let error = (of_busy / expected - 1.0).abs();
            assert!(error < 0.1, "{workers} workers: {of_busy} instead of {expected}");
        }
    }

    #[test]
    fn idle_workers_let_the_mover_work_all_the_time() {
        let [_, of_elapsed] = shares_of_mover(0.001, 4, false);
        assert!(of_elapsed > 0.95, "{of_elapsed}");
        let [_, of_elapsed] = shares_of_mover(0.25, 4, false);
        assert!((0.4..0.7).contains(&of_elapsed), "{of_elapsed}");
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
