//! The one value that all threads share.

use super::bell::Bell;
use super::connections::{ConnectionCounters, ConnectionCounts, Roster, Traffic, TrafficCounts};
use super::crawls::Crawls;
use super::measured_costs::MeasuredCosts;
use super::prefixes::PrefixStats;
use super::watch::{WatchCounts, WatchLog};
use crate::config::{Settings, Tunables};
use crate::passwords::{Kind, PasswordFile};
use crate::tls::{Tls, TlsCounts};
use slabwise_base::Clock;
use slabwise_base::sync::{Mutex, lock};
use slabwise_engine::{ClassStats, Engine, EngineStats};
use slabwise_profile::{MissClockCounts, MissClockOptions};
use slabwise_protocol::WatchKinds;
use slabwise_tuner::Board;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What all threads share.
pub struct Shared<'e> {
    pub(crate) engine: &'e Engine,
    pub(crate) clock: &'e Clock,
    /// The options, as the server was started.
    pub(crate) settings: &'e Settings,
    /// What commands change while it runs. Under this lock no other is taken.
    pub(crate) tunables: Mutex<Tunables>,
    pub(crate) counters: ConnectionCounters,
    /// Bytes from and to clients, by worker.
    pub(crate) traffic: Box<[Traffic]>,
    /// Which pages move, and what is known of the keys: as the tuner shows it.
    pub(crate) board: Arc<Board>,
    pub(crate) bell: Arc<Bell>,
    /// What all counters had come to at the last `stats reset`.
    baseline: Mutex<Arc<Baseline>>,
    pub(crate) prefixes: PrefixStats,
    /// `-o cost=measured`
    pub(crate) measured_costs: Option<MeasuredCosts>,
    pub(crate) watch: Arc<WatchLog>,
    pub(crate) crawls: Crawls,
    /// The server's credentials; `None` without `-Z`.
    pub(crate) tls: Option<Tls>,
    pub(crate) roster: &'e Roster,
    /// `-S`: who may authenticate.
    pub(crate) passwords: Option<PasswordFile>,
    /// `-Y`: who may log in; `None` where nobody needs to.
    pub(crate) logins: Option<PasswordFile>,
    stopping: AtomicBool,
    graceful: AtomicBool,
    /// Wakes event loops.
    wake: Box<dyn Fn(Wake) + Send + Sync + 'e>,
}

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
            tunables: Mutex::new(Tunables::new(settings, engine.config())),
            counters,
            traffic: (0..settings.threads).map(|_| Traffic::default()).collect(),
            board: Arc::new(Board::default()),
            bell: Arc::new(Bell::default()),
            baseline: Mutex::default(),
            prefixes: PrefixStats::new(settings.prefix_delimiter, settings.detail_enabled),
            measured_costs: settings.costs_measured.then(|| {
                let options = MissClockOptions::default();
                MeasuredCosts::new(options, settings.prefix_delimiter, engine.config().hash_seed)
            }),
            watch: Arc::new(WatchLog::new(Arc::clone(clock), settings.watcher_log_bytes as usize)),
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
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.bell.ring();
        (self.wake)(Wake::All);
    }

    /// Wakes those who watch what this thread wrote. A thread that may have written calls it before it waits.
    #[inline]
    pub(crate) fn deliver_watched(&self) {
        // What this thread wrote it sees; what others wrote they deliver.
        if self.watch.undelivered.load(Ordering::Relaxed) {
            self.watch.deliver(|worker| (self.wake)(Wake::Worker(worker)));
        }
    }

    /// Whether any of these kinds of events is watched.
    #[inline]
    pub(crate) fn is_watched(&self, kinds: WatchKinds) -> bool {
        WatchKinds::from_bits(self.watch.kinds.load(Ordering::Relaxed)).intersects(kinds)
    }

    /// The present values.
    pub(crate) fn tunables(&self) -> Tunables {
        *lock(&self.tunables)
    }

    /// Whether requests are counted by key prefix.
    #[inline]
    pub(crate) fn counts_prefixes(&self) -> bool {
        self.prefixes.enabled.load(Ordering::Relaxed)
    }

    /// Ends the server so that a memory file (`-e`) is saved for the next start: SIGUSR1 and `shutdown graceful`
    /// come here.
    pub(crate) fn stop_gracefully(&self) {
        self.graceful.store(true, Ordering::Release);
        self.stop();
    }

    /// What all workers counted of their traffic.
    pub(crate) fn traffic_counts(&self) -> TrafficCounts {
        let mut sum = TrafficCounts::default();
        self.traffic.iter().for_each(|traffic| sum += &traffic.read());
        sum
    }

    /// The counts that statistics begin at.
    pub(crate) fn baseline(&self) -> Arc<Baseline> {
        Arc::clone(&lock(&self.baseline))
    }

    /// Lets statistics begin at zero.
    pub(crate) fn reset_statistics(&self) {
        let now = self.clock.now();
        let measured = self.measured_costs.as_ref();
        let baseline = Baseline {
            engine: self.engine.stats(now),
            classes: self.engine.class_stats(now),
            connections: self.counters.read(),
            traffic: self.traffic_counts(),
            watch: self.watch.counts(),
            tls: self.tls.as_ref().map(|tls| tls.counters.read()).unwrap_or_default(),
            timed_misses: measured.map(|costs| costs.counts().counts).unwrap_or_default(),
        };
        *lock(&self.baseline) = Arc::new(baseline);
        self.prefixes.clear();
    }

    pub(crate) fn is_stopping_gracefully(&self) -> bool {
        self.graceful.load(Ordering::Acquire)
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }
}

/// What all counters had come to at a moment; at the start, nothing.
#[derive(Debug, Default)]
pub struct Baseline {
    pub engine: EngineStats,
    pub classes: Vec<ClassStats>,
    pub connections: ConnectionCounts,
    pub traffic: TrafficCounts,
    pub watch: WatchCounts,
    pub tls: TlsCounts,
    pub timed_misses: MissClockCounts,
}

impl Baseline {
    pub fn since(&self, class: &ClassStats) -> ClassStats {
        let earlier = self.classes.iter().find(|earlier| earlier.class == class.class);
        earlier.map_or_else(|| class.clone(), |earlier| class.since(earlier))
    }
}
