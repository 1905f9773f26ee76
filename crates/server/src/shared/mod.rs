//! What all threads share. Nothing here is on the way of a get or a set but relaxed loads.

mod bell;
mod crawls;
mod measured_costs;
mod tunables;
mod watch;

pub use bell::{Bell, Driver, Woken};
pub use crawls::{CrawlStep, CrawlTicket, Crawls};
pub use measured_costs::MeasuredCosts;
pub use tunables::{Fraction, Tunables};
pub use watch::{
    CloseReason, DeleteCommand, FetchStatus, StoreStatus, WatchCounts, WatchEvent, WatchLog,
    Watcher,
};

use crate::net::Roster;
use crate::passwords::{Kind, PasswordFile};
use crate::settings::Settings;
use crate::stats::PrefixStats;
use crate::tls::Tls;
use slabwise_base::Clock;
use slabwise_engine::Engine;
use slabwise_profile::MissClockOptions;
use slabwise_tuner::Board;
use std::sync::Arc;
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
    /// Steps of the LRU maintainer.
    pub maintainer_steps: AtomicU64,
    /// Processor time that page moves took.
    pub mover_cpu_nanos: AtomicU64,
    /// The same of profiling, but for what workers do for it.
    pub profile_cpu_nanos: AtomicU64,
    /// Attempts to authenticate.
    pub auth_commands: AtomicU64,
    /// Those that failed.
    pub auth_errors: AtomicU64,
}

/// One worker's traffic: written by it alone, so that no worker waits for another's cache line.
#[derive(Default, Debug)]
#[repr(align(64))]
pub struct Traffic {
    bytes_read: AtomicU64,
    bytes_written: AtomicU64,
    meta_debugs: AtomicU64,
    timed: TimedTurns,
}

/// Turns with gets that were timed, ever.
#[derive(Default, Debug)]
struct TimedTurns {
    shares: AtomicU64,
    nanos: AtomicU64,
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
            &self.maintainer_steps,
            &self.mover_cpu_nanos,
            &self.profile_cpu_nanos,
            &self.auth_commands,
            &self.auth_errors,
        ] {
            counter.store(0, Ordering::Relaxed);
        }
    }
}

impl Traffic {
    /// Counts bytes from a client. Only the worker it belongs to calls this.
    pub fn add_read(&self, count: usize) {
        Traffic::add(&self.bytes_read, count);
    }

    /// Counts bytes to a client. Only the worker it belongs to calls this.
    pub fn add_written(&self, count: usize) {
        Traffic::add(&self.bytes_written, count);
    }

    /// Counts a turn with gets that was timed: what its time is divided by ([`Served::shares`]), and how long it
    /// took from receiving to sending. Only the worker it belongs to calls this.
    ///
    /// [`Served::shares`]: crate::context::Served::shares
    pub fn add_timed_turn(&self, shares: u32, nanos: u64) {
        Traffic::add(&self.timed.shares, shares as usize);
        Traffic::add(&self.timed.nanos, nanos as usize);
    }

    /// Counts a `me`. Only the worker it belongs to calls this.
    pub fn count_meta_debug(&self) {
        Traffic::add(&self.meta_debugs, 1);
    }

    /// With one writer no locked instruction is needed.
    fn add(counter: &AtomicU64, count: usize) {
        let sum = counter.load(Ordering::Relaxed).wrapping_add(count as u64);
        counter.store(sum, Ordering::Relaxed);
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
    /// Bytes from and to clients, by worker.
    pub traffic: Box<[Traffic]>,
    /// Which pages move, and what is known of the keys: as the tuner shows it.
    pub board: Arc<Board>,
    /// What the threads of the background wait at.
    pub bell: Arc<Bell>,
    /// flush_all commands.
    pub flushes: AtomicU64,
    /// Counters by key prefix.
    pub prefixes: PrefixStats,
    /// What items cost, where that is measured: `-o cost=measured`.
    pub measured_costs: Option<MeasuredCosts>,
    /// Who is told what happens.
    pub watch: Arc<WatchLog>,
    /// Who crawls.
    pub crawls: Crawls,
    /// The server's credentials; `None` without `-Z`.
    pub tls: Option<Tls>,
    /// Who is connected, for `stats conns`.
    pub roster: &'e Roster,
    /// Who may authenticate, with `-S`.
    pub passwords: Option<PasswordFile>,
    /// Set once, by [`Shared::stop`].
    stopping: AtomicBool,
    /// Set by [`Shared::stop_gracefully`].
    graceful: AtomicBool,
    /// `-Y`: who may log in; `None` where nobody needs to.
    pub logins: Option<PasswordFile>,
    /// Wakes event loops.
    wake: Box<dyn Fn(Wake) + Send + Sync + 'e>,
}

/// Which event loops are woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// Every one, to notice that the server stops.
    All,
    /// A worker's, by its number, to look at its mail and its watchers.
    Worker(usize),
}

impl<'e> Shared<'e> {
    /// What all threads share; `wake` is called by [`Shared::stop`] and for watchers.
    pub fn new(
        engine: &'e Engine,
        clock: &'e Arc<Clock>,
        settings: &'e Settings,
        roster: &'e Roster,
        wake: Box<dyn Fn(Wake) + Send + Sync + 'e>,
    ) -> Shared<'e> {
        let sasl_passwords = settings.sasl_password_file.clone();
        let counters = ConnectionCounters::default();
        counters.accepting_conns.store(true, Ordering::Relaxed);
        Shared {
            engine,
            clock,
            settings,
            tunables: Tunables::new(settings, engine.config()),
            counters,
            traffic: (0..settings.threads).map(|_| Traffic::default()).collect(),
            board: Arc::new(Board::default()),
            bell: Arc::new(Bell::default()),
            flushes: AtomicU64::new(0),
            prefixes: PrefixStats::new(settings.prefix_delimiter, settings.detail_enabled),
            measured_costs: settings.costs_measured.then(|| {
                let options = MissClockOptions::default();
                MeasuredCosts::new(options, settings.prefix_delimiter, engine.config().hash_seed)
            }),
            watch: Arc::new(WatchLog::new(
                Arc::clone(clock),
                settings.reported.watcher_log_bytes as usize,
            )),
            crawls: Crawls::default(),
            tls: None,
            roster,
            passwords: sasl_passwords.map(|path| PasswordFile::new(path, Kind::Sasl)),
            stopping: AtomicBool::new(false),
            logins: None,
            graceful: AtomicBool::new(false),
            wake,
        }
    }

    /// Ends the server: the `shutdown` command and signals come here.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.bell.ring();
        (self.wake)(Wake::All);
    }

    /// Wakes who watches what this thread wrote. Every thread that may have written calls it before it
    /// waits.
    #[inline]
    pub fn deliver_watched(&self) {
        self.watch.deliver(|worker| (self.wake)(Wake::Worker(worker)));
    }

    /// The same, so that a memory file (`-e`) is saved for the next start: SIGUSR1 and `shutdown graceful`
    /// come here.
    pub fn stop_gracefully(&self) {
        self.graceful.store(true, Ordering::Release);
        self.stop();
    }

    /// Bytes from clients.
    pub fn bytes_read(&self) -> u64 {
        self.traffic.iter().map(|traffic| traffic.bytes_read.load(Ordering::Relaxed)).sum()
    }

    /// Bytes to clients.
    pub fn bytes_written(&self) -> u64 {
        self.traffic.iter().map(|traffic| traffic.bytes_written.load(Ordering::Relaxed)).sum()
    }

    /// The shares of all turns with gets that were timed, and the nanoseconds that those took.
    pub fn timed_turns(&self) -> (u64, u64) {
        let sum = |counter: fn(&TimedTurns) -> &AtomicU64| {
            let counts = self.traffic.iter().map(|traffic| counter(&traffic.timed));
            counts.map(|counter| counter.load(Ordering::Relaxed)).sum()
        };
        (sum(|timed| &timed.shares), sum(|timed| &timed.nanos))
    }

    /// `me` commands: what memcached calls `cmd_meta`.
    pub fn meta_debugs(&self) -> u64 {
        self.traffic.iter().map(|traffic| traffic.meta_debugs.load(Ordering::Relaxed)).sum()
    }

    /// Sets what counts events back to zero.
    pub fn reset_counters(&self) {
        self.counters.reset();
        self.watch.reset_counts();
        if let Some(tls) = &self.tls {
            tls.counters.reset();
        }
        if let Some(measured) = &self.measured_costs {
            measured.reset_counts();
        }
        for Traffic { bytes_read, bytes_written, meta_debugs, .. } in &self.traffic {
            meta_debugs.store(0, Ordering::Relaxed);
            bytes_read.store(0, Ordering::Relaxed);
            bytes_written.store(0, Ordering::Relaxed);
        }
    }

    /// Whether the end that was asked for is a graceful one.
    pub fn is_stopping_gracefully(&self) -> bool {
        self.graceful.load(Ordering::Acquire)
    }

    /// Whether the server is ending.
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }
}
