//! A socket with timeouts.

use crate::address::ServerAddress;
use crate::error::{ClientError, PastDeadline};
use slabwise_base::Clock;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// The timeouts of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// The timeout for connecting.
    pub connect: Duration,
    /// The timeout for the next bytes.
    pub read: Duration,
    /// The timeout from a request to the end of its reply, accurate to 10 %.
    pub reply: Duration,
}

/// A connected socket with timeouts.
#[derive(Debug)]
pub struct Stream {
    socket: TcpStream,
    timeouts: Timeouts,
    clock: Clock,
    /// The deadline of the current reply.
    deadline_nanos: u64,
    read_timeout: Duration,
}

impl Stream {
    /// Connects.
    pub fn connect(server: &ServerAddress, timeouts: Timeouts) -> Result<Stream, ClientError> {
        let socket = server.connect(Some(timeouts.connect))?;
        let read_timeout = timeouts.read;
        socket.set_write_timeout(Some(read_timeout))?;
        socket.set_read_timeout(Some(read_timeout))?;
        let clock = Clock::real();
        Ok(Stream { socket, timeouts, clock, deadline_nanos: u64::MAX, read_timeout })
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left_nanos = self.deadline_nanos.saturating_sub(self.clock.nanos());
        if left_nanos == 0 {
            return Err(io::Error::new(ErrorKind::TimedOut, PastDeadline));
        }
        // A socket timeout of 0 would mean no timeout.
        let left = Duration::from_nanos(left_nanos).max(Duration::from_micros(1));
        let timeout = left.min(self.timeouts.read);
        // Setting a timeout is a system call, so a timeout within 10 % is kept.
        if timeout.abs_diff(self.read_timeout) > self.read_timeout / 10 {
            self.socket.set_read_timeout(Some(timeout))?;
            self.read_timeout = timeout;
        }
        self.socket.read(buffer).map_err(|error| match error.kind() {
            ErrorKind::TimedOut | ErrorKind::WouldBlock if timeout == left => {
                io::Error::new(ErrorKind::TimedOut, PastDeadline)
            }
            _ => error,
        })
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let reply_nanos = u64::try_from(self.timeouts.reply.as_nanos()).unwrap_or(u64::MAX);
        self.deadline_nanos = self.clock.nanos().saturating_add(reply_nanos);
        self.socket.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
