//! The sweep keeps the ages of items correct. Items store 32 bits of the work clock, so an item without accesses would
//! seem to be new again after a long time. The sweep visits all items with a crawler, which limits their ages and
//! removes the items that a flush has invalidated.
//!
//! Invariant: a process begins with a sweep, and then begins one whenever the work clock has advanced by [`PERIOD`]. A
//! sweep takes much less time than a period, which is six days at the highest steady rate of the clock. The crawler may
//! miss an item that moves meanwhile, but hardly twice in a row. So ages stay below
//! [`AGE_MAX`](crate::space::AGE_MAX) + 3 x [`PERIOD`], which is below 2^32.

use super::crawler::{CrawlStep, Crawler};
use crate::space::{AGE_MAX, Space};
use slabwise_base::Now;

/// The advance of the work clock from the start of a sweep to the start of the next one.
const PERIOD: u64 = AGE_MAX as u64 / 4;

/// The state of the sweep.
#[derive(Debug, Default)]
pub struct Sweep {
    /// The crawl over all items; `None` between two sweeps.
    crawler: Option<Crawler>,
    /// The reading at which the last sweep began; `None`: this process has begun none.
    begun_at: Option<u64>,
}

impl Sweep {
    /// Begins a sweep if it is due, and visits up to `budget_chunks` chunks if a sweep has begun. Returns
    /// [`CrawlStep::Done`] if no sweep is in progress after the step.
    pub fn step(&mut self, space: &Space, budget_chunks: usize, now: Now) -> CrawlStep {
        let reading = space.work.reading();
        if self.crawler.is_none() && self.begun_at.is_none_or(|begun| reading - begun >= PERIOD) {
            *self = Sweep { crawler: Some(Crawler::of_all_classes()), begun_at: Some(reading) };
        }
        let Some(crawler) = &mut self.crawler else { return CrawlStep::Done };
        let step = crawler.step(space, budget_chunks, now, &mut |_| {});
        if step == CrawlStep::Done {
            self.crawler = None;
        }
        step
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::PERIOD;
    use crate::{CrawlStep, Engine, EngineConfig, ItemMeta, StoreConditions, StoreMode};
    use slabwise_base::Clock;

    /// An item with a CAS value chosen by a client is invalid after a flush because of its access time.
    #[test]
    fn flushes_and_ages_are_correct_after_the_times_of_accesses_have_wrapped() {
        let engine = Engine::new(EngineConfig::new(4 << 20)).expect("4 MiB can be reserved");
        let (mut handle, now) = (engine.handle(), Clock::manual().now());
        let chosen = StoreConditions { new_cas: Some(7), ..StoreMode::Set.into() };
        let mut store = |key: &[u8]| handle.set_if(key, b"v", ItemMeta::default(), &chosen, now);
        store(b"flushed");
        engine.flush_all(None, now);
        store(b"kept");
        let mut handle = engine.handle();
        for period in 1..30 {
            engine.space().work.advance(PERIOD + 1);
            while engine.sweep_step(64, now) == CrawlStep::More {}
            let context = format!("after {period} periods");
            assert_eq!(engine.stats(now).items, 1, "{context}");
            assert!(handle.peek(b"flushed", now, |_| ()).is_none(), "{context}");
            assert!(handle.peek(b"kept", now, |_| ()).is_some(), "{context}");
            let age = engine.stats(now).total.tail_age_work.into_iter().flatten().max();
            assert!(age.is_some_and(|age| u64::from(age) >= PERIOD), "{context}: {age:?}");
        }
    }
}
