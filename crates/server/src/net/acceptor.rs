//! The main thread's loop: accepts connections, deals them out, and hears signals.
//!
//! At the limit of `-c` there are memcached's two manners: `maxconns_fast` (the default) accepts, says
//! so and closes; otherwise the acceptor pauses, and clients wait in the kernel's queue. It also pauses
//! when the process has no descriptors left. A pause is looked at every 10 ms, as long as it lasts.

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
    /// How many connections were open when there was no more room: it lasts until fewer are.
    connections: u64,
}

impl<'e> Acceptor<'e> {
    /// An acceptor for these listeners, which hears these signals: also those that came before.
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
            shared.roster.add(descriptor, listener.address.clone(), None, state, now);
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
                    SIGNALS_TOKEN => self.hear_signals(),
                    Token(index) => self.accept_from(index),
                }
            }
            self.resume_if_over();
        }
        Ok(())
    }

    fn hear_signals(&mut self) {
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

    /// Reads again what may have changed on disk. As in memcached, files that cannot be used leave what
    /// was there before.
    fn reload(&self) {
        let Shared { tls, logins, clock, .. } = self.shared;
        if tls.is_none() && logins.is_none() {
            tracing::info!("SIGHUP: nothing to reload");
        }
        match logins.as_ref().map(PasswordFile::reload) {
            None => {}
            Some(Ok(())) => tracing::info!("SIGHUP: the password file is read again"),
            Some(Err(error)) => tracing::warn!("SIGHUP: passwords stay as they were: {error}"),
        }
        match tls.as_ref().map(|tls| tls.refresh(clock.now().seconds)) {
            None => {}
            Some(Ok(())) => tracing::info!("SIGHUP: the certificates are read again"),
            Some(Err(error)) => tracing::warn!("SIGHUP: certificates stay as they were: {error}"),
        }
    }

    /// Accepts all clients that wait, as there is no further event for them.
    fn accept_from(&mut self, index: usize) {
        let fast = self.shared.settings.maxconns_fast;
        let connections_max = u64::from(self.shared.settings.connections_max);
        while self.pause.is_none() {
            // Counted before the look: a pause waits for a close after this count, so that one that happens
            // meanwhile ends it.
            let open = self.connections();
            let is_full = open >= connections_max;
            if is_full && !fast {
                return self.pause(open);
            }
            let (socket, peer) = match sys::accept(self.listeners[index].socket.as_fd()) {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if sys::is_out_of_descriptors(&error) => {
                    tracing::warn!("too many open connections: no file descriptors are left");
                    return self.pause(open);
                }
                // The client gave up while it waited: look at the next.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return tracing::warn!("cannot accept a connection: {error}"),
            };
            if is_full {
                self.shared.counters.rejected_connections.fetch_add(1, Ordering::Relaxed);
                // The client may be gone already; it is turned away either way.
                let _ = sys::send(socket.as_fd(), TOO_MANY);
            } else {
                self.deal_out(index, socket, peer.map_or(Address::UnixClient, Address::Internet));
            }
        }
    }

    fn deal_out(&mut self, index: usize, socket: OwnedFd, address: Address) {
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
        let client = self.shared.roster.add(socket.as_raw_fd(), address, Some(local), state, now);
        let (security, protocol) = (listener.security, listener.protocol);
        let connection = NewConnection { socket, client, security, protocol };
        self.mailboxes[self.next_worker].send(connection);
        self.next_worker = (self.next_worker + 1) % self.mailboxes.len();
    }

    fn connections(&self) -> u64 {
        self.shared.counters.curr_connections.load(Ordering::Acquire)
    }

    /// Stops listening, so that the kernel turns further clients away instead of queueing them, until
    /// fewer than `connections` are open.
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
