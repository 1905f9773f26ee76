//! The maintainer of segmented queues on virtual time, as often as a server's: it waits twice as long after a step
//! that found nothing to do, half as long after one that did.

use slabwise_base::Now;
use slabwise_engine::{Engine, EvictionKind};

/// Items that a step may move in a class.
const BUDGET: usize = 1_000;
/// Nanoseconds between two steps, at least and at most.
const WAIT_NANOS_MIN: f64 = 1e6;
const WAIT_NANOS_MAX: f64 = 1e9;

/// The maintainer of an engine.
pub struct Maintainer<'e> {
    engine: &'e Engine,
    /// When it takes its next step.
    due_at_nanos: f64,
    wait_nanos: f64,
}

impl<'e> Maintainer<'e> {
    /// That of this engine, from the start of time on; it never works where there is one queue only.
    pub fn new(engine: &'e Engine) -> Maintainer<'e> {
        let due_at_nanos = match engine.config().eviction {
            EvictionKind::Segmented => WAIT_NANOS_MIN,
            EvictionKind::Lru => f64::INFINITY,
        };
        Maintainer { engine, due_at_nanos, wait_nanos: WAIT_NANOS_MIN }
    }

    /// Takes the steps that are due until `nanos`.
    #[inline]
    pub fn work_until(&mut self, nanos: f64) {
        while self.due_at_nanos <= nanos {
            let now = Now::from_nanos(self.due_at_nanos as u64);
            let has_moved = self.engine.maintain_step(BUDGET, now) > 0;
            let factor = if has_moved { 0.5 } else { 2.0 };
            self.wait_nanos = (self.wait_nanos * factor).clamp(WAIT_NANOS_MIN, WAIT_NANOS_MAX);
            self.due_at_nanos += self.wait_nanos;
        }
    }
}
