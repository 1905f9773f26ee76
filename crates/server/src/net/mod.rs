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
mod round;
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

use crate::config::{IoChoice, IoKind, Settings};
use crate::os::uring;
use crate::shared::{Shared, Wake, WorkerContext};
use acceptor::Acceptor;
use event_loop::{Epoll, EventLoop, Uring};
use listen::DatagramSocket;
use mailbox::Mailbox;
use mio::{Poll, Waker};
use std::io;
use std::thread::{Scope, ScopedJoinHandle};
use worker::Worker;

/// The event loops of the acceptor and the workers. They are made before the threads that run them, so that any thread
/// can wake them to stop the server.
pub(crate) struct Loops {
    of_workers: WorkerLoops,
    acceptor_poll: Poll,
}

/// One event loop per worker.
enum WorkerLoops {
    Epoll(Vec<Epoll>),
    Uring(Vec<Uring>),
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
    /// Makes the event loops of the acceptor and the workers.
    pub fn new(settings: &Settings, listeners: &Listeners) -> Result<(Loops, Wakers), LoopsError> {
        let datagrams_max = listeners.datagram.iter().map(Vec::len).sum::<usize>() as u32;
        let of_workers = WorkerLoops::new(settings, datagrams_max)?;
        let mailboxes = (0..settings.threads).map(|_| Mailbox::new()).collect::<io::Result<_>>()?;
        let acceptor_poll = Poll::new()?;
        let acceptor = Waker::new(acceptor_poll.registry(), acceptor::WAKE_TOKEN)?;
        Ok((Loops { of_workers, acceptor_poll }, Wakers { mailboxes, acceptor }))
    }

    /// Returns the interface of the kernel that the workers use.
    pub fn kind(&self) -> IoKind {
        match self.of_workers {
            WorkerLoops::Epoll(_) => IoKind::Epoll,
            WorkerLoops::Uring(_) => IoKind::Uring,
        }
    }

    /// Starts the workers in `scope`. Returns the acceptor, which the caller runs, and the handles of the workers.
    pub fn start<'scope, 'e: 'scope>(
        self,
        scope: &'scope Scope<'scope, '_>,
        listeners: Listeners,
        signals: SignalHandler,
        wakers: &'e Wakers,
        shared: &'e Shared<'e>,
    ) -> io::Result<(Acceptor<'e>, Vec<ScopedJoinHandle<'scope, ()>>)> {
        let workers = match self.of_workers {
            WorkerLoops::Epoll(loops) => {
                start_workers(scope, loops, listeners.datagram, wakers, shared)?
            }
            WorkerLoops::Uring(loops) => {
                start_workers(scope, loops, listeners.datagram, wakers, shared)?
            }
        };
        let poll = self.acceptor_poll;
        let Listeners { stream, file, .. } = listeners;
        let acceptor = Acceptor::new(poll, signals, stream, file, &wakers.mailboxes, shared)?;
        Ok((acceptor, workers))
    }
}

impl WorkerLoops {
    /// Makes the event loops of the workers, as the settings choose. One worker may serve all UDP sockets, at most
    /// `datagrams_max`.
    fn new(settings: &Settings, datagrams_max: u32) -> Result<WorkerLoops, LoopsError> {
        let workers = 0..settings.threads;
        let connections_max = settings.connections_max;
        if settings.io.allows_uring() {
            let make = |_| Uring::new(connections_max, datagrams_max);
            let made = uring::check().and_then(|()| workers.clone().map(make).collect());
            match (made, settings.io) {
                (Ok(loops), _) => {
                    tracing::info!("io: the workers use io_uring");
                    return Ok(WorkerLoops::Uring(loops));
                }
                (Err(error), IoChoice::Auto) => {
                    let reason = refusal(&error);
                    tracing::info!("io: the workers use epoll, because {reason} ({error})");
                }
                (Err(error), IoChoice::Only(_)) => {
                    return Err(LoopsError::Uring { reason: refusal(&error), error });
                }
            }
        }
        let loops = workers.map(|_| Epoll::new()).collect::<io::Result<_>>()?;
        Ok(WorkerLoops::Epoll(loops))
    }
}

/// The reason why the event loops cannot be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoopsError {
    #[error("cannot make an event loop: {0}")]
    System(#[from] io::Error),
    #[error("-o io=io_uring: {reason}, or use -o io=auto ({error})")]
    Uring { reason: &'static str, error: io::Error },
}

/// Returns why the kernel refuses io_uring, and what helps.
fn refusal(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "io_uring is forbidden: set the sysctl kernel.io_uring_disabled to 0, and allow io_uring_setup, \
             io_uring_enter and io_uring_register in the seccomp profile of the container"
        }
        io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported => {
            "the kernel lacks a part of io_uring, or a sandbox hides it: use Linux 6.1 or later"
        }
        _ => {
            "the kernel cannot make the rings: lower -c or -t, or raise the limits of open files and locked memory"
        }
    }
}

/// Starts one worker for each event loop in `scope`.
fn start_workers<'scope, 'e: 'scope, L: EventLoop + Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    loops: Vec<L>,
    datagram: Vec<Vec<DatagramSocket>>,
    wakers: &'e Wakers,
    shared: &'e Shared<'e>,
) -> io::Result<Vec<ScopedJoinHandle<'scope, ()>>> {
    let sockets = udp::distribute(datagram, loops.len());
    let mut workers = Vec::new();
    for (index, ((event_loop, sockets), mailbox)) in
        loops.into_iter().zip(sockets).zip(&wakers.mailboxes).enumerate()
    {
        let run = move || {
            let context = WorkerContext::new(shared, index);
            if let Err(error) = run_worker(event_loop, mailbox, context, sockets) {
                tracing::error!("worker {index} cannot wait for events: {error}");
                shared.stop();
            }
        };
        let name = format!("worker-{index}");
        workers.push(std::thread::Builder::new().name(name).spawn_scoped(scope, run)?);
    }
    Ok(workers)
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
