//! The state that all threads share, and the context in which a worker drives its sessions.

use super::connections::{
    ConnectionCounters, ConnectionCounts, ConnectionTable, Traffic, TrafficCounts,
};
use super::crawls::Crawls;
use super::measured_costs::MeasuredCosts;
use super::notifier::Notifier;
use super::prefixes::PrefixStats;
use super::watch::{WatchCounts, WatchLog};
use crate::config::{Settings, Tunables};
use crate::passwords::{Kind, PasswordFile};
use crate::tls::{Tls, TlsCounts};
use slabwise_base::sync::{Mutex, lock};
use slabwise_base::{Clock, Expiry, Now, Seconds};
use slabwise_engine::{ClassStats, Engine, EngineStats, Handle};
use slabwise_profile::{MissClockCounts, MissClockOptions};
use slabwise_protocol::{Exptime, WatchKinds};
use slabwise_tuner::TunerStatus;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The state that all threads share.
pub struct Shared<'e> {
    pub(crate) engine: &'e Engine,
    pub(crate) clock: &'e Clock,
    /// The options at start.
    pub(crate) settings: &'e Settings,
    /// The settings that commands change at run time. No other lock is taken under this one.
    pub(crate) tunables: Mutex<Tunables>,
    pub(crate) counters: ConnectionCounters,
    /// Traffic counters, by worker.
    pub(crate) traffic: Box<[Traffic]>,
    /// The tuner's status: page moves and profile.
    pub(crate) tuner_status: Arc<TunerStatus>,
    pub(crate) notifier: Arc<Notifier>,
    /// All counters at the last `stats reset`.
    baseline: Mutex<Arc<Baseline>>,
    pub(crate) prefixes: PrefixStats,
    /// Present with `-o cost=measured`.
    pub(crate) measured_costs: Option<MeasuredCosts>,
    pub(crate) watch: Arc<WatchLog>,
    pub(crate) crawls: Crawls,
    /// The server's certificates and keys; `None` without `-Z`.
    pub(crate) tls: Option<Tls>,
    pub(crate) connection_table: &'e ConnectionTable,
    /// The SASL users; `None` without `-S` or its password file.
    pub(crate) passwords: Option<PasswordFile>,
    /// The users of ASCII authentication; `None` without `-Y`.
    pub(crate) logins: Option<PasswordFile>,
    stopping: AtomicBool,
    graceful: AtomicBool,
    wake: Box<dyn Fn(Wake) + Send + Sync + 'e>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// All event loops, to stop.
    All,
    /// The event loop of the worker with this number, to check its mailbox and its watchers.
    Worker(usize),
}

impl<'e> Shared<'e> {
    /// Makes the shared state. `wake` wakes event loops, to stop the server and for watchers.
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
            tuner_status: Arc::new(TunerStatus::default()),
            notifier: Arc::new(Notifier::default()),
            baseline: Mutex::default(),
            prefixes: PrefixStats::new(settings.prefix_delimiter, settings.detail_enabled),
            measured_costs: settings.costs_measured.then(|| {
                let options = MissClockOptions::default();
                MeasuredCosts::new(options, settings.prefix_delimiter, engine.config().hash_seed)
            }),
            watch: Arc::new(WatchLog::new(Arc::clone(clock), settings.watcher_log_bytes as usize)),
            crawls: Crawls::default(),
            tls: None,
            connection_table,
            passwords: sasl_passwords.map(|path| PasswordFile::new(path, Kind::Sasl)),
            stopping: AtomicBool::new(false),
            logins: None,
            graceful: AtomicBool::new(false),
            wake,
        }
    }

    /// Stops the server, on a signal or a `shutdown` command.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.notifier.shut_down();
        (self.wake)(Wake::All);
    }

    /// Wakes the workers whose watchers have new lines. A thread that may have written events calls it before it waits.
    #[inline]
    pub(crate) fn deliver_watched(&self) {
        // A thread always sees its own store to the flag, and other threads deliver their own events.
        if self.watch.undelivered.load(Ordering::Relaxed) {
            self.watch.deliver(|worker| (self.wake)(Wake::Worker(worker)));
        }
    }

    /// True if any of these kinds of events is watched.
    #[inline]
    pub(crate) fn is_watched(&self, kinds: WatchKinds) -> bool {
        WatchKinds::from_bits(self.watch.kinds.load(Ordering::Relaxed)).intersects(kinds)
    }

    pub(crate) fn tunables(&self) -> Tunables {
        *lock(&self.tunables)
    }

    /// True if requests are counted by key prefix.
    #[inline]
    pub(crate) fn counts_prefixes(&self) -> bool {
        self.prefixes.enabled.load(Ordering::Relaxed)
    }

    /// Stops the server, on SIGUSR1 or `shutdown graceful`, so that a memory file (`-e`) is saved for the next start.
    pub(crate) fn stop_gracefully(&self) {
        self.graceful.store(true, Ordering::Release);
        self.stop();
    }

    /// The traffic of all workers together.
    pub(crate) fn traffic_counts(&self) -> TrafficCounts {
        let mut sum = TrafficCounts::default();
        self.traffic.iter().for_each(|traffic| sum += &traffic.read());
        sum
    }

    /// The counts that statistics subtract.
    pub(crate) fn baseline(&self) -> Arc<Baseline> {
        Arc::clone(&lock(&self.baseline))
    }

    /// Resets statistics to zero.
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

/// All counters at the last `stats reset`, or zeros.
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

/// The most bytes of one receive: enough for a pipelined batch, small enough to stay in the L2 cache.
pub(crate) const READ_BUFFER_BYTES: usize = 64 << 10;

/// The context in which one worker serves requests. A worker has one while it runs.
pub struct WorkerContext<'e> {
    /// The worker's handle to the engine.
    pub handle: Handle<'e>,
    /// The time of this wake-up; the event loop sets it.
    pub now: Now,
    /// The state that all threads share.
    pub shared: &'e Shared<'e>,
    /// This worker's traffic counters.
    pub traffic: &'e Traffic,
    /// This worker's number.
    pub index: usize,
    /// The descriptor of the connection being served, for log messages; the event loop sets it.
    pub descriptor: RawFd,
    /// The number of requests that may still be served in this round, before other connections are served. The event
    /// loop refills it; setting it to 0 ends the round.
    pub requests_left: u32,
    /// The requests served in this round; the event loop resets it.
    pub served: Served,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// Requests, as [`WorkerContext::requests_left`] counts them.
    pub requests: u32,
    /// Keys that gets looked up; one request may name several.
    pub gets: u32,
    pub others: u32,
}

impl Served {
    /// Returns the number of keys and other requests by which a round's time is divided to estimate the time of a get;
    /// `None` if the round had no get.
    pub fn shares(&self) -> Option<u32> {
        (self.gets > 0).then_some(self.gets + self.others)
    }
}

/// As in memcached, lifetimes up to this number of seconds are relative; larger ones are Unix times.
const RELATIVE_EXPTIME_MAX: u32 = 60 * 60 * 24 * 30;

impl<'e> WorkerContext<'e> {
    /// Makes the context of the worker with this number. It may not serve requests yet.
    pub fn new(shared: &'e Shared<'e>, index: usize) -> WorkerContext<'e> {
        WorkerContext {
            handle: shared.engine.handle(),
            now: shared.clock.now(),
            shared,
            traffic: &shared.traffic[index],
            index,
            descriptor: -1,
            requests_left: 0,
            served: Served::default(),
        }
    }

    #[inline]
    pub(crate) fn expiry(&self, exptime: Exptime) -> Expiry {
        match exptime {
            Exptime::Never => Expiry::NEVER,
            Exptime::Past => Expiry::PAST,
            Exptime::At(time) => Expiry::at(self.second(time)),
        }
    }

    /// Converts a time on the wire to a second of the clock. A Unix time before the server's start becomes the first
    /// second, which is past.
    pub(crate) fn second(&self, time: u32) -> Seconds {
        if time <= RELATIVE_EXPTIME_MAX {
            return Seconds(self.now.seconds.0 + time);
        }
        let since_zero = u64::from(time).saturating_sub(self.shared.clock.zero_unix_seconds());
        Seconds((since_zero as u32).max(1))
    }

    #[inline]
    pub(crate) fn shown_cas(&self, cas: u64) -> u64 {
        if self.shared.settings.cas_enabled { cas } else { 0 }
    }

    /// The CAS value that an item must have. With `-C` items have none: a requested 0 is no condition, and any other
    /// value matches no item.
    pub(crate) fn expected_cas(&self, requested: Option<u64>) -> Option<u64> {
        match requested {
            Some(0) if !self.shared.settings.cas_enabled => None,
            // No item has CAS value 0.
            Some(_) if !self.shared.settings.cas_enabled => Some(0),
            expected => expected,
        }
    }

    pub(crate) fn unix_seconds(&self, second: Seconds) -> u64 {
        self.shared.clock.zero_unix_seconds() + u64::from(second.0)
    }
}

#[cfg(test)]
mod tests {
    use super::Served;
    use crate::session::testing::{Client, Fixture};
    use slabwise_base::{Expiry, Seconds};
    use slabwise_protocol::Exptime;
    use std::time::Duration;

    #[test]
    fn gets_count_per_key_and_no_ops_do_not_count() {
        let fixture = Fixture::new();
        let shared = fixture.shared();
        let mut client = Client::new(fixture.worker(&shared));
        let mut served = |script: &[u8]| {
            client.worker.served = Served::default();
            client.send(script);
            client.worker.served
        };
        let get = b"\x80\x09\0\x01\0\0\0\0\0\0\0\x01opaqcasvaluek";
        let noop = b"\x80\x0a\0\0\0\0\0\0\0\0\0\0opaqcasvalue";
        for (script, requests, gets) in [
            (&b"get a b c\r\n"[..], 1, 3),
            (b"gat 10 a b\r\ngets c\r\n", 2, 3),
            (b"mg a v\r\nmg b v q\r\nmn\r\n", 3, 2),
            (&format!("get{}\r\n", " key".repeat(100)).into_bytes(), 2, 100),
        ] {
            let expected = Served { requests, gets, others: 0 };
            assert_eq!(served(script), expected, "{}", script.escape_ascii());
            assert_eq!(expected.shares(), Some(gets));
        }
        for script in [
            &b"get a\r\nset a 0 0 1\r\nx\r\n"[..],
            b"get a\r\ndelete a\r\n",
            b"mg a v\r\nms a 1\r\nx\r\n",
            b"mg a v\r\nmd a\r\n",
            b"get a\r\nstats\r\n",
        ] {
            let expected = Served { requests: 2, gets: 1, others: 1 };
            assert_eq!(served(script), expected, "{}", script.escape_ascii());
        }
        assert_eq!(served(b"mn\r\ndelete a\r\n").shares(), None, "no get at all");
        let mut binary = Client::new(fixture.worker(&shared));
        binary.worker.served = Served::default();
        binary.send(&[&get[..], get, noop].concat());
        assert_eq!(binary.worker.served, Served { requests: 3, gets: 2, others: 0 });
        let delete = [&b"\x80\x04"[..], &get[2..]].concat();
        binary.send(&delete);
        assert_eq!(binary.worker.served.shares(), Some(3));
    }

    #[test]
    fn lifetimes_are_relative_up_to_30_days_and_unix_times_beyond() {
        let fixture = Fixture::new();
        let shared = fixture.shared();
        fixture.clock.advance(Duration::from_secs(100));
        let worker = fixture.worker(&shared);
        let start = fixture.clock.zero_unix_seconds() as i32;
        let signed = |number| worker.expiry(Exptime::of_signed(number));
        let unsigned = |number| worker.expiry(Exptime::of_unsigned(number));
        assert_eq!(signed(0), Expiry::NEVER);
        assert_eq!(signed(-1), Expiry::PAST);
        assert_eq!(signed(i32::MIN), Expiry::PAST);
        assert_eq!(signed(5), Expiry::at(Seconds(107)));
        assert_eq!(signed(2_592_000), Expiry::at(Seconds(2_592_102)));
        assert_eq!(signed(2_592_001), Expiry::PAST);
        assert_eq!(signed(start - 5), Expiry::PAST);
        assert_eq!(signed(start + 500), Expiry::at(Seconds(500)));
        assert_eq!(unsigned(0), Expiry::NEVER);
        assert_eq!(unsigned(5), Expiry::at(Seconds(107)));
        // In 2106; a signed number would be negative.
        let since_start = u32::MAX - start as u32;
        assert_eq!(unsigned(u32::MAX), Expiry::at(Seconds(since_start)));
    }
}
