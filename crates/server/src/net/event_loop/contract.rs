//! The trait [`EventLoop`], and the types of its functions. The parent module describes the contract.

use crate::os::sockets::ReceiveOutcome;
use crate::out::Sink;
use std::io::{self, IoSlice, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// The number of a connection or of a UDP socket in its worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::net) enum Source {
    /// The waker of the worker's mailbox.
    Mailbox,
    /// The connection with this slot.
    Connection(usize),
    /// The UDP socket with this index.
    Datagram(usize),
}

/// An event: what may be possible with a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::net) struct Ready {
    pub source: Source,
    /// The socket has input, an end or an error to receive.
    pub is_readable: bool,
    /// The peer may have closed its sending side: a receive call must follow even if the last one was short.
    pub is_read_closed: bool,
    /// The socket accepts output.
    pub is_writable: bool,
    /// The peer has reset the connection, or the output could not be sent.
    pub is_error: bool,
    /// The socket has taken only a part of the accepted output.
    pub is_blocked: bool,
}

impl Ready {
    /// Returns an event that reports nothing.
    pub(super) fn nothing(source: Source) -> Ready {
        Ready {
            source,
            is_readable: false,
            is_read_closed: false,
            is_writable: false,
            is_error: false,
            is_blocked: false,
        }
    }
}

/// What a connection or a UDP socket waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::net) enum Await {
    /// Input.
    Input,
    /// Input, most of which belongs to a value: the connection will receive it into the memory of the item.
    Value,
    /// Output can be sent. Input may be reported, too, but need not be.
    Writable,
    /// Only an error of the socket.
    Error,
}

/// The socket of a connection.
pub(in crate::net) struct Socket {
    pub(super) descriptor: OwnedFd,
    /// The slot of the connection.
    pub(super) slot: usize,
    /// True if epoll also reports when the socket is writable.
    pub(super) awaits_writable: bool,
}

impl Socket {
    /// Makes the socket of the connection with this slot.
    pub fn new(descriptor: OwnedFd, slot: usize) -> Socket {
        Socket { descriptor, slot, awaits_writable: false }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// What a worker needs from the kernel. The parent module describes the contract.
pub(in crate::net) trait EventLoop {
    /// The events of one call of [`EventLoop::wait`].
    type Events;

    /// Returns an empty list of events.
    fn events() -> Self::Events;

    /// Sends the accepted output, and waits until there is an event or the timeout is over. Without a timeout there may be
    /// no event if a signal ends the wait.
    fn wait(&mut self, events: &mut Self::Events, timeout: Option<Duration>) -> io::Result<()>;

    /// Returns the events of the last call of [`EventLoop::wait`], at most one for each socket.
    fn ready(events: &Self::Events) -> impl Iterator<Item = Ready>;

    /// Returns the number of these events, without those of the mailbox's waker.
    fn ready_count(events: &Self::Events) -> usize;

    /// Begins to report events of the mailbox's waker. The worker's thread calls this function before all others.
    fn start(&mut self, waker: BorrowedFd<'_>) -> io::Result<()>;

    /// Reports events of a UDP socket.
    fn add_datagram(&mut self, socket: BorrowedFd<'_>, index: usize) -> io::Result<()>;

    /// Also reports when a UDP socket is writable, or no longer does. `now` is the present state.
    fn await_writable_datagram(
        &mut self,
        socket: BorrowedFd<'_>,
        index: usize,
        now: &mut bool,
        wanted: bool,
    ) -> io::Result<()>;

    /// Adds a connection's socket, which waits for input.
    fn add(&mut self, socket: &Socket) -> io::Result<()>;

    /// Removes a socket, whose connection is about to end. Sends the accepted output if the socket takes it at once.
    fn remove(&mut self, socket: &Socket);

    /// Sets what the connection waits for.
    fn await_next(&mut self, socket: &mut Socket, awaited: Await) -> io::Result<()>;

    /// Makes every receive call take at most what it is called for, or no longer. Otherwise the implementation may receive
    /// more, and keep it for the next call.
    fn limit_input(&mut self, _is_limited: bool) {}

    /// Receives into the first slice and, when the first slice is full, into the second slice, which is not empty.
    fn receive(&mut self, socket: &Socket, targets: [&mut [u8]; 2]) -> io::Result<ReceiveOutcome>;

    /// Accepts bytes from the start of `bytes`, and returns their number. If the socket is blocked, returns the error
    /// `WouldBlock`.
    fn send(&mut self, socket: &Socket, bytes: &[u8]) -> io::Result<usize>;

    /// Accepts bytes from the start of the concatenated slices, as [`EventLoop::send`] does.
    fn send_vectored(&mut self, socket: &Socket, slices: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Accepts all bytes of a buffer by taking the buffer, and leaves an empty one. Returns false if the buffer was not
    /// taken.
    fn send_buffer(&mut self, _socket: &Socket, _buffer: &mut Vec<u8>) -> bool {
        false
    }

    /// Sends the output that all sockets have accepted. The worker calls this function before work for other connections, so
    /// that the output does not wait for it.
    fn submit(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Sends what the socket has accepted. Returns the error `WouldBlock` if the socket takes only a part.
    fn flush(&mut self, _socket: &Socket) -> io::Result<()> {
        Ok(())
    }

    /// True if nothing receives from the socket until the next call of [`EventLoop::await_next`], all received bytes are
    /// delivered, and all accepted output is sent. A socket becomes detached some time after it awaits [`Await::Error`].
    fn is_detached(&self, _socket: &Socket) -> bool {
        true
    }

    /// Returns the memory for bytes that were received or accepted for this socket, and that are not delivered.
    fn held_bytes(&self, _socket: &Socket) -> usize {
        0
    }

    /// Returns the number of accepted bytes that are not sent.
    fn unsent_bytes(&self, _socket: &Socket) -> usize {
        0
    }
}

/// A socket as the target of replies or ciphertext.
pub(in crate::net) struct SocketSink<'a, L> {
    pub event_loop: &'a mut L,
    pub socket: &'a Socket,
}

impl<L: EventLoop> Sink for SocketSink<'_, L> {
    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.event_loop.send(self.socket, bytes)
    }

    fn send_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.event_loop.send_vectored(self.socket, slices)
    }

    fn send_buffer(&mut self, buffer: &mut Vec<u8>) -> bool {
        self.event_loop.send_buffer(self.socket, buffer)
    }
}

impl<L: EventLoop> Write for SocketSink<'_, L> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.event_loop.send(self.socket, bytes)
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.event_loop.send_vectored(self.socket, slices)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.event_loop.flush(self.socket)
    }
}
