//! A socket of either kind, connected.

use crate::address::ServerAddress;
use crate::error::ClientError;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

#[derive(Debug)]
pub enum Socket {
    /// To `HOST:PORT`, without Nagle's delay.
    Tcp(TcpStream),
    /// To `unix:PATH`.
    Unix(UnixStream),
}

impl Socket {
    /// Connects, to each address of the name in turn, waiting for each at most `timeout`.
    pub fn connect(
        server: &ServerAddress,
        timeout: Option<Duration>,
    ) -> Result<Socket, ClientError> {
        let connected = match server {
            ServerAddress::Unix(path) => UnixStream::connect(path).map(Socket::Unix),
            ServerAddress::Tcp(address) => connect_tcp(address, timeout).map(Socket::Tcp),
        };
        connected.map_err(|error| match error.kind() {
            ErrorKind::TimedOut | ErrorKind::WouldBlock if timeout.is_some() => {
                ClientError::ConnectTimeout
            }
            _ => ClientError::Connect(error),
        })
    }

    pub fn set_nonblocking(&self) -> io::Result<()> {
        match self {
            Socket::Tcp(socket) => socket.set_nonblocking(true),
            Socket::Unix(socket) => socket.set_nonblocking(true),
        }
    }

    pub fn set_read_timeout(&self, timeout: Duration) -> io::Result<()> {
        match self {
            Socket::Tcp(socket) => socket.set_read_timeout(Some(timeout)),
            Socket::Unix(socket) => socket.set_read_timeout(Some(timeout)),
        }
    }

    pub fn set_write_timeout(&self, timeout: Duration) -> io::Result<()> {
        match self {
            Socket::Tcp(socket) => socket.set_write_timeout(Some(timeout)),
            Socket::Unix(socket) => socket.set_write_timeout(Some(timeout)),
        }
    }
}

fn connect_tcp(address: &str, timeout: Option<Duration>) -> io::Result<TcpStream> {
    let mut refusal = io::Error::new(ErrorKind::NotFound, "the name has no address");
    for candidate in address.to_socket_addrs()? {
        let connected = match timeout {
            Some(timeout) => TcpStream::connect_timeout(&candidate, timeout),
            None => TcpStream::connect(candidate),
        };
        match connected {
            Ok(socket) => {
                socket.set_nodelay(true)?;
                return Ok(socket);
            }
            Err(error) => refusal = error,
        }
    }
    Err(refusal)
}

impl AsRawFd for Socket {
    fn as_raw_fd(&self) -> RawFd {
        match self {
            Socket::Tcp(socket) => socket.as_raw_fd(),
            Socket::Unix(socket) => socket.as_raw_fd(),
        }
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(socket) => socket.read(buffer),
            Socket::Unix(socket) => socket.read(buffer),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(socket) => socket.write(bytes),
            Socket::Unix(socket) => socket.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
