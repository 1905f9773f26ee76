//! A socket with timeouts.

use crate::address::ServerAddress;
use crate::error::{ClientError, ReplyDeadlinePassed};
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
    /// The longest time from sending a request to the last byte of its reply. It can be exceeded by 10 % of `read`.
    pub reply: Duration,
}

/// A connected socket with timeouts.
#[derive(Debug)]
pub struct Stream {
    socket: TcpStream,
    timeouts: Timeouts,
    clock: Clock,
    /// The time until which the current reply must be complete, in nanoseconds of `clock`; `u64::MAX` before the first
    /// request.
    deadline_nanos: u64,
    /// The read timeout that the socket has now.
    read_timeout: Duration,
}

impl Stream {
    /// Connects to `server`.
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
