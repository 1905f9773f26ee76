//! Runs the background work of a server in virtual time: the maintainer of segmented queues, and the tuner.
//!
//! A visit of the tuner's mover to a chunk takes virtual time, and the mover may take the same share of the workers' time
//! as in a server. A get or a set keeps a worker busy for [`OPERATION_NANOS`]. Chunks that stores visit, because their
//! class receives the page, take no virtual time. If the tuner has no work, it waits until the policy's
//! trigger. The thread of a server's tuner has a backoff instead. The lab does not use the backoff, because the results
//! would depend on it. The work of the policy and of the profiler takes no virtual time, because it runs on another
//! core of a server.

use super::Rate;
use super::costs::VisitCost;
use super::mover::{MoverTime, PageMove};
use slabwise_base::{Moment, Now};
use slabwise_engine::{Engine, MoveOutcome};
use slabwise_policy::partition::WhatIf;
use slabwise_profile::RecentGets;
use slabwise_tuner::{
    Backoff, MAINTAINER_ROUNDS_PER_STEP, MaintainerPace, Profiling, StepTime, Tuner, TunerStep,
    WorkerTime,
};
use std::time::Duration;

/// The maintainer of segmented queues in virtual time.
pub struct Maintainer<'e> {
    engine: &'e Engine,
    /// Virtual time of the next step; infinite if the engine needs no maintainer.
    due_at_nanos: f64,
    pace: MaintainerPace,
}

impl<'e> Maintainer<'e> {
    /// Creates a maintainer whose first step is [`Backoff::WAIT_MIN`] after time 0. The maintainer never runs a step if
    /// each class of the engine is an exact LRU.
    pub fn new(engine: &'e Engine) -> Maintainer<'e> {
        let is_exact = engine.config().eviction.info().is_exact;
        let first_nanos = Backoff::WAIT_MIN.as_nanos() as f64;
        let due_at_nanos = if is_exact { f64::INFINITY } else { first_nanos };
        Maintainer { engine, due_at_nanos, pace: MaintainerPace::default() }
    }

    /// Runs all steps that are due until the virtual time `nanos`.
    #[inline]
    pub fn work_until(&mut self, nanos: f64) {
        while self.due_at_nanos <= nanos {
            let now = Now::from_nanos(self.due_at_nanos as u64);
            let moved = self.engine.maintain_step(MAINTAINER_ROUNDS_PER_STEP, now);
            self.pace.step(moved, self.engine.work_time());
            self.due_at_nanos += self.pace.wait().as_nanos() as f64;
        }
    }
}

/// The time for which a get or a set keeps a worker of a server busy.
const OPERATION_NANOS: f64 = 1_000.0;

/// A server's tuner in virtual time.
pub struct RunningTuner<'e> {
    engine: &'e Engine,
    tuner: Tuner,
    cost: VisitCost,
    /// The part of the time in which the workers are busy.
    busy: f64,
    /// Virtual time of the next step, in nanoseconds since the start.
    free_at_nanos: f64,
    /// Number of moves that had ended after the last step.
    ended: u64,
    /// The moves of the policy that have ended. Their requests are gets.
    pub page_moves: Vec<PageMove>,
    pub time: MoverTime,
}

impl<'e> RunningTuner<'e> {
    /// Creates a tuner of an engine that serves gets and sets at this rate.
    pub fn new(engine: &'e Engine, tuner: Tuner, cost: VisitCost, rate: Rate) -> RunningTuner<'e> {
        let (time, page_moves) = (MoverTime::default(), Vec::new());
        let busy = OPERATION_NANOS / rate.nanos_at(1);
        RunningTuner { engine, tuner, cost, busy, free_at_nanos: 0.0, ended: 0, page_moves, time }
    }

    #[cfg(test)]
    pub fn tuner(&self) -> &Tuner {
        &self.tuner
    }

    /// Predicts the miss ratio at other memory sizes. Also returns the recent gets from which it is predicted. `None`
    /// without profiles.
    pub fn what_if(&mut self, now: Now) -> Option<(Vec<WhatIf>, RecentGets)> {
        self.observe(now);
        self.tuner.what_if(self.engine, now)
    }

    /// Passes the sampled accesses to the profiler.
    pub fn observe(&mut self, now: Now) {
        self.tuner.observe(self.engine, now);
    }

    /// Works until the virtual time `nanos`.
    #[inline]
    pub fn work_until(&mut self, nanos: f64) {
        while self.free_at_nanos <= nanos {
            self.step();
        }
        if self.tuner.profiling().is_some_and(Profiling::is_half_full) {
            self.tuner.observe(self.engine, Now::from_nanos(nanos as u64));
        }
    }

    fn step(&mut self) {
        let before = self.engine.mover_counters();
        let at = Moment::from_nanos(self.free_at_nanos as u64);
        let busy = Duration::from_nanos((self.free_at_nanos * self.busy) as u64);
        let step = self.tuner.step(self.engine, WorkerTime { busy, workers: 1 }, at);
        let after = self.engine.mover_counters();
        let visits = after.visits - before.visits;
        self.time.visits += visits;
        self.work(visits as f64);
        let time = Duration::from_nanos((visits as f64 * self.cost.nanos()) as u64);
        self.tuner.charge(StepTime::without_wait(time));
        match step {
            // A step without a visit takes the time of one visit.
            TunerStep::Working if visits == 0 => self.work(1.0),
            TunerStep::Working => {}
            TunerStep::Pause(pause) => {
                let pause_nanos = pause.as_nanos() as f64;
                self.time.sleeps += 1;
                self.time.sleep_nanos += pause_nanos;
                self.free_at_nanos += pause_nanos.max(self.cost.nanos());
            }
            TunerStep::Idle { wait: Some(wait) } => {
                self.free_at_nanos += (wait.as_nanos() as f64).max(self.cost.nanos());
            }
            TunerStep::Idle { wait: None } => self.free_at_nanos = f64::INFINITY,
        }
        self.note_moves(after.moved + after.aborted);
    }

    /// Records the moves that have ended since the last step. `ended` is the number of all moves that have ended.
    fn note_moves(&mut self, ended: u64) {
        let new = ended - std::mem::replace(&mut self.ended, ended);
        if new == 0 {
            return;
        }
        let (log, gets) = (self.engine.move_log(), self.engine.gets_ever());
        for record in &log[log.len().saturating_sub(new as usize)..] {
            let arrived = record.outcome == MoveOutcome::Moved;
            self.page_moves.push(PageMove { began: gets - record.gets, ended: gets, arrived });
        }
    }

    /// Advances the virtual time of the tuner by the time of this number of visits.
    fn work(&mut self, visits: f64) {
        let work_nanos = visits * self.cost.nanos();
        self.time.work_nanos += work_nanos;
        self.free_at_nanos += work_nanos;
    }
}

#[cfg(test)]
mod tests {
    use super::{Maintainer, RunningTuner};
    use crate::vtime::{Cache, Rate, VisitCost};
    use slabwise_base::{Clock, Now};
    use slabwise_engine::{Engine, EngineConfig, EvictionKind};
    use slabwise_policy::PagePolicy;
    use slabwise_profile::ProfilerOptions;
    use slabwise_replay::workload::{Op, Request};
    use slabwise_tuner::{Backoff, MoveBudget, Profiling, ProfilingOptions, Tuner};
    use std::sync::Arc;

    fn engine(eviction: EvictionKind) -> Engine {
        let config = EngineConfig { eviction, ..EngineConfig::new(1 << 20) };
        Engine::new(config).expect("1 MiB can be allocated")
    }

    #[test]
    fn the_maintainer_moves_idle_items_out_of_hot_and_then_backs_off() {
        let engine = engine(EvictionKind::Segmented);
        let mut cache = Cache::new(&engine);
        for key in 0..100_000 {
            let store = Request { key, value_len: 50, op: Op::Set, cost: None };
            cache.request(&store, Now::from_nanos(0));
        }
        let hot =
            || engine.class_stats(Now::from_nanos(0)).iter().map(|class| class.items[0]).sum();
        let before: u64 = hot();
        let mut maintainer = Maintainer::new(&engine);
        maintainer.work_until(1e12);
        let after: u64 = hot();
        assert!(after < before, "HOT has fewer items: {before} before, {after} after");
        assert_eq!(maintainer.pace.wait(), Backoff::WAIT_MAX);
    }

    #[test]
    fn the_maintainer_has_no_work_if_classes_have_a_single_queue() {
        let engine = engine(EvictionKind::Lru);
        let mut maintainer = Maintainer::new(&engine);
        maintainer.work_until(1e12);
        assert_eq!(maintainer.pace.wait(), Backoff::WAIT_MIN);
    }

    #[test]
    fn no_sample_is_dropped_at_a_high_request_rate() {
        let engine = Engine::new(EngineConfig::new(1 << 20)).expect("1 MiB can be allocated");
        let rate = Rate::new(1e7);
        let options = ProfilingOptions {
            profiler: ProfilerOptions { rate_max: 1.0, ..ProfilerOptions::default() },
            queue_len_max: 64,
            lowers_rate_if_full: false,
        };
        let response_clock = Arc::new(Clock::manual());
        let profiling = Profiling::start(&engine, options, response_clock, rate.now_at(0));
        let tuner =
            Tuner::new(PagePolicy::none(), MoveBudget::default(), 1).with_profiling(profiling);
        let mut tuned = RunningTuner::new(&engine, tuner, VisitCost::NOMINAL, rate);
        let mut cache = Cache::new(&engine);
        for number in 0..10_000 {
            tuned.work_until(rate.nanos_at(number));
            let request = Request { key: number % 100, value_len: 50, op: Op::Get, cost: None };
            cache.request(&request, rate.now_at(number));
        }
        let stats = tuned.tuner.profiling().expect("the tuner has a profiler").stats();
        assert_eq!(stats.accesses_dropped, 0, "{stats:?}");
        assert!(stats.accesses > 10_000 - 64, "{stats:?}");
    }
}
