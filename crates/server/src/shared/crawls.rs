//! Who crawls: at most one at a time, as in memcached.
//!
//! A dump writes to one connection, so its session steps it and holds a [`CrawlTicket`]; closing the
//! connection gives the ticket back. A crawl that only expires items belongs to nobody: it lies
//! here, and the crawler's thread carries it on with [`Crawls::step`].

use slabwise_base::sync::{Mutex, lock};
use slabwise_base::{ClassId, Now};
use slabwise_engine::{self as engine, Crawler, Engine};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Who crawls.
#[derive(Default)]
pub struct Crawls {
    running: AtomicBool,
    starts: AtomicU64,
    expiring: Mutex<Option<Expiring>>,
}

/// The right to crawl; given back when dropped.
pub struct CrawlTicket<'e> {
    crawls: &'e Crawls,
}

/// What a step of the expiring crawl came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrawlStep {
    /// There is none.
    Idle,
    /// There is more to do.
    Working,
    /// It is over.
    Done,
}

/// A crawl that expires items: one walk after the other.
struct Expiring {
    walks: Vec<Walk>,
}

/// A walk over some classes, until it has seen every item or so many that live on.
struct Walk {
    crawler: Crawler,
    items_left: usize,
}

impl Expiring {
    /// At most `items_max` items of each class, or all for 0.
    fn new(classes: Vec<ClassId>, items_max: u32) -> Expiring {
        if items_max == 0 {
            return Expiring {
                walks: vec![Walk { crawler: Crawler::new(classes), items_left: usize::MAX }],
            };
        }
        let walk = |class| Walk { crawler: Crawler::new([class]), items_left: items_max as usize };
        Expiring { walks: classes.into_iter().rev().map(walk).collect() }
    }

    fn step(&mut self, engine: &Engine, budget_chunks: usize, now: Now) -> CrawlStep {
        let Some(walk) = self.walks.last_mut() else {
            return CrawlStep::Done;
        };
        let mut seen = 0;
        let budget = budget_chunks.min(walk.items_left);
        let step = walk.crawler.step(engine, budget, now, &mut |_| seen += 1);
        walk.items_left -= seen.min(walk.items_left);
        if step == engine::CrawlStep::Done || walk.items_left == 0 {
            self.walks.pop();
        }
        if self.walks.is_empty() { CrawlStep::Done } else { CrawlStep::Working }
    }
}

impl Crawls {
    /// Takes the right to crawl; `None` while another crawl runs.
    pub fn begin(&self) -> Option<CrawlTicket<'_>> {
        let was_running = self.running.swap(true, Ordering::AcqRel);
        if was_running {
            return None;
        }
        self.starts.fetch_add(1, Ordering::Relaxed);
        Some(CrawlTicket { crawls: self })
    }

    /// Leaves a crawl here that only expires items: of each of these classes at most `items_max`, or
    /// all for 0.
    pub fn expire(&self, ticket: CrawlTicket<'_>, classes: Vec<ClassId>, items_max: u32) {
        *lock(&self.expiring) = Some(Expiring::new(classes, items_max));
        // The right stays taken until the crawl's last step.
        std::mem::forget(ticket);
    }

    /// One bounded step of the crawl that expires items.
    pub fn step(&self, engine: &Engine, budget_chunks: usize, now: Now) -> CrawlStep {
        let mut expiring = lock(&self.expiring);
        let Some(crawl) = expiring.as_mut() else {
            return CrawlStep::Idle;
        };
        let step = crawl.step(engine, budget_chunks, now);
        if step == CrawlStep::Done {
            *expiring = None;
            self.running.store(false, Ordering::Release);
        }
        step
    }

    /// Whether a crawl runs.
    pub fn is_running(&self) -> bool {
        self.running.load(Ordering::Relaxed)
    }

    /// How many were started.
    pub fn starts(&self) -> u64 {
        self.starts.load(Ordering::Relaxed)
    }
}

impl Drop for CrawlTicket<'_> {
    fn drop(&mut self) {
        self.crawls.running.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::{CrawlStep, Crawls};
    use slabwise_base::Clock;
    use slabwise_engine::{Engine, EngineConfig, ItemMeta, StoreMode};

    fn checked(items_max: u32) -> u64 {
        let engine = Engine::new(EngineConfig::new(8 << 20)).expect("8 MiB can be had");
        let now = Clock::manual().now();
        let mut handle = engine.handle();
        for number in 0..500 {
            let key = format!("k{number}");
            handle.set(key.as_bytes(), b"value", ItemMeta::default(), StoreMode::Set, now);
        }
        let crawls = Crawls::default();
        let ticket = crawls.begin().expect("nobody crawls");
        crawls.expire(ticket, engine.config().classes.ids().collect(), items_max);
        let mut steps = 0;
        while crawls.step(&engine, 64, now) == CrawlStep::Working {
            steps += 1;
            assert!(steps < 1_000_000, "the crawl has no end");
        }
        assert!(!crawls.is_running());
        engine.stats(now).total.counters.crawler_items_checked
    }

    #[test]
    fn a_crawl_sees_all_items_or_as_many_of_a_class_as_it_may() {
        assert_eq!(checked(0), 500);
        assert_eq!(checked(10), 10);
        assert_eq!(checked(u32::MAX), 500);
    }
}
