//! The listening socket of the HTTP server.

use crate::config::{HttpAddress, HttpSettings};
use crate::os::inherited::PORT_IN_USE_REMEDY;
use crate::os::sockets;
use rustix::net::SocketType;
use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// The length of the kernel's queue of pending connections.
const BACKLOG: i32 = 128;

/// The reason why the HTTP server does not listen.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum BindError {
    /// Anyone could read the statistics at this address.
    Unsafe(String),
    /// The system does not provide the address.
    Unavailable(String),
}

/// A listening socket, in non-blocking mode.
#[derive(Debug)]
pub(super) struct Listener {
    pub socket: Socket,
    /// True if the connections use TLS.
    pub has_tls: bool,
    /// The file of a Unix socket, which is removed when the listener is dropped; `None` in a clone.
    pub file: Option<SocketFile>,
}

#[derive(Debug)]
pub(super) enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    /// Binds the address of the settings. Beyond loopback, the connections use TLS if `has_tls` is true, and a token is
    /// required, unless the settings say that the network is guarded.
    pub fn bind(
        http: &HttpSettings,
        has_tls: bool,
        inherited: Option<OwnedFd>,
    ) -> Result<Listener, BindError> {
        let is_upgrade = inherited.is_some();
        let unavailable = |error: io::Error| {
            let remedy = match error.kind() {
                io::ErrorKind::AddrInUse if is_upgrade => PORT_IN_USE_REMEDY,
                io::ErrorKind::AddrInUse => "; stop the other program or give another address",
                io::ErrorKind::PermissionDenied => "; give an address that this user may use",
                _ => "; give an address of this machine",
            };
            BindError::Unavailable(format!("-o http={}: {error}{remedy}", http.address))
        };
        match &http.address {
            HttpAddress::Unix { path, mode } => {
                // The address may have changed since the earlier process bound its socket.
                // `bind_unix` replaces the file of a socket, but another server may listen on it.
                let inherited = inherited.filter(|it| {
                    sockets::local_path(it.as_fd()).as_deref() == Some(path.as_path())
                });
                if inherited.is_none() && UnixStream::connect(path).is_ok() {
                    return Err(unavailable(io::ErrorKind::AddrInUse.into()));
                }
                // The file of an inherited socket belongs to the earlier process until this one serves.
                let file = inherited.is_none().then(|| SocketFile(path.clone()));
                let bind = || sockets::bind_unix(path, SocketType::STREAM, *mode);
                let socket = inherited.map_or_else(bind, Ok).map_err(unavailable)?;
                sockets::listen(socket.as_fd(), BACKLOG).map_err(unavailable)?;
                let socket = UnixListener::from(socket);
                socket.set_nonblocking(true).map_err(unavailable)?;
                Ok(Listener { socket: Socket::Unix(socket), has_tls: false, file })
            }
            HttpAddress::Tcp { host, port } => {
                let resolved = resolve(host.as_deref(), *port).map_err(unavailable)?;
                let is_open = !resolved.ip().is_loopback();
                if is_open && !http.is_insecure {
                    require_protection(http, has_tls).map_err(BindError::Unsafe)?;
                }
                let inherited = inherited.filter(|it| sockets::is_bound_to(it.as_fd(), &resolved));
                let bind = || sockets::bind_tcp(&resolved);
                let socket = inherited.map_or_else(bind, Ok).map_err(unavailable)?;
                sockets::listen(socket.as_fd(), BACKLOG).map_err(unavailable)?;
                let socket = TcpListener::from(socket);
                socket.set_nonblocking(true).map_err(unavailable)?;
                let has_tls = has_tls && is_open;
                Ok(Listener { socket: Socket::Tcp(socket), has_tls, file: None })
            }
        }
    }

    /// From now on the listener removes the file of an inherited Unix socket when it is dropped.
    pub fn claim_file(&mut self, http: &HttpSettings) {
        if let HttpAddress::Unix { path, .. } = &http.address {
            self.file = Some(SocketFile(path.clone()));
        }
    }

    /// Returns the descriptor of the socket.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        match &self.socket {
            Socket::Tcp(socket) => socket.as_fd(),
            Socket::Unix(socket) => socket.as_fd(),
        }
    }

    /// Returns a listener of the same socket, which does not remove the file of a Unix socket.
    pub fn try_clone(&self) -> io::Result<Listener> {
        let socket = match &self.socket {
            Socket::Tcp(socket) => Socket::Tcp(socket.try_clone()?),
            Socket::Unix(socket) => Socket::Unix(socket.try_clone()?),
        };
        Ok(Listener { socket, has_tls: self.has_tls, file: None })
    }

    /// Returns the address as users write it.
    pub fn url(&self) -> String {
        match &self.socket {
            Socket::Tcp(socket) => {
                let scheme = if self.has_tls { "https" } else { "http" };
                socket
                    .local_addr()
                    .map_or_else(|_| scheme.to_owned(), |it| format!("{scheme}://{it}/"))
            }
            // The listener of an inherited socket has no file.
            Socket::Unix(socket) => {
                let path = sockets::local_path(socket.as_fd()).unwrap_or_default();
                format!("unix:{}", path.display())
            }
        }
    }
}

/// Returns the IP address of the host: the first one to which its name resolves, or all interfaces without a host.
fn resolve(host: Option<&str>, port: u16) -> io::Result<SocketAddr> {
    let found = slabwise_names::resolve(host.unwrap_or("0.0.0.0"), port)?;
    Ok(*found.first().expect("a host without an address is an error"))
}

/// Returns an error if clients of other machines could read the statistics.
fn require_protection(http: &HttpSettings, has_tls: bool) -> Result<(), String> {
    let missing = match (has_tls, http.token_file.is_some()) {
        (true, true) => return Ok(()),
        (false, false) => "TLS (-Z) and a token (-o http_token_file)",
        (false, true) => "TLS (-Z)",
        (true, false) => "a token (-o http_token_file)",
    };
    Err(format!(
        "-o http={}: other machines can connect to this address, so it needs {missing}: add this, give a loopback \
         address such as 127.0.0.1, or add http_insecure if the network guards the address",
        http.address
    ))
}

/// The path of a Unix socket. Dropping this value removes the socket's file.
#[derive(Debug)]
pub(super) struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // An error is ignored, because another process may have removed the file.
        let _ = std::fs::remove_file(&self.0);
    }
}

impl fmt::Display for HttpAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = |path: &Path| path.display().to_string();
        match self {
            HttpAddress::Unix { path: file, .. } => write!(f, "unix:{}", path(file)),
            HttpAddress::Tcp { host: None, port } => write!(f, ":{port}"),
            HttpAddress::Tcp { host: Some(host), port } if host.contains(':') => {
                write!(f, "[{host}]:{port}")
            }
            HttpAddress::Tcp { host: Some(host), port } => write!(f, "{host}:{port}"),
        }
    }
}
