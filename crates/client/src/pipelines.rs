//! Many connections to one server, driven by one thread. Each connection can have any number of outstanding requests.
//!
//! The caller appends requests, each with a tag of its choice, and then exchanges them for replies:
//!
//! ```text
//!   request(connection, tag)   returns the buffer to which the caller appends one request
//!   exchange(clock, on_reply)  sends all requests, and calls `on_reply` with each reply and the tag of its request
//! ```
//!
//! Invariants:
//! - The replies on a connection are in the order of its requests.
//! - [`Pipelines::exchange`] returns when all replies have arrived, or with the first error. After an error, the caller
//!   must not use the connections again.

use crate::address::ServerAddress;
use crate::error::ClientError;
use crate::input::Input;
use crate::reply::{self, Parsed, Reply};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Registry, Token};
use slabwise_base::Clock;
use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::time::Duration;

/// The initial size of a buffer, large enough for the requests or replies of a typical exchange.
const BUFFER_SIZE_BYTES: usize = 256 * 1024;

/// A non-blocking connection. Sending and receiving alternate: if both sides only sent, full socket buffers would
/// block the client and the server forever.
#[derive(Debug)]
struct PipelinedConnection<T> {
    socket: TcpStream,
    /// Requests to send.
    out: Vec<u8>,
    /// Number of bytes of `out` that have been sent.
    out_sent: usize,
    input: Input,
    /// Tags of the requests without a reply, in the order of the requests.
    outstanding: VecDeque<T>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AfterReceive {
    /// The socket may have more bytes.
    ReadAgain,
    /// The socket has no more bytes until its next event.
    WaitForEvent,
}

/// The connections to one server.
#[derive(Debug)]
pub struct Pipelines<T> {
    poll: Poll,
    events: Events,
    connections: Vec<PipelinedConnection<T>>,
    /// Number of requests without a reply, over all connections.
    outstanding: usize,
    read_timeout: Duration,
}

impl<T> Pipelines<T> {
    /// Opens `connections` connections, at least one. An exchange fails if no connection has an event for
    /// `read_timeout`.
    pub fn connect(
        server: &ServerAddress,
        connections: usize,
        read_timeout: Duration,
    ) -> Result<Pipelines<T>, ClientError> {
        let poll = Poll::new().map_err(ClientError::Io)?;
        let open = |index| PipelinedConnection::open(server, poll.registry(), Token(index));
        let connections = (0..connections).map(open).collect::<Result<Vec<_>, ClientError>>()?;
        let events = Events::with_capacity(connections.len().clamp(16, 1024));
        Ok(Pipelines { poll, events, connections, outstanding: 0, read_timeout })
    }

    /// Returns the number of connections.
    pub fn connection_count(&self) -> usize {
        self.connections.len()
    }

    /// Returns the buffer to which the caller appends one request. [`Pipelines::exchange`] sends the request, and
    /// passes the reply to the caller with `tag`.
    pub fn request(&mut self, connection: usize, tag: T) -> &mut Vec<u8> {
        let connection = &mut self.connections[connection];
        connection.outstanding.push_back(tag);
        self.outstanding += 1;
        &mut connection.out
    }

    /// Sends all requests and receives their replies. Calls `on_reply` for each reply with the tag of its request, the
    /// reply, and the time of its arrival in nanoseconds of `clock`.
    pub fn exchange<E: From<ClientError>>(
        &mut self,
        clock: &Clock,
        mut on_reply: impl FnMut(&T, Reply<'_>, u64) -> Result<(), E>,
    ) -> Result<(), E> {
        for connection in &mut self.connections {
            connection.flush()?;
        }
        while self.outstanding > 0 {
            self.wait()?;
            for event in &self.events {
                let connection = &mut self.connections[event.token().0];
                connection.flush()?;
                loop {
                    let after_receive = connection.receive()?;
                    let nanos = clock.nanos();
                    self.outstanding -=
                        connection.parse_replies(|tag, reply| on_reply(tag, reply, nanos))?;
                    // A connection that the server has closed has no further events, so it is read to its end now.
                    let closing = event.is_read_closed() && !connection.outstanding.is_empty();
                    if after_receive == AfterReceive::WaitForEvent && !closing {
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// Waits for the next events of the connections. Fails after the read timeout.
    fn wait(&mut self) -> Result<(), ClientError> {
        loop {
            match self.poll.poll(&mut self.events, Some(self.read_timeout)) {
                Ok(()) if self.events.is_empty() => return Err(ClientError::ReadTimeout),
                Ok(()) => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(ClientError::Io(error)),
            }
        }
    }
}

impl<T> PipelinedConnection<T> {
    /// Connects, waiting until the server accepts, and registers the connection for events with `token`.
    fn open(
        server: &ServerAddress,
        registry: &Registry,
        token: Token,
    ) -> Result<PipelinedConnection<T>, ClientError> {
        let socket = server.connect(None)?;
        socket.set_nonblocking(true).map_err(ClientError::Connect)?;
        let interest = Interest::READABLE | Interest::WRITABLE;
        let registered = registry.register(&mut SourceFd(&socket.as_raw_fd()), token, interest);
        registered.map_err(ClientError::Io)?;
        Ok(PipelinedConnection {
            socket,
            out: Vec::with_capacity(BUFFER_SIZE_BYTES),
            out_sent: 0,
            input: Input::new(BUFFER_SIZE_BYTES),
            outstanding: VecDeque::new(),
        })
    }

    /// Sends requests until the socket accepts no more bytes. The next call continues with the unsent bytes.
    fn flush(&mut self) -> Result<(), ClientError> {
        while self.out_sent < self.out.len() {
            match self.socket.write(&self.out[self.out_sent..]) {
                Ok(0) => return Err(ClientError::Closed),
                Ok(count) => self.out_sent += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.out.clear();
        self.out_sent = 0;
        Ok(())
    }

    /// Reads from the socket once.
    fn receive(&mut self) -> Result<AfterReceive, ClientError> {
        let buffer = self.input.room();
        match self.socket.read(buffer) {
            Ok(0) => Err(ClientError::Closed),
            Ok(count) => {
                let is_partial = count < buffer.len();
                self.input.mark_received(count);
                Ok(if is_partial { AfterReceive::WaitForEvent } else { AfterReceive::ReadAgain })
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(AfterReceive::WaitForEvent),
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(AfterReceive::ReadAgain),
            Err(error) => Err(error.into()),
        }
    }

    /// Parses the complete replies among the received bytes, calls `on_reply` for each, and returns their number.
    fn parse_replies<E: From<ClientError>>(
        &mut self,
        mut on_reply: impl FnMut(&T, Reply<'_>) -> Result<(), E>,
    ) -> Result<usize, E> {
        let mut reply_count = 0;
        loop {
            let bytes = self.input.unread();
            if bytes.is_empty() {
                return Ok(reply_count);
            }
            let Some(tag) = self.outstanding.front() else {
                return Err(ClientError::Unexpected(bytes.to_vec()).into());
            };
            match reply::parse(bytes) {
                Parsed::Reply(reply, size_bytes) => {
                    on_reply(tag, reply)?;
                    self.outstanding.pop_front();
                    self.input.consume(size_bytes);
                    reply_count += 1;
                }
                Parsed::Incomplete(size_bytes) => {
                    self.input.make_room(size_bytes);
                    return Ok(reply_count);
                }
            }
        }
    }
}
