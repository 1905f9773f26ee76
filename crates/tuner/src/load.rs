//! The time that page moves may take, compared with the time of the workers.
//!
//! ```text
//!   rate      = share x busy time of the workers / elapsed time   (moves take time from clients)
//!             + idle part of the workers' time x credit           (moves take time that nobody needs)
//!   each step of the mover adds its time to a debt, and the debt falls at this rate; the mover pauses while it has debt
//! ```
//!
//! Idle workers do not prove that a core is idle: clients on the same machine, or a limit of the container, may use it.
//! Steps that take much longer than their processor time had to wait for a core or for a lock of a worker. While steps
//! wait, the credit for idle time halves every few milliseconds. Otherwise it grows to 1 within a quarter of a second.
//!
//! A worker reports its processor time only after some rounds, so two successive measurements can differ much although
//! the load is constant. The rate uses moving averages, which add up to the reported time.
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
    /// The share while classes evict items although a better division of the memory is planned; at least `steady`.
    pub pressed: f64,
}

impl Default for MoveShares {
    fn default() -> MoveShares {
        MoveShares { steady: 0.05, pressed: 0.25 }
    }
}

impl MoveShares {
    /// Moves take as much time as they need, even if workers are busy for only a millionth of the time.
    pub const UNLIMITED: MoveShares = MoveShares { steady: 1e6, pressed: 1e6 };
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

/// The time of a step of the tuner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepTime {
    /// The processor time of the step.
    pub processor: Duration,
    /// The time from the start to the end of the step.
    pub elapsed: Duration,
}

impl StepTime {
    /// Returns the time of a step that did not wait.
    pub fn without_wait(processor: Duration) -> StepTime {
        StepTime { processor, elapsed: processor }
    }
}

/// The state of the page moves.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MoveState {
    /// The visits of chunks and the evictions for moves since the start, by the tuner and by stores.
    pub visits: u64,
    /// True if a page is moving or a move is planned.
    pub is_planned: bool,
}

/// Limits the time of page moves to a share of the workers' time.
///
/// Moves are the work of the tuner, and of stores that help the mover. The time of the stores is estimated from the time
/// that the tuner takes for a visit.
#[derive(Clone, Debug)]
pub(crate) struct MovePacer {
    budget: MoveBudget,
    /// The time that moves may take in each nanosecond, in nanoseconds.
    rate: f64,
    /// The part of the workers' idle time that moves may take.
    idle_credit: f64,
    /// The times of the steps since the last measurement.
    steps: StepTime,
    /// The time that moves have taken beyond the allowed time, in nanoseconds.
    debt_nanos: f64,
    /// The time at which the debt was last reduced.
    reduced_at_nanos: u64,
    /// The state at the last measurement of the load.
    measured: Option<Measured>,
    /// `None` before the second measurement.
    load: Option<Load>,
    /// The visits since the start after the tuner's last step.
    visits_seen: u64,
    /// The visits of the tuner's last step.
    visits_of_step: u64,
    /// The moving average of the time of a visit, in nanoseconds.
    visit_nanos: f64,
}

#[derive(Clone, Copy, Debug)]
struct Measured {
    at_nanos: u64,
    busy: Duration,
    evictions: u64,
}

/// Moving averages of the load of the workers.
#[derive(Clone, Copy, Debug)]
struct Load {
    /// The processor time of the workers in each nanosecond, in nanoseconds.
    busy: f64,
    /// The number of allocations in each nanosecond that found no free chunk.
    evictions: f64,
}

impl Load {
    /// Returns the load in a time.
    fn of(elapsed_nanos: f64, busy_nanos: f64, evictions: f64) -> Load {
        Load { busy: busy_nanos / elapsed_nanos, evictions: evictions / elapsed_nanos }
    }

    /// Adds the load in the last `elapsed_nanos` nanoseconds to the averages.
    fn include(&mut self, other: Load, elapsed_nanos: f64) {
        let weight = 1.0 - (-elapsed_nanos / MovePacer::AVERAGED_NANOS).exp();
        self.busy += (other.busy - self.busy) * weight;
        self.evictions += (other.evictions - self.evictions) * weight;
    }

    /// True if a class evicts items or lacks memory.
    fn is_evicting(&self) -> bool {
        self.evictions * MovePacer::AVERAGED_NANOS >= 1.0
    }
}

impl MovePacer {
    /// The minimum time between two measurements of the rate.
    const MEASURE_NANOS: u64 = 2_000_000;
    /// The mover works without a pause until its debt is above this value, so that it does not pause after each step.
    const DEBT_MAX_NANOS: f64 = 200_000.0;
    /// The time in which the credit for idle time grows from 0 to 1.
    const CREDIT_NANOS: f64 = 2.5e8;
    /// If the steps between two measurements take this many times their processor time, they had to wait.
    const WAITED_FACTOR: f64 = 1.25;
    /// The longest pause. The load can rise at any time, and then the classes need the planned pages at once.
    const PAUSE_MAX: Duration = Duration::from_millis(10);
    /// The time over which the load is averaged.
    const AVERAGED_NANOS: f64 = 3e7;
    /// Above this rate the workers count as mostly idle.
    const RATE_IDLE: f64 = 0.5;
    /// The time of a visit before the first measurement.
    const VISIT_NANOS_FIRST: f64 = 400.0;
    /// The number of visits over which the time of a visit is averaged.
    const VISITS_AVERAGED: f64 = 300.0;
    /// The maximum number of visits and evictions of a store for each chunk that it needs.
    const HELP_CHUNKS_MAX: f64 = 8.0;

    /// Returns a pacer that allows moves without pauses until the first measurement.
    pub fn new(budget: MoveBudget) -> MovePacer {
        MovePacer {
            budget,
            rate: 1.0,
            idle_credit: 1.0,
            steps: StepTime::default(),
            debt_nanos: 0.0,
            reduced_at_nanos: 0,
            measured: None,
            load: None,
            visits_seen: 0,
            visits_of_step: 0,
            visit_nanos: MovePacer::VISIT_NANOS_FIRST,
        }
    }

    /// Reduces the debt by the allowed time, and adds the time of stores that have helped. If a measurement is due,
    /// measures the rate, and returns the mean number of chunks that a store should visit from now on. `evictions`
    /// returns the number of allocations since the start that found no free chunk.
    pub fn advance(
        &mut self,
        workers: WorkerTime,
        state: MoveState,
        at: Moment,
        evictions: impl FnOnce() -> u64,
    ) -> Option<f64> {
        let elapsed_nanos = at.nanos.saturating_sub(self.reduced_at_nanos) as f64;
        let helped = state.visits.saturating_sub(self.visits_seen) as f64;
        self.visits_seen = state.visits;
        let debt_nanos = self.debt_nanos + helped * self.visit_nanos - self.rate * elapsed_nanos;
        self.debt_nanos = debt_nanos.max(0.0);
        self.reduced_at_nanos = at.nanos;
        let elapsed_nanos =
            self.measured.map_or(u64::MAX, |it| at.nanos.saturating_sub(it.at_nanos));
        if elapsed_nanos < MovePacer::MEASURE_NANOS {
            return None;
        }
        let (at_nanos, busy, evictions) = (at.nanos, workers.busy, evictions());
        let before = self.measured.replace(Measured { at_nanos, busy, evictions })?;
        self.update_credit(elapsed_nanos as f64);
        let busy_nanos = busy.saturating_sub(before.busy).as_nanos() as f64;
        let evictions = evictions.saturating_sub(before.evictions) as f64;
        let elapsed_nanos = elapsed_nanos as f64;
        let new = Load::of(elapsed_nanos, busy_nanos, evictions);
        let load = self.load.get_or_insert(new);
        load.include(new, elapsed_nanos);
        let load = *load;
        self.rate = self.rate_at(load, workers.workers, state.is_planned);
        if !load.is_evicting() {
            return Some(0.0);
        }
        let nanos_per_store = self.budget.shares.pressed * load.busy / load.evictions;
        Some((nanos_per_store / self.visit_nanos).min(MovePacer::HELP_CHUNKS_MAX))
    }

    /// Updates the credit for idle time. The last measurement was this time ago.
    fn update_credit(&mut self, elapsed_nanos: f64) {
        let StepTime { processor, elapsed } = std::mem::take(&mut self.steps);
        if elapsed > processor.mul_f64(MovePacer::WAITED_FACTOR) {
            self.idle_credit /= 2.0;
        } else {
            let credit = self.idle_credit + elapsed_nanos / MovePacer::CREDIT_NANOS;
            self.idle_credit = credit.min(1.0);
        }
    }

    /// Returns the rate under this load.
    fn rate_at(&self, load: Load, workers: u32, is_planned: bool) -> f64 {
        let MoveShares { steady, pressed } = self.budget.shares;
        let is_pressed = is_planned && load.is_evicting();
        let share = if is_pressed { pressed } else { steady };
        // If the workers are busy for half of the time, there may be no idle core.
        let idle = (1.0 - 2.0 * load.busy / f64::from(workers.max(1))).max(0.0);
        // A rate above 0 keeps every pause finite.
        (share * load.busy + idle * self.idle_credit).max(1e-4)
    }

    /// Records the visits since the start after a step of the tuner.
    pub fn note_step(&mut self, visits: u64) {
        self.visits_of_step = visits.saturating_sub(self.visits_seen);
        self.visits_seen = visits;
    }

    /// Adds the time of the tuner's last step, if the step visited chunks or evicted items. Returns true if it did.
    pub fn charge(&mut self, time: StepTime) -> bool {
        if self.visits_of_step == 0 {
            return false;
        }
        self.steps.processor += time.processor;
        self.steps.elapsed += time.elapsed;
        let nanos = time.processor.as_nanos() as f64;
        self.debt_nanos += nanos;
        let visits = self.visits_of_step as f64;
        let weight = visits / (visits + MovePacer::VISITS_AVERAGED);
        self.visit_nanos += (nanos / visits - self.visit_nanos) * weight;
        true
    }

    /// Returns the pause before the next step of the mover; `None` if the mover may work at once.
    pub fn pause(&self) -> Option<Duration> {
        (self.debt_nanos > MovePacer::DEBT_MAX_NANOS).then(|| {
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
    use super::{HitTime, MoveBudget, MovePacer, MoveState, StepTime, WorkerTime};
    use slabwise_base::Moment;
    use std::time::Duration;

    /// The time of a visit.
    const VISIT: Duration = Duration::from_nanos(500);

    /// The time between two reports of a worker's processor time.
    const REPORT_NANOS: u64 = 5_000_000;

    /// Lets a mover work for five seconds beside `workers` workers that are busy for `busy` of the time. Each step has 20
    /// visits. In each microsecond of a worker's time, `evictions` stores find no free chunk and help the mover. Returns
    /// the share of the workers' busy time that moves took, and the share of the elapsed time.
    fn shares_of_moves(busy: f64, workers: u32, evictions: f64) -> [f64; 2] {
        let mut pacer = MovePacer::new(MoveBudget::default());
        let (mut nanos, mut worked, mut visits, mut help) = (0u64, 0.0, 0.0, 0.0);
        let mut helped_at_nanos = 0;
        while nanos < 5_000_000_000 {
            let busy_nanos = |nanos: u64| nanos as f64 * busy * f64::from(workers);
            let evicted = |nanos: u64| busy_nanos(nanos) / 1e3 * evictions;
            let helped = (evicted(nanos) - evicted(helped_at_nanos)) * help;
            (visits, worked) = (visits + helped, worked + helped * VISIT.as_nanos() as f64);
            helped_at_nanos = nanos;
            let state = MoveState { visits: visits as u64, is_planned: true };
            let reported = busy_nanos(nanos / REPORT_NANOS * REPORT_NANOS);
            let busy = Duration::from_nanos(reported as u64);
            let (time, at) = (WorkerTime { busy, workers }, Moment::from_nanos(nanos));
            let found = pacer.advance(time, state, at, || evicted(nanos) as u64);
            help = found.unwrap_or(help);
            match pacer.pause() {
                Some(pause) => nanos += pause.as_nanos() as u64,
                None => {
                    visits += 20.0;
                    pacer.note_step(visits as u64);
                    assert!(pacer.charge(StepTime::without_wait(VISIT * 20)));
                    (nanos, worked) = (nanos + 10_000, worked + 10_000.0);
                }
            }
        }
        [worked / (nanos as f64 * busy * f64::from(workers)), worked / nanos as f64]
    }

    #[test]
    fn busy_workers_give_moves_a_share_of_their_time() {
        for (workers, evictions, expected) in
            [(1, 0.0, 0.05), (4, 0.0, 0.05), (1, 0.1, 0.25), (2, 0.5, 0.25), (4, 0.01, 0.25)]
        {
            let [of_busy, _] = shares_of_moves(1.0, workers, evictions);
            let error = (of_busy / expected - 1.0).abs();
            assert!(error < 0.15, "{workers} workers: {of_busy} instead of {expected}");
        }
    }

    #[test]
    fn idle_workers_let_the_mover_work_all_the_time() {
        let [_, of_elapsed] = shares_of_moves(0.001, 4, 0.0);
        assert!(of_elapsed > 0.95, "{of_elapsed}");
        let [_, of_elapsed] = shares_of_moves(0.25, 4, 0.0);
        assert!((0.4..0.8).contains(&of_elapsed), "{of_elapsed}");
    }

    #[test]
    fn while_steps_have_to_wait_moves_use_little_idle_time() {
        let mut pacer = MovePacer::new(MoveBudget::default());
        let (mut nanos, mut rate) = (0, 1.0);
        // Returns the rate after this number of measurements, each after a step that waits for this time.
        let mut rate_after = |measurements: u32, wait: Duration| {
            for _ in 0..measurements {
                nanos += MovePacer::MEASURE_NANOS;
                let time = WorkerTime { workers: 4, ..WorkerTime::default() };
                let state = MoveState { visits: 0, is_planned: true };
                let _help: Option<f64> =
                    pacer.advance(time, state, Moment::from_nanos(nanos), || 0);
                rate = pacer.rate;
                pacer.note_step(1);
                assert!(pacer.charge(StepTime { processor: VISIT, elapsed: VISIT + wait }));
            }
            rate
        };
        assert_eq!(rate_after(10, Duration::ZERO), 1.0);
        let waits = rate_after(12, Duration::from_micros(10));
        assert!(waits < 0.01, "{waits}");
        let [soon, later] = [60, 200].map(|measurements| rate_after(measurements, Duration::ZERO));
        assert!((0.3..0.7).contains(&soon) && later == 1.0, "{soon} {later}");
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
