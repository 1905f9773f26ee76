//! The listening sockets that a running server has handed over to this process.

use super::service::{self, PassedSocket};
use super::sockets;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

/// Sockets of an earlier process. Those that the settings of this process do not name are closed when this value is
/// dropped.
#[derive(Debug, Default)]
pub struct InheritedSockets {
    /// The listening TCP and Unix sockets.
    pub stream: Vec<OwnedFd>,
    pub datagram: Vec<OwnedFd>,
    /// The listening socket of the HTTP server.
    pub http: Option<OwnedFd>,
    /// The control socket.
    pub control: Option<OwnedFd>,
    /// True if a service manager has opened the stream and datagram sockets. They then replace the addresses of the
    /// settings.
    pub are_passed: bool,
}

/// What an operator can do if an address is in use during an upgrade, to be appended to an error.
pub const PORT_IN_USE_REMEDY: &str =
    "; if the running server uses this port with another host, choose another port, or restart it";

impl InheritedSockets {
    /// True if the sockets are those of a running server, from which this process takes over.
    pub fn is_upgrade(&self) -> bool {
        self.control.is_some()
    }

    /// True if a socket that was not taken has this port.
    pub fn has_port(&self, port: u16) -> bool {
        let addresses = self.stream.iter().chain(&self.datagram);
        addresses.filter_map(|it| sockets::local_address(it.as_fd())).any(|it| it.port() == port)
    }

    /// Returns the socket that listens at this TCP address. Port 0 means any port.
    pub fn take_tcp(&mut self, address: &SocketAddr) -> Option<OwnedFd> {
        take(&mut self.stream, address)
    }

    /// Returns the socket that listens at this path.
    pub fn take_unix(&mut self, path: &Path) -> Option<OwnedFd> {
        let is_bound =
            |socket: &OwnedFd| sockets::local_path(socket.as_fd()).as_deref() == Some(path);
        let index = self.stream.iter().position(is_bound)?;
        Some(self.stream.swap_remove(index))
    }

    /// Returns all UDP sockets that are bound to this address. Port 0 means any port.
    pub fn take_udp(&mut self, address: &SocketAddr) -> Vec<OwnedFd> {
        let Some(first) = take(&mut self.datagram, address) else { return Vec::new() };
        let bound = sockets::local_address(first.as_fd()).unwrap_or(*address);
        let mut sockets = vec![first];
        sockets.extend(std::iter::from_fn(|| take(&mut self.datagram, &bound)));
        sockets
    }

    /// Returns the sockets that a service manager has passed to the earlier process, and none otherwise.
    pub fn take_passed(&mut self) -> Result<Vec<PassedSocket>, String> {
        if !self.are_passed {
            return Ok(Vec::new());
        }
        let sockets = self.stream.drain(..).chain(self.datagram.drain(..));
        sockets.map(service::classify).collect()
    }
}

fn take(sockets: &mut Vec<OwnedFd>, address: &SocketAddr) -> Option<OwnedFd> {
    let index = sockets.iter().position(|it| sockets::is_bound_to(it.as_fd(), address))?;
    Some(sockets.remove(index))
}
