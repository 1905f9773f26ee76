//! The event loop of the main thread: accepts connections, distributes them to the workers, and handles signals.
//!
//! When `-c` connections are open, the acceptor behaves as memcached does. With `maxconns_fast` (the default) it sends
//! an error to each new client and closes the connection. Without `maxconns_fast` the acceptor pauses: it accepts no
//! connection until one closes. The acceptor also pauses when the process has reached its limit of open files, or the system
//! has no memory for a socket. This pause ends after one second, because a connection may be possible again although none
//! has closed: the limit was raised, or another process has closed files. During a pause the acceptor checks every 10 ms
//! whether it is over.

use super::listen::{Listener, SocketFile};
use super::mailbox::{Mailbox, NewConnection};
use super::signals::SignalHandler;
use crate::config::{ListenSecurity, Protocol};
use crate::handover::MovedConnection;
use crate::os::sockets;
use crate::shared::{Address, ClientState, Shared};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The token of the waker that ends the acceptor's wait when the server stops.
pub(super) const WAKE_TOKEN: Token = Token(usize::MAX);
const SIGNALS_TOKEN: Token = Token(usize::MAX - 1);
const PAUSE_CHECK_PERIOD: Duration = Duration::from_millis(10);
/// The maximum duration of a pause that began with an error.
const ERROR_PAUSE_NANOS: u64 = 1_000_000_000;
/// The time between two warnings about errors.
const WARNING_PERIOD_NANOS: u64 = 60_000_000_000;
const OUT_OF_DESCRIPTORS: &str = "the limit of open files is reached: no connection is accepted until one closes or the limit is higher; raise the limit \
     (ulimit -n)";
const TOO_MANY_CONNECTIONS_REPLY: &[u8] = b"ERROR Too many open connections\r\n";

pub(crate) struct Acceptor<'e> {
    poll: Poll,
    signals: SignalHandler,
    /// The listening sockets. The index of a listener is the token of its events.
    listeners: Vec<Listener>,
    /// The file of the Unix socket of `-s`.
    _file: Option<SocketFile>,
    /// One mailbox per worker.
    mailboxes: &'e [Mailbox],
    shared: &'e Shared<'e>,
    /// The index of the worker that receives the next connection.
    next_worker: usize,
    /// The current pause; `None` while the acceptor accepts connections.
    pause: Option<Pause>,
    /// The reading of the clock, in nanoseconds, from which on the acceptor warns again about an error.
    warns_from_nanos: u64,
}

struct Pause {
    /// The reading of the clock, in nanoseconds, at which the pause started.
    since_nanos: u64,
    /// The number of connections that were open when the pause started. The pause ends when fewer connections, or none,
    /// are open.
    open_connections: u64,
    /// The reading of the clock, in nanoseconds, at which the pause ends in any case.
    until_nanos: u64,
}

impl<'e> Acceptor<'e> {
    /// Makes an acceptor for these listeners. The acceptor also handles signals that arrived before this call.
    pub(super) fn new(
        poll: Poll,
        mut signals: SignalHandler,
        listeners: Vec<Listener>,
        file: Option<SocketFile>,
        mailboxes: &'e [Mailbox],
        shared: &'e Shared<'e>,
    ) -> io::Result<Acceptor<'e>> {
        let registry = poll.registry();
        signals.register(registry, SIGNALS_TOKEN)?;
        let now = shared.clock.now().seconds;
        for (index, listener) in listeners.iter().enumerate() {
            let descriptor = listener.socket.as_raw_fd();
            registry.register(&mut SourceFd(&descriptor), Token(index), Interest::READABLE)?;
            tracing::debug!("<{descriptor} server listening on {}", listener.address);
            let state = ClientState::Listening;
            shared.connection_table.add(descriptor, listener.address.clone(), None, state, now);
        }
        Ok(Acceptor {
            poll,
            signals,
            listeners,
            _file: file,
            mailboxes,
            shared,
            next_worker: 0,
            pause: None,
            warns_from_nanos: 0,
        })
    }

    /// Accepts connections until the server stops. Notifies the service manager of the beginning and the end, and calls
    /// `begun` at the beginning.
    pub fn run(&mut self, begun: impl FnOnce()) -> io::Result<()> {
        begun();
        self.signals.notify_ready();
        let result = self.accept_until_stop();
        self.signals.notify_stopping();
        result
    }

    fn accept_until_stop(&mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(64);
        while !self.shared.is_stopping() {
            if self.shared.pause.includes_acceptor() {
                self.shared.pause.wait_until_over(Ok(0));
                // The events of the wait are not known.
                (0..self.listeners.len()).for_each(|index| self.accept_from(index));
                continue;
            }
            let timeout = self.pause.as_ref().map(|_| PAUSE_CHECK_PERIOD);
            match self.poll.poll(&mut events, timeout) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                other => other?,
            }
            for event in &events {
                match event.token() {
                    WAKE_TOKEN => {}
                    SIGNALS_TOKEN => self.signals.handle(self.shared),
                    Token(index) => self.accept_from(index),
                }
            }
            self.resume_if_pause_is_over();
        }
        Ok(())
    }

    /// Accepts every pending connection of a listener. The event loop reports no second event for a connection that is
    /// already pending.
    fn accept_from(&mut self, index: usize) {
        let rejects_when_full = self.shared.settings.maxconns_fast;
        let connections_max = u64::from(self.shared.settings.connections_max);
        while self.pause.is_none() {
            // The connections are counted before `accept`. If one closes before the pause starts, fewer connections are
            // open than this number, and the pause ends at the next check.
            let open = self.open_connections();
            let is_full = open >= connections_max;
            if is_full && !rejects_when_full {
                return self.pause(open, u64::MAX);
            }
            let (socket, peer) = match sockets::accept(self.listeners[index].socket.as_fd()) {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if sockets::is_out_of_descriptors(&error) => {
                    return self.pause_after(open, OUT_OF_DESCRIPTORS);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                // For example, the client closed the connection before the server accepted it.
                Err(error) if sockets::is_error_of_client(&error) => continue,
                // The system has no memory for a socket, for example. The event loop reports no second event for clients
                // that wait, so they are accepted at the end of a pause.
                Err(error) => {
                    return self.pause_after(open, &format!("cannot accept a connection: {error}"));
                }
            };
            if is_full {
                self.shared.counters.rejected_connections.fetch_add(1, Ordering::Relaxed);
                // An error is ignored, because the client may have closed the connection.
                let _ = sockets::send(socket.as_fd(), TOO_MANY_CONNECTIONS_REPLY);
            } else {
                self.send_to_worker(
                    index,
                    socket,
                    peer.map_or(Address::UnixClient, Address::Internet),
                );
            }
        }
    }

    /// Distributes connections that an earlier process has accepted. They use no TLS. Closes those beyond `-c`, and those of
    /// a listener that requires TLS now.
    pub fn adopt(&mut self, connections: Vec<MovedConnection>) {
        let connections_max = u64::from(self.shared.settings.connections_max);
        for MovedConnection { socket, protocol, has_logged_in } in connections {
            let (peer, local) = sockets::addresses(socket.as_fd());
            let peer = peer.map_or(Address::UnixClient, Address::Internet);
            let local = local.map_or_else(
                || Address::Unix(sockets::local_path(socket.as_fd()).unwrap_or_default()),
                Address::Internet,
            );
            if self.open_connections() >= connections_max || self.requires_tls(&local) {
                self.shared.counters.rejected_connections.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            let accepted = (ListenSecurity::Plain, protocol, has_logged_in);
            self.distribute(socket, (peer, local), accepted);
        }
    }

    /// True if the listener of this address accepts only TLS.
    fn requires_tls(&self, local: &Address) -> bool {
        let Address::Internet(local) = local else { return false };
        self.listeners.iter().any(|listener| match (&listener.address, listener.security) {
            (Address::Internet(bound), ListenSecurity::Tls(_)) => {
                bound.port() == local.port()
                    && (bound.ip().is_unspecified() || bound.ip() == local.ip())
            }
            _ => false,
        })
    }

    /// Sends an accepted connection to the next worker.
    fn send_to_worker(&mut self, index: usize, socket: OwnedFd, address: Address) {
        self.shared.counters.total_connections.fetch_add(1, Ordering::Relaxed);
        let listener = &self.listeners[index];
        let local = match &listener.address {
            Address::Internet(bound) => {
                Address::Internet(sockets::local_address(socket.as_fd()).unwrap_or(*bound))
            }
            unix => unix.clone(),
        };
        let (security, protocol) = (listener.security, listener.protocol);
        self.distribute(socket, (address, local), (security, protocol, false));
    }

    /// Adds a connection to the connection table and sends it to the next worker.
    fn distribute(
        &mut self,
        socket: OwnedFd,
        (address, local): (Address, Address),
        (security, protocol, has_logged_in): (ListenSecurity, Protocol, bool),
    ) {
        let now = self.shared.clock.now().seconds;
        let counters = &self.shared.counters;
        counters.curr_connections.fetch_add(1, Ordering::Relaxed);
        tracing::debug!("<{} new connection from {address}", socket.as_raw_fd());
        let state = ClientState::Reading;
        let client =
            self.shared.connection_table.add(socket.as_raw_fd(), address, Some(local), state, now);
        let connection = NewConnection { socket, client, security, protocol, has_logged_in };
        self.mailboxes[self.next_worker].send(connection);
        self.next_worker = (self.next_worker + 1) % self.mailboxes.len();
    }

    fn open_connections(&self) -> u64 {
        self.shared.counters.curr_connections.load(Ordering::Acquire)
    }

    /// Starts a pause because no connection can be accepted, and warns about it, but not again within a minute.
    fn pause_after(&mut self, open_connections: u64, reason: &str) {
        let now_nanos = self.shared.clock.nanos();
        if now_nanos >= self.warns_from_nanos {
            self.warns_from_nanos = now_nanos + WARNING_PERIOD_NANOS;
            tracing::warn!("{reason}");
        }
        self.pause(open_connections, now_nanos + ERROR_PAUSE_NANOS);
    }

    /// Starts a pause, in which the acceptor accepts no connection until fewer than `open_connections` connections, or
    /// none, are open, or the clock shows `until_nanos`. Sets the backlog to 0, so that the kernel refuses new clients
    /// and does not queue them.
    fn pause(&mut self, open_connections: u64, until_nanos: u64) {
        let since_nanos = self.shared.clock.nanos();
        self.pause = Some(Pause { since_nanos, open_connections, until_nanos });
        let counters = &self.shared.counters;
        counters.accepting_conns.store(false, Ordering::Relaxed);
        counters.listen_disabled_num.fetch_add(1, Ordering::Relaxed);
        self.set_backlog(0);
    }

    /// Ends the pause if a connection has closed since the pause started, or if the pause has lasted long enough. Then
    /// accepts the pending connections.
    fn resume_if_pause_is_over(&mut self) {
        let (open, now_nanos) = (self.open_connections(), self.shared.clock.nanos());
        let is_over = |pause: &mut Pause| {
            open == 0 || open < pause.open_connections || now_nanos >= pause.until_nanos
        };
        let Some(pause) = self.pause.take_if(is_over) else { return };
        let paused_us = (now_nanos - pause.since_nanos) / 1_000;
        let counters = &self.shared.counters;
        counters.time_in_listen_disabled_us.fetch_add(paused_us, Ordering::Relaxed);
        counters.accepting_conns.store(true, Ordering::Relaxed);
        self.set_backlog(self.shared.settings.listen_backlog);
        for index in 0..self.listeners.len() {
            self.accept_from(index);
        }
    }

    /// Sets the maximum number of pending connections of every listener.
    fn set_backlog(&self, backlog: i32) {
        for listener in &self.listeners {
            if let Err(error) = sockets::listen(listener.socket.as_fd(), backlog) {
                tracing::warn!("cannot change the backlog of {}: {error}", listener.address);
            }
        }
    }
}
