//! The table of the server's sockets, which `stats conns` shows, and the counters of connections and traffic.
//!
//! The acceptor and the workers add and remove sockets, and any worker lists the sockets for `stats conns`. These
//! operations take the table's lock. State of a connection that changes with every request is in atomics of its
//! [`Client`], so that it is updated without the lock.

use slabwise_base::sync::lock;
use slabwise_base::{Now, Seconds, counters};
use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::ops::Bound;
use std::os::fd::RawFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The sockets of the server. The key of a socket is its descriptor, which is also its number in `stats conns`.
#[derive(Debug, Default)]
pub struct ConnectionTable {
    sockets: Mutex<BTreeMap<RawFd, Arc<Client>>>,
}

/// One socket of the server, with the values that `stats conns` shows.
#[derive(Debug)]
pub struct Client {
    descriptor: RawFd,
    /// The address of the client; for a listening or UDP socket, the address to which the socket is bound.
    pub(crate) address: Address,
    /// The listening address to which the client connected; `None` for a listening or UDP socket.
    listen_address: Option<Address>,
    /// The number of a [`ClientState`].
    state: AtomicU8,
    /// The second of the clock at which the last bytes were received, or at which the socket was added.
    last_active_seconds: AtomicU32,
}

/// The address of a socket or of its client.
#[derive(Clone, Debug)]
pub enum Address {
    /// A TCP address, IPv4 or IPv6.
    Internet(SocketAddr),
    /// A UDP address, IPv4 or IPv6.
    Datagram(SocketAddr),
    /// The path of a listening Unix socket.
    Unix(PathBuf),
    /// The client of a Unix socket, which has no address.
    UnixClient,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Internet(address @ SocketAddr::V4(_)) => write!(f, "tcp:{address}"),
            // As in memcached, the scope of the address is omitted.
            Address::Internet(SocketAddr::V6(address)) => {
                write!(f, "tcp6:[{}]:{}", address.ip(), address.port())
            }
            Address::Datagram(address @ SocketAddr::V4(_)) => write!(f, "udp:{address}"),
            Address::Datagram(SocketAddr::V6(address)) => {
                write!(f, "udp6:[{}]:{}", address.ip(), address.port())
            }
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
            Address::UnixClient => write!(f, "unix:<AF 1>"),
        }
    }
}

/// The state of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ClientState {
    /// The socket is a listening socket.
    Listening,
    /// The server waits for a request.
    Reading,
    /// The server is serving requests.
    Serving,
    /// The server is receiving the value of a store command.
    Uploading,
    /// The server has replies, and the socket accepts no more bytes until the client reads.
    Writing,
    /// The client is a watcher.
    Watching,
}

/// memcached's name of each state, in the order of the variants.
const STATE_NAMES: [&str; 6] =
    ["conn_listening", "conn_read", "conn_parse_cmd", "conn_nread", "conn_mwrite", "conn_watch"];

impl Client {
    /// Records that bytes of the client arrived at this time.
    pub(crate) fn note_active(&self, now: Seconds) {
        self.last_active_seconds.store(now.0, Ordering::Relaxed);
        self.set_state(ClientState::Serving);
    }

    /// Sets the state. With `-vvv`, logs a change of the state as memcached does.
    pub(crate) fn set_state(&self, state: ClientState) {
        if tracing::enabled!(tracing::Level::TRACE) {
            let (before, after) = (self.state_name(), STATE_NAMES[state as usize]);
            if before != after {
                tracing::trace!("{}: going from {before} to {after}", self.descriptor);
            }
        }
        self.state.store(state as u8, Ordering::Relaxed);
    }

    fn state_name(&self) -> &'static str {
        STATE_NAMES[usize::from(self.state.load(Ordering::Relaxed))]
    }

    /// True if the client is connected by TCP. `-o idle_timeout` applies only to clients that are connected by TCP.
    pub(crate) fn is_internet(&self) -> bool {
        matches!(self.address, Address::Internet(_))
    }
}

impl ConnectionTable {
    /// Adds a socket. The caller keeps the descriptor open until it has called [`ConnectionTable::remove`].
    /// `listen_address` is the address to which the client connected, or `None` for a listening or UDP socket.
    pub(crate) fn add(
        &self,
        descriptor: RawFd,
        address: Address,
        listen_address: Option<Address>,
        state: ClientState,
        now: Seconds,
    ) -> Arc<Client> {
        let client = Arc::new(Client {
            descriptor,
            address,
            listen_address,
            state: AtomicU8::new(state as u8),
            last_active_seconds: AtomicU32::new(now.0),
        });
        lock(&self.sockets).insert(descriptor, Arc::clone(&client));
        client
    }

    /// Removes the socket of a connection. The caller closes the descriptor afterwards, because the kernel can then
    /// give the same number to a new connection.
    pub(crate) fn remove(&self, client: &Client) {
        lock(&self.sockets).remove(&client.descriptor);
    }

    /// Calls `stat` with the name and the value of each line of `stats conns`, for at most `count_max` sockets with
    /// descriptors above `after`. Returns the last descriptor if there may be more sockets.
    pub fn list(
        &self,
        after: Option<RawFd>,
        count_max: usize,
        now: Now,
        mut stat: impl FnMut(&str, &str),
    ) -> Option<RawFd> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let rest = (from, Bound::Unbounded);
        let clients: Vec<Arc<Client>> = lock(&self.sockets)
            .range(rest)
            .take(count_max)
            .map(|(_, client)| Arc::clone(client))
            .collect();
        for client in &clients {
            let number = client.descriptor;
            if matches!(client.address, Address::Datagram(_)) {
                stat(&format!("{number}:UDP"), "UDP");
            }
            stat(&format!("{number}:addr"), &client.address.to_string());
            if let Some(listen_address) = &client.listen_address {
                stat(&format!("{number}:listen_addr"), &listen_address.to_string());
            }
            stat(&format!("{number}:state"), client.state_name());
            let last_active = client.last_active_seconds.load(Ordering::Relaxed);
            let idle = now.seconds.0.saturating_sub(last_active);
            stat(&format!("{number}:secs_since_last_cmd"), &idle.to_string());
        }
        clients.get(count_max - 1).map(|last| last.descriptor)
    }
}

counters! {
    /// Counts of connections, commands and background work since the start of the server.
    pub struct ConnectionCounters read as ConnectionCounts {
        /// Accepted connections.
        total_connections,
        /// Connections that were rejected because `-c` connections were open.
        rejected_connections,
        /// The number of times that the acceptor paused.
        listen_disabled_num,
        /// Microseconds that all pauses of the acceptor took.
        time_in_listen_disabled_us,
        /// The number of times that a worker had served `-R` requests of a connection, and the connection had more
        /// requests.
        conn_yields,
        /// Connections that were closed because they were idle for `-o idle_timeout` seconds.
        idle_kicks,
        /// Steps of the LRU maintainer.
        maintainer_steps,
        /// Steps of the tuner.
        tuner_steps,
        /// Nanoseconds of processor time that the mover has used.
        mover_cpu_nanos,
        /// Nanoseconds of processor time that the profiler and the computation of plans have used.
        profile_cpu_nanos,
        /// Attempts to authenticate.
        auth_commands,
        /// Attempts to authenticate that failed.
        auth_errors,
        /// `flush_all` commands, including those that `-F` forbids.
        flushes,
    }
    gauges {
        /// The number of open connections.
        curr_connections: AtomicU64,
        /// False while the acceptor pauses.
        accepting_conns: AtomicBool,
    }
}

counters! {
    /// The traffic of one worker since the start of the server. Only this worker changes the counters. Each worker has
    /// its own cache line, so that workers do not invalidate each other's caches.
    #[repr(align(64))]
    pub struct Traffic read as TrafficCounts {
        /// Bytes that the worker received.
        bytes_read,
        /// Bytes that the worker sent.
        bytes_written,
        /// `me` commands, which memcached counts as `cmd_meta`.
        meta_debugs,
        /// The sum of [`RoundCounts::time_shares`](crate::shared::RoundCounts::time_shares) over the rounds with gets
        /// whose duration the worker measured.
        timed_shares,
        /// The nanoseconds that the measured rounds with gets took, from the receive call to the send call.
        timed_nanos,
        /// The worker's processor time in nanoseconds, when it last measured a round.
        busy_nanos,
    }
}

/// Only the worker that owns the counters may call these functions.
impl Traffic {
    pub fn add_read(&self, count: usize) {
        Traffic::add(&self.bytes_read, count as u64);
    }

    pub fn add_written(&self, count: usize) {
        Traffic::add(&self.bytes_written, count as u64);
    }

    /// Counts a round with gets whose measured duration is `nanos` nanoseconds.
    pub fn add_timed_round(&self, shares: u32, nanos: u64) {
        Traffic::add(&self.timed_shares, shares.into());
        Traffic::add(&self.timed_nanos, nanos);
    }

    /// Sets the processor time that the worker has used.
    pub fn set_busy(&self, time: Duration) {
        self.busy_nanos.store(time.as_nanos() as u64, Ordering::Relaxed);
    }

    pub fn count_meta_debug(&self) {
        Traffic::add(&self.meta_debugs, 1);
    }

    /// Adds to a counter by a load and a store. An atomic addition, which is slower, is not necessary, because only one
    /// thread writes the counter.
    fn add(counter: &AtomicU64, count: u64) {
        counter.store(counter.load(Ordering::Relaxed).wrapping_add(count), Ordering::Relaxed);
    }
}
