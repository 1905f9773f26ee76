//! The sockets that the server listens on: bound from the settings, before any thread exists.

use crate::config::{Listen, ListenAddress, ListenSecurity, Protocol, Settings};
use crate::os::sys;
use crate::shared::Address;
use std::io::{self, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

pub(super) struct Listener {
    pub socket: OwnedFd,
    pub address: Address,
    pub security: ListenSecurity,
    pub protocol: Protocol,
}

/// One of an address's UDP sockets. Each worker has one, and the kernel distributes datagrams by their sender.
pub(super) struct DatagramSocket {
    pub socket: OwnedFd,
    pub address: SocketAddr,
}

pub struct Listeners {
    /// UDP sockets, grouped by address.
    pub(super) datagram: Vec<Vec<DatagramSocket>>,
    pub(super) all: Vec<Listener>,
}

fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => "; stop the other server or choose another port",
        io::ErrorKind::PermissionDenied => {
            "; choose an address that this user may use (ports below 1024 are reserved for root)"
        }
        _ => "",
    }
}

impl Listeners {
    pub fn bind(settings: &Settings) -> Result<Listeners, String> {
        let at = |place: String| {
            move |error| format!("cannot listen on {place}: {error}{}", remedy(&error))
        };
        let backlog = settings.listen_backlog;
        let (mut all, mut datagram) = (Vec::new(), Vec::new());
        match &settings.listen {
            Listen::Unix { path, mode } => {
                let listener = listen_unix(path, *mode, settings);
                all.push(listener.map_err(at(path.display().to_string()))?);
            }
            Listen::Tcp(addresses) => {
                for address in addresses {
                    let opened =
                        on_each(address, |candidate| listen_tcp(candidate, address, backlog));
                    all.extend(opened.map_err(at(address.to_string()))?);
                }
            }
        }
        let count = settings.threads_per_udp_port();
        for address in &settings.udp {
            let opened = on_each(address, |candidate| bind_udp(candidate, count));
            datagram.extend(opened.map_err(at(format!("UDP {address}")))?);
        }
        Ok(Listeners { datagram, all })
    }

    /// Writes the ports that the kernel chose, in memcached's format. A rename makes the complete file visible at once.
    pub fn write_port_file(&self, path: &Path) -> io::Result<()> {
        let mut partial = path.as_os_str().to_owned();
        partial.push(".lck");
        let mut file = std::fs::File::create(&partial)?;
        for listener in &self.all {
            match listener.address {
                Address::Internet(SocketAddr::V4(v4)) => writeln!(file, "TCP INET: {}", v4.port())?,
                Address::Internet(SocketAddr::V6(v6)) => {
                    writeln!(file, "TCP INET6: {}", v6.port())?;
                }
                Address::Datagram(_) | Address::Unix(_) | Address::UnixClient => {}
            }
        }
        for sockets in &self.datagram {
            let address = sockets[0].address;
            let family = if address.is_ipv4() { "INET" } else { "INET6" };
            writeln!(file, "UDP {family}: {}", address.port())?;
        }
        std::fs::rename(&partial, path)
    }
}

/// Opens the Unix socket. As in memcached it never uses TLS: the file's mode controls access.
fn listen_unix(path: &Path, mode: u32, settings: &Settings) -> io::Result<Listener> {
    let socket = sys::bind_unix(path, mode)?;
    sys::listen(socket.as_fd(), settings.listen_backlog)?;
    let address = Address::Unix(path.to_owned());
    let (security, protocol) = (ListenSecurity::Plain, settings.protocol);
    Ok(Listener { socket, address, security, protocol })
}

/// Calls `open` for every address that a name resolves to. One success is enough, because a machine may lack IPv6
/// although its resolver returns IPv6 addresses.
fn on_each<T>(
    address: &ListenAddress,
    open: impl Fn(&SocketAddr) -> io::Result<T>,
) -> io::Result<Vec<T>> {
    let candidates: Vec<SocketAddr> = match &address.host {
        Some(host) => (host.as_str(), address.port).to_socket_addrs()?.collect(),
        None => vec![
            SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port)),
            SocketAddr::from((Ipv6Addr::UNSPECIFIED, address.port)),
        ],
    };
    let mut all = Vec::new();
    let mut failure = io::ErrorKind::AddrNotAvailable.into();
    for candidate in candidates {
        match open(&candidate) {
            Ok(opened) => all.push(opened),
            Err(error) => failure = error,
        }
    }
    if all.is_empty() { Err(failure) } else { Ok(all) }
}

fn listen_tcp(
    candidate: &SocketAddr,
    address: &ListenAddress,
    backlog: i32,
) -> io::Result<Listener> {
    let socket = sys::bind_tcp(candidate)?;
    sys::listen(socket.as_fd(), backlog)?;
    let bound = sys::local_address(socket.as_fd()).unwrap_or(*candidate);
    let &ListenAddress { security, protocol, .. } = address;
    Ok(Listener { socket, address: Address::Internet(bound), security, protocol })
}

fn bind_udp(candidate: &SocketAddr, count: usize) -> io::Result<Vec<DatagramSocket>> {
    let sockets = sys::bind_udp(candidate, count)?;
    let address = sys::local_address(sockets[0].as_fd()).unwrap_or(*candidate);
    Ok(sockets.into_iter().map(|socket| DatagramSocket { socket, address }).collect())
}
