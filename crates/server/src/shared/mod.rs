//! What all threads share. Nothing here is on the way of a get or a set but relaxed loads.

mod crawls;
mod tunables;

pub use crawls::{CrawlStep, CrawlTicket, Crawls};
pub use tunables::{Fraction, Tunables};

use crate::net::Roster;
use crate::settings::Settings;
use crate::stats::PrefixStats;
use slabwise_base::Clock;
use slabwise_engine::Engine;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Counters of connections and traffic.
#[derive(Default, Debug)]
pub struct ConnectionCounters {
    /// Open now.
    pub curr_connections: AtomicU64,
    /// Ever accepted.
    pub total_connections: AtomicU64,
    /// Turned away at the limit.
    pub rejected_connections: AtomicU64,
    /// Whether the listeners accept.
    pub accepting_conns: AtomicBool,
    /// How often accepting was paused.
    pub listen_disabled_num: AtomicU64,
    /// For how long in all.
    pub time_in_listen_disabled_us: AtomicU64,
    /// Turns that ended because the request budget was used.
    pub conn_yields: AtomicU64,
    /// Connections closed for being idle.
    pub idle_kicks: AtomicU64,
    /// Bytes from clients.
    pub bytes_read: AtomicU64,
    /// Bytes to clients.
    pub bytes_written: AtomicU64,
}

impl ConnectionCounters {
    /// Sets what counts events back to zero; what is open stays open.
    pub fn reset(&self) {
        for counter in [
            &self.total_connections,
            &self.rejected_connections,
            &self.listen_disabled_num,
            &self.time_in_listen_disabled_us,
            &self.conn_yields,
            &self.idle_kicks,
            &self.bytes_read,
            &self.bytes_written,
        ] {
            counter.store(0, Ordering::Relaxed);
        }
    }
}

/// What all threads share.
pub struct Shared<'e> {
    /// The cache.
    pub engine: &'e Engine,
    /// The time.
    pub clock: &'e Clock,
    /// The options, as the server was started.
    pub settings: &'e Settings,
    /// What commands change while it runs.
    pub tunables: Tunables,
    /// Counters of connections and traffic.
    pub counters: ConnectionCounters,
    /// flush_all commands.
    pub flushes: AtomicU64,
    /// Counters by key prefix.
    pub prefixes: PrefixStats,
    /// Who crawls.
    pub crawls: Crawls,
    /// Who is connected, for `stats conns`.
    pub roster: &'e Roster,
    /// Set once, by [`Shared::stop`].
    stopping: AtomicBool,
    /// Wakes whoever must notice the stop.
    wake: Box<dyn Fn() + Send + Sync + 'e>,
}

impl<'e> Shared<'e> {
    /// What all threads share; `wake` is called by [`Shared::stop`].
    pub fn new(
        engine: &'e Engine,
        clock: &'e Clock,
        settings: &'e Settings,
        roster: &'e Roster,
        wake: Box<dyn Fn() + Send + Sync + 'e>,
    ) -> Shared<'e> {
        let counters = ConnectionCounters::default();
        counters.accepting_conns.store(true, Ordering::Relaxed);
        Shared {
            engine,
            clock,
            settings,
            tunables: Tunables::new(settings, engine.config()),
            counters,
            flushes: AtomicU64::new(0),
            prefixes: PrefixStats::new(settings.prefix_delimiter, settings.detail_enabled),
            crawls: Crawls::default(),
            roster,
            stopping: AtomicBool::new(false),
            wake,
        }
    }

    /// Ends the server: the `shutdown` command and signals come here.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        (self.wake)();
    }

    /// Whether the server is ending.
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }
}
