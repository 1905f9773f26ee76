//! The listening sockets of the server. They are bound before the server starts its threads.

use crate::config::{Listen, ListenAddress, ListenSecurity, Protocol, Settings};
use crate::handover::{self, SocketKind};
use crate::os::inherited::{InheritedSockets, PORT_IN_USE_REMEDY};
use crate::os::service::{self, PassedSocket};
use crate::os::sockets;
use crate::shared::Address;
use rustix::net::SocketType;
use std::io::{self, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

/// A listening TCP or Unix socket.
pub(super) struct Listener {
    pub socket: OwnedFd,
    /// The address to which the socket is bound, with the port that the kernel chose if the settings request any port.
    pub address: Address,
    pub security: ListenSecurity,
    pub protocol: Protocol,
}

/// A UDP socket. Several workers can have a socket that is bound to the same address. The kernel selects the socket
/// that receives a datagram by the sender's address.
pub(super) struct DatagramSocket {
    pub socket: OwnedFd,
    /// The address to which the socket is bound.
    pub address: SocketAddr,
}

/// All sockets on which the server listens.
pub struct Listeners {
    /// One entry per UDP address: the sockets that are bound to the address.
    pub(super) datagram: Vec<Vec<DatagramSocket>>,
    /// The listening TCP and Unix sockets.
    pub(super) stream: Vec<Listener>,
    are_passed: bool,
    /// The file of the Unix socket of `-s`, which is removed when this value is dropped.
    pub(super) file: Option<SocketFile>,
}

/// The path of a Unix socket. Dropping this value removes the socket's file.
pub(super) struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // An error is ignored, because another process may have removed the file.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Returns the remedy for an error of binding a socket, to be appended to the error's text. `is_upgrade` is true if the
/// process takes over from a running one, which still listens.
fn remedy(error: &io::Error, is_upgrade: bool) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse if is_upgrade => PORT_IN_USE_REMEDY,
        io::ErrorKind::AddrInUse => "; stop the other server or choose another port",
        io::ErrorKind::PermissionDenied => {
            "; choose an address that this user may use (ports below 1024 are reserved for root)"
        }
        _ => "",
    }
}

impl Listeners {
    /// Returns the sockets that the service manager has passed. If it passed none, opens the sockets of all addresses in
    /// the settings.
    ///
    /// `inherited` are the sockets of an earlier process, which are used instead of new ones.
    pub fn open(
        settings: &Settings,
        inherited: &mut InheritedSockets,
    ) -> Result<Listeners, String> {
        let mut passed = inherited.take_passed()?;
        if passed.is_empty() {
            passed = service::passed_sockets()?;
        }
        if passed.is_empty() {
            Listeners::bind(settings, inherited)
        } else {
            Ok(Listeners::of(passed, settings))
        }
    }

    /// From now on this process removes the file of an inherited Unix socket at its end.
    pub fn claim_file(&mut self, settings: &Settings) {
        if let (Listen::Unix { path, .. }, false) = (&settings.listen, self.are_passed) {
            self.file = Some(SocketFile(path.clone()));
        }
    }

    /// True if a service manager has opened the sockets.
    pub fn are_passed(&self) -> bool {
        self.are_passed
    }

    /// Returns second descriptors of all sockets, which another process can take over.
    pub fn duplicates(&self) -> io::Result<Vec<(SocketKind, OwnedFd)>> {
        let stream = self.stream.iter().map(|listener| listener.socket.as_fd());
        let datagram = self.datagram.iter().flatten().map(|it| it.socket.as_fd());
        let mut all = handover::duplicates(SocketKind::Stream, stream)?;
        all.extend(handover::duplicates(SocketKind::Datagram, datagram)?);
        Ok(all)
    }

    /// Returns the sockets that the service manager has passed. They replace all addresses in the settings. The service
    /// manager also removes the file of a Unix socket.
    fn of(passed: Vec<PassedSocket>, settings: &Settings) -> Listeners {
        let (mut stream, mut datagram) = (Vec::new(), Vec::new());
        let tls = settings.tls.as_ref().map(|tls| tls.verify_mode.client_certificates());
        let tcp_security = tls.map_or(ListenSecurity::Plain, ListenSecurity::Tls);
        let protocol = settings.protocol;
        for socket in passed {
            match socket {
                PassedSocket::Tcp(socket, address) => stream.push(Listener {
                    socket,
                    address: Address::Internet(address),
                    security: tcp_security,
                    protocol,
                }),
                PassedSocket::Unix(socket, path) => stream.push(Listener {
                    socket,
                    address: Address::Unix(path),
                    security: ListenSecurity::Plain,
                    protocol,
                }),
                PassedSocket::Udp(socket, address) => {
                    datagram.push(vec![DatagramSocket { socket, address }]);
                }
            }
        }
        let count = stream.len() + datagram.len();
        tracing::info!(
            "the service manager has passed {count} sockets: -l, -p, -s and -U have no effect"
        );
        Listeners { datagram, stream, file: None, are_passed: true }
    }

    /// Opens the sockets of all addresses in the settings that no inherited socket is bound to.
    fn bind(settings: &Settings, inherited: &mut InheritedSockets) -> Result<Listeners, String> {
        let is_upgrade = inherited.is_upgrade();
        let error_for = |address: String| {
            move |error| {
                format!("cannot listen on {address}: {error}{}", remedy(&error, is_upgrade))
            }
        };
        let backlog = settings.listen_backlog;
        let (mut stream, mut datagram, mut file) = (Vec::new(), Vec::new(), None);
        match &settings.listen {
            Listen::Unix { path, mode } => {
                let inherited = inherited.take_unix(path);
                // The file of an inherited socket belongs to the earlier process until this one serves.
                file = inherited.is_none().then(|| SocketFile(path.clone()));
                let listener = listen_unix(path, *mode, settings, inherited);
                stream.push(listener.map_err(error_for(path.display().to_string()))?);
            }
            Listen::Tcp(addresses) => {
                for address in addresses {
                    let opened = open_each(address, inherited, |resolved, inherited| {
                        listen_tcp(resolved, address, backlog, inherited.take_tcp(resolved))
                    });
                    stream.extend(opened.map_err(error_for(address.to_string()))?);
                }
            }
        }
        let count = settings.threads_per_udp_port();
        for address in &settings.udp {
            let opened = open_each(address, inherited, |resolved, inherited| {
                bind_udp(resolved, count, inherited.take_udp(resolved))
            });
            datagram.extend(opened.map_err(error_for(format!("UDP {address}")))?);
        }
        Ok(Listeners { datagram, stream, file, are_passed: false })
    }

    /// Writes the ports of all TCP and UDP sockets to the file at `path`, in memcached's format. The function writes
    /// another file and renames it to `path`, so that no reader finds an incomplete file.
    pub fn write_port_file(&self, path: &Path) -> io::Result<()> {
        let mut partial = path.as_os_str().to_owned();
        partial.push(".lck");
        let mut file = std::fs::File::create(&partial)?;
        for listener in &self.stream {
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

/// Opens the listening Unix socket. As in memcached, its connections never use TLS: the permissions of the socket's
/// file control access.
fn listen_unix(
    path: &Path,
    mode: u32,
    settings: &Settings,
    inherited: Option<OwnedFd>,
) -> io::Result<Listener> {
    let bind = || sockets::bind_unix(path, SocketType::STREAM, mode);
    let socket = inherited.map_or_else(bind, Ok)?;
    sockets::listen(socket.as_fd(), settings.listen_backlog)?;
    let address = Address::Unix(path.to_owned());
    let (security, protocol) = (ListenSecurity::Plain, settings.protocol);
    Ok(Listener { socket, address, security, protocol })
}

/// Calls `open` for every IP address to which the host of `address` resolves, and returns the opened sockets. Returns
/// an error only if no address could be opened: a machine may lack IPv6 although its resolver returns IPv6 addresses. In an
/// upgrade, an address in use is an error, too, if the running server uses its port: clients would lose an address.
fn open_each<T>(
    address: &ListenAddress,
    inherited: &mut InheritedSockets,
    open: impl Fn(&SocketAddr, &mut InheritedSockets) -> io::Result<T>,
) -> io::Result<Vec<T>> {
    let resolved: Vec<SocketAddr> = match &address.host {
        Some(host) => slabwise_names::resolve(host, address.port)?,
        None => vec![
            SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port)),
            SocketAddr::from((Ipv6Addr::UNSPECIFIED, address.port)),
        ],
    };
    let (mut all_opened, mut errors) = (Vec::new(), Vec::new());
    for socket_address in resolved {
        match open(&socket_address, inherited) {
            Ok(opened) => all_opened.push(opened),
            Err(error) => errors.push((socket_address, error)),
        }
    }
    use io::ErrorKind::{AddrInUse, PermissionDenied};
    let is_lost = |(address, error): &(SocketAddr, io::Error)| {
        error.kind() == AddrInUse && inherited.has_port(address.port())
    };
    if let Some(at) = errors.iter().position(is_lost) {
        return Err(errors.swap_remove(at).1);
    }
    if all_opened.is_empty() {
        let last = errors.pop().map(|(_, error)| error);
        return Err(last.unwrap_or_else(|| io::ErrorKind::AddrNotAvailable.into()));
    }
    // Otherwise clients that use this address would reach another server, or none.
    for (address, error) in
        errors.iter().filter(|(_, it)| matches!(it.kind(), AddrInUse | PermissionDenied))
    {
        tracing::warn!(
            "cannot listen on {address}, but on other addresses of the same host: {error}"
        );
    }
    Ok(all_opened)
}

/// Opens a listening TCP socket at `resolved`, one of the IP addresses of `address`.
fn listen_tcp(
    resolved: &SocketAddr,
    address: &ListenAddress,
    backlog: i32,
    inherited: Option<OwnedFd>,
) -> io::Result<Listener> {
    let socket = inherited.map_or_else(|| sockets::bind_tcp(resolved), Ok)?;
    sockets::listen(socket.as_fd(), backlog)?;
    let bound = sockets::local_address(socket.as_fd()).unwrap_or(*resolved);
    let &ListenAddress { security, protocol, .. } = address;
    Ok(Listener { socket, address: Address::Internet(bound), security, protocol })
}

/// Opens `count` UDP sockets that are bound to the same address, or uses the inherited ones.
fn bind_udp(
    resolved: &SocketAddr,
    count: usize,
    inherited: Vec<OwnedFd>,
) -> io::Result<Vec<DatagramSocket>> {
    let sockets =
        if inherited.is_empty() { sockets::bind_udp(resolved, count)? } else { inherited };
    let address = sockets::local_address(sockets[0].as_fd()).unwrap_or(*resolved);
    Ok(sockets.into_iter().map(|socket| DatagramSocket { socket, address }).collect())
}
