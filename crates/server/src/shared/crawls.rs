//! Who crawls: at most one `lru_crawler` command at a time, as in memcached.
//!
//! A dump writes to one connection, so its session steps it and holds a [`CrawlTicket`]; closing the
//! connection gives the ticket back. A crawl that only expires items belongs to nobody: it lies
//! here, and whoever calls [`Crawls::step`] carries it on: the session that asked for it, and the
//! thread that drives background work when that session has gone.

use slabwise_base::Now;
use slabwise_base::sync::{Mutex, lock, try_lock};
use slabwise_engine::{self as engine, Crawler, Engine};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Who crawls.
#[derive(Default)]
pub struct Crawls {
    running: AtomicBool,
    starts: AtomicU64,
    expiring: Mutex<Option<Crawler>>,
}

/// The right to crawl; given back when dropped.
pub struct CrawlTicket<'e> {
    crawls: &'e Crawls,
}

/// What a step of the expiring crawl came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrawlStep {
    /// There is none, or another thread is at it.
    Idle,
    /// There is more to do.
    Working,
    /// It is over.
    Done,
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

    /// Leaves a crawl here that only expires items.
    pub fn expire(&self, ticket: CrawlTicket<'_>, crawler: Crawler) {
        *lock(&self.expiring) = Some(crawler);
        // The right stays taken until the crawl's last step.
        std::mem::forget(ticket);
    }

    /// One bounded step of the crawl that expires items.
    pub fn step(&self, engine: &Engine, budget_chunks: usize, now: Now) -> CrawlStep {
        let Some(mut expiring) = try_lock(&self.expiring) else {
            return CrawlStep::Idle;
        };
        let Some(crawler) = expiring.as_mut() else {
            return CrawlStep::Idle;
        };
        if crawler.step(engine, budget_chunks, now, &mut |_| {}) == engine::CrawlStep::More {
            return CrawlStep::Working;
        }
        *expiring = None;
        self.running.store(false, Ordering::Release);
        CrawlStep::Done
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
