//! Counters of connections and traffic.

use slabwise_base::counters;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

counters! {
    /// Counters of connections, commands and background work.
    pub struct ConnectionCounters read as ConnectionCounts {
        /// Connections accepted.
        total_connections,
        /// Connections turned away at the limit.
        rejected_connections,
        /// How often accepting was paused.
        listen_disabled_num,
        /// For how long in all.
        time_in_listen_disabled_us,
        /// Turns that ended because the request budget was used.
        conn_yields,
        /// Connections closed for being idle.
        idle_kicks,
        /// Steps of the LRU maintainer.
        maintainer_steps,
        /// Processor time that page moves took.
        mover_cpu_nanos,
        /// Processor time that profiling took in the background.
        profile_cpu_nanos,
        /// Attempts to authenticate.
        auth_commands,
        /// Those that failed.
        auth_errors,
        /// `flush_all` commands.
        flushes,
    }
    gauges {
        /// Connections open now.
        curr_connections: AtomicU64,
        /// Whether the listeners accept.
        accepting_conns: AtomicBool,
    }
}

/// One worker's traffic: written by it alone, so that no worker waits for another's cache line.
#[derive(Default, Debug)]
#[repr(align(64))]
pub struct Traffic(TrafficCounters);

counters! {
    /// What workers counted of their traffic.
    pub struct TrafficCounters read as TrafficCounts {
        /// Bytes from clients.
        bytes_read,
        /// Bytes to clients.
        bytes_written,
        /// `me` commands: what memcached calls `cmd_meta`.
        meta_debugs,
        /// Shares of the turns with gets that were timed ([`Served::shares`](crate::context::Served::shares)).
        timed_shares,
        /// Nanoseconds that those turns took.
        timed_nanos,
    }
}

impl Traffic {
    /// Counts bytes from a client. Only the worker it belongs to calls this.
    pub fn add_read(&self, count: usize) {
        Traffic::add(&self.0.bytes_read, count);
    }

    /// Counts bytes to a client. Only the worker it belongs to calls this.
    pub fn add_written(&self, count: usize) {
        Traffic::add(&self.0.bytes_written, count);
    }

    /// Counts a turn with gets that was timed: what its time is divided by ([`Served::shares`]), and how long it
    /// took from receiving to sending. Only the worker it belongs to calls this.
    ///
    /// [`Served::shares`]: crate::context::Served::shares
    pub fn add_timed_turn(&self, shares: u32, nanos: u64) {
        Traffic::add(&self.0.timed_shares, shares as usize);
        Traffic::add(&self.0.timed_nanos, nanos as usize);
    }

    /// Counts a `me`. Only the worker it belongs to calls this.
    pub fn count_meta_debug(&self) {
        Traffic::add(&self.0.meta_debugs, 1);
    }

    /// What was counted so far.
    pub(super) fn read(&self) -> TrafficCounts {
        self.0.read()
    }

    /// With one writer no locked instruction is needed.
    fn add(counter: &AtomicU64, count: usize) {
        let sum = counter.load(Ordering::Relaxed).wrapping_add(count as u64);
        counter.store(sum, Ordering::Relaxed);
    }
}
