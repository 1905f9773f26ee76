//! A worker: a thread whose event loop serves many connections.
//!
//! ```text
//!   acceptor --Mailbox--> wait --> a round of each ready connection --> a round of each queued connection
//!                           ^                                                         |
//!                           '------- (timeout 0 if a connection is queued) -----------'
//! ```
//!
//! A connection is *ready* when the event loop reports its socket. A connection is *queued* when a round has ended
//! before all its work is done.
//!
//! Invariants:
//! - THREE-CALLS: with epoll, a worker makes three system calls to serve the input of a ready client: epoll_wait, one
//!   receive and one send. With io_uring it makes one call for the input of all ready clients.
//! - FAIR-ROUNDS: while several clients are ready, a round serves at most `-R` requests. If only one client is ready,
//!   its round serves all requests in the read buffer.
//! - The worker reads the clock once after each wait.
//! - When the mailbox's waker ends the wait, the worker takes new connections and also serves its watchers.

mod pause;
mod waiting;

use super::connection::Connection;
use super::event_loop::{Await, EventLoop, Ready, Socket, Source};
use super::handshakes::Handshakes;
use super::listen::DatagramSocket;
use super::mailbox::{Mailbox, NewConnection};
use super::round::{AfterRound, OutPool, WorkerCore};
use super::stream::Stream;
use super::tls_stream::TlsStream;
use super::udp::UdpSocket;
use crate::config::ListenSecurity;
use crate::os::sys;
use crate::shared::{
    Address, ClientState, CloseReason, READ_BUFFER_BYTES, RoundCounts, Shared, WatchEvent,
    WorkerContext,
};
use slab::Slab;
use slabwise_base::Seconds;
use slabwise_base::random::Random;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The worker measures the duration of one round in this number of rounds, on average.
const ROUNDS_PER_TIMED_ROUND: u64 = 64;
/// The time between two checks whether memory is free for uploads and gets that wait, in nanoseconds.
const MEMORY_CHECK_NANOS: u64 = 5_000_000;
/// The time in which a worker completes requests before it pauses, in nanoseconds.
const REQUEST_END_NANOS_MAX: u64 = 50_000_000;
/// The time between two searches for clients that do not read while others wait, in nanoseconds.
const SLOW_CHECK_NANOS: u64 = 100_000_000;

/// The state of a worker. A *slot* is the index of a connection in `connections`.
pub(super) struct Worker<'e, L> {
    mailbox: &'e Mailbox,
    connections: Slab<Connection<'e>>,
    /// The slots of the queued connections. A connection is in the queue at most once.
    queue: VecDeque<usize>,
    udp: Vec<UdpSocket<'e>>,
    shared: &'e Shared<'e>,
    core: WorkerCore<'e, L>,
    /// The slots of connections that are watchers.
    watchers: Vec<usize>,
    /// The slots of connections on which a value is arriving or a get waits. The list may also have slots of other
    /// connections.
    checked: Vec<usize>,
    /// True if `checked` is not empty or rounds have limits.
    must_check: bool,
    /// True if one of `checked` may wait.
    awaits_memory: bool,
    /// The time at which the worker last served the connections that wait, in nanoseconds of the clock.
    checked_at_nanos: u64,
    /// The time at which the worker last searched for slow readers, in nanoseconds of the clock.
    readers_checked_at_nanos: u64,
    handshakes: Handshakes,
    /// The second of the clock at which the worker last searched for connections that have been idle, or in a
    /// handshake, for too long.
    overdue_checked_at: Seconds,
    /// The number of rounds up to the next timed round, including it.
    rounds_to_timed: u64,
    /// Chooses the timed rounds: with a fixed distance, two clients that send by turns would not be measured equally.
    random: Random,
}

/// The beginning of a round whose duration is measured.
struct TimedRound {
    /// The time of the clock in nanoseconds.
    begun_nanos: u64,
    /// The number of items that the worker had stored before the round.
    stored: u64,
}

impl<'e, L: EventLoop> Worker<'e, L> {
    /// Makes a worker that takes its connections from `mailbox`.
    pub fn new(
        mut event_loop: L,
        mailbox: &'e Mailbox,
        context: WorkerContext<'e>,
    ) -> io::Result<Worker<'e, L>> {
        event_loop.start(mailbox.waker())?;
        let random = Random::new(context.index as u64);
        Ok(Worker {
            mailbox,
            connections: Slab::new(),
            queue: VecDeque::new(),
            udp: Vec::new(),
            handshakes: Handshakes::new(context.shared.settings.handshake_timeout_seconds),
            overdue_checked_at: context.now.seconds,
            shared: context.shared,
            core: WorkerCore {
                event_loop,
                ciphertext: vec![0; context.shared.tls.as_ref().map_or(0, |_| READ_BUFFER_BYTES)],
                context,
                read_buffer: vec![0; READ_BUFFER_BYTES],
                out_pool: OutPool::default(),
                share_bytes: usize::MAX,
            },
            watchers: Vec::new(),
            checked: Vec::new(),
            must_check: false,
            awaits_memory: false,
            checked_at_nanos: 0,
            readers_checked_at_nanos: 0,
            rounds_to_timed: ROUNDS_PER_TIMED_ROUND,
            random,
        })
    }

    /// Adds UDP sockets to the worker. The caller calls [`Worker::run`] afterwards.
    pub fn serve_udp(&mut self, sockets: Vec<DatagramSocket>) -> io::Result<()> {
        for DatagramSocket { socket, address } in sockets {
            let descriptor = socket.as_raw_fd();
            self.core.event_loop.add_datagram(socket.as_fd(), self.udp.len())?;
            let now = self.core.context.now.seconds;
            let (socket_address, state) = (Address::Datagram(address), ClientState::Reading);
            let client =
                self.shared.connection_table.add(descriptor, socket_address, None, state, now);
            tracing::debug!("<{descriptor} server listening (udp) on {address}");
            self.udp.push(UdpSocket::new(socket, client));
        }
        Ok(())
    }

    /// Serves connections and UDP sockets until the server stops.
    pub fn run(&mut self) -> io::Result<()> {
        let mut events = L::events();
        while !self.shared.is_stopping() {
            if self.shared.pause.includes_workers() {
                self.pause(&mut events)?;
                continue;
            }
            let timeout = self.timeout();
            self.core.event_loop.wait(&mut events, timeout)?;
            self.core.context.now = self.shared.clock.now();
            if self.must_check {
                self.set_limits();
            }
            let ready = L::ready_count(&events);
            let queued = self.queue.len();
            let datagrams = self.udp.iter().filter(|socket| socket.has_work()).count();
            let is_only_ready = ready + queued + datagrams <= 1;
            for event in L::ready(&events) {
                match event.source {
                    Source::Mailbox => self.on_wake(is_only_ready),
                    Source::Connection(slot) => self.on_event(slot, event, is_only_ready),
                    Source::Datagram(index) => self.udp[index]
                        .note_readiness(event.is_readable || event.is_error, event.is_writable),
                }
            }
            if queued + datagrams > 0 {
                self.core.event_loop.submit()?;
            }
            for _ in 0..queued {
                let Some(slot) = self.queue.pop_front() else { break };
                if self.connections.get(slot).is_some_and(|connection| connection.queued) {
                    self.connections[slot].queued = false;
                    self.serve_connection(slot, is_only_ready);
                }
            }
            for index in 0..self.udp.len() {
                self.serve_udp_round(index)?;
            }
            if self.must_check {
                self.check_waiting(is_only_ready)?;
            }
            self.close_overdue();
            self.shared.deliver_watched();
        }
        // Sends the output that the event loop has accepted.
        self.core.event_loop.wait(&mut events, Some(Duration::ZERO))
    }

    /// Returns the timeout of the next wait: 0 if there is work left, a short time if a connection waits,
    /// and 1 s if uploads or handshakes may time out or idle connections must be closed.
    fn timeout(&self) -> Option<Duration> {
        if !self.queue.is_empty() || self.udp.iter().any(UdpSocket::has_work) {
            return Some(Duration::ZERO);
        }
        if self.must_check {
            return Some(self.check_timeout());
        }
        let idle_timeout = self.shared.settings.idle_timeout_seconds;
        (idle_timeout.is_some() || !self.handshakes.is_empty()).then_some(Duration::from_secs(1))
    }

    /// Does what another thread has woken the worker for: it takes new connections, serves watchers, and checks the
    /// connections that wait.
    #[cold]
    fn on_wake(&mut self, is_only_ready: bool) {
        self.take_new_connections();
        self.serve_watchers(is_only_ready);
        self.checked_at_nanos = 0;
        self.set_limits();
    }

    /// Sets the limits of the next rounds.
    fn set_limits(&mut self) {
        let is_scarce = self.core.set_limits();
        self.must_check = is_scarce || !self.checked.is_empty();
    }

    /// Handles one event of a connection: serves a round of it.
    #[inline]
    fn on_event(&mut self, slot: usize, event: Ready, is_only_ready: bool) {
        if event.is_blocked {
            self.on_blocked(slot);
        }
        // The connection may have been closed while an earlier event of the same wait was handled.
        let Some(connection) = self.connections.get_mut(slot) else { return };
        if event.is_error && connection.is_waiting() {
            // The client has reset the connection, and the connection receives nothing that would report it.
            return self.close(slot, CloseReason::Error);
        }
        if event.is_readable || event.is_read_closed || event.is_error {
            connection.note_readable(event.is_read_closed || event.is_error);
        }
        // The loop over the queue serves a queued connection before the next wait. `check_waiting` serves one that
        // waits, so that its events do not change the order.
        if !connection.queued && !connection.is_waiting() {
            self.serve_connection(slot, is_only_ready);
        }
    }

    /// Makes a connection wait until the rest of its output is sent.
    #[cold]
    fn on_blocked(&mut self, slot: usize) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        connection.note_blocked(&mut self.core);
        let must_be_checked = connection.must_be_checked();
        if connection.queued {
            return;
        }
        if must_be_checked {
            self.check_later(slot);
        }
        if self.await_next(slot, Await::Writable).is_err() {
            self.close(slot, CloseReason::Error);
        }
    }

    /// Serves a round of a connection, and does what the end of the round requires. `is_only_ready` is true if no other
    /// connection or UDP socket has work.
    fn serve_connection(&mut self, slot: usize, is_only_ready: bool) {
        let requests_max = self.shared.settings.requests_per_round_max;
        self.core.context.requests_left = if is_only_ready { u32::MAX } else { requests_max };
        self.core.context.served = RoundCounts::default();
        self.rounds_to_timed -= 1;
        let timed = (self.rounds_to_timed == 0).then(|| self.begin_timed_round());
        let connection = &mut self.connections[slot];
        self.core.context.descriptor = connection.stream.socket().as_fd().as_raw_fd();
        let end = connection.serve_round(&mut self.core);
        let served = self.core.context.served;
        if let Some(timed) = timed {
            self.end_timed_round(&timed);
        }
        if is_only_ready {
            // memcached also counts a yield after each `-R` requests if no other client is ready.
            let yields = served.requests.saturating_sub(1) / requests_max;
            if yields > 0 {
                let counters = &self.shared.counters;
                counters.conn_yields.fetch_add(yields.into(), Ordering::Relaxed);
            }
        }
        let awaits = match end {
            AfterRound::AwaitReadable => self.await_next(slot, Await::Input),
            AfterRound::AwaitValue => {
                self.check_later(slot);
                let is_large = self.connections[slot].awaits_large_part();
                self.await_next(slot, if is_large { Await::Value } else { Await::Input })
            }
            AfterRound::AwaitWritable => {
                if self.connections[slot].must_be_checked() {
                    self.check_later(slot);
                }
                self.await_next(slot, Await::Writable)
            }
            AfterRound::AwaitLines => {
                if !self.watchers.contains(&slot) {
                    self.watchers.push(slot);
                }
                self.await_next(slot, Await::Input)
            }
            AfterRound::AwaitMemory => {
                self.awaits_memory = true;
                self.check_later(slot);
                self.await_next(slot, Await::Error)
            }
            AfterRound::NextRound => {
                self.connections[slot].queued = true;
                self.queue.push_back(slot);
                // While the connection is queued, the events of its socket do not matter, so a change of what it waits
                // for would be wasted.
                Ok(())
            }
            AfterRound::Close => {
                let reason = self.connections[slot].close_reason();
                return self.close(slot, reason);
            }
        };
        if awaits.is_err() {
            self.close(slot, CloseReason::Error);
        }
    }

    /// Serves a round of every watcher, because the watchers' log may have lines for the watcher.
    fn serve_watchers(&mut self, is_only_ready: bool) {
        for slot in self.watchers.clone() {
            // The loop over the queue serves a queued connection before the next wait.
            if !self.connections[slot].queued {
                self.serve_connection(slot, is_only_ready);
            }
        }
    }

    /// Serves a round of a UDP socket, if it has work.
    fn serve_udp_round(&mut self, index: usize) -> io::Result<()> {
        let socket = &mut self.udp[index];
        if !socket.has_work() {
            return Ok(());
        }
        let end = socket.serve_round(&mut self.core);
        let wanted = end == AfterRound::AwaitWritable;
        let UdpSocket { socket, awaits_writable, .. } = socket;
        self.core.event_loop.await_writable_datagram(socket.as_fd(), index, awaits_writable, wanted)
    }

    fn begin_timed_round(&mut self) -> TimedRound {
        self.rounds_to_timed = 1 + self.random.below(2 * ROUNDS_PER_TIMED_ROUND - 1);
        let context = &mut self.core.context;
        context.key_samples = self.shared.key_samples.as_ref().map(|all| &all[context.index]);
        TimedRound { begun_nanos: self.shared.clock.nanos(), stored: context.handle.stored() }
    }

    /// Counts the duration of a round that has just been served, and ends its sample of keys.
    fn end_timed_round(&mut self, timed: &TimedRound) {
        let context = &mut self.core.context;
        context.key_samples = None;
        let nanos = self.shared.clock.nanos().saturating_sub(timed.begun_nanos);
        if let Some(shares) = context.served.time_shares() {
            context.traffic.add_timed_round(shares, nanos);
        }
        if let Some(durations) = context.durations {
            let stored = context.handle.stored() - timed.stored;
            let RoundCounts { gets, other_requests, .. } = context.served;
            durations.add_round(gets, other_requests, stored, nanos);
        }
        context.traffic.set_busy(sys::thread_processor_time());
    }

    fn await_next(&mut self, slot: usize, awaited: Await) -> io::Result<()> {
        self.core.event_loop.await_next(self.connections[slot].stream.socket_mut(), awaited)
    }

    fn take_new_connections(&mut self) {
        for new in self.mailbox.take() {
            let NewConnection { socket, client, security, protocol, has_logged_in } = new;
            let descriptor = socket.as_raw_fd();
            self.core
                .context
                .shared
                .watch
                .write(&WatchEvent::Opened { address: &client.address, descriptor });
            let socket = Socket::new(socket, self.connections.vacant_key());
            let stream = self.stream(socket, security);
            let connection = Connection::new(
                stream,
                client,
                (protocol, has_logged_in),
                self.core.context.now.seconds,
            );
            let is_handshaking = connection.stream.is_handshaking();
            let slot = self.connections.insert(connection);
            if is_handshaking {
                self.handshakes.add(slot);
            }
            if self.core.event_loop.add(self.connections[slot].stream.socket()).is_err() {
                self.close(slot, CloseReason::Error);
            }
        }
    }

    /// Makes the stream of a new connection at a listener with this security.
    fn stream(&self, socket: Socket, security: ListenSecurity) -> Stream {
        match security {
            ListenSecurity::Plain => Stream::Plain(socket),
            ListenSecurity::Tls(clients) => {
                let tls = self.shared.tls.as_ref();
                let tls = tls.expect("a server with TLS listeners has TLS credentials");
                let (counters, watch) = (Arc::clone(&tls.counters), Arc::clone(&self.shared.watch));
                let (accepted, now) = (tls.accept(clients), self.core.context.now.seconds);
                Stream::Tls(Box::new(TlsStream::new(socket, accepted, counters, watch, now)))
            }
        }
    }

    /// Closes a connection, and reports its end to watchers and counters.
    fn close(&mut self, slot: usize, reason: CloseReason) {
        let mut connection = self.connections.remove(slot);
        connection.stream.notify_close(&mut self.core.event_loop);
        self.core.event_loop.remove(connection.stream.socket());
        connection.release(&self.core);
        let shared = self.shared;
        self.watchers.retain(|&watcher| watcher != slot);
        self.checked.retain(|&checked| checked != slot);
        shared.watch.write(&WatchEvent::Closed {
            address: &connection.client.address,
            reason,
            descriptor: connection.stream.socket().as_fd().as_raw_fd(),
        });
        tracing::debug!("<{} connection closed", connection.stream.socket().as_fd().as_raw_fd());
        shared.connection_table.remove(&connection.client);
        // The socket is closed before the number of connections decreases, because the acceptor then uses the free
        // descriptor.
        drop(connection);
        shared.counters.curr_connections.fetch_sub(1, Ordering::Release);
        if self.connections.is_empty() {
            self.connections.shrink_to_fit();
        }
    }

    /// Closes connections that have been idle, or in a handshake, for too long. Searches for such connections once a
    /// second.
    fn close_overdue(&mut self) {
        let now = self.core.context.now.seconds;
        if now == self.overdue_checked_at {
            return;
        }
        self.overdue_checked_at = now;
        for slot in self.handshakes.overdue(&self.connections, now) {
            let stream = &mut self.connections[slot].stream;
            stream.fail_handshake(&mut self.core.event_loop, &self.handshakes.reason());
            self.close(slot, CloseReason::HandshakeTimeout);
        }
        if let Some(timeout) = self.shared.settings.idle_timeout_seconds {
            self.close_idle(now, timeout);
        }
    }

    /// Closes the TCP connections that have been idle for longer than `-o idle_timeout`, in seconds.
    fn close_idle(&mut self, now: Seconds, timeout: u32) {
        let since = Seconds(now.0.saturating_sub(timeout));
        let is_idle = |connection: &Connection<'e>| {
            connection.client.is_internet() && connection.is_idle_since(since)
        };
        let slots: Vec<usize> = self
            .connections
            .iter()
            .filter(|(_, connection)| is_idle(connection))
            .map(|(slot, _)| slot)
            .collect();
        self.core
            .context
            .shared
            .counters
            .idle_kicks
            .fetch_add(slots.len() as u64, Ordering::Relaxed);
        for slot in slots {
            self.close(slot, CloseReason::IdleTimeout);
        }
    }
}
