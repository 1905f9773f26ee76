//! [`EventLoop`] by epoll: the kernel reports that a socket is ready, and a system call receives or sends.
//!
//! The event loop is edge-triggered. It reports a writable socket only while the client's output is blocked, so that a
//! round of a client needs two system calls: one to receive, and one to send.

use super::contract::{Await, EventLoop, Ready, Socket, Source};
use crate::os::sockets::{self, ReceiveOutcome};
use mio::event::Event;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;

/// The maximum number of events that one epoll_wait returns.
const EVENTS_MAX: usize = 256;
const MAILBOX_TOKEN: Token = Token(usize::MAX);
/// The token of the first UDP socket. The token of a connection is its slot, which is smaller.
const DATAGRAM_TOKEN_MIN: usize = usize::MAX / 2;

/// An event loop over epoll.
pub(in crate::net) struct Epoll {
    poll: Poll,
}

impl Epoll {
    pub fn new() -> io::Result<Epoll> {
        Ok(Epoll { poll: Poll::new()? })
    }

    fn register(
        &self,
        descriptor: BorrowedFd<'_>,
        token: Token,
        interest: Interest,
    ) -> io::Result<()> {
        self.poll.registry().register(&mut SourceFd(&descriptor.as_raw_fd()), token, interest)
    }

    /// Reports when a socket is readable and, if `wanted`, when it is writable. `awaits_writable` is the present
    /// registration; if it equals `wanted`, the function makes no system call.
    fn set_writable_interest(
        &self,
        descriptor: BorrowedFd<'_>,
        token: Token,
        awaits_writable: &mut bool,
        wanted: bool,
    ) -> io::Result<()> {
        if std::mem::replace(awaits_writable, wanted) == wanted {
            return Ok(());
        }
        let interest =
            if wanted { Interest::READABLE | Interest::WRITABLE } else { Interest::READABLE };
        let descriptor = descriptor.as_raw_fd();
        self.poll.registry().reregister(&mut SourceFd(&descriptor), token, interest)
    }
}

impl EventLoop for Epoll {
    type Events = Events;

    fn events() -> Events {
        Events::with_capacity(EVENTS_MAX)
    }

    fn wait(&mut self, events: &mut Events, timeout: Option<Duration>) -> io::Result<()> {
        let mut timeout = timeout;
        loop {
            match self.poll.poll(events, timeout) {
                // A process that was stopped for a while gets this error instead of the events. The worker must serve the
                // input that has arrived meanwhile before it looks for clients that sent nothing for too long.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                    timeout = Some(Duration::ZERO);
                }
                other => return other,
            }
        }
    }

    #[inline]
    fn ready(events: &Events) -> impl Iterator<Item = Ready> {
        events.iter().map(ready)
    }

    #[inline]
    fn ready_count(events: &Events) -> usize {
        events.iter().filter(|event| event.token() != MAILBOX_TOKEN).count()
    }

    fn start(&mut self, waker: BorrowedFd<'_>) -> io::Result<()> {
        self.register(waker, MAILBOX_TOKEN, Interest::READABLE)
    }

    fn add_datagram(&mut self, socket: BorrowedFd<'_>, index: usize) -> io::Result<()> {
        self.register(socket, Token(DATAGRAM_TOKEN_MIN + index), Interest::READABLE)
    }

    fn await_writable_datagram(
        &mut self,
        socket: BorrowedFd<'_>,
        index: usize,
        now: &mut bool,
        wanted: bool,
    ) -> io::Result<()> {
        self.set_writable_interest(socket, Token(DATAGRAM_TOKEN_MIN + index), now, wanted)
    }

    fn add(&mut self, socket: &Socket) -> io::Result<()> {
        // The event loop also reports input that arrived before.
        self.register(socket.as_fd(), Token(socket.slot), Interest::READABLE)
    }

    /// Does nothing: the kernel removes a closed socket.
    fn remove(&mut self, _socket: &Socket) {}

    #[inline]
    fn await_next(&mut self, socket: &mut Socket, awaited: Await) -> io::Result<()> {
        let Socket { descriptor, slot, awaits_writable } = socket;
        let wanted = awaited == Await::Writable;
        self.set_writable_interest(descriptor.as_fd(), Token(*slot), awaits_writable, wanted)
    }

    #[inline]
    fn receive(
        &mut self,
        socket: &Socket,
        [first, second]: [&mut [u8]; 2],
    ) -> io::Result<ReceiveOutcome> {
        if first.is_empty() {
            sockets::receive(socket.as_fd(), second)
        } else {
            sockets::receive_into_two(socket.as_fd(), first, second)
        }
    }

    #[inline]
    fn send(&mut self, socket: &Socket, bytes: &[u8]) -> io::Result<usize> {
        sockets::send(socket.as_fd(), bytes)
    }

    fn send_vectored(&mut self, socket: &Socket, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        sockets::send_vectored(socket.as_fd(), slices)
    }
}

/// Converts an event of mio.
#[inline]
fn ready(event: &Event) -> Ready {
    let source = match event.token() {
        MAILBOX_TOKEN => Source::Mailbox,
        Token(token) => match token.checked_sub(DATAGRAM_TOKEN_MIN) {
            None => Source::Connection(token),
            Some(index) => Source::Datagram(index),
        },
    };
    Ready {
        source,
        is_readable: event.is_readable(),
        is_read_closed: event.is_read_closed(),
        is_writable: event.is_writable(),
        is_error: event.is_error(),
        is_blocked: false,
    }
}
