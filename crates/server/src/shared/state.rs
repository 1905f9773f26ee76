//! The state that all threads share.

use super::connections::{
    ConnectionCounters, ConnectionCounts, ConnectionTable, Traffic, TrafficCounts,
};
use super::crawls::Crawls;
use super::durations::{DurationCounts, Durations};
use super::key_observers::KeyObservers;
use super::key_samples::KeySamples;
use super::measured_costs::MeasuredCosts;
use super::notifier::Notifier;
use super::pause::Pause;
use super::prefixes::PrefixStats;
use super::replies::{PendingReplies, ReplyBytes, ReplyCounts};
use super::uploads::{UploadCounts, Uploads};
use super::watch::{WatchCounts, WatchLog};
use crate::config::{IoKind, Settings, Tunables};
use crate::passwords::{PasswordFile, PasswordFileKind};
use crate::tls::{Tls, TlsCounts};
use slabwise_base::sync::{Mutex, lock};
use slabwise_base::{Clock, Seconds};
use slabwise_engine::{ClassStats, Engine, EngineStats, LockStats};
use slabwise_profile::{MissClockCounts, MissClockOptions};
use slabwise_protocol::WatchKinds;
use slabwise_tuner::{TunerStatus, WorkerTime};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

/// The state that all threads share.
pub struct Shared<'e> {
    pub(crate) engine: &'e Engine,
    pub(crate) clock: &'e Clock,
    /// The settings of the command line.
    pub(crate) settings: &'e Settings,
    /// The settings that commands change while the server runs. A thread that holds this lock takes no other lock.
    pub(crate) tunables: Mutex<Tunables>,
    pub(crate) counters: ConnectionCounters,
    /// One entry per worker: the counters of the worker's traffic.
    pub(crate) traffic: Box<[Traffic]>,
    /// One entry per worker: the durations of its requests; `None` without `-o http`.
    pub(super) durations: Option<Box<[Durations]>>,
    /// One entry per worker: keys of its gets; `None` without `-o http_hot_keys`.
    pub(crate) key_samples: Option<Box<[KeySamples]>>,
    /// What the server does with the keys of requests, in addition to serving them.
    pub(crate) key_observers: KeyObservers,
    /// The system's file with the memory of this process; `None` without `-o http`.
    memory_status: Option<File>,
    /// The plan, the profile and the class table that the tuner reports for `stats plan`, `stats profile` and
    /// `stats sizes_plan`.
    pub(crate) tuner_status: Arc<TunerStatus>,
    /// Locked for reading during each step of a background thread, and for writing during a check of the invariants.
    background_steps: RwLock<()>,
    /// Ends the waits of the background threads.
    pub(crate) notifier: Arc<Notifier>,
    /// Pauses the threads that serve clients.
    pub(crate) pause: Pause,
    /// The values of all counters at the last `stats reset`.
    baseline: Mutex<Arc<Baseline>>,
    /// The counts of requests and costs for each key prefix (`stats detail`, `stats cost`).
    pub(crate) prefixes: PrefixStats,
    /// The measurement of costs; `None` without `-o cost=measured`.
    pub(crate) measured_costs: Option<MeasuredCosts>,
    /// The log that sends events to watchers.
    pub(crate) watch: Arc<WatchLog>,
    pub(crate) crawls: Crawls,
    /// The interface of the kernel that the workers use.
    pub(crate) io: IoKind,
    /// The server's certificates and keys; `None` without `-Z`.
    pub(crate) tls: Option<Tls>,
    pub(crate) connection_table: &'e ConnectionTable,
    /// The memory of values that clients have not sent completely.
    pub(crate) uploads: Uploads,
    /// The memory of replies that clients have not read.
    pub(crate) replies: PendingReplies,
    /// The password file of `-S`; `None` without `-S` or if `MEMCACHED_SASL_PWDB` is not set.
    pub(crate) passwords: Option<PasswordFile>,
    /// The password file of `-Y`; `None` without `-Y`.
    pub(crate) logins: Option<PasswordFile>,
    /// True when the server stops.
    is_stopping: AtomicBool,
    /// True if the stop keeps the items in the memory file (`-e`).
    is_graceful: AtomicBool,
    /// Wakes event loops.
    wake: Box<dyn Fn(Wake) + Send + Sync + 'e>,
}

/// The file in which Linux reports the memory of the process that reads it, in pages.
const MEMORY_STATUS: &str = "/proc/self/statm";

/// The event loops to wake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// Every event loop, because the server stops, or clients do not read their replies.
    All,
    /// The event loop of the worker with this number, because a watcher of this worker has new lines, or an upload may go
    /// on or is refused.
    Worker(usize),
}

impl<'e> Shared<'e> {
    /// Makes the shared state. The shared state calls `wake` to wake event loops when the server stops and when
    /// watchers have new lines.
    pub fn new(
        engine: &'e Engine,
        clock: &'e Arc<Clock>,
        settings: &'e Settings,
        connection_table: &'e ConnectionTable,
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
            durations: settings
                .http
                .is_some()
                .then(|| (0..settings.threads).map(|_| Durations::default()).collect()),
            key_samples: (settings.hot_keys() > 0)
                .then(|| (0..settings.threads).map(|_| KeySamples::default()).collect()),
            key_observers: KeyObservers::new(settings.detail_enabled, settings.hot_keys() > 0),
            memory_status: settings.http.as_ref().and_then(|_| File::open(MEMORY_STATUS).ok()),
            tuner_status: Arc::new(TunerStatus::default()),
            background_steps: RwLock::default(),
            notifier: Arc::new(Notifier::default()),
            pause: Pause::default(),
            baseline: Mutex::default(),
            prefixes: PrefixStats::new(settings.prefix_delimiter),
            measured_costs: settings.costs_measured.then(|| {
                let options = MissClockOptions::default();
                MeasuredCosts::new(options, settings.prefix_delimiter, engine.config().hash_seed)
            }),
            watch: Arc::new(WatchLog::new(Arc::clone(clock), settings.watcher_log_bytes as usize)),
            crawls: Crawls::default(),
            io: IoKind::Epoll,
            tls: None,
            connection_table,
            uploads: Uploads::new(engine.config().memory_limit_bytes),
            replies: PendingReplies::new(engine.config().memory_limit_bytes),
            passwords: sasl_passwords.map(|path| PasswordFile::new(path, PasswordFileKind::Sasl)),
            is_stopping: AtomicBool::new(false),
            logins: None,
            is_graceful: AtomicBool::new(false),
            wake,
        }
    }

    /// Marks a step of a background thread. Waits while the invariants are checked. The caller keeps the guard during the
    /// step.
    pub(crate) fn background_step(&self) -> RwLockReadGuard<'_, ()> {
        self.background_steps.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks all invariants of the cache between two steps of the background threads. Panics if one is violated. No
    /// client may use the cache meanwhile.
    pub(crate) fn check_invariants(&self) {
        let _guard = self.hold_background_steps();
        self.engine.check();
    }

    /// Prevents the steps of all background threads until the returned value is dropped.
    pub(crate) fn hold_background_steps(&self) -> RwLockWriteGuard<'_, ()> {
        self.background_steps.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes event loops.
    pub(crate) fn wake(&self, target: Wake) {
        (self.wake)(target);
    }

    /// Stops the server. A thread calls this function after a signal or the command `shutdown`, or if a thread fails.
    pub(crate) fn stop(&self) {
        self.is_stopping.store(true, Ordering::Release);
        self.notifier.shut_down();
        self.pause.shut_down();
        (self.wake)(Wake::All);
    }

    /// Wakes the workers whose watchers have new lines. A thread that may have written events calls this function
    /// before it waits.
    #[inline]
    pub(crate) fn deliver_watched(&self) {
        // A relaxed load is enough: a thread reads at least its own last store to the flag, and every other thread
        // calls this function for the events that it wrote.
        if self.watch.undelivered.load(Ordering::Relaxed) {
            self.watch.deliver(|worker| (self.wake)(Wake::Worker(worker)));
        }
    }

    /// Admits uploads that wait, and wakes their workers, except `this_worker`.
    pub(crate) fn admit_uploads(&self, now_nanos: u64, this_worker: usize) {
        if !self.uploads.has_waiting() {
            return;
        }
        // Most uploads that wait are large, so their values need chunks of the largest size.
        let free_bytes = self.engine.free_bytes(usize::MAX);
        self.uploads.admit_waiting(now_nanos, free_bytes, |worker| {
            if worker != this_worker {
                (self.wake)(Wake::Worker(worker));
            }
        });
    }

    /// Marks silent uploads for refusal if others wait, and wakes their workers.
    pub(crate) fn mark_silent_uploads(&self, now_nanos: u64) {
        if !self.uploads.has_waiting() {
            return;
        }
        self.uploads.mark_silent(now_nanos, |worker| (self.wake)(Wake::Worker(worker)));
    }

    /// Replaces the memory of replies that a connection held by the memory that it holds now. Wakes all workers if their
    /// rounds have limits from now on.
    #[cold]
    pub(crate) fn settle_replies(&self, before: ReplyBytes, after: ReplyBytes) {
        if self.replies.settle(before, after) {
            (self.wake)(Wake::All);
        }
    }

    /// Records that a get of a large value waits, and returns its ticket. Wakes all workers if no other get waited, so
    /// that they look for clients that do not read.
    pub(crate) fn begin_reply_wait(&self) -> u64 {
        let (ticket, is_first) = self.replies.begin_wait();
        if is_first {
            (self.wake)(Wake::All);
        }
        ticket
    }

    /// True if a watcher has requested one of these kinds of events.
    #[inline]
    pub(crate) fn is_watched(&self, kinds: WatchKinds) -> bool {
        WatchKinds::from_bits(self.watch.kinds.load(Ordering::Relaxed)).intersects(kinds)
    }

    /// Returns the current values of the settings that commands can change.
    pub(crate) fn tunables(&self) -> Tunables {
        *lock(&self.tunables)
    }

    /// True if requests are counted by key prefix.
    #[inline]
    pub(crate) fn counts_prefixes(&self) -> bool {
        self.key_observers.get().count_prefixes()
    }

    /// Stops the server and, with `-e`, keeps the items in the memory file for the next start. A thread calls this
    /// function after SIGUSR1 or the command `shutdown graceful`.
    pub(crate) fn stop_gracefully(&self) {
        self.is_graceful.store(true, Ordering::Release);
        self.stop();
    }

    /// Returns the sum of the traffic of all workers since the start of the server.
    pub(crate) fn traffic_counts(&self) -> TrafficCounts {
        let mut sum = TrafficCounts::default();
        self.traffic.iter().for_each(|traffic| sum += &traffic.read());
        sum
    }

    /// Returns the number of open connections.
    pub(crate) fn open_connections(&self) -> u64 {
        self.counters.curr_connections.load(Ordering::Relaxed)
    }

    /// Returns the durations of requests since the start of the server, in the order of
    /// [`COMMAND_NAMES`](super::COMMAND_NAMES); `None` without `-o http`.
    pub(crate) fn durations(&self) -> Option<[DurationCounts; 3]> {
        self.durations.as_deref().map(Durations::sum)
    }

    /// Returns the resident memory of the process in bytes; `None` if it is unknown.
    pub(crate) fn resident_bytes(&self) -> Option<u64> {
        let mut text = [0; 128];
        let len = self.memory_status.as_ref()?.read_at(&mut text, 0).ok()?;
        let pages = str::from_utf8(&text[..len]).ok()?.split(' ').nth(1)?.parse::<u64>().ok()?;
        Some(pages * rustix::param::page_size() as u64)
    }

    /// Returns the processor time of the workers. Workers beyond the number of processors do not count, because
    /// at most one worker per processor runs at a time.
    pub(crate) fn worker_time(&self) -> WorkerTime {
        let nanos = self.traffic_counts().busy_nanos;
        let workers = self.settings.threads.min(self.settings.source.processors) as u32;
        WorkerTime { busy: Duration::from_nanos(nanos), workers }
    }

    /// Returns the values of all counters at the last `stats reset`. The statistics show the difference to these
    /// values.
    pub(crate) fn baseline(&self) -> Arc<Baseline> {
        Arc::clone(&lock(&self.baseline))
    }

    /// Makes the statistics start at 0 again (`stats reset`).
    pub(crate) fn reset_statistics(&self) {
        let now = self.clock.now();
        let measured = self.measured_costs.as_ref();
        let baseline = Baseline {
            engine: self.engine.stats(now),
            classes: self.engine.class_stats(now),
            locks: self.engine.lock_stats().into(),
            connections: self.counters.read(),
            traffic: self.traffic_counts(),
            watch: self.watch.counts(),
            uploads: self.uploads.stats().counts,
            replies: self.replies.stats().counts,
            tls: self.tls.as_ref().map(|tls| tls.counters.read()).unwrap_or_default(),
            timed_misses: measured.map(|costs| costs.counts().counts).unwrap_or_default(),
        };
        *lock(&self.baseline) = Arc::new(baseline);
        self.prefixes.clear();
    }

    /// Converts a second of the clock to a Unix time in seconds.
    pub(crate) fn unix_seconds(&self, second: Seconds) -> u64 {
        self.clock.zero_unix_seconds() + u64::from(second.0)
    }

    pub(crate) fn is_stopping_gracefully(&self) -> bool {
        self.is_graceful.load(Ordering::Acquire)
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Acquire)
    }
}

/// The values of all counters at the last `stats reset`, or 0 before the first `stats reset`.
#[derive(Debug, Default)]
pub struct Baseline {
    pub engine: EngineStats,
    /// One entry per class that existed at the last `stats reset`.
    pub classes: Vec<ClassStats>,
    /// The counts of the engine's locks. Empty before the first `stats reset`.
    pub locks: Vec<LockStats>,
    pub connections: ConnectionCounts,
    pub traffic: TrafficCounts,
    pub watch: WatchCounts,
    pub uploads: UploadCounts,
    pub replies: ReplyCounts,
    pub tls: TlsCounts,
    pub timed_misses: MissClockCounts,
}

impl Baseline {
    /// Returns the statistics of a class since the last `stats reset`.
    pub fn since(&self, class: &ClassStats) -> ClassStats {
        let earlier = self.classes.iter().find(|earlier| earlier.class == class.class);
        earlier.map_or_else(|| class.clone(), |earlier| class.since(earlier))
    }
}
