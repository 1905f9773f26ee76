//! The crawls over all items: dumps, and crawls that remove expired items.
//!
//! A dump writes to one connection. The session of this connection runs the dump's steps and owns a [`CrawlTicket`],
//! which is dropped at the latest when the connection closes. A crawl that removes expired items belongs to no
//! connection. Its state is stored in [`Crawls`], and the crawler's thread runs its steps with [`Crawls::step`].
//!
//! Invariants: as in memcached, a crawl that a client requests starts only if no other crawl is running. An automatic
//! crawl may start during a dump, so that expired items are removed even if a client does not read its dump. At most
//! one crawl that removes expired items runs at a time.
//!
//! The crawler's thread holds the lock of [`Crawls`] during a step of the crawl that removes expired items. A step of a
//! dump does not take this lock.

use slabwise_base::sync::{Mutex, lock};
use slabwise_base::{ClassId, Now};
use slabwise_engine::{self as engine, Crawler, Engine};

/// The state of all crawls.
#[derive(Default)]
pub struct Crawls(Mutex<State>);

#[derive(Default)]
struct State {
    /// True while a [`CrawlTicket`] exists.
    ticket_exists: bool,
    /// The remaining walks of the crawl that removes expired items, in reverse order: the next walk is the last entry.
    /// `None` if no such crawl runs.
    expiring: Option<Vec<ClassWalk>>,
    /// The number of crawls that started since the start of the server.
    starts: u64,
}

/// The permission for a requested crawl. At most one ticket exists. Dropping the ticket gives the permission back.
pub struct CrawlTicket<'e> {
    crawls: &'e Crawls,
}

/// The result of a step of the crawl that removes expired items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrawlStep {
    /// No crawl that removes expired items is running.
    Idle,
    /// The crawl has more steps.
    Working,
    /// This step was the crawl's last.
    Done,
}

/// A part of a crawl: a walk over the items of some classes.
struct ClassWalk {
    crawler: Crawler,
    /// The walk ends after this number of further items that are not expired.
    items_left: usize,
}

/// Returns a walk for each class, which ends after `items_max` items that are not expired. If `items_max` is 0, returns
/// one walk over all items of all classes.
fn walks(classes: Vec<ClassId>, items_max: u32) -> Vec<ClassWalk> {
    if items_max == 0 {
        return vec![ClassWalk { crawler: Crawler::new(classes), items_left: usize::MAX }];
    }
    let walk = |class| ClassWalk { crawler: Crawler::new([class]), items_left: items_max as usize };
    classes.into_iter().rev().map(walk).collect()
}

impl Crawls {
    /// Returns a ticket for a requested crawl, or `None` if another crawl is running.
    pub fn begin(&self) -> Option<CrawlTicket<'_>> {
        let mut state = lock(&self.0);
        if state.ticket_exists || state.expiring.is_some() {
            return None;
        }
        state.ticket_exists = true;
        state.starts += 1;
        Some(CrawlTicket { crawls: self })
    }

    /// Starts a requested crawl that removes expired items. In each class, the crawl ends after `items_max` items that
    /// are not expired; it visits all items if `items_max` is 0. Does nothing if an automatic crawl has started since
    /// the caller took the ticket, because the automatic crawl visits all classes.
    pub fn expire(&self, ticket: CrawlTicket<'_>, classes: Vec<ClassId>, items_max: u32) {
        lock(&self.0).expiring.get_or_insert_with(|| walks(classes, items_max));
        drop(ticket);
    }

    /// Starts an automatic crawl that removes expired items, unless a crawl that removes expired items is running.
    pub fn expire_automatically(&self, classes: Vec<ClassId>, items_max: u32) {
        let mut state = lock(&self.0);
        if state.expiring.is_none() {
            state.expiring = Some(walks(classes, items_max));
            state.starts += 1;
        }
    }

    /// Runs one step of the crawl that removes expired items. The step visits at most `budget_chunks` chunks.
    pub fn step(&self, engine: &Engine, budget_chunks: usize, now: Now) -> CrawlStep {
        let expiring = &mut lock(&self.0).expiring;
        let Some(walks) = expiring else { return CrawlStep::Idle };
        if let Some(walk) = walks.last_mut() {
            let mut live_items = 0;
            let budget = budget_chunks.min(walk.items_left);
            let step = engine.crawl_step(&mut walk.crawler, budget, now, &mut |_| live_items += 1);
            walk.items_left -= live_items.min(walk.items_left);
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

    /// True if any crawl is running: a dump, or a crawl that removes expired items.
    pub fn is_running(&self) -> bool {
        let state = lock(&self.0);
        state.ticket_exists || state.expiring.is_some()
    }

    /// Returns the number of crawls that started since the start of the server.
    pub fn starts(&self) -> u64 {
        lock(&self.0).starts
    }
}

impl Drop for CrawlTicket<'_> {
    fn drop(&mut self) {
        lock(&self.crawls.0).ticket_exists = false;
    }
}

#[cfg(test)]
mod tests {
    use super::{CrawlStep, Crawls};
    use slabwise_base::{Clock, Expiry, Seconds};
    use slabwise_engine::{Engine, EngineConfig, ItemMeta, StoreMode};
    use std::time::Duration;

    /// Runs a crawl over 500 items with this limit per class. Returns the number of items that the crawler checked.
    fn checked(items_max: u32) -> u64 {
        let engine = Engine::new(EngineConfig::new(8 << 20)).expect("8 MiB can be reserved");
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
            assert!(steps < 1_000_000, "the crawl must end within 1,000,000 steps");
        }
        assert!(!crawls.is_running());
        engine.stats(now).total.counters.crawler_items_checked
    }

    #[test]
    fn an_automatic_crawl_runs_during_a_dump_that_the_client_does_not_read() {
        let engine = Engine::new(EngineConfig::new(8 << 20)).expect("8 MiB can be reserved");
        let clock = Clock::manual();
        let expires_soon = ItemMeta { client_flags: 0, expiry: Expiry::at(Seconds(5)), cost: None };
        engine.handle().set(b"k", b"value", expires_soon, StoreMode::Set, clock.now());
        clock.advance(Duration::from_secs(10));
        let crawls = Crawls::default();
        let classes = || engine.config().classes.ids().collect();
        let dump = crawls.begin().expect("no crawl is running");
        crawls.expire_automatically(classes(), 0);
        // Now neither a second automatic crawl nor a requested crawl can start.
        crawls.expire_automatically(classes(), 0);
        assert!(crawls.begin().is_none());
        assert_eq!(crawls.starts(), 2);
        assert_eq!(crawls.step(&engine, usize::MAX, clock.now()), CrawlStep::Done);
        assert_eq!(engine.stats(clock.now()).items, 0);
        assert!(crawls.is_running() && crawls.begin().is_none(), "the dump is still running");
        crawls.expire_automatically(classes(), 0);
        drop(dump);
        assert!(crawls.begin().is_none(), "the automatic crawl is still running");
        assert_eq!(crawls.step(&engine, usize::MAX, clock.now()), CrawlStep::Done);
        assert!(!crawls.is_running() && crawls.begin().is_some());
    }

    #[test]
    fn a_crawl_checks_all_items_or_at_most_the_given_number_per_class() {
        assert_eq!(checked(0), 500);
        assert_eq!(checked(10), 10);
        assert_eq!(checked(u32::MAX), 500);
    }
}
