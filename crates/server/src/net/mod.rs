//! The network: listening sockets, the acceptor, the workers and their connections.
//!
//! ```text
//!   main thread: Acceptor --- round robin ---> Mailbox --> Worker 0: event loop, connections, read buffer
//!      signals, listeners                 \--> Mailbox --> Worker 1 ...
//! ```
//!
//! One worker serves a connection until it is closed, so the state of a connection needs no lock. The session of a
//! connection parses the received bytes, calls the engine and writes the replies.

mod acceptor;
mod connection;
mod handshakes;
mod listen;
mod mailbox;
mod signals;
mod stream;
mod tls_records;
mod tls_state;
mod tls_stream;
#[cfg(test)]
mod tls_stream_tests;
mod udp;
mod worker;

pub use listen::Listeners;
pub(crate) use signals::SignalHandler;

use crate::shared::{Shared, Wake, WorkerContext};
use acceptor::Acceptor;
use mailbox::Mailbox;
use mio::{Poll, Waker};
use std::io;
use std::thread::{Scope, ScopedJoinHandle};
use worker::Worker;

/// The event loops of the acceptor and the workers. They are made before the threads that run them, so that any thread
/// can wake them to stop the server.
pub(crate) struct Loops {
    /// One event loop per worker.
    worker_polls: Vec<Poll>,
    acceptor_poll: Poll,
}

/// The wakers of the event loops.
pub(crate) struct Wakers {
    /// One mailbox per worker. Each mailbox contains the waker of its worker's event loop.
    mailboxes: Vec<Mailbox>,
    acceptor: Waker,
}

impl Wakers {
    /// Wakes one worker's event loop or all event loops.
    pub fn wake(&self, target: Wake) {
        match target {
            Wake::Worker(index) => self.mailboxes[index].wake(),
            Wake::All => {
                self.mailboxes.iter().for_each(Mailbox::wake);
                // The call fails only if the acceptor's event loop no longer exists.
                let _ = self.acceptor.wake();
            }
        }
    }
}

impl Loops {
    /// Makes the event loops of the acceptor and of this number of workers.
    pub fn new(workers: usize) -> io::Result<(Loops, Wakers)> {
        let mut worker_polls = Vec::with_capacity(workers);
        let mut mailboxes = Vec::with_capacity(workers);
        for _ in 0..workers {
            let poll = Poll::new()?;
            mailboxes.push(Mailbox::new(Waker::new(poll.registry(), worker::MAILBOX_TOKEN)?));
            worker_polls.push(poll);
        }
        let acceptor_poll = Poll::new()?;
        let acceptor = Waker::new(acceptor_poll.registry(), acceptor::WAKE_TOKEN)?;
        Ok((Loops { worker_polls, acceptor_poll }, Wakers { mailboxes, acceptor }))
    }

    /// Starts the workers in `scope`. Returns the acceptor, which the caller runs, and the handles of the workers.
    pub fn start<'scope, 'e: 'scope>(
        self,
        scope: &'scope Scope<'scope, '_>,
        mut listeners: Listeners,
        signals: SignalHandler,
        wakers: &'e Wakers,
        shared: &'e Shared<'e>,
    ) -> io::Result<(Acceptor<'e>, Vec<ScopedJoinHandle<'scope, ()>>)> {
        let mut workers = Vec::new();
        let mut datagram =
            udp::distribute(std::mem::take(&mut listeners.datagram), self.worker_polls.len());
        for (index, (poll, mailbox)) in
            self.worker_polls.into_iter().zip(&wakers.mailboxes).enumerate()
        {
            let sockets = std::mem::take(&mut datagram[index]);
            let run_worker = move || {
                let context = WorkerContext::new(shared, index);
                let mut worker = Worker::new(poll, mailbox, context);
                if let Err(error) = worker.serve_udp(sockets).and_then(|()| worker.run()) {
                    tracing::error!("worker {index} cannot wait for events: {error}");
                    shared.stop();
                }
            };
            let name = format!("worker-{index}");
            workers.push(std::thread::Builder::new().name(name).spawn_scoped(scope, run_worker)?);
        }
        let poll = self.acceptor_poll;
        let Listeners { stream, file, .. } = listeners;
        let acceptor = Acceptor::new(poll, signals, stream, file, &wakers.mailboxes, shared)?;
        Ok((acceptor, workers))
    }
}
