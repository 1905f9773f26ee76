//! A connection to the server that sends a batch of requests and receives the replies at the same time.
//!
//! If a client sent the whole batch before it read a reply, and both buffers of the socket became full, client and
//! server would wait for each other. So a channel reads whenever bytes have arrived.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use slabwise_base::Clock;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::ops::ControlFlow;
use std::time::Duration;

/// The number of bytes that one read receives at most.
const READ_LEN: usize = 128 * 1024;
/// The timeout of connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A reason why an exchange ended early.
#[derive(Debug)]
pub enum ChannelError {
    /// The server closed the connection, or reset it.
    Closed(io::Error),
    /// No byte was sent or received for the timeout.
    Timeout,
}

/// A connection.
#[derive(Debug)]
pub struct Channel {
    socket: TcpStream,
    input: Vec<u8>,
    /// The number of bytes of `input` that the caller has used.
    used: usize,
    filled: usize,
}

impl Channel {
    /// Connects to the server.
    pub fn connect(address: SocketAddr) -> io::Result<Channel> {
        Channel::connect_within(address, CONNECT_TIMEOUT)
    }

    /// Connects to the server. Fails after the timeout.
    pub fn connect_within(address: SocketAddr, timeout: Duration) -> io::Result<Channel> {
        let socket = TcpStream::connect_timeout(&address, timeout)?;
        socket.set_nodelay(true)?;
        socket.set_nonblocking(true)?;
        Ok(Channel { socket, input: Vec::new(), used: 0, filled: 0 })
    }

    /// Returns the socket, for clients that misbehave.
    pub fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Returns the received bytes that were not used.
    pub fn received(&self) -> &[u8] {
        &self.input[self.used..self.filled]
    }

    /// Sends the bytes, and calls `receive` with the unused received bytes after each read. `receive` returns how many
    /// it has used, and breaks when the last reply has arrived.
    pub fn exchange(
        &mut self,
        mut out: &[u8],
        clock: &Clock,
        timeout: Duration,
        mut receive: impl FnMut(&[u8]) -> (usize, ControlFlow<()>),
    ) -> Result<(), ChannelError> {
        let mut deadline = clock.nanos() + timeout.as_nanos() as u64;
        loop {
            let sent = self.send(&mut out)?;
            let received = self.receive()?;
            if received {
                let (used, flow) = receive(&self.input[self.used..self.filled]);
                self.used += used;
                if flow.is_break() {
                    return Ok(());
                }
            }
            if sent || received {
                deadline = clock.nanos() + timeout.as_nanos() as u64;
            } else if clock.nanos() > deadline {
                return Err(ChannelError::Timeout);
            } else {
                self.wait(!out.is_empty());
            }
        }
    }

    /// Sends as much as the socket accepts. Returns true if it accepted something.
    fn send(&mut self, out: &mut &[u8]) -> Result<bool, ChannelError> {
        if out.is_empty() {
            return Ok(false);
        }
        match self.socket.write(out) {
            Ok(len) => {
                *out = &out[len..];
                Ok(len > 0)
            }
            Err(error) if is_temporary(&error) => Ok(false),
            Err(error) => Err(ChannelError::Closed(error)),
        }
    }

    /// Receives what has arrived. Returns true if something has.
    fn receive(&mut self) -> Result<bool, ChannelError> {
        if self.used == self.filled {
            (self.used, self.filled) = (0, 0);
        }
        if self.input.len() - self.filled < READ_LEN {
            self.input.copy_within(self.used..self.filled, 0);
            self.filled -= self.used;
            self.used = 0;
            if self.input.len() - self.filled < READ_LEN {
                self.input.resize(2 * self.filled + READ_LEN, 0);
            }
        }
        match self.socket.read(&mut self.input[self.filled..]) {
            Ok(0) => Err(ChannelError::Closed(ErrorKind::UnexpectedEof.into())),
            Ok(len) => {
                self.filled += len;
                Ok(true)
            }
            Err(error) if is_temporary(&error) => Ok(false),
            Err(error) => Err(ChannelError::Closed(error)),
        }
    }

    /// Waits up to 100 ms until the socket is readable, or writable if `writes` is true.
    fn wait(&self, writes: bool) {
        let events = if writes { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        let timeout = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
        // An error, such as an interruption by a signal, only shortens the wait.
        let _ = poll(&mut [PollFd::new(&self.socket, events)], Some(&timeout));
    }
}

fn is_temporary(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
