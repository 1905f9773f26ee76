//! A worker's mailbox: the queue of new connections that the acceptor sends to the worker, and the waker that ends the
//! wait of the worker's event loop.

use crate::config::{ListenSecurity, Protocol};
use crate::os::sys;
use crate::shared::Client;
use slabwise_base::sync::lock;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex};

/// An accepted connection, which the acceptor sends to a worker.
pub(super) struct NewConnection {
    pub socket: OwnedFd,
    /// The connection's entry in the connection table.
    pub client: Arc<Client>,
    pub security: ListenSecurity,
    pub protocol: Protocol,
    /// True if the client has authenticated to the process that this one has taken over from.
    pub has_logged_in: bool,
}

/// One worker's mailbox. A thread holds the lock only to add or take connections, and never during a system call.
pub(crate) struct Mailbox {
    connections: Mutex<Vec<NewConnection>>,
    /// An event counter of the kernel. It is never read: each increment wakes the event loop.
    waker: OwnedFd,
}

impl Mailbox {
    pub(super) fn new() -> io::Result<Mailbox> {
        Ok(Mailbox { connections: Mutex::default(), waker: sys::event_counter()? })
    }

    /// Returns the descriptor that is readable when the worker must wake up.
    pub(super) fn waker(&self) -> BorrowedFd<'_> {
        self.waker.as_fd()
    }

    /// Adds a connection and wakes the worker.
    pub(super) fn send(&self, connection: NewConnection) {
        lock(&self.connections).push(connection);
        self.wake();
    }

    /// Wakes the worker, which then takes new connections and its watchers' lines, or ends if the server stops.
    pub(crate) fn wake(&self) {
        sys::increment(self.waker.as_fd());
    }

    /// Returns the connections that were added since the last call.
    pub(super) fn take(&self) -> Vec<NewConnection> {
        std::mem::take(&mut *lock(&self.connections))
    }
}
