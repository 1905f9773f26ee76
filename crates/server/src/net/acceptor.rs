//! The main thread's loop: accepts connections, distributes them to the workers, and handles signals.
//!
//! At the limit of `-c` there are memcached's two behaviours: with `maxconns_fast` (the default) a further connection
//! gets an error and is closed; otherwise the acceptor pauses. It also pauses when the process has no descriptors left.
//! During a pause the acceptor checks every 10 ms whether it can resume.

use super::listen::Listener;
use super::mailbox::{Mailbox, NewConnection};
use crate::os::sys;
use crate::passwords::PasswordFile;
use crate::shared::{Address, ClientState, Shared};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use signal_hook::consts::{SIGHUP, SIGUSR1};
use signal_hook_mio::v1_0::Signals;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::time::Duration;

pub(super) const STOP_TOKEN: Token = Token(usize::MAX);
const SIGNALS_TOKEN: Token = Token(usize::MAX - 1);
const PAUSE_POLL: Duration = Duration::from_millis(10);
const TOO_MANY: &[u8] = b"ERROR Too many open connections\r\n";

pub(super) struct Acceptor<'e> {
    poll: Poll,
    signals: Signals,
    listeners: Vec<Listener>,
    mailboxes: &'e [Mailbox],
    shared: &'e Shared<'e>,
    next_worker: usize,
    pause: Option<Pause>,
}

struct Pause {
    since_nanos: u64,
    /// The number of connections open at its start. The pause lasts until fewer are open.
    connections: u64,
}

impl<'e> Acceptor<'e> {
    /// Makes an acceptor for these listeners and signals, including signals that arrived earlier.
    pub fn new(
        poll: Poll,
        mut signals: Signals,
        listeners: Vec<Listener>,
        mailboxes: &'e [Mailbox],
        shared: &'e Shared<'e>,
    ) -> io::Result<Acceptor<'e>> {
        let registry = poll.registry();
        registry.register(&mut signals, SIGNALS_TOKEN, Interest::READABLE)?;
        let now = shared.clock.now().seconds;
        for (index, listener) in listeners.iter().enumerate() {
            let descriptor = listener.socket.as_raw_fd();
            registry.register(&mut SourceFd(&descriptor), Token(index), Interest::READABLE)?;
            tracing::debug!("<{descriptor} server listening on {}", listener.address);
            let state = ClientState::Listening;
            shared.connection_table.add(descriptor, listener.address.clone(), None, state, now);
        }
        Ok(Acceptor { poll, signals, listeners, mailboxes, shared, next_worker: 0, pause: None })
    }

    pub fn run(&mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(64);
        while !self.shared.is_stopping() {
            let timeout = self.pause.as_ref().map(|_| PAUSE_POLL);
            match self.poll.poll(&mut events, timeout) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                other => other?,
            }
            for event in &events {
                match event.token() {
                    STOP_TOKEN => {}
                    SIGNALS_TOKEN => self.handle_signals(),
                    Token(index) => self.accept_from(index),
                }
            }
            self.resume_if_over();
        }
        Ok(())
    }

    fn handle_signals(&mut self) {
        for signal in self.signals.pending() {
            match signal {
                SIGHUP => self.reload(),
                SIGUSR1 => {
                    tracing::warn!("stopping gracefully");
                    self.shared.stop_gracefully();
                }
                _ => {
                    tracing::info!("stopping on signal {signal}");
                    self.shared.stop();
                }
            }
        }
    }

    /// Reloads passwords and certificates. As in memcached, the old ones stay active if a file cannot be used.
    fn reload(&self) {
        let Shared { tls, logins, clock, .. } = self.shared;
        if tls.is_none() && logins.is_none() {
            tracing::info!("SIGHUP: nothing to reload");
        }
        match logins.as_ref().map(PasswordFile::reload) {
            None => {}
            Some(Ok(())) => tracing::info!("SIGHUP: reloaded the password file"),
            Some(Err(error)) => tracing::warn!("SIGHUP: the old passwords stay active: {error}"),
        }
        match tls.as_ref().map(|tls| tls.refresh(clock.now().seconds)) {
            None => {}
            Some(Ok(())) => tracing::info!("SIGHUP: reloaded the certificates"),
            Some(Err(error)) => tracing::warn!("SIGHUP: the old certificates stay active: {error}"),
        }
    }

    /// Accepts all waiting clients, because there is no further event for them.
    fn accept_from(&mut self, index: usize) {
        let fast = self.shared.settings.maxconns_fast;
        let connections_max = u64::from(self.shared.settings.connections_max);
        while self.pause.is_none() {
            // Counted before `accept`, so that a connection that closes in between ends the pause.
            let open = self.connections();
            let is_full = open >= connections_max;
            if is_full && !fast {
                return self.pause(open);
            }
            let (socket, peer) = match sys::accept(self.listeners[index].socket.as_fd()) {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if sys::is_out_of_descriptors(&error) => {
                    tracing::warn!("no file descriptors are left: accepting is paused");
                    return self.pause(open);
                }
                // The client gave up while it waited.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return tracing::warn!("cannot accept a connection: {error}"),
            };
            if is_full {
                self.shared.counters.rejected_connections.fetch_add(1, Ordering::Relaxed);
                // The client may be gone already.
                let _ = sys::send(socket.as_fd(), TOO_MANY);
            } else {
                self.hand_over(index, socket, peer.map_or(Address::UnixClient, Address::Internet));
            }
        }
    }

    fn hand_over(&mut self, index: usize, socket: OwnedFd, address: Address) {
        let listener = &self.listeners[index];
        let local = match &listener.address {
            Address::Internet(bound) => {
                Address::Internet(sys::local_address(socket.as_fd()).unwrap_or(*bound))
            }
            unix => unix.clone(),
        };
        let now = self.shared.clock.now().seconds;
        let counters = &self.shared.counters;
        counters.curr_connections.fetch_add(1, Ordering::Relaxed);
        counters.total_connections.fetch_add(1, Ordering::Relaxed);
        tracing::debug!("<{} new connection from {address}", socket.as_raw_fd());
        let state = ClientState::Reading;
        let client =
            self.shared.connection_table.add(socket.as_raw_fd(), address, Some(local), state, now);
        let (security, protocol) = (listener.security, listener.protocol);
        let connection = NewConnection { socket, client, security, protocol };
        self.mailboxes[self.next_worker].send(connection);
        self.next_worker = (self.next_worker + 1) % self.mailboxes.len();
    }

    fn connections(&self) -> u64 {
        self.shared.counters.curr_connections.load(Ordering::Acquire)
    }

    /// Stops accepting until fewer than `connections` are open. A backlog of 0 lets the kernel refuse clients instead
    /// of queueing them.
    fn pause(&mut self, connections: u64) {
        let since_nanos = self.shared.clock.nanos();
        self.pause = Some(Pause { since_nanos, connections });
        let counters = &self.shared.counters;
        counters.accepting_conns.store(false, Ordering::Relaxed);
        counters.listen_disabled_num.fetch_add(1, Ordering::Relaxed);
        self.set_backlog(0);
    }

    fn resume_if_over(&mut self) {
        let open = self.connections();
        let Some(pause) = self.pause.take_if(|pause| open == 0 || open < pause.connections) else {
            return;
        };
        let paused_us = (self.shared.clock.nanos() - pause.since_nanos) / 1_000;
        let counters = &self.shared.counters;
        counters.time_in_listen_disabled_us.fetch_add(paused_us, Ordering::Relaxed);
        counters.accepting_conns.store(true, Ordering::Relaxed);
        self.set_backlog(self.shared.settings.listen_backlog);
        for index in 0..self.listeners.len() {
            self.accept_from(index);
        }
    }

    fn set_backlog(&self, backlog: i32) {
        for listener in &self.listeners {
            if let Err(error) = sys::listen(listener.socket.as_fd(), backlog) {
                tracing::warn!("cannot change the backlog of {}: {error}", listener.address);
            }
        }
    }
}
