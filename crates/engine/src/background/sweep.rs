//! The sweep keeps the access times of items comparable. The work clock wraps to 0, so an item without accesses would
//! seem to be new again after a long time. The sweep visits all items, and the crawler that it uses limits their ages
//! and removes the items that a flush has invalidated. At its start, the sweep forgets a flush that is that old.
//!
//! Invariant: a sweep begins at the latest [`PERIOD`] after the last one began. If it ends within another period, no
//! item is ever older than twice [`AGE_MAX`](crate::space::AGE_MAX), and no item is left that a flush [`AGE_MAX`] ago
//! has invalidated. At the highest steady rate of the work clock, a period takes six days.

use super::crawler::{CrawlStep, Crawler};
use crate::space::{AGE_MAX, Space};
use slabwise_base::{Now, WorkTime};

/// The advance of the work clock from the start of a sweep to the start of the next one.
const PERIOD: u32 = AGE_MAX / 2;

/// The number of chunks that a step visits.
const CHUNKS_PER_STEP: usize = 1024;

/// The state of the sweep.
#[derive(Debug, Default)]
pub struct Sweep {
    /// The crawl over all items; `None` between two sweeps.
    crawler: Option<Crawler>,
    /// The time at which the last sweep began.
    begun_at: WorkTime,
}

impl Sweep {
    /// Begins a sweep if it is due, and makes one step of a sweep that has begun.
    pub fn step(&mut self, space: &Space, now: Now) {
        let time = space.work.now();
        if self.crawler.is_none() && self.begun_at.age_at(time) >= PERIOD {
            space.flush.forget_old(time);
            *self = Sweep { crawler: Some(Crawler::of_all_classes()), begun_at: time };
        }
        if let Some(crawler) = &mut self.crawler
            && crawler.step(space, CHUNKS_PER_STEP, now, &mut |_| {}) == CrawlStep::Done
        {
            self.crawler = None;
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::PERIOD;
    use crate::{Engine, EngineConfig, ItemMeta, StoreConditions, StoreMode};
    use slabwise_base::Clock;

    /// An item with a CAS value chosen by a client is invalid after a flush because of its access time.
    #[test]
    fn flushes_and_ages_are_correct_after_the_clock_has_wrapped() {
        let engine = Engine::new(EngineConfig::new(4 << 20)).expect("4 MiB can be reserved");
        let (mut handle, now) = (engine.handle(), Clock::manual().now());
        let chosen = StoreConditions { new_cas: Some(7), ..StoreMode::Set.into() };
        let mut store = |key: &[u8]| handle.set_if(key, b"v", ItemMeta::default(), &chosen, now);
        store(b"flushed");
        engine.flush_all(None, now);
        store(b"kept");
        let mut handle = engine.handle();
        for period in 0..20 {
            engine.space().work.advance(PERIOD + 1);
            // The second step ends the sweep.
            (0..2).for_each(|_| {
                engine.maintain_step(1, now);
            });
            let context = format!("after {} periods", period + 1);
            assert_eq!(engine.stats(now).items, 1, "{context}");
            assert!(handle.peek(b"flushed", now, |_| ()).is_none(), "{context}");
            assert!(handle.peek(b"kept", now, |_| ()).is_some(), "{context}");
            let age = engine.stats(now).total.tail_age_work.into_iter().flatten().max();
            assert!(age.is_some_and(|age| age >= PERIOD), "{context}");
        }
    }
}
