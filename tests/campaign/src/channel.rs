//! A connection to the server that sends a batch of requests and receives the replies at the same time.
//!
//! If a client sent the whole batch before it read a reply, and both buffers of the socket became full, client and
//! server would wait for each other. So a channel reads whenever bytes have arrived.

use crate::transport::{TlsConfig, Transport};
use slabwise_base::Clock;
use std::io;
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

impl From<io::Error> for ChannelError {
    fn from(error: io::Error) -> ChannelError {
        ChannelError::Closed(error)
    }
}

/// A connection.
#[derive(Debug)]
pub struct Channel {
    transport: Transport,
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
        Channel::over(TcpStream::connect_timeout(&address, timeout)?, None)
    }

    /// Connects to a listener with TLS.
    pub fn connect_tls(address: SocketAddr, tls: &TlsConfig) -> io::Result<Channel> {
        Channel::over(TcpStream::connect_timeout(&address, CONNECT_TIMEOUT)?, Some(tls))
    }

    fn over(socket: TcpStream, tls: Option<&TlsConfig>) -> io::Result<Channel> {
        let transport = Transport::new(socket, tls)?;
        Ok(Channel { transport, input: Vec::new(), used: 0, filled: 0 })
    }

    /// Returns the socket, for clients that misbehave.
    pub fn socket(&self) -> &TcpStream {
        self.transport.socket()
    }

    /// Returns the received bytes that were not used. If there are any, the server has sent a part of a reply.
    pub fn received(&self) -> &[u8] {
        &self.input[self.used..self.filled]
    }

    /// Sends the bytes, and calls `receive` with the unused received bytes after each read. `receive` returns how many
    /// it has used, and breaks when the last reply has arrived. Nevertheless all bytes are sent: the server may refuse a
    /// value before it has received the value, and then ignores its bytes.
    pub fn exchange(
        &mut self,
        mut out: &[u8],
        clock: &Clock,
        timeout: Duration,
        mut receive: impl FnMut(&[u8]) -> (usize, ControlFlow<()>),
    ) -> Result<(), ChannelError> {
        let mut deadline = clock.nanos() + timeout.as_nanos() as u64;
        let (mut broken, mut is_answered) = (None, false);
        loop {
            let (accepted, is_sent) = match broken {
                // The socket still has the bytes that arrived before the connection broke.
                Some(_) => (0, false),
                None => self.transport.send(out).unwrap_or_else(|error| {
                    broken = Some(error);
                    (0, false)
                }),
            };
            out = &out[accepted..];
            let received = !is_answered && self.receive()?;
            if received {
                let (used, flow) = receive(&self.input[self.used..self.filled]);
                self.used += used;
                is_answered = flow.is_break();
            }
            if is_answered && out.is_empty() {
                return Ok(());
            }
            if !received && let Some(error) = broken.take() {
                return Err(ChannelError::Closed(error));
            }
            if is_sent || received {
                deadline = clock.nanos() + timeout.as_nanos() as u64;
            } else if clock.nanos() > deadline {
                return Err(ChannelError::Timeout);
            } else {
                self.transport.wait(!out.is_empty());
            }
        }
    }

    /// Receives what has arrived. Returns true if something has.
    fn receive(&mut self) -> io::Result<bool> {
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
        let count = self.transport.receive(&mut self.input[self.filled..])?;
        self.filled += count;
        Ok(count > 0)
    }
}
