//! The network: listening sockets, the acceptor, the workers and their connections.
//!
//! ```text
//!   main thread: Acceptor --- round robin ---> Mailbox --> Worker 0: event loop, connections, read buffer
//!      signals, listeners                 \--> Mailbox --> Worker 1 ...
//! ```
//!
//! The event loop of a worker uses epoll or io_uring (`event_loop`). The acceptor uses epoll.
//!
//! One worker serves a connection until it is closed, so the state of a connection needs no lock. The session of a
//! connection parses the received bytes, calls the engine and writes the replies.

mod acceptor;
mod connection;
mod event_loop;
mod handshakes;
mod listen;
mod mailbox;
mod stream;
mod tls_records;
mod tls_state;
mod tls_stream;
#[cfg(test)]
mod tls_stream_tests;
mod udp;
mod worker;

pub use listen::Listeners;

use crate::shared::{Shared, Wake, WorkerContext};
use acceptor::Acceptor;
use event_loop::{Epoll, EventLoop};
use listen::DatagramSocket;
use mailbox::Mailbox;
use mio::{Poll, Waker};
use signal_hook_mio::v1_0::Signals;
use std::io;
use std::thread::{Scope, ScopedJoinHandle};
use worker::Worker;

/// The event loops of the acceptor and the workers. They are made before the threads that run them, so that any thread
/// can wake them to stop the server.
pub(crate) struct Loops {
    /// One event loop per worker.
    of_workers: Vec<Epoll>,
    acceptor_poll: Poll,
}

/// The wakers of the event loops.
pub(crate) struct Wakers {
    /// One mailbox per worker, which contains the waker of its worker's event loop.
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
        let of_workers = (0..workers).map(|_| Epoll::new()).collect::<io::Result<_>>()?;
        let mailboxes = (0..workers).map(|_| Mailbox::new()).collect::<io::Result<_>>()?;
        let acceptor_poll = Poll::new()?;
        let acceptor = Waker::new(acceptor_poll.registry(), acceptor::WAKE_TOKEN)?;
        Ok((Loops { of_workers, acceptor_poll }, Wakers { mailboxes, acceptor }))
    }

    /// Starts the workers in `scope`. Returns the acceptor, which the caller runs, and the handles of the workers.
    pub fn start<'scope, 'e: 'scope>(
        self,
        scope: &'scope Scope<'scope, '_>,
        listeners: Listeners,
        signals: Signals,
        wakers: &'e Wakers,
        shared: &'e Shared<'e>,
    ) -> io::Result<(Acceptor<'e>, Vec<ScopedJoinHandle<'scope, ()>>)> {
        let mut workers = Vec::new();
        let mut datagram = udp::distribute(listeners.datagram, self.of_workers.len());
        for (index, (event_loop, mailbox)) in
            self.of_workers.into_iter().zip(&wakers.mailboxes).enumerate()
        {
            let sockets = std::mem::take(&mut datagram[index]);
            let run_worker = move || {
                let context = WorkerContext::new(shared, index);
                if let Err(error) = run_worker(event_loop, mailbox, context, sockets) {
                    tracing::error!("worker {index} cannot wait for events: {error}");
                    shared.stop();
                }
            };
            let name = format!("worker-{index}");
            workers.push(std::thread::Builder::new().name(name).spawn_scoped(scope, run_worker)?);
        }
        let poll = self.acceptor_poll;
        let acceptor = Acceptor::new(poll, signals, listeners.stream, &wakers.mailboxes, shared)?;
        Ok((acceptor, workers))
    }
}

/// Runs a worker until the server stops.
fn run_worker<L: EventLoop>(
    event_loop: L,
    mailbox: &Mailbox,
    context: WorkerContext<'_>,
    sockets: Vec<DatagramSocket>,
) -> io::Result<()> {
    let mut worker = Worker::new(event_loop, mailbox, context)?;
    worker.serve_udp(sockets)?;
    worker.run()
}
