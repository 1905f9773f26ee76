//! Crawls: only one requested crawl at a time, as in memcached.
//!
//! A dump writes to one connection, so its session steps it and holds a [`CrawlTicket`], which is released when the
//! connection closes. A crawl that only expires items belongs to no connection: its state is kept here, and the
//! crawler's thread steps it with [`Crawls::step`].
//!
//! Invariants: a requested crawl runs alone. An automatic crawl may run beside a dump, so that expired items leave
//! memory even if a client does not read its dump.
//!
//! The lock is held for a step of the crawl that expires items, and never by a dump.

use slabwise_base::sync::{Mutex, lock};
use slabwise_base::{ClassId, Now};
use slabwise_engine::{self as engine, Crawler, Engine};

#[derive(Default)]
pub struct Crawls(Mutex<State>);

#[derive(Default)]
struct State {
    is_ticket_out: bool,
    /// The remaining walks of the crawl that expires items, in reverse order.
    expiring: Option<Vec<Walk>>,
    starts: u64,
}

/// The exclusive permission for a requested crawl; released when dropped.
pub struct CrawlTicket<'e> {
    crawls: &'e Crawls,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrawlStep {
    Idle,
    Working,
    Done,
}

/// A walk over some classes that ends after all items, or after `items_left` items that stay.
struct Walk {
    crawler: Crawler,
    items_left: usize,
}

/// Returns walks over at most `items_max` items of each class, or over all for 0.
fn walks(classes: Vec<ClassId>, items_max: u32) -> Vec<Walk> {
    if items_max == 0 {
        return vec![Walk { crawler: Crawler::new(classes), items_left: usize::MAX }];
    }
    let walk = |class| Walk { crawler: Crawler::new([class]), items_left: items_max as usize };
    classes.into_iter().rev().map(walk).collect()
}

impl Crawls {
    /// Returns a ticket, or `None` while another crawl runs.
    pub fn begin(&self) -> Option<CrawlTicket<'_>> {
        let mut state = lock(&self.0);
        if state.is_ticket_out || state.expiring.is_some() {
            return None;
        }
        state.is_ticket_out = true;
        state.starts += 1;
        Some(CrawlTicket { crawls: self })
    }

    /// Starts a requested crawl that expires items: at most `items_max` of each class, or all for 0. Does nothing if an
    /// automatic crawl began meanwhile, because that one visits all classes.
    pub fn expire(&self, ticket: CrawlTicket<'_>, classes: Vec<ClassId>, items_max: u32) {
        lock(&self.0).expiring.get_or_insert_with(|| walks(classes, items_max));
        drop(ticket);
    }

    /// Starts an automatic crawl that expires items, unless a crawl that does so is running.
    pub fn expire_automatically(&self, classes: Vec<ClassId>, items_max: u32) {
        let mut state = lock(&self.0);
        if state.expiring.is_none() {
            state.expiring = Some(walks(classes, items_max));
            state.starts += 1;
        }
    }

    /// Runs one bounded step of the crawl that expires items.
    pub fn step(&self, engine: &Engine, budget_chunks: usize, now: Now) -> CrawlStep {
        let expiring = &mut lock(&self.0).expiring;
        let Some(walks) = expiring else { return CrawlStep::Idle };
        if let Some(walk) = walks.last_mut() {
            let mut seen = 0;
            let budget = budget_chunks.min(walk.items_left);
            let step = engine.crawl_step(&mut walk.crawler, budget, now, &mut |_| seen += 1);
            walk.items_left -= seen.min(walk.items_left);
            if step == engine::CrawlStep::Done || walk.items_left == 0 {
                walks.pop();
            }
        }
        if !walks.is_empty() {
            return CrawlStep::Working;
        }
        *expiring = None;
        CrawlStep::Done
    }

    pub fn is_running(&self) -> bool {
        let state = lock(&self.0);
        state.is_ticket_out || state.expiring.is_some()
    }

    pub fn starts(&self) -> u64 {
        lock(&self.0).starts
    }
}

impl Drop for CrawlTicket<'_> {
    fn drop(&mut self) {
        lock(&self.crawls.0).is_ticket_out = false;
    }
}

#[cfg(test)]
mod tests {
    use super::{CrawlStep, Crawls};
    use slabwise_base::{Clock, Expiry, Seconds};
    use slabwise_engine::{Engine, EngineConfig, ItemMeta, StoreMode};
    use std::time::Duration;

    fn checked(items_max: u32) -> u64 {
        let engine = Engine::new(EngineConfig::new(8 << 20)).expect("8 MiB can be had");
        let now = Clock::manual().now();
        let mut handle = engine.handle();
        for number in 0..500 {
            let key = format!("k{number}");
            handle.set(key.as_bytes(), b"value", ItemMeta::default(), StoreMode::Set, now);
        }
        let crawls = Crawls::default();
        let ticket = crawls.begin().expect("no crawl is running");
        crawls.expire(ticket, engine.config().classes.ids().collect(), items_max);
        let mut steps = 0;
        while crawls.step(&engine, 64, now) == CrawlStep::Working {
            steps += 1;
            assert!(steps < 1_000_000, "the crawl does not end");
        }
        assert!(!crawls.is_running());
        engine.stats(now).total.counters.crawler_items_checked
    }

    #[test]
    fn an_automatic_crawl_runs_beside_an_unread_dump() {
        let engine = Engine::new(EngineConfig::new(8 << 20)).expect("8 MiB can be had");
        let clock = Clock::manual();
        let ends = ItemMeta { client_flags: 0, expiry: Expiry::at(Seconds(5)), cost: None };
        engine.handle().set(b"k", b"value", ends, StoreMode::Set, clock.now());
        clock.advance(Duration::from_secs(10));
        let crawls = Crawls::default();
        let classes = || engine.config().classes.ids().collect();
        let dump = crawls.begin().expect("no crawl is running");
        crawls.expire_automatically(classes(), 0);
        // Neither a second automatic crawl nor a requested one starts.
        crawls.expire_automatically(classes(), 0);
        assert!(crawls.begin().is_none());
        assert_eq!(crawls.starts(), 2);
        assert_eq!(crawls.step(&engine, usize::MAX, clock.now()), CrawlStep::Done);
        assert_eq!(engine.stats(clock.now()).items, 0);
        assert!(crawls.is_running() && crawls.begin().is_none(), "the dump goes on");
        crawls.expire_automatically(classes(), 0);
        drop(dump);
        assert!(crawls.begin().is_none(), "the other goes on");
        assert_eq!(crawls.step(&engine, usize::MAX, clock.now()), CrawlStep::Done);
        assert!(!crawls.is_running() && crawls.begin().is_some());
    }

    #[test]
    fn a_crawl_visits_all_items_or_a_limited_number_per_class() {
        assert_eq!(checked(0), 500);
        assert_eq!(checked(10), 10);
        assert_eq!(checked(u32::MAX), 500);
    }
}
