//! The network: listening sockets, the acceptor, the workers and their connections.
//!
//! ```text
//!   main thread: Acceptor --- round robin ---> Mailbox --> Worker 0: epoll, connections, one buffer
//!      signals, listeners                 \--> Mailbox --> Worker 1 ...
//! ```
//!
//! A connection stays with one worker, so its state needs no lock. The session interprets the bytes, and the engine
//! stores the items.

mod acceptor;
mod connection;
mod listen;
mod mailbox;
mod tls_stream;
#[cfg(test)]
mod tls_stream_tests;
mod udp;
mod worker;

pub use listen::Listeners;

use crate::shared::{Shared, Wake, WorkerContext};
use acceptor::Acceptor;
use mailbox::Mailbox;
use mio::{Poll, Waker};
use signal_hook_mio::v1_0::Signals;
use std::io;
use std::thread::Scope;
use worker::Worker;

/// The event loops. They are made before the threads that run them, so that a stop of the server can wake them at any
/// time.
pub(crate) struct Loops {
    worker_polls: Vec<Poll>,
    acceptor_poll: Poll,
}

pub(crate) struct Wakers {
    mailboxes: Vec<Mailbox>,
    acceptor: Waker,
}

impl Wakers {
    /// Wakes event loops to check their mailboxes and whether the server stops.
    pub fn wake(&self, target: Wake) {
        match target {
            Wake::Worker(index) => self.mailboxes[index].wake(),
            Wake::All => {
                self.mailboxes.iter().for_each(Mailbox::wake);
                // A waker fails only when its event loop is gone.
                let _ = self.acceptor.wake();
            }
        }
    }
}

impl Loops {
    pub fn new(workers: usize) -> io::Result<(Loops, Wakers)> {
        let mut worker_polls = Vec::with_capacity(workers);
        let mut mailboxes = Vec::with_capacity(workers);
        for _ in 0..workers {
            let poll = Poll::new()?;
            mailboxes.push(Mailbox::new(Waker::new(poll.registry(), worker::MAILBOX_TOKEN)?));
            worker_polls.push(poll);
        }
        let acceptor_poll = Poll::new()?;
        let acceptor = Waker::new(acceptor_poll.registry(), acceptor::STOP_TOKEN)?;
        Ok((Loops { worker_polls, acceptor_poll }, Wakers { mailboxes, acceptor }))
    }

    /// Starts the workers in `scope` and accepts on the calling thread until the server stops.
    pub fn run<'scope, 'e: 'scope>(
        self,
        scope: &'scope Scope<'scope, '_>,
        listeners: Listeners,
        signals: Signals,
        wakers: &'e Wakers,
        shared: &'e Shared<'e>,
    ) -> io::Result<()> {
        let mut datagram = udp::distribute(listeners.datagram, self.worker_polls.len());
        for (index, (poll, mailbox)) in
            self.worker_polls.into_iter().zip(&wakers.mailboxes).enumerate()
        {
            let sockets = std::mem::take(&mut datagram[index]);
            let work = move || {
                let context = WorkerContext::new(shared, index);
                let mut worker = Worker::new(poll, mailbox, context);
                if let Err(error) = worker.serve_udp(sockets).and_then(|()| worker.run()) {
                    tracing::error!("worker {index} cannot wait for events: {error}");
                    shared.stop();
                }
            };
            let name = format!("worker-{index}");
            std::thread::Builder::new().name(name).spawn_scoped(scope, work)?;
        }
        let accepted =
            Acceptor::new(self.acceptor_poll, signals, listeners.all, &wakers.mailboxes, shared)
                .and_then(|mut acceptor| acceptor.run());
        // The workers end when the acceptor ends, for any reason.
        shared.stop();
        accepted
    }
}
