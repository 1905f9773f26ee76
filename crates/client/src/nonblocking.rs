//! One connection that never blocks: bytes out, bytes in.
//!
//! Requests are composed into the out-buffer and sent by [`Nonblocking::flush`]; replies are read into the in-buffer
//! and taken one by one. Both directions go on together, so no mix of large requests and large replies can leave
//! client and server waiting for each other.

use crate::address::ServerAddress;
use crate::error::ClientError;
use crate::socket::Socket;
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsRawFd;

/// Buffers begin with this room, enough for a round of common replies.
const BUFFER_SIZE_BYTES: usize = 256 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    Some,
    /// All there is for now: the next arrival will be an event of its own.
    All,
}

#[derive(Debug)]
pub struct Nonblocking {
    socket: Socket,
    out: Vec<u8>,
    out_sent: usize,
    input: Vec<u8>,
    input_start: usize,
    input_end: usize,
}

impl Nonblocking {
    /// Connects (waiting for it) and registers the connection under `token`.
    pub fn open(
        server: &ServerAddress,
        registry: &Registry,
        token: Token,
    ) -> Result<Nonblocking, ClientError> {
        let socket = Socket::connect(server, None)?;
        socket.set_nonblocking().map_err(ClientError::Connect)?;
        let interest = Interest::READABLE | Interest::WRITABLE;
        let registered = registry.register(&mut SourceFd(&socket.as_raw_fd()), token, interest);
        registered.map_err(ClientError::Lost)?;
        Ok(Nonblocking {
            socket,
            out: Vec::with_capacity(BUFFER_SIZE_BYTES),
            out_sent: 0,
            input: vec![0; BUFFER_SIZE_BYTES],
            input_start: 0,
            input_end: 0,
        })
    }

    /// Where requests are appended, to be sent by the next [`Nonblocking::flush`].
    pub fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    /// Sends as much as the system takes; the rest goes with the next call.
    pub fn flush(&mut self) -> Result<(), ClientError> {
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

    pub fn receive(&mut self) -> Result<Received, ClientError> {
        if self.input_start == self.input_end {
            (self.input_start, self.input_end) = (0, 0);
        }
        let room = self.input.len() - self.input_end;
        match self.socket.read(&mut self.input[self.input_end..]) {
            Ok(0) => Err(ClientError::Closed),
            Ok(count) => {
                self.input_end += count;
                Ok(if count < room { Received::All } else { Received::Some })
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(Received::All),
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(Received::Some),
            Err(error) => Err(error.into()),
        }
    }

    pub fn received(&self) -> &[u8] {
        &self.input[self.input_start..self.input_end]
    }

    /// Takes `count` of the received bytes as done with.
    pub fn consume(&mut self, count: usize) {
        self.input_start += count;
        assert!(self.input_start <= self.input_end, "consumed more than was received");
    }

    /// Makes room for a reply of `reply_size_bytes` that begins at the first unconsumed byte.
    pub fn make_room(&mut self, reply_size_bytes: usize) {
        if self.input_start > 0 {
            self.input.copy_within(self.input_start..self.input_end, 0);
            self.input_end -= self.input_start;
            self.input_start = 0;
        }
        if self.input.len() < reply_size_bytes {
            self.input.resize(reply_size_bytes.next_power_of_two(), 0);
        }
    }
}
