//! What all threads of a campaign share.

use crate::checker::Checker;
use crate::checker::history::{Begin, End};
use crate::counts::Counts;
use crate::keys::{Keys, Lengths};
use crate::stamps::{Stamp, Stamps};
use crate::transport::TlsConfig;
use slabwise_base::Clock;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, RwLock};
use std::time::Duration;

/// The server as clients see it. An address is `None` while the server is down, or if it has no such listener.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Endpoint {
    /// The address of the TCP listener.
    pub address: Option<SocketAddr>,
    /// The address of the TCP listener with TLS.
    pub tls: Option<SocketAddr>,
    /// The address of the UDP socket.
    pub udp: Option<SocketAddr>,
}

/// What all threads of a campaign share.
#[derive(Debug)]
pub struct World {
    pub clock: Clock,
    pub stamps: Stamps,
    pub checker: Checker,
    pub keys: Keys,
    pub lengths: Lengths,
    pub counts: Counts,
    endpoint: RwLock<Endpoint>,
    /// The configuration of clients with TLS. `None` if the server has no certificates.
    pub tls: Option<TlsConfig>,
    /// Faults that end the process, and with it all connections.
    pub restarts: Disruptions,
    /// Faults because of which the server may refuse new connections, but keeps those that it has accepted.
    pub refusals: Disruptions,
    /// Faults that fill the file system of the memory file.
    pub full_file_systems: Disruptions,
    /// The seconds by which the server's clock may have jumped, and by which it certainly has.
    clock_jump_max: AtomicU64,
    clock_jump_min: AtomicU64,
    /// The times at which the server's clock may have stopped, one for each reason that is active, in nanoseconds.
    stalls: Mutex<Vec<u64>>,
    /// The lowest of these times, or `u64::MAX`.
    stalled_since: AtomicU64,
    pub gate: Gate,
    failures: Mutex<Vec<String>>,
    has_failed: AtomicBool,
    pub reply_timeout: Duration,
    pub is_memcached: bool,
}

/// The number of failures that are kept.
const FAILURES_MAX: usize = 5;

impl World {
    pub fn new(
        checker: Checker,
        keys: Keys,
        lengths: Lengths,
        slots: usize,
        tls: Option<TlsConfig>,
        reply_timeout: Duration,
        is_memcached: bool,
    ) -> World {
        World {
            clock: Clock::real(),
            stamps: Stamps::new(slots),
            checker,
            keys,
            lengths,
            counts: Counts::default(),
            endpoint: RwLock::default(),
            tls,
            restarts: Disruptions::default(),
            refusals: Disruptions::default(),
            full_file_systems: Disruptions::default(),
            clock_jump_max: AtomicU64::new(0),
            clock_jump_min: AtomicU64::new(0),
            stalls: Mutex::default(),
            stalled_since: AtomicU64::new(u64::MAX),
            gate: Gate::default(),
            failures: Mutex::default(),
            has_failed: AtomicBool::new(false),
            reply_timeout,
            is_memcached,
        }
    }

    /// Returns the begin of requests that are sent after this call, with a stamp that was taken before.
    pub fn begin_at(&self, stamp: Stamp) -> Begin {
        let jump = self.clock_jump_min.load(Ordering::SeqCst) * 1_000_000_000;
        let now = self.clock.nanos().min(self.stalled_since.load(Ordering::SeqCst));
        Begin { stamp, clock_min_nanos: now + jump }
    }

    /// Returns the end of requests whose replies were received before this call.
    pub fn end(&self) -> End {
        let stamp = self.stamps.take();
        let jump = self.clock_jump_max.load(Ordering::SeqCst) * 1_000_000_000;
        End { stamp, clock_max_nanos: self.clock.nanos() + jump }
    }

    /// Records that the server's clock may jump from now on.
    pub fn begin_clock_jump(&self, seconds: u64) {
        self.clock_jump_max.fetch_add(seconds, Ordering::SeqCst);
    }

    /// Returns a number that changes when a clock jump begins.
    pub fn clock_jump_epoch(&self) -> u64 {
        self.clock_jump_max.load(Ordering::SeqCst)
    }

    /// Records that the server's clock has jumped.
    pub fn end_clock_jump(&self, seconds: u64) {
        self.clock_jump_min.fetch_add(seconds, Ordering::SeqCst);
    }

    /// Records that the server was started again without its clock jumps.
    pub fn forget_clock_jumps(&self) {
        self.clock_jump_min.store(0, Ordering::SeqCst);
        self.clock_jump_max.store(0, Ordering::SeqCst);
    }

    /// Records that the server's clock, or a thread that has read it, may stop from now on. Dropping the guard ends it.
    pub fn stall(&self) -> Stall<'_> {
        let since = self.clock.nanos();
        self.change_stalls(|stalls| stalls.push(since));
        Stall { world: self, since }
    }

    fn change_stalls(&self, change: impl FnOnce(&mut Vec<u64>)) {
        let mut stalls = self.stalls.lock().expect("no thread panics with this lock");
        change(&mut stalls);
        let since = stalls.iter().copied().min().unwrap_or(u64::MAX);
        self.stalled_since.store(since, Ordering::SeqCst);
    }

    /// Announces the server's addresses, or that the server is down.
    pub fn set_endpoint(&self, endpoint: Endpoint) {
        *self.endpoint.write().expect("no thread panics with this lock") = endpoint;
    }

    /// Records a failure. All threads end soon.
    pub fn fail(&self, text: String) {
        let mut failures = self.failures.lock().expect("no thread panics with this lock");
        if failures.len() < FAILURES_MAX {
            let seconds = self.clock.nanos() as f64 / 1e9;
            failures.push(format!("after {seconds:.1} s: {text}"));
        }
        self.has_failed.store(true, Ordering::Release);
    }

    /// True if a failure was recorded.
    pub fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Acquire)
    }

    /// Returns the recorded failures.
    pub fn failures(&self) -> Vec<String> {
        self.failures.lock().expect("no thread panics with this lock").clone()
    }

    /// Returns the server as clients see it now.
    pub fn endpoint(&self) -> Endpoint {
        *self.endpoint.read().expect("no thread panics with this lock")
    }

    /// Returns the disruptions until now.
    pub fn epoch(&self) -> Epoch {
        Epoch { restarts: self.restarts.epoch(), refusals: self.refusals.epoch() }
    }

    /// True if the server may have refused or ended a connection because of a disruption since this epoch.
    pub fn was_disrupted_since(&self, epoch: Epoch) -> bool {
        self.restarts.were_active_since(epoch.restarts)
            || self.refusals.were_active_since(epoch.refusals)
    }

    /// Waits for a time.
    pub fn pause(&self, time: Duration) {
        sleep(time);
    }
}

/// The disruptions of one kind: the times in which a fault explains what would be an error at other times, such as a
/// missing reply.
#[derive(Debug, Default)]
pub struct Disruptions {
    /// Increases at the begin and at the end of each disruption.
    changes: AtomicU64,
    active: AtomicUsize,
}

impl Disruptions {
    /// Begins a disruption. Dropping the guard ends it.
    pub fn begin(&self) -> Disruption<'_> {
        self.active.fetch_add(1, Ordering::SeqCst);
        self.changes.fetch_add(1, Ordering::SeqCst);
        Disruption(self)
    }

    /// Returns a number that changes when a disruption begins or ends.
    pub fn epoch(&self) -> u64 {
        self.changes.load(Ordering::SeqCst)
    }

    /// True if a disruption was active at some time since `epoch` was read.
    pub fn were_active_since(&self, epoch: u64) -> bool {
        self.active.load(Ordering::SeqCst) > 0 || self.epoch() != epoch
    }
}

/// A disruption that is active.
#[derive(Debug)]
pub struct Disruption<'a>(&'a Disruptions);

impl Drop for Disruption<'_> {
    fn drop(&mut self) {
        self.0.changes.fetch_add(1, Ordering::SeqCst);
        self.0.active.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The disruptions until a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Epoch {
    pub restarts: u64,
    pub refusals: u64,
}

/// A time in which the server's clock may be behind.
#[derive(Debug)]
pub struct Stall<'a> {
    world: &'a World,
    since: u64,
}

impl Drop for Stall<'_> {
    fn drop(&mut self) {
        self.world.change_stalls(|stalls| {
            if let Some(at) = stalls.iter().position(|&since| since == self.since) {
                stalls.swap_remove(at);
            }
        });
    }
}

/// Stops all threads at a point between two batches.
#[derive(Debug, Default)]
pub struct Gate {
    closed: AtomicBool,
    ended: AtomicBool,
    waiting: AtomicUsize,
    threads: AtomicUsize,
}

/// The pause between two looks at a condition.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

impl Gate {
    /// Records that a thread uses the gate.
    pub fn enter(&self) {
        self.threads.fetch_add(1, Ordering::SeqCst);
    }

    /// Records that a thread does not use the gate any more.
    pub fn leave(&self) {
        self.threads.fetch_sub(1, Ordering::SeqCst);
    }

    /// True if the thread should stop its work, to wait at the gate or to end.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst) || self.has_ended()
    }

    /// True if the campaign ends.
    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::SeqCst)
    }

    /// Waits while the gate is closed.
    pub fn pass(&self) {
        if self.closed.load(Ordering::SeqCst) && !self.has_ended() {
            self.waiting.fetch_add(1, Ordering::SeqCst);
            while self.closed.load(Ordering::SeqCst) && !self.has_ended() {
                sleep(POLL_INTERVAL);
            }
            self.waiting.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Closes the gate.
    pub fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }

    /// True if all threads wait at the gate.
    pub fn all_wait(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) >= self.threads.load(Ordering::SeqCst)
    }

    /// Opens the gate.
    pub fn open(&self) {
        self.closed.store(false, Ordering::SeqCst);
    }

    /// Ends all threads.
    pub fn end(&self) {
        self.ended.store(true, Ordering::SeqCst);
    }
}

/// Waits for a time.
#[expect(clippy::disallowed_methods, reason = "a client that waits is part of the workload")]
pub fn sleep(time: Duration) {
    std::thread::sleep(time);
}
