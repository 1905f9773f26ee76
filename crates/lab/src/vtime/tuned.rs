//! A tuner on virtual time: the server's own control loop, charged for the chunks that it visits.
//!
//! It serves as a server under load does: its steps keep to the move budget, and it rests between them. While there is
//! nothing to do it waits as long as the policy says: with the back-off of a server's thread, which looks again every
//! second, results would depend on it. A look at the policy costs nothing, nor does taking in what was sampled: on a
//! server it is another core's. Like a server's it is called when the queue is half full.

use super::mover::MoverTime;
use super::visit_cost::VisitCost;
use slabwise_base::{Moment, Now, Ticks};
use slabwise_engine::Engine;
use slabwise_tuner::{Load, Profiling, Tuner, TunerStep};

/// Nanoseconds of a tick.
const TICK_NANOS: f64 = 1e9 / Ticks::PER_SECOND as f64;

pub struct Tuned<'e> {
    engine: &'e Engine,
    tuner: Tuner,
    cost: VisitCost,
    free_at_nanos: f64,
    time: MoverTime,
}

impl<'e> Tuned<'e> {
    pub fn new(engine: &'e Engine, tuner: Tuner, cost: VisitCost) -> Tuned<'e> {
        Tuned { engine, tuner, cost, free_at_nanos: 0.0, time: MoverTime::default() }
    }

    pub fn time(&self) -> MoverTime {
        self.time
    }

    #[cfg(test)]
    pub fn tuner(&self) -> &Tuner {
        &self.tuner
    }

    pub fn observe(&mut self, now: Now) {
        self.tuner.observe(self.engine, now);
    }

    /// Works until `nanos`.
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
            // A step that met no chunk costs something, too.
            TunerStep::Working | TunerStep::Asked { .. } if visits == 0 => self.work(1.0),
            TunerStep::Working | TunerStep::Asked { .. } => {}
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
    use super::Tuned;
    use crate::vtime::{Cache, Rate, VisitCost};
    use slabwise_base::Clock;
    use slabwise_engine::{Engine, EngineConfig};
    use slabwise_policy::PagePolicy;
    use slabwise_profile::ProfilerOptions;
    use slabwise_replay::workload::{Op, Request};
    use slabwise_tuner::{MoveBudget, Profiling, ProfilingOptions, Tuner};
    use std::sync::Arc;

    #[test]
    fn nothing_sampled_is_lost_however_fast_requests_come() {
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
