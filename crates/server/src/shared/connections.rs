//! The server's sockets, as `stats conns` shows them, and the counters of connections and traffic.
//!
//! The acceptor and the workers write, any worker reads. The lock is taken when a connection opens or closes and for
//! `stats conns`. State that changes with every request is in atomics of the connection's [`Client`].

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

/// The sockets of the server by descriptor, which is also their number in `stats conns`.
#[derive(Debug, Default)]
pub struct ConnectionTable {
    sockets: Mutex<BTreeMap<RawFd, Arc<Client>>>,
}

/// One socket of the server, with the state that `stats conns` shows.
#[derive(Debug)]
pub struct Client {
    descriptor: RawFd,
    pub(crate) address: Address,
    /// The listening address that it connected to; `None` for a listening socket.
    listen_address: Option<Address>,
    state: AtomicU8,
    last_active_seconds: AtomicU32,
}

#[derive(Clone, Debug)]
pub enum Address {
    /// TCP over IPv4 or IPv6.
    Internet(SocketAddr),
    Datagram(SocketAddr),
    Unix(PathBuf),
    /// The unnamed client end of a Unix connection.
    UnixClient,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Internet(address @ SocketAddr::V4(_)) => write!(f, "tcp:{address}"),
            // As in memcached, without the scope.
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

/// The state of a socket, in memcached's terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ClientState {
    Listening,
    /// Waits for a request.
    Reading,
    Serving,
    /// Receives a value.
    Uploading,
    /// Waits for the client to read replies.
    Writing,
    Watching,
}

/// memcached's names of the states, in their order.
const STATE_NAMES: [&str; 6] =
    ["conn_listening", "conn_read", "conn_parse_cmd", "conn_nread", "conn_mwrite", "conn_watch"];

impl Client {
    pub(crate) fn note_active(&self, now: Seconds) {
        self.last_active_seconds.store(now.0, Ordering::Relaxed);
        self.set_state(ClientState::Serving);
    }

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

    /// True if the client is connected by TCP. Only such clients time out.
    pub(crate) fn is_internet(&self) -> bool {
        matches!(self.address, Address::Internet(_))
    }
}

impl ConnectionTable {
    /// Adds a socket, which must be open until [`ConnectionTable::remove`]. `listen_address` is the address that the client
    /// connected to; it is `None` for listeners and UDP sockets.
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

    /// Removes a connection. Call it before its descriptor is closed, because the kernel then reuses the number.
    pub(crate) fn remove(&self, client: &Client) {
        lock(&self.sockets).remove(&client.descriptor);
    }

    /// Calls `stat` with the name and value of each line of `stats conns`, for at most `count_max` sockets after
    /// `after`. Returns the last socket if more may follow.
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
    /// Counters of connections, commands and background work.
    pub struct ConnectionCounters read as ConnectionCounts {
        total_connections,
        /// Connections refused at the limit.
        rejected_connections,
        /// The number of times that accepting was paused.
        listen_disabled_num,
        time_in_listen_disabled_us,
        /// Rounds that ended because the request budget (`-R`) was used up.
        conn_yields,
        /// Connections closed for being idle.
        idle_kicks,
        maintainer_steps,
        mover_cpu_nanos,
        profile_cpu_nanos,
        auth_commands,
        auth_errors,
        flushes,
    }
    gauges {
        curr_connections: AtomicU64,
        accepting_conns: AtomicBool,
    }
}

counters! {
    /// One worker's traffic. Only that worker writes it, so that workers do not share a cache line.
    #[repr(align(64))]
    pub struct Traffic read as TrafficCounts {
        bytes_read,
        bytes_written,
        /// `me` commands, which memcached counts as `cmd_meta`.
        meta_debugs,
        /// Shares of the timed rounds that had gets ([`Served::shares`](crate::shared::Served::shares)).
        timed_shares,
        /// Nanoseconds that those rounds took, from receiving to sending.
        timed_nanos,
    }
}

/// Only the worker that owns it calls these.
impl Traffic {
    pub fn add_read(&self, count: usize) {
        Traffic::add(&self.bytes_read, count as u64);
    }

    pub fn add_written(&self, count: usize) {
        Traffic::add(&self.bytes_written, count as u64);
    }

    /// Counts a timed round that had gets.
    pub fn add_timed_round(&self, shares: u32, nanos: u64) {
        Traffic::add(&self.timed_shares, shares.into());
        Traffic::add(&self.timed_nanos, nanos);
    }

    pub fn count_meta_debug(&self) {
        Traffic::add(&self.meta_debugs, 1);
    }

    /// Adds without a locked instruction, which one writer does not need.
    fn add(counter: &AtomicU64, count: u64) {
        counter.store(counter.load(Ordering::Relaxed).wrapping_add(count), Ordering::Relaxed);
    }
}
