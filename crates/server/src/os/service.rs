//! The service manager that starts the process, such as systemd.
//!
//! Two interfaces of systemd are implemented, both by environment variables, as sd_listen_fds(3) and sd_notify(3)
//! describe them:
//!
//! - *Socket activation.* The service manager has opened listening sockets. Their descriptors are passed to the process:
//!   `LISTEN_FDS` is their number, and `LISTEN_PID` the process that they are for.
//! - *Notifications.* `NOTIFY_SOCKET` names a Unix socket. The process sends datagrams to it: that it is ready, reloads its
//!   files or stops.
//!
//! The crate sd-notify opens a socket for each notification, which a confined process (`-o drop_privileges`) must not do.
//! So this module has one socket for all notifications.

use super::{sockets, sys};
use rustix::net::sockopt;
use rustix::net::{AddressFamily, SocketType};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixDatagram};
use std::path::{Path, PathBuf};

/// A socket that the service manager has opened.
pub enum PassedSocket {
    /// A listening TCP socket, bound to this address.
    Tcp(OwnedFd, SocketAddr),
    /// A UDP socket, bound to this address.
    Udp(OwnedFd, SocketAddr),
    /// A listening Unix socket with the path of its file, which is empty for a socket without a file.
    Unix(OwnedFd, PathBuf),
}

/// Returns the sockets that the service manager has passed, which do not block. Returns none if it passed none. An error
/// names the variable and the remedy.
pub fn passed_sockets() -> Result<Vec<PassedSocket>, String> {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u32>().ok());
    if number("LISTEN_PID") != Some(std::process::id()) {
        return Ok(Vec::new());
    }
    let count = number("LISTEN_FDS").and_then(|count| i32::try_from(count).ok()).unwrap_or(0);
    let fail = |reason: String| format!("LISTEN_FDS={count}: {reason}");
    let descriptors = sys::take_passed_descriptors(count)
        .map_err(|error| fail(format!("a descriptor is not open: {error}")))?;
    descriptors.into_iter().map(|socket| classify(socket).map_err(fail)).collect()
}

/// Finds out which kind of socket a descriptor is, and prepares it.
pub(super) fn classify(socket: OwnedFd) -> Result<PassedSocket, String> {
    let unusable = "a descriptor is not a listening TCP or Unix socket and not a UDP socket: give ListenStream= with \
                    Accept=no, or ListenDatagram= with an IP address";
    let family =
        sockopt::socket_domain(&socket).map_err(|error| format!("{unusable} ({error})"))?;
    let kind = sockopt::socket_type(&socket).map_err(|error| format!("{unusable} ({error})"))?;
    let listens = sockopt::socket_acceptconn(&socket).unwrap_or(false);
    rustix::io::ioctl_fionbio(&socket, true).map_err(|error| error.to_string())?;
    match (family, kind, sockets::local_address(socket.as_fd())) {
        (_, SocketType::STREAM, Some(address)) if listens => {
            sockets::set_tcp_options(socket.as_fd()).map_err(|error| error.to_string())?;
            Ok(PassedSocket::Tcp(socket, address))
        }
        (_, SocketType::DGRAM, Some(address)) => Ok(PassedSocket::Udp(socket, address)),
        (AddressFamily::UNIX, SocketType::STREAM, None) if listens => {
            let path = sockets::local_path(socket.as_fd()).unwrap_or_default();
            Ok(PassedSocket::Unix(socket, path))
        }
        _ => Err(unusable.to_owned()),
    }
}

/// The socket of `NOTIFY_SOCKET`.
#[derive(Debug)]
pub struct Notifications {
    socket: UnixDatagram,
    address: UnixAddress,
}

impl Notifications {
    /// Opens a socket for notifications. Returns `None` if `NOTIFY_SOCKET` is not set. Logs a warning if the variable is
    /// invalid.
    pub fn from_environment() -> Option<Notifications> {
        let name = std::env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty())?;
        let address = match name.as_bytes() {
            [b'@', name @ ..] => UnixAddress::from_abstract_name(name),
            _ => UnixAddress::from_pathname(Path::new(&name)),
        };
        let open = |address| Ok(Notifications { socket: UnixDatagram::unbound()?, address });
        let opened: io::Result<Notifications> = address.and_then(open);
        let warn = |error: &io::Error| {
            let name = name.display();
            tracing::warn!("NOTIFY_SOCKET={name}: cannot notify the service manager: {error}");
        };
        opened.inspect_err(warn).ok()
    }

    /// Notifies the service manager that the server accepts requests, and which process is its main process. The process of
    /// a daemon (`-d`) is not the one that the service manager started.
    pub fn ready(&self) {
        self.send(&format!("READY=1\nMAINPID={}\nSTATUS=Serving requests", std::process::id()));
    }

    /// Notifies the service manager that the server reads its files again. [`Notifications::ready`] ends this state.
    pub fn reloading(&self) {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let micros = now.tv_sec * 1_000_000 + now.tv_nsec / 1_000;
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={micros}\nSTATUS=Reading files again"));
    }

    /// Notifies the service manager that another process is the main process from now on. It accepts this only from the main
    /// process, so the process that ends sends it.
    pub fn replaced_by(&self, process: u32) {
        self.send(&format!("MAINPID={process}"));
    }

    /// Notifies the service manager that the server stops.
    pub fn stopping(&self) {
        self.send("STOPPING=1\nSTATUS=Stopping");
    }

    /// An error only causes a warning, as the server works without a service manager.
    fn send(&self, state: &str) {
        if let Err(error) = self.socket.send_to_addr(state.as_bytes(), &self.address) {
            tracing::warn!("NOTIFY_SOCKET: cannot notify the service manager: {error}");
        }
    }
}
