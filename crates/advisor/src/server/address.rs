//! Where a server listens, and the socket to it.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::str::FromStr;
use std::time::Duration;

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerAddress {
    /// `HOST:PORT`.
    Tcp(String),
    /// `unix:PATH`.
    Unix(String),
}

impl FromStr for ServerAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<ServerAddress, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return Ok(ServerAddress::Unix(path.to_owned()));
        }
        match text.rsplit_once(':').map(|(host, port)| (host, port.parse::<u16>())) {
            Some((host, Ok(_))) if !host.is_empty() => Ok(ServerAddress::Tcp(text.to_owned())),
            _ => Err("give HOST:PORT or unix:PATH".to_owned()),
        }
    }
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServerAddress::Tcp(address) => f.write_str(address),
            ServerAddress::Unix(path) => write!(f, "unix:{path}"),
        }
    }
}

/// A socket that waits no longer than it is told.
#[derive(Debug)]
pub enum Stream {
    /// To `HOST:PORT`.
    Tcp(TcpStream),
    /// To `unix:PATH`.
    Unix(UnixStream),
}

impl Stream {
    /// Connects within `timeout`, tried on each address that the name has.
    pub fn connect(server: &ServerAddress, timeout: Duration) -> io::Result<Stream> {
        let address = match server {
            ServerAddress::Unix(path) => return UnixStream::connect(path).map(Stream::Unix),
            ServerAddress::Tcp(address) => address,
        };
        let mut refusal = io::Error::new(ErrorKind::NotFound, "the name has no address");
        for candidate in address.to_socket_addrs()? {
            match TcpStream::connect_timeout(&candidate, timeout) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    return Ok(Stream::Tcp(stream));
                }
                Err(error) => refusal = error,
            }
        }
        Err(refusal)
    }

    /// Reads what there is, waiting for it at most so long.
    pub fn read(&mut self, buffer: &mut [u8], timeout: Duration) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => {
                stream.set_read_timeout(Some(timeout))?;
                stream.read(buffer)
            }
            Stream::Unix(stream) => {
                stream.set_read_timeout(Some(timeout))?;
                stream.read(buffer)
            }
        }
    }

    /// Writes all of it, waiting at most so long for room.
    pub fn write(&mut self, bytes: &[u8], timeout: Duration) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => {
                stream.set_write_timeout(Some(timeout))?;
                stream.write_all(bytes)
            }
            Stream::Unix(stream) => {
                stream.set_write_timeout(Some(timeout))?;
                stream.write_all(bytes)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ServerAddress;

    #[test]
    fn addresses_are_a_host_with_a_port_or_a_path() {
        let parse = |text: &str| text.parse::<ServerAddress>();
        for address in ["localhost:11211", "[::1]:11211", "10.0.0.1:1"] {
            assert_eq!(parse(address), Ok(ServerAddress::Tcp(address.to_owned())));
        }
        assert_eq!(parse("unix:/run/a:b"), Ok(ServerAddress::Unix("/run/a:b".to_owned())));
        for address in ["localhost", ":11211", "localhost:port", "localhost:65536", ""] {
            assert!(parse(address).is_err(), "{address}");
        }
    }
}
