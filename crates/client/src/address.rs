//! Parses the address of a server, and connects to the server.

use crate::error::ClientError;
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};
use std::fmt;
use std::io::{self, ErrorKind};
use std::net::{Ipv6Addr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::str::FromStr;
use std::time::Duration;

/// The port of a server whose address names none: memcached's default port.
pub const DEFAULT_PORT: u16 = 11211;

/// The address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerAddress {
    /// A TCP address in the form `HOST:PORT`.
    Tcp(String),
    /// The path of a Unix socket, without the prefix `unix:`.
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

impl ServerAddress {
    /// Parses an address that an operator types: `HOST`, `HOST:PORT`, an IPv6 address with or without brackets, or the
    /// path of a Unix socket, with or without `unix:`. Without a port, the address has memcached's default port.
    pub fn parse_short(text: &str) -> Result<ServerAddress, String> {
        let tcp = |host: &str| ServerAddress::Tcp(format!("{host}:{DEFAULT_PORT}"));
        let invalid =
            || "give HOST, HOST:PORT, [IPV6]:PORT or the path of a Unix socket".to_owned();
        if text.starts_with("unix:") {
            return text.parse();
        }
        // The address `unix:11211` would be a Unix socket.
        if text == "unix" {
            return Err(invalid());
        }
        if text.contains('/') {
            return Ok(ServerAddress::Unix(text.to_owned()));
        }
        if text.parse::<Ipv6Addr>().is_ok() {
            return Ok(tcp(&format!("[{text}]")));
        }
        if let Some((host, port)) = text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            host.parse::<Ipv6Addr>().map_err(|_| invalid())?;
            return match port {
                "" => Ok(tcp(text)),
                _ if port.starts_with(':') => text.parse().map_err(|_| invalid()),
                _ => Err(invalid()),
            };
        }
        match text.matches(':').count() {
            0 if !text.is_empty() => Ok(tcp(text)),
            1 => text.parse().map_err(|_| invalid()),
            _ => Err(invalid()),
        }
    }

    /// Returns the host without its port and without the brackets of an IPv6 address; `localhost` for a Unix socket.
    pub(crate) fn host(&self) -> &str {
        match self {
            ServerAddress::Unix(_) => "localhost",
            ServerAddress::Tcp(address) => {
                let host = address.rsplit_once(':').map_or(address.as_str(), |(host, _)| host);
                host.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(host)
            }
        }
    }

    /// Connects to the server. If a host name has several addresses, tries the addresses in order until an attempt
    /// succeeds. `timeout` limits each attempt. With a timeout, connecting to a Unix socket fails at once if the queue of the
    /// server's new connections is full, because the system has no such timeout for Unix sockets.
    ///
    /// The returned `TcpStream` may hold a Unix socket: reads and writes use the same system calls for both kinds.
    pub(crate) fn connect(&self, timeout: Option<Duration>) -> Result<TcpStream, ClientError> {
        let connected = match self {
            ServerAddress::Unix(path) => match timeout {
                Some(_) => connect_unix_at_once(path),
                None => UnixStream::connect(path).map(OwnedFd::from),
            },
            ServerAddress::Tcp(address) => connect_tcp(address, timeout).map(OwnedFd::from),
        };
        connected.map(TcpStream::from).map_err(|error| match error.kind() {
            ErrorKind::TimedOut | ErrorKind::WouldBlock if timeout.is_some() => {
                ClientError::ConnectTimeout
            }
            _ => ClientError::Connect(error),
        })
    }
}

/// Connects to the Unix socket at this path, and returns the error `WouldBlock` instead of waiting.
fn connect_unix_at_once(path: &str) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    let socket = UnixStream::from(socket);
    socket.set_nonblocking(false)?;
    Ok(socket.into())
}

/// Connects to `HOST:PORT` and sets TCP_NODELAY, so that the kernel sends small requests without delay.
fn connect_tcp(address: &str, timeout: Option<Duration>) -> io::Result<TcpStream> {
    let mut last_error = io::Error::new(ErrorKind::NotFound, "the host name has no address");
    for candidate in slabwise_names::resolve_address(address)? {
        let connected = match timeout {
            Some(timeout) => TcpStream::connect_timeout(&candidate, timeout),
            None => TcpStream::connect(candidate),
        };
        match connected {
            Ok(socket) => return socket.set_nodelay(true).map(|()| socket),
            Err(error) => last_error = error,
        }
    }
    Err(last_error)
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServerAddress::Tcp(address) => f.write_str(address),
            ServerAddress::Unix(path) => write!(f, "unix:{path}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ServerAddress;
    use crate::error::ClientError;
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};
    use std::time::Duration;

    #[test]
    fn a_unix_socket_whose_queue_is_full_is_a_timeout() {
        let folder = tempfile::tempdir().expect("the system has a folder for temporary files");
        let path = folder.path().join("socket");
        let socket =
            socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None);
        let socket = socket.expect("the system has Unix sockets");
        let address = SocketAddrUnix::new(&path).expect("the path is short");
        rustix::net::bind(&socket, &address).expect("the folder is writable");
        rustix::net::listen(&socket, 0).expect("the socket is bound");
        let address = ServerAddress::Unix(path.to_string_lossy().into_owned());
        // The server accepts none of the connections, so one of the first attempts finds a full queue.
        let attempts: Vec<_> =
            (0..4).map(|_| address.connect(Some(Duration::from_secs(60)))).collect();
        assert!(attempts[0].is_ok());
        assert!(matches!(attempts[3], Err(ClientError::ConnectTimeout)));
    }

    #[test]
    fn a_short_address_without_a_port_has_the_default_port() {
        let cases = [
            ("localhost", "localhost:11211"),
            ("localhost:1", "localhost:1"),
            ("10.0.0.1", "10.0.0.1:11211"),
            ("::1", "[::1]:11211"),
            ("[::1]", "[::1]:11211"),
            ("[::1]:2", "[::1]:2"),
        ];
        for (text, address) in cases {
            let found = ServerAddress::parse_short(text);
            assert_eq!(found, Ok(ServerAddress::Tcp(address.to_owned())), "{text}");
        }
    }

    #[test]
    fn a_short_address_may_be_the_path_of_a_unix_socket() {
        let cases = [
            ("/run/m.sock", "/run/m.sock"),
            ("unix:/run/m.sock", "/run/m.sock"),
            ("./m:1", "./m:1"),
        ];
        for (text, path) in cases {
            let found = ServerAddress::parse_short(text);
            assert_eq!(found, Ok(ServerAddress::Unix(path.to_owned())), "{text}");
        }
    }

    #[test]
    fn an_invalid_short_address_is_refused() {
        for text in
            ["", ":1", "localhost:x", "localhost:65536", "a:1:2", "[::1", "[x]:1", "[::1]2", "unix"]
        {
            assert!(ServerAddress::parse_short(text).is_err(), "{text:?} is not an address");
        }
    }

    #[test]
    fn an_address_is_a_host_with_a_port_or_a_unix_path() {
        let parse = |text: &str| text.parse::<ServerAddress>();
        for address in ["localhost:11211", "[::1]:11211", "10.0.0.1:1"] {
            assert_eq!(parse(address), Ok(ServerAddress::Tcp(address.to_owned())));
        }
        assert_eq!(parse("unix:/run/a:b"), Ok(ServerAddress::Unix("/run/a:b".to_owned())));
        for address in ["localhost", ":11211", "localhost:port", "localhost:65536", ""] {
            assert!(parse(address).is_err(), "{address:?} is not an address");
        }
    }
}
