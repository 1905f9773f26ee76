//! A worker's mailbox: the queue of new connections that the acceptor sends to the worker, and the waker that ends the
//! wait of the worker's event loop.

use crate::config::{ListenSecurity, Protocol};
use crate::shared::Client;
use mio::Waker;
use slabwise_base::sync::lock;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

/// An accepted connection, which the acceptor sends to a worker.
pub(super) struct NewConnection {
    pub socket: OwnedFd,
    /// The connection's entry in the connection table.
    pub client: Arc<Client>,
    pub security: ListenSecurity,
    pub protocol: Protocol,
}

/// One worker's mailbox. A thread holds the lock only to add or take connections, and never during a system call.
pub(crate) struct Mailbox {
    connections: Mutex<Vec<NewConnection>>,
    waker: Waker,
}

impl Mailbox {
    pub(super) fn new(waker: Waker) -> Mailbox {
        Mailbox { connections: Mutex::default(), waker }
    }

    /// Adds a connection and wakes the worker.
    pub(super) fn send(&self, connection: NewConnection) {
        lock(&self.connections).push(connection);
        self.wake();
    }

    /// Wakes the worker, which then takes new connections and its watchers' lines, or ends if the server stops.
    pub(crate) fn wake(&self) {
        // The call fails only if the worker's event loop no longer exists.
        let _ = self.waker.wake();
    }

    /// Returns the connections that were added since the last call.
    pub(super) fn take(&self) -> Vec<NewConnection> {
        std::mem::take(&mut *lock(&self.connections))
    }
}
