//! One connection to the server: bytes out, bytes in, never blocking.
//!
//! Requests are composed into the out-buffer and sent by [`Connection::flush`]; replies are read into
//! the in-buffer and taken one by one. Both directions go on together, so no mix of large requests
//! and large replies can leave client and server waiting for each other.

use crate::error::ReplayError;
use mio::net::{TcpStream, UnixStream};
use mio::{Interest, Registry, Token};
use std::io::{self, ErrorKind, Read, Write};
use std::net::ToSocketAddrs;

/// In-buffers begin with this room, enough for a round of common replies.
const IN_SIZE_BYTES: usize = 256 * 1024;

/// Where the server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerAddress {
    /// `HOST:PORT`.
    Tcp(String),
    /// `unix:PATH`.
    Unix(String),
}

impl std::str::FromStr for ServerAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<ServerAddress, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return Ok(ServerAddress::Unix(path.to_owned()));
        }
        let port = text.rsplit_once(':').map(|(_, port)| port.parse::<u16>());
        match port {
            Some(Ok(_)) => Ok(ServerAddress::Tcp(text.to_owned())),
            _ => Err("give HOST:PORT or unix:PATH".to_owned()),
        }
    }
}

impl std::fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ServerAddress::Tcp(address) => f.write_str(address),
            ServerAddress::Unix(path) => write!(f, "unix:{path}"),
        }
    }
}

#[derive(Debug)]
enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// What one read brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// Bytes, and there may be more.
    Some,
    /// All there is for now: the next arrival will be an event of its own.
    All,
}

/// A connection and its two buffers.
#[derive(Debug)]
pub struct Connection {
    stream: Stream,
    out: Vec<u8>,
    out_sent: usize,
    input: Vec<u8>,
    input_start: usize,
    input_end: usize,
}

impl Connection {
    /// Connects (waiting for it) and registers the connection under `token`.
    pub fn open(
        server: &ServerAddress,
        registry: &Registry,
        token: Token,
    ) -> Result<Connection, ReplayError> {
        let mut stream = connect(server)
            .map_err(|source| ReplayError::Connect { server: server.to_string(), source })?;
        let interest = Interest::READABLE | Interest::WRITABLE;
        match &mut stream {
            Stream::Tcp(tcp) => registry.register(tcp, token, interest),
            Stream::Unix(unix) => registry.register(unix, token, interest),
        }
        .map_err(ReplayError::Lost)?;
        Ok(Connection {
            stream,
            out: Vec::with_capacity(IN_SIZE_BYTES),
            out_sent: 0,
            input: vec![0; IN_SIZE_BYTES],
            input_start: 0,
            input_end: 0,
        })
    }

    /// Where requests are appended, to be sent by the next [`Connection::flush`].
    pub fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    /// Sends as much as the system takes; the rest goes with the next call.
    pub fn flush(&mut self) -> Result<(), ReplayError> {
        while self.out_sent < self.out.len() {
            match self.stream.write(&self.out[self.out_sent..]) {
                Ok(0) => return Err(ReplayError::Closed),
                Ok(count) => self.out_sent += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(lost(error)),
            }
        }
        self.out.clear();
        self.out_sent = 0;
        Ok(())
    }

    /// Reads once into the in-buffer.
    pub fn receive(&mut self) -> Result<Received, ReplayError> {
        if self.input_start == self.input_end {
            (self.input_start, self.input_end) = (0, 0);
        }
        let room = self.input.len() - self.input_end;
        match self.stream.read(&mut self.input[self.input_end..]) {
            Ok(0) => Err(ReplayError::Closed),
            Ok(count) => {
                self.input_end += count;
                Ok(if count < room { Received::All } else { Received::Some })
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(Received::All),
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(Received::Some),
            Err(error) => Err(lost(error)),
        }
    }

    /// The bytes received and not yet consumed.
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

fn connect(server: &ServerAddress) -> io::Result<Stream> {
    match server {
        ServerAddress::Tcp(address) => {
            let mut refusal = io::Error::new(ErrorKind::NotFound, "the name has no address");
            for candidate in address.to_socket_addrs()? {
                match std::net::TcpStream::connect(candidate) {
                    Ok(stream) => {
                        stream.set_nodelay(true)?;
                        stream.set_nonblocking(true)?;
                        return Ok(Stream::Tcp(TcpStream::from_std(stream)));
                    }
                    Err(error) => refusal = error,
                }
            }
            Err(refusal)
        }
        ServerAddress::Unix(path) => Ok(Stream::Unix(UnixStream::connect(path)?)),
    }
}

fn lost(error: io::Error) -> ReplayError {
    match error.kind() {
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => ReplayError::Closed,
        _ => ReplayError::Lost(error),
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.read(buffer),
            Stream::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.write(bytes),
            Stream::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::ServerAddress;

    #[test]
    fn addresses_are_a_host_with_a_port_or_a_path() {
        let parse = |text: &str| text.parse::<ServerAddress>();
        assert_eq!(parse("localhost:11211"), Ok(ServerAddress::Tcp("localhost:11211".to_owned())));
        assert_eq!(parse("[::1]:11211"), Ok(ServerAddress::Tcp("[::1]:11211".to_owned())));
        assert_eq!(parse("unix:/tmp/a:b"), Ok(ServerAddress::Unix("/tmp/a:b".to_owned())));
        assert!(parse("localhost").is_err());
        assert!(parse("localhost:port").is_err());
    }
}
