//! A socket with timeouts, with or without TLS.
//!
//! ```text
//!   Stream --.-- plain -------------> TimedSocket: a socket whose reads end at the deadline of the reply
//!            '-- TLS records (tls) ->
//! ```

use crate::address::ServerAddress;
use crate::error::{ClientError, ReplyDeadlinePassed};
use crate::tls::Tls;
use rustls::{ClientConnection, StreamOwned};
use slabwise_base::Clock;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// The timeouts of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// The longest time that connecting may take.
    pub connect: Duration,
    /// The longest time without a received or sent byte while a request or its reply is in progress.
    pub read: Duration,
    /// The longest time from sending a request to the last byte of its reply. It can be exceeded by 10 % of `read`. It
    /// also limits a TLS handshake.
    pub reply: Duration,
}

/// A connected socket with timeouts.
#[derive(Debug)]
pub struct Stream(Channel);

/// The way to the server's bytes.
#[derive(Debug)]
enum Channel {
    Plain(TimedSocket),
    Tls(Box<StreamOwned<ClientConnection, TimedSocket>>),
}

impl Stream {
    /// Connects to `server`, and completes a handshake if `tls` is given.
    pub fn connect(
        server: &ServerAddress,
        timeouts: Timeouts,
        tls: Option<&Tls>,
    ) -> Result<Stream, ClientError> {
        let mut socket = TimedSocket::new(server.connect(Some(timeouts.connect))?, timeouts)?;
        let Some(tls) = tls else { return Ok(Stream(Channel::Plain(socket))) };
        let mut connection = tls.connection_to(server).map_err(ClientError::Handshake)?;
        socket.start_reply();
        while connection.is_handshaking() {
            connection.complete_io(&mut socket).map_err(handshake_error)?;
        }
        Ok(Stream(Channel::Tls(Box::new(StreamOwned::new(connection, socket)))))
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.0 {
            Channel::Plain(socket) => socket.read(buffer),
            Channel::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    /// Begins the time of a reply.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.0 {
            Channel::Plain(socket) => {
                socket.start_reply();
                socket.write(bytes)
            }
            Channel::Tls(stream) => {
                stream.sock.start_reply();
                stream.write(bytes)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.0 {
            Channel::Plain(socket) => socket.flush(),
            Channel::Tls(stream) => stream.flush(),
        }
    }
}

/// A socket whose reads end with a timeout when the time of the reply is over.
#[derive(Debug)]
struct TimedSocket {
    socket: TcpStream,
    timeouts: Timeouts,
    clock: Clock,
    /// The time until which the current reply must be complete, in nanoseconds of `clock`; `u64::MAX` before the first
    /// request.
    deadline_nanos: u64,
    /// The read timeout that the socket has now.
    read_timeout: Duration,
}

impl TimedSocket {
    fn new(socket: TcpStream, timeouts: Timeouts) -> io::Result<TimedSocket> {
        let read_timeout = timeouts.read;
        socket.set_write_timeout(Some(read_timeout))?;
        socket.set_read_timeout(Some(read_timeout))?;
        let clock = Clock::real();
        Ok(TimedSocket { socket, timeouts, clock, deadline_nanos: u64::MAX, read_timeout })
    }

    /// Sets the deadline of the reply that follows.
    fn start_reply(&mut self) {
        let reply_nanos = u64::try_from(self.timeouts.reply.as_nanos()).unwrap_or(u64::MAX);
        self.deadline_nanos = self.clock.nanos().saturating_add(reply_nanos);
    }
}

impl Read for TimedSocket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left_nanos = self.deadline_nanos.saturating_sub(self.clock.nanos());
        if left_nanos == 0 {
            return Err(io::Error::new(ErrorKind::TimedOut, ReplyDeadlinePassed));
        }
        // For the operating system, a socket timeout of 0 means that there is no timeout.
        let left = Duration::from_nanos(left_nanos).max(Duration::from_micros(1));
        let timeout = left.min(self.timeouts.read);
        // Setting a timeout costs a system call, so the socket's timeout changes only if it is wrong by more than 10 %.
        if timeout.abs_diff(self.read_timeout) > self.read_timeout / 10 {
            self.socket.set_read_timeout(Some(timeout))?;
            self.read_timeout = timeout;
        }
        self.socket.read(buffer).map_err(|error| match error.kind() {
            ErrorKind::TimedOut | ErrorKind::WouldBlock if timeout == left => {
                io::Error::new(ErrorKind::TimedOut, ReplyDeadlinePassed)
            }
            _ => error,
        })
    }
}

impl Write for TimedSocket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the error of a handshake. A timeout stays a timeout.
fn handshake_error(error: io::Error) -> ClientError {
    match ClientError::from(error) {
        ClientError::Io(error) => ClientError::Handshake(error),
        timeout_or_closed => timeout_or_closed,
    }
}
