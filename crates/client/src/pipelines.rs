//! Many connections to one server, driven by one thread, with any number of outstanding requests on each.
//!
//! ```text
//!   request(lane, tag) -> the lane's buffer, to append to      exchange: sends all requests, and passes each reply with
//!                                                              the tag of its request to the caller
//! ```
//!
//! Invariants:
//! - The replies on a lane are in the order of its requests.
//! - [`Pipelines::exchange`] returns after all replies, or with the first error. After an error the connections must not
//!   be used.

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

/// The initial size of a buffer, enough for a typical round of replies.
const BUFFER_SIZE_BYTES: usize = 256 * 1024;

/// A non-blocking connection and the tags of its outstanding requests, in order. It sends and receives alternately, so
/// large requests and large replies cannot cause a deadlock with the server.
#[derive(Debug)]
struct Lane<T> {
    socket: TcpStream,
    out: Vec<u8>,
    out_sent: usize,
    input: Input,
    awaited: VecDeque<T>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Received {
    Some,
    /// The socket has no more bytes until the next event.
    All,
}

/// The connections to one server.
#[derive(Debug)]
pub struct Pipelines<T> {
    poll: Poll,
    events: Events,
    lanes: Vec<Lane<T>>,
    awaited: usize,
    silence_max: Duration,
}

impl<T> Pipelines<T> {
    /// Opens `lanes` connections, at least one. `silence_max` is the timeout for the next bytes of outstanding replies.
    pub fn connect(
        server: &ServerAddress,
        lanes: usize,
        silence_max: Duration,
    ) -> Result<Pipelines<T>, ClientError> {
        let poll = Poll::new().map_err(ClientError::Lost)?;
        let open = |index| Lane::open(server, poll.registry(), Token(index));
        let lanes = (0..lanes).map(open).collect::<Result<Vec<_>, ClientError>>()?;
        let events = Events::with_capacity(lanes.len().clamp(16, 1024));
        Ok(Pipelines { poll, events, lanes, awaited: 0, silence_max })
    }

    /// Returns the number of connections.
    pub fn lanes(&self) -> usize {
        self.lanes.len()
    }

    /// Returns the buffer to which the caller appends one request. [`Pipelines::exchange`] sends it and passes its reply
    /// with this tag.
    pub fn request(&mut self, lane: usize, tag: T) -> &mut Vec<u8> {
        let lane = &mut self.lanes[lane];
        lane.awaited.push_back(tag);
        self.awaited += 1;
        &mut lane.out
    }

    /// Sends all requests, and calls `answered` for each reply with its tag and the time of its arrival in nanoseconds.
    pub fn exchange<E: From<ClientError>>(
        &mut self,
        clock: &Clock,
        mut answered: impl FnMut(&T, Reply<'_>, u64) -> Result<(), E>,
    ) -> Result<(), E> {
        for lane in &mut self.lanes {
            lane.flush()?;
        }
        while self.awaited > 0 {
            self.wait()?;
            for event in &self.events {
                let lane = &mut self.lanes[event.token().0];
                lane.flush()?;
                loop {
                    let received = lane.receive()?;
                    let nanos = clock.nanos();
                    self.awaited -= lane.take_replies(|tag, reply| answered(tag, reply, nanos))?;
                    // A closed connection has no further events, so it is read to its end now.
                    let closing = event.is_read_closed() && !lane.awaited.is_empty();
                    if received == Received::All && !closing {
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    fn wait(&mut self) -> Result<(), ClientError> {
        loop {
            match self.poll.poll(&mut self.events, Some(self.silence_max)) {
                Ok(()) if self.events.is_empty() => return Err(ClientError::Silent),
                Ok(()) => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(ClientError::Lost(error)),
            }
        }
    }
}

impl<T> Lane<T> {
    /// Connects, blocking, and registers the connection with `token`.
    fn open(
        server: &ServerAddress,
        registry: &Registry,
        token: Token,
    ) -> Result<Lane<T>, ClientError> {
        let socket = server.connect(None)?;
        socket.set_nonblocking(true).map_err(ClientError::Connect)?;
        let interest = Interest::READABLE | Interest::WRITABLE;
        let registered = registry.register(&mut SourceFd(&socket.as_raw_fd()), token, interest);
        registered.map_err(ClientError::Lost)?;
        Ok(Lane {
            socket,
            out: Vec::with_capacity(BUFFER_SIZE_BYTES),
            out_sent: 0,
            input: Input::new(BUFFER_SIZE_BYTES),
            awaited: VecDeque::new(),
        })
    }

    /// Sends as many bytes as the socket accepts. The next call sends the rest.
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

    fn receive(&mut self) -> Result<Received, ClientError> {
        let buffer = self.input.room();
        match self.socket.read(buffer) {
            Ok(0) => Err(ClientError::Closed),
            Ok(count) => {
                let all = if count < buffer.len() { Received::All } else { Received::Some };
                self.input.received(count);
                Ok(all)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(Received::All),
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(Received::Some),
            Err(error) => Err(error.into()),
        }
    }

    /// Parses all complete replies, and returns their number.
    fn take_replies<E: From<ClientError>>(
        &mut self,
        mut each: impl FnMut(&T, Reply<'_>) -> Result<(), E>,
    ) -> Result<usize, E> {
        let mut taken = 0;
        loop {
            let bytes = self.input.unread();
            if bytes.is_empty() {
                return Ok(taken);
            }
            let Some(tag) = self.awaited.front() else {
                return Err(ClientError::Unexpected(bytes.to_vec()).into());
            };
            match reply::parse(bytes) {
                Parsed::Reply(reply, size_bytes) => {
                    each(tag, reply)?;
                    self.awaited.pop_front();
                    self.input.consume(size_bytes);
                    taken += 1;
                }
                Parsed::Incomplete(size_bytes) => {
                    self.input.make_room(size_bytes);
                    return Ok(taken);
                }
            }
        }
    }
}
