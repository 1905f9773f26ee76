//! How connections come to a worker: a queue that the acceptor fills, and a waker, which also tells of
//! lines for watchers.

use crate::config::{ListenSecurity, Protocol};
use crate::shared::Client;
use mio::Waker;
use slabwise_base::sync::lock;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

/// A connection on its way to its worker.
pub(super) struct NewConnection {
    pub socket: OwnedFd,
    pub client: Arc<Client>,
    pub security: ListenSecurity,
    pub protocol: Protocol,
}

/// One worker's letter box. The lock is held for a push or a take, never across a system call.
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

    /// Makes the worker look around: at its mail, at lines for its watchers, and at whether the server stops.
    pub(crate) fn wake(&self) {
        // A waker fails only when its event loop is gone, and then nobody sleeps there.
        let _ = self.waker.wake();
    }

    pub(super) fn take(&self) -> Vec<NewConnection> {
        std::mem::take(&mut *lock(&self.connections))
    }
}
