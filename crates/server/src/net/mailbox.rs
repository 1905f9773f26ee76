//! A worker's mailbox: a queue of new connections from the acceptor, and a waker, which is also used for watchers.

use crate::config::{ListenSecurity, Protocol};
use crate::shared::Client;
use mio::Waker;
use slabwise_base::sync::lock;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

/// An accepted connection that its worker has not taken yet.
pub(super) struct NewConnection {
    pub socket: OwnedFd,
    pub client: Arc<Client>,
    pub security: ListenSecurity,
    pub protocol: Protocol,
}

/// One worker's mailbox. The lock is held for a push or a take, never during a system call.
pub(crate) struct Mailbox {
    connections: Mutex<Vec<NewConnection>>,
    waker: Waker,
}

impl Mailbox {
    pub(super) fn new(waker: Waker) -> Mailbox {
        Mailbox { connections: Mutex::default(), waker }
    }

    pub(super) fn send(&self, connection: NewConnection) {
        lock(&self.connections).push(connection);
        self.wake();
    }

    /// Wakes the worker to check its mailbox, its watchers' lines, and whether the server stops.
    pub(crate) fn wake(&self) {
        // A waker fails only when its event loop is gone.
        let _ = self.waker.wake();
    }

    pub(super) fn take(&self) -> Vec<NewConnection> {
        std::mem::take(&mut *lock(&self.connections))
    }
}
