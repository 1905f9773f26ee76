//! Runs the background work of a server in virtual time: the maintainer of segmented queues, and the tuner.
//!
//! The tuner is charged for the chunks that it visits. Its steps respect the move budget, and it rests between them, as
//! in a server under load. When idle it waits as long as the policy specifies. It does not use the backoff of the server's
//! thread, because results would depend on it. Evaluating the policy and processing samples cost nothing, because they
//! run on another core of a server.

use super::costs::VisitCost;
use super::mover::MoverTime;
use slabwise_base::{Moment, Now, Ticks};
use slabwise_engine::Engine;
use slabwise_tuner::{Backoff, Load, MAINTAINER_ITEMS_PER_STEP, Profiling, Tuner, TunerStep};

pub struct Maintainer<'e> {
    engine: &'e Engine,
    due_at_nanos: f64,
    backoff: Backoff,
}

impl<'e> Maintainer<'e> {
    /// The maintainer of this engine, from time 0. An engine with a single queue has no work for it.
    pub fn new(engine: &'e Engine) -> Maintainer<'e> {
        let is_exact = engine.config().eviction.info().is_exact;
        let first_nanos = Backoff::WAIT_MIN.as_nanos() as f64;
        let due_at_nanos = if is_exact { f64::INFINITY } else { first_nanos };
        Maintainer { engine, due_at_nanos, backoff: Backoff::default() }
    }

    #[inline]
    pub fn work_until(&mut self, nanos: f64) {
        while self.due_at_nanos <= nanos {
            let now = Now::from_nanos(self.due_at_nanos as u64);
            let moved = self.engine.maintain_step(MAINTAINER_ITEMS_PER_STEP, now);
            self.backoff.step(moved > 0);
            self.due_at_nanos += self.backoff.wait().as_nanos() as f64;
        }
    }
}

const TICK_NANOS: f64 = 1e9 / Ticks::PER_SECOND as f64;

pub struct Tuned<'e> {
    engine: &'e Engine,
    tuner: Tuner,
    cost: VisitCost,
    free_at_nanos: f64,
    pub time: MoverTime,
}

impl<'e> Tuned<'e> {
    pub fn new(engine: &'e Engine, tuner: Tuner, cost: VisitCost) -> Tuned<'e> {
        Tuned { engine, tuner, cost, free_at_nanos: 0.0, time: MoverTime::default() }
    }

    #[cfg(test)]
    pub fn tuner(&self) -> &Tuner {
        &self.tuner
    }

    pub fn observe(&mut self, now: Now) {
        self.tuner.observe(self.engine, now);
    }

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
        let before = self.engine.mover_counters().visits;
        let at = Moment::from_nanos(self.free_at_nanos as u64);
        let step = self.tuner.step(self.engine, Load::Serving, at);
        let visits = self.engine.mover_counters().visits - before;
        self.time.visits += visits;
        self.work(visits as f64);
        match step {
            // A step without a visit has a cost too.
            TunerStep::Working | TunerStep::Requested { .. } if visits == 0 => self.work(1.0),
            TunerStep::Working | TunerStep::Requested { .. } => {}
            TunerStep::Rest(rest) => {
                let rest_nanos = rest.as_nanos() as f64;
                self.time.sleeps += 1;
                self.time.sleep_nanos += rest_nanos;
                self.free_at_nanos += rest_nanos.max(self.cost.nanos());
            }
            TunerStep::Idle { ticks: Some(ticks) } => {
                self.free_at_nanos += f64::from(ticks.max(1)) * TICK_NANOS;
            }
            TunerStep::Idle { ticks: None } => self.free_at_nanos = f64::INFINITY,
        }
    }

    fn work(&mut self, visits: f64) {
        let work_nanos = visits * self.cost.nanos();
        self.time.work_nanos += work_nanos;
        self.free_at_nanos += work_nanos;
    }
}

#[cfg(test)]
mod tests {
    use super::{Maintainer, Tuned};
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
        Engine::new(config).expect("a small arena")
    }

    #[test]
    fn the_maintainer_moves_idle_items_out_of_hot_and_backs_off() {
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
        maintainer.work_until(1e11);
        let after: u64 = hot();
        assert!(after < before, "{after} hot items, before {before}");
        assert_eq!(maintainer.backoff.wait(), Backoff::WAIT_MAX);
    }

    #[test]
    fn the_maintainer_has_no_work_with_a_single_queue() {
        let engine = engine(EvictionKind::Lru);
        let mut maintainer = Maintainer::new(&engine);
        maintainer.work_until(1e12);
        assert_eq!(maintainer.backoff.wait(), Backoff::WAIT_MIN);
    }

    #[test]
    fn no_sample_is_dropped_at_a_high_request_rate() {
        let engine = Engine::new(EngineConfig::new(1 << 20)).expect("a small arena");
        let rate = Rate::new(1e7);
        let options = ProfilingOptions {
            profiler: ProfilerOptions { rate_max: 1.0, ..ProfilerOptions::default() },
            queue_len_max: 64,
            accesses_per_second_max: u64::MAX,
        };
        let dates = Arc::new(Clock::manual());
        let profiling = Profiling::start(&engine, options, dates, rate.now_at(0));
        let budget = MoveBudget::for_pages_of(engine.config().page_size_bytes);
        let tuner = Tuner::new(PagePolicy::none(), budget, 1).with_profiling(profiling);
        let mut tuned = Tuned::new(&engine, tuner, VisitCost::NOMINAL);
        let mut cache = Cache::new(&engine);
        for number in 0..10_000 {
            tuned.work_until(rate.nanos_at(number));
            let request = Request { key: number % 100, value_len: 50, op: Op::Get, cost: None };
            cache.request(&request, rate.now_at(number));
        }
        let stats = tuned.tuner.profiling().expect("it profiles").stats();
        assert_eq!(stats.accesses_dropped, 0, "{stats:?}");
        assert!(stats.accesses > 10_000 - 64, "{stats:?}");
    }
}
