//! Who is connected, and to which sockets the server listens: what `stats conns` shows.
//!
//! The acceptor and the workers write, any worker reads. The lock is taken when a connection comes or
//! goes and when somebody asks; what changes with every request is an atomic of the client's own.
//!
//! And what is counted of connections and their traffic.

use slabwise_base::{Now, Seconds, counters};
use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::ops::Bound;
use std::os::fd::RawFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The sockets of the server by their descriptor, which is the number memcached lists them by.
#[derive(Debug, Default)]
pub struct Roster {
    sockets: Mutex<BTreeMap<RawFd, Arc<Client>>>,
}

/// One socket of the server.
#[derive(Debug)]
pub struct Client {
    descriptor: RawFd,
    address: Address,
    /// Where it connected to; `None` for a listening socket.
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
    /// The nameless end of a Unix connection.
    UnixClient,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Internet(address @ SocketAddr::V4(_)) => write!(f, "tcp:{address}"),
            // IPv6 scopes are left out, as in memcached.
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

/// What a socket is doing, in memcached's terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ClientState {
    Listening,
    /// Waits for a request.
    Reading,
    /// Its request is being served.
    Serving,
    /// A value is arriving.
    Uploading,
    /// Replies wait for the client to read.
    Writing,
    /// It is told what happens.
    Watching,
}

impl ClientState {
    const ALL: [ClientState; 6] = [
        ClientState::Listening,
        ClientState::Reading,
        ClientState::Serving,
        ClientState::Uploading,
        ClientState::Writing,
        ClientState::Watching,
    ];

    fn name(self) -> &'static str {
        match self {
            ClientState::Listening => "conn_listening",
            ClientState::Reading => "conn_read",
            ClientState::Serving => "conn_parse_cmd",
            ClientState::Uploading => "conn_nread",
            ClientState::Writing => "conn_mwrite",
            ClientState::Watching => "conn_watch",
        }
    }
}

impl Client {
    pub(crate) fn address(&self) -> &Address {
        &self.address
    }

    pub(crate) fn note_active(&self, now: Seconds) {
        self.last_active_seconds.store(now.0, Ordering::Relaxed);
        self.set_state(ClientState::Serving);
    }

    pub(crate) fn set_state(&self, state: ClientState) {
        if tracing::enabled!(tracing::Level::TRACE) {
            let before = ClientState::ALL[usize::from(self.state.load(Ordering::Relaxed))];
            let (before, after) = (before.name(), state.name());
            if before != after {
                tracing::trace!("{}: going from {before} to {after}", self.descriptor);
            }
        }
        self.state.store(state as u8, Ordering::Relaxed);
    }

    /// Whether it is connected by TCP; only such clients time out.
    pub(crate) fn is_internet(&self) -> bool {
        matches!(self.address, Address::Internet(_))
    }
}

impl Roster {
    pub(crate) fn add_listener(&self, descriptor: RawFd, address: Address, now: Seconds) {
        self.add(descriptor, address, None, ClientState::Listening, now);
    }

    /// Adds a UDP socket, which serves all its clients.
    pub(crate) fn add_datagram_socket(
        &self,
        descriptor: RawFd,
        address: SocketAddr,
        now: Seconds,
    ) -> Arc<Client> {
        self.add(descriptor, Address::Datagram(address), None, ClientState::Reading, now)
    }

    /// Adds a connection. Its descriptor must be open until [`Roster::remove`].
    pub(crate) fn add_client(
        &self,
        descriptor: RawFd,
        address: Address,
        listen_address: Address,
        now: Seconds,
    ) -> Arc<Client> {
        self.add(descriptor, address, Some(listen_address), ClientState::Reading, now)
    }

    fn add(
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
        self.lock().insert(descriptor, Arc::clone(&client));
        client
    }

    /// Removes a connection; call before its descriptor is closed and thereby free for the next.
    pub(crate) fn remove(&self, client: &Client) {
        self.lock().remove(&client.descriptor);
    }

    /// Calls `stat` with the name and value of each line of `stats conns`, for no more than so many
    /// sockets, from the one after `after` on; returns the last if there may be more.
    pub fn list(
        &self,
        after: Option<RawFd>,
        count_max: usize,
        now: Now,
        mut stat: impl FnMut(&str, &str),
    ) -> Option<RawFd> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let rest = (from, Bound::Unbounded);
        let clients: Vec<Arc<Client>> =
            self.lock().range(rest).take(count_max).map(|(_, client)| Arc::clone(client)).collect();
        for client in &clients {
            let number = client.descriptor;
            if matches!(client.address, Address::Datagram(_)) {
                stat(&format!("{number}:UDP"), "UDP");
            }
            stat(&format!("{number}:addr"), &client.address.to_string());
            if let Some(listen_address) = &client.listen_address {
                stat(&format!("{number}:listen_addr"), &listen_address.to_string());
            }
            let state = ClientState::ALL[usize::from(client.state.load(Ordering::Relaxed))];
            stat(&format!("{number}:state"), state.name());
            let last_active = client.last_active_seconds.load(Ordering::Relaxed);
            let idle = now.seconds.0.saturating_sub(last_active);
            stat(&format!("{number}:secs_since_last_cmd"), &idle.to_string());
        }
        clients.get(count_max - 1).map(|last| last.descriptor)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<RawFd, Arc<Client>>> {
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

counters! {
    /// Counters of connections, commands and background work.
    pub struct ConnectionCounters read as ConnectionCounts {
        total_connections,
        /// Connections turned away at the limit.
        rejected_connections,
        /// How often accepting was paused.
        listen_disabled_num,
        time_in_listen_disabled_us,
        /// Turns that ended because the request budget was used.
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

/// One worker's traffic: written by it alone, so that no worker waits for another's cache line.
#[derive(Default, Debug)]
#[repr(align(64))]
pub struct Traffic(TrafficCounters);

counters! {
    pub struct TrafficCounters read as TrafficCounts {
        bytes_read,
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

    pub(super) fn read(&self) -> TrafficCounts {
        self.0.read()
    }

    /// With one writer no locked instruction is needed.
    fn add(counter: &AtomicU64, count: usize) {
        let sum = counter.load(Ordering::Relaxed).wrapping_add(count as u64);
        counter.store(sum, Ordering::Relaxed);
    }
}
