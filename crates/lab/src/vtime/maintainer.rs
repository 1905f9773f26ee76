//! The maintainer of segmented queues on virtual time, at the pace of a server's.

use slabwise_base::Now;
use slabwise_engine::Engine;
use slabwise_tuner::{Backoff, MAINTAINER_ITEMS_PER_STEP};

pub struct Maintainer<'e> {
    engine: &'e Engine,
    due_at_nanos: f64,
    backoff: Backoff,
}

impl<'e> Maintainer<'e> {
    /// That of this engine, from the start of time on; it never works where there is one queue only.
    pub fn new(engine: &'e Engine) -> Maintainer<'e> {
        let is_exact = engine.config().eviction.is_exact();
        let first_nanos = Backoff::WAIT_MIN.as_nanos() as f64;
        let due_at_nanos = if is_exact { f64::INFINITY } else { first_nanos };
        Maintainer { engine, due_at_nanos, backoff: Backoff::default() }
    }

    /// Takes the steps that are due until `nanos`.
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

#[cfg(test)]
mod tests {
    use super::Maintainer;
    use crate::vtime::Cache;
    use slabwise_base::Now;
    use slabwise_engine::{Engine, EngineConfig, EvictionKind};
    use slabwise_replay::workload::{Op, Request};
    use slabwise_tuner::Backoff;

    fn engine(eviction: EvictionKind) -> Engine {
        let config = EngineConfig { eviction, ..EngineConfig::new(1 << 20) };
        Engine::new(config).expect("a small arena")
    }

    #[test]
    fn items_that_are_not_used_leave_the_hot_queue_and_then_it_rests() {
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
    fn one_queue_has_no_maintainer() {
        let engine = engine(EvictionKind::Lru);
        let mut maintainer = Maintainer::new(&engine);
        maintainer.work_until(1e12);
        assert_eq!(maintainer.backoff.wait(), Backoff::WAIT_MIN);
    }
}
