//! A worker: one thread, one event loop, many connections.
//!
//! ```text
//!   acceptor --Mailbox--> epoll_wait --> a round of each ready connection --> a round of each queued one
//!                             ^                                                         |
//!                             '------------------ (timeout 0 if any is queued) ---------'
//! ```
//!
//! Invariants:
//! - THREE-CALLS: serving the input of a ready client costs three system calls: epoll_wait, one receive and one send.
//!   Therefore a socket is registered for writability only while the client's output is blocked.
//! - FAIR-ROUNDS: while several clients are ready, each round serves at most `-R` requests. If only one is ready, its
//!   round serves the whole read buffer.
//! - The clock is read once per wake-up.
//! - RoundEnd a wake-up through the mailbox, both new connections and watchers are served.

use super::connection::{Connection, OutPool, RoundEnd, Stream, WorkerCore};
use super::listen::DatagramSocket;
use super::mailbox::{Mailbox, NewConnection};
use super::tls_stream::TlsStream;
use super::udp::UdpSocket;
use crate::config::ListenSecurity;
use crate::shared::{
    Address, ClientState, CloseReason, READ_BUFFER_BYTES, Served, Shared, WatchEvent, WorkerContext,
};
use mio::event::Event;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use slab::Slab;
use slabwise_base::Seconds;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

const EVENTS_MAX: usize = 256;
/// One of this number of rounds is timed.
const TIMED_ROUND_INTERVAL: u64 = 64;
pub(super) const MAILBOX_TOKEN: Token = Token(usize::MAX);
/// UDP sockets have tokens from this one on, connections have smaller ones.
const UDP_TOKEN_MIN: usize = usize::MAX / 2;

pub(super) struct Worker<'e> {
    poll: Poll,
    mailbox: &'e Mailbox,
    connections: Slab<Connection<'e>>,
    /// Connections that have work left; each is queued at most once.
    queue: VecDeque<usize>,
    udp: Vec<UdpSocket<'e>>,
    shared: &'e Shared<'e>,
    core: WorkerCore<'e>,
    watchers: Vec<usize>,
    idle_checked: Seconds,
    rounds: u64,
}

impl<'e> Worker<'e> {
    /// Makes a worker that takes its connections from `mailbox`, which must wake `poll`.
    pub fn new(poll: Poll, mailbox: &'e Mailbox, context: WorkerContext<'e>) -> Worker<'e> {
        Worker {
            poll,
            mailbox,
            connections: Slab::new(),
            queue: VecDeque::new(),
            udp: Vec::new(),
            idle_checked: context.now.seconds,
            shared: context.shared,
            core: WorkerCore {
                ciphertext: vec![0; context.shared.tls.as_ref().map_or(0, |_| READ_BUFFER_BYTES)],
                context,
                read_buffer: vec![0; READ_BUFFER_BYTES],
                outs: OutPool::default(),
            },
            watchers: Vec::new(),
            rounds: 0,
        }
    }

    /// Adds UDP sockets; call before [`Worker::run`].
    pub fn serve_udp(&mut self, sockets: Vec<DatagramSocket>) -> io::Result<()> {
        for DatagramSocket { socket, address } in sockets {
            let descriptor = socket.as_raw_fd();
            let token = Token(UDP_TOKEN_MIN + self.udp.len());
            let registry = self.poll.registry();
            registry.register(&mut SourceFd(&descriptor), token, Interest::READABLE)?;
            let now = self.core.context.now.seconds;
            let (socket_address, state) = (Address::Datagram(address), ClientState::Reading);
            let client =
                self.shared.connection_table.add(descriptor, socket_address, None, state, now);
            tracing::debug!("<{descriptor} server listening (udp) on {address}");
            self.udp.push(UdpSocket::new(socket, client));
        }
        Ok(())
    }

    pub fn run(&mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS_MAX);
        while !self.shared.is_stopping() {
            match self.poll.poll(&mut events, self.timeout()) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                other => other?,
            }
            self.core.context.now = self.shared.clock.now();
            let ready = events.iter().filter(|event| event.token() != MAILBOX_TOKEN).count();
            let queued = self.queue.len();
            let datagrams = self.udp.iter().filter(|socket| socket.has_work()).count();
            let is_alone = ready + queued + datagrams <= 1;
            for event in &events {
                if event.token() == MAILBOX_TOKEN {
                    self.take_new_connections();
                    self.serve_watchers(is_alone);
                } else {
                    self.on_event(event, is_alone);
                }
            }
            for _ in 0..queued {
                let Some(key) = self.queue.pop_front() else { break };
                if self.connections.get(key).is_some_and(|connection| connection.queued) {
                    self.connections[key].queued = false;
                    self.turn(key, is_alone);
                }
            }
            for index in 0..self.udp.len() {
                self.serve_udp_round(index)?;
            }
            self.close_idle();
            self.shared.deliver_watched();
        }
        Ok(())
    }

    fn timeout(&self) -> Option<Duration> {
        if !self.queue.is_empty() || self.udp.iter().any(UdpSocket::has_work) {
            return Some(Duration::ZERO);
        }
        self.shared.settings.idle_timeout_seconds.map(|_| Duration::from_secs(1))
    }

    fn on_event(&mut self, event: &Event, is_alone: bool) {
        let key = event.token().0;
        if key >= UDP_TOKEN_MIN {
            let readable = event.is_readable() || event.is_error();
            return self.udp[key - UDP_TOKEN_MIN].note(readable, event.is_writable());
        }
        // An earlier event of this wake-up may have closed the connection.
        let Some(connection) = self.connections.get_mut(key) else { return };
        if event.is_readable() || event.is_read_closed() || event.is_error() {
            connection.note_readable(event.is_read_closed() || event.is_error());
        }
        // A queued connection is served later in this wake-up.
        if !connection.queued {
            self.turn(key, is_alone);
        }
    }

    fn turn(&mut self, key: usize, is_alone: bool) {
        let requests_max = self.shared.settings.requests_per_turn_max;
        self.core.context.requests_left = if is_alone { u32::MAX } else { requests_max };
        self.core.context.served = Served::default();
        self.rounds += 1;
        let is_timed = self.rounds.is_multiple_of(TIMED_ROUND_INTERVAL);
        let timed_from = is_timed.then(|| self.shared.clock.nanos());
        let connection = &mut self.connections[key];
        self.core.context.descriptor = connection.stream.socket().as_raw_fd();
        let end = connection.serve_round(&mut self.core);
        let served = self.core.context.served;
        if let Some(nanos) = timed_from
            && let Some(shares) = served.shares()
        {
            let taken = self.shared.clock.nanos().saturating_sub(nanos);
            self.core.context.traffic.add_timed_round(shares, taken);
        }
        if is_alone {
            // Counts as memcached does, which yields at each budget even if no other client is ready.
            let yields = served.requests.saturating_sub(1) / requests_max;
            if yields > 0 {
                let counters = &self.shared.counters;
                counters.conn_yields.fetch_add(yields.into(), Ordering::Relaxed);
            }
        }
        let watched = match end {
            RoundEnd::AwaitReadable => self.watch_writable(key, false),
            RoundEnd::AwaitWritable => self.watch_writable(key, true),
            RoundEnd::AwaitLines => {
                if !self.watchers.contains(&key) {
                    self.watchers.push(key);
                }
                self.watch_writable(key, false)
            }
            RoundEnd::Again => {
                self.connections[key].queued = true;
                self.queue.push_back(key);
                // The socket's registration changes only when the connection has no work left.
                Ok(())
            }
            RoundEnd::Close => {
                let reason = self.connections[key].close_reason();
                return self.close(key, reason);
            }
        };
        if watched.is_err() {
            self.close(key, CloseReason::Error);
        }
    }

    /// Serves every watcher, because there may be lines for it.
    fn serve_watchers(&mut self, is_alone: bool) {
        for key in self.watchers.clone() {
            // A queued connection is served later in this wake-up.
            if !self.connections[key].queued {
                self.turn(key, is_alone);
            }
        }
    }

    fn serve_udp_round(&mut self, index: usize) -> io::Result<()> {
        let socket = &mut self.udp[index];
        if !socket.has_work() {
            return Ok(());
        }
        let end = socket.serve_round(&mut self.core);
        let token = Token(UDP_TOKEN_MIN + index);
        let wanted = end == RoundEnd::AwaitWritable;
        watch_writable(
            &self.poll,
            token,
            socket.socket.as_fd(),
            &mut socket.awaits_writable,
            wanted,
        )
    }

    fn watch_writable(&mut self, key: usize, wanted: bool) -> io::Result<()> {
        let Connection { stream, awaits_writable, .. } = &mut self.connections[key];
        watch_writable(&self.poll, Token(key), stream.socket(), awaits_writable, wanted)
    }

    fn take_new_connections(&mut self) {
        for new in self.mailbox.take() {
            let NewConnection { socket, client, security, protocol } = new;
            let descriptor = socket.as_raw_fd();
            self.core
                .context
                .shared
                .watch
                .write(&WatchEvent::Opened { address: &client.address, descriptor });
            let stream = self.stream(socket, security);
            let connection =
                Connection::new(stream, client, protocol, self.core.context.now.seconds);
            let key = self.connections.insert(connection);
            // Registration also reports input that arrived before it.
            let mut source = SourceFd(&descriptor);
            let registry = self.poll.registry();
            if registry.register(&mut source, Token(key), Interest::READABLE).is_err() {
                self.close(key, CloseReason::Error);
            }
        }
    }

    fn stream(&self, socket: OwnedFd, security: ListenSecurity) -> Stream {
        match security {
            ListenSecurity::Plain => Stream::Plain(socket),
            ListenSecurity::Tls(clients) => {
                let tls = self.shared.tls.as_ref();
                let tls = tls.expect("TLS listeners need certificates");
                let (counters, watch) = (Arc::clone(&tls.counters), Arc::clone(&self.shared.watch));
                Stream::Tls(Box::new(TlsStream::new(socket, tls.accept(clients), counters, watch)))
            }
        }
    }

    fn close(&mut self, key: usize, reason: CloseReason) {
        let mut connection = self.connections.remove(key);
        connection.stream.notify_close();
        let shared = self.shared;
        self.watchers.retain(|&watcher| watcher != key);
        shared.watch.write(&WatchEvent::Closed {
            address: &connection.client.address,
            reason,
            descriptor: connection.stream.socket().as_raw_fd(),
        });
        tracing::debug!("<{} connection closed", connection.stream.socket().as_raw_fd());
        shared.connection_table.remove(&connection.client);
        // The socket must be closed before the acceptor may count on its descriptor.
        drop(connection);
        shared.counters.curr_connections.fetch_sub(1, Ordering::Release);
        if self.connections.is_empty() {
            self.connections.shrink_to_fit();
        }
    }

    /// Closes clients that have been idle for longer than `-o idle_timeout`; checks once a second.
    fn close_idle(&mut self) {
        let now = self.core.context.now.seconds;
        let Some(timeout) = self.shared.settings.idle_timeout_seconds else { return };
        if now == self.idle_checked {
            return;
        }
        self.idle_checked = now;
        let since = Seconds(now.0.saturating_sub(timeout));
        let idle = |connection: &Connection<'e>| {
            connection.client.is_internet() && connection.is_idle_since(since)
        };
        let keys: Vec<usize> = self
            .connections
            .iter()
            .filter(|(_, connection)| idle(connection))
            .map(|(key, _)| key)
            .collect();
        self.core
            .context
            .shared
            .counters
            .idle_kicks
            .fetch_add(keys.len() as u64, Ordering::Relaxed);
        for key in keys {
            self.close(key, CloseReason::IdleTimeout);
        }
    }
}

/// Registers a socket for readability and, if `wanted`, for writability, unless it is registered so already.
fn watch_writable(
    poll: &Poll,
    token: Token,
    socket: BorrowedFd<'_>,
    awaits_writable: &mut bool,
    wanted: bool,
) -> io::Result<()> {
    if std::mem::replace(awaits_writable, wanted) == wanted {
        return Ok(());
    }
    let interest =
        if wanted { Interest::READABLE | Interest::WRITABLE } else { Interest::READABLE };
    poll.registry().reregister(&mut SourceFd(&socket.as_raw_fd()), token, interest)
}
