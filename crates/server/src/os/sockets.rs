//! System calls on sockets, through the safe wrappers of rustix. A port of the server to another operating system replaces
//! this file and `sys`.

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, sockopt,
};
use std::ffi::OsStr;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The result of one receive call on a stream socket or a TLS stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveOutcome {
    /// Bytes for the session arrived.
    Bytes {
        /// The number of bytes. It is 0 if a signal interrupted the call, or if only TLS records without application
        /// data arrived.
        count: usize,
        /// True if another receive call may return bytes before the event loop reports the next event.
        more: bool,
    },
    /// No bytes are available before the event loop reports the next event.
    WouldBlock,
    /// The peer has closed its sending side, and all its bytes have been received.
    PeerClosed,
}

impl ReceiveOutcome {
    /// Returns the number of bytes that arrived.
    pub fn byte_count(self) -> usize {
        match self {
            ReceiveOutcome::Bytes { count, .. } => count,
            ReceiveOutcome::WouldBlock | ReceiveOutcome::PeerClosed => 0,
        }
    }
}

/// Converts the result of a system call that reads up to `capacity` bytes. A call that reads fewer bytes has emptied
/// the socket (SHORT-READ in `net::connection`).
fn outcome_of(received: Result<usize, Errno>, capacity: usize) -> io::Result<ReceiveOutcome> {
    match received {
        Ok(0) => Ok(ReceiveOutcome::PeerClosed),
        Ok(count) => Ok(ReceiveOutcome::Bytes { count, more: count == capacity }),
        Err(Errno::WOULDBLOCK) => Ok(ReceiveOutcome::WouldBlock),
        Err(Errno::INTR) => Ok(ReceiveOutcome::Bytes { count: 0, more: true }),
        Err(error) => Err(error.into()),
    }
}

/// Receives from a stream socket into `buffer`, which must not be empty.
pub fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<ReceiveOutcome> {
    let received = rustix::net::recv(socket, &mut *buffer, RecvFlags::empty());
    outcome_of(received.map(|(count, _)| count), buffer.len())
}

/// Receives from a stream socket into `first` and, when `first` is full, into `second`, in one system call.
pub fn receive_into_two(
    socket: BorrowedFd<'_>,
    first: &mut [u8],
    second: &mut [u8],
) -> io::Result<ReceiveOutcome> {
    let capacity = first.len() + second.len();
    let mut slices = [IoSliceMut::new(first), IoSliceMut::new(second)];
    outcome_of(rustix::io::readv(socket, &mut slices), capacity)
}

/// Sends bytes to a stream socket, and returns the number of bytes that the socket accepted. If the peer has closed the
/// connection, the call returns an error and does not raise SIGPIPE.
pub fn send(socket: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    Ok(rustix::net::send(socket, bytes, SendFlags::NOSIGNAL)?)
}

/// Receives a datagram. Returns its length, and the address of its sender or `None` if this is not an internet address.
/// A datagram that is longer than the buffer is truncated.
pub fn receive_datagram(
    socket: BorrowedFd<'_>,
    buffer: &mut [u8],
) -> io::Result<(usize, Option<SocketAddr>)> {
    let (count, _, sender) = rustix::net::recvfrom(socket, buffer, RecvFlags::empty())?;
    Ok((count, sender.and_then(|address| SocketAddr::try_from(address).ok())))
}

/// Sends `bytes` as one datagram.
pub fn send_datagram(socket: BorrowedFd<'_>, bytes: &[u8], to: &SocketAddr) -> io::Result<()> {
    rustix::net::sendto(socket, bytes, SendFlags::NOSIGNAL, to)?;
    Ok(())
}

/// Sends several slices to a stream socket in one system call, and returns the number of bytes that the socket
/// accepted. `writev` raises SIGPIPE if the peer has closed the connection; the Rust runtime ignores that signal.
pub fn send_vectored(socket: BorrowedFd<'_>, slices: &[IoSlice<'_>]) -> io::Result<usize> {
    Ok(rustix::io::writev(socket, slices)?)
}

/// Accepts a connection. Returns its socket, which does not block, and the address of the peer, which is `None` for a
/// Unix socket.
pub fn accept(listener: BorrowedFd<'_>) -> io::Result<(OwnedFd, Option<SocketAddr>)> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let (socket, peer) = rustix::net::acceptfrom_with(listener, flags)?;
    Ok((socket, peer.and_then(|address| SocketAddr::try_from(address).ok())))
}

/// Sends the TCP acknowledgment of all received bytes immediately. By default the kernel delays the acknowledgment,
/// often until the next reply.
pub fn acknowledge_now(socket: BorrowedFd<'_>) -> io::Result<()> {
    Ok(sockopt::set_tcp_quickack(socket, true)?)
}

/// Returns the address to which a socket is bound, or `None` if it is not an internet address.
pub fn local_address(socket: BorrowedFd<'_>) -> Option<SocketAddr> {
    SocketAddr::try_from(rustix::net::getsockname(socket).ok()?).ok()
}

/// Returns the internet addresses of the peer of a connection and of this end, and `None` for a Unix socket.
pub fn addresses(socket: BorrowedFd<'_>) -> (Option<SocketAddr>, Option<SocketAddr>) {
    let peer = rustix::net::getpeername(socket).ok().flatten();
    (peer.and_then(|address| SocketAddr::try_from(address).ok()), local_address(socket))
}

/// True if the socket is bound to this internet address. Port 0 means any port.
pub fn is_bound_to(socket: BorrowedFd<'_>, address: &SocketAddr) -> bool {
    local_address(socket).is_some_and(|bound| {
        bound.ip() == address.ip() && [0, bound.port()].contains(&address.port())
    })
}

/// Returns the path of the file to which a Unix socket is bound, or `None` if it has no file.
pub fn local_path(socket: BorrowedFd<'_>) -> Option<PathBuf> {
    let address = SocketAddrUnix::try_from(rustix::net::getsockname(socket).ok()?).ok()?;
    Some(PathBuf::from(OsStr::from_bytes(address.path_bytes()?)))
}

/// Makes a bound socket a listening socket. If the socket already listens, changes the length of its queue of pending
/// connections.
pub fn listen(socket: BorrowedFd<'_>, backlog: i32) -> io::Result<()> {
    Ok(rustix::net::listen(socket, backlog)?)
}

/// Returns a TCP socket that is bound to the address. It has the socket options that memcached sets, and accepted
/// connections inherit them.
pub fn bind_tcp(address: &SocketAddr) -> io::Result<OwnedFd> {
    let socket = internet_socket(address, SocketType::STREAM)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    set_tcp_options(socket.as_fd())?;
    rustix::net::bind(&socket, address)?;
    Ok(socket)
}

/// Sets the options that connections inherit from a listening TCP socket.
pub fn set_tcp_options(listener: BorrowedFd<'_>) -> io::Result<()> {
    sockopt::set_socket_keepalive(listener, true)?;
    Ok(sockopt::set_tcp_nodelay(listener, true)?)
}

/// The size of the send buffer that the server requests for a UDP socket. The kernel may set a smaller size.
const SEND_BUFFER_BYTES: usize = 64 << 20;

/// Returns `count` UDP sockets that are bound to the same address. The kernel selects one of them for each datagram by
/// the sender's address.
///
/// The first socket is bound without SO_REUSEPORT. If another server already uses the address, the call therefore
/// returns an error, and the two servers do not share the address.
pub fn bind_udp(address: &SocketAddr, count: usize) -> io::Result<Vec<OwnedFd>> {
    let first = udp_socket(address)?;
    rustix::net::bind(&first, address)?;
    let bound = local_address(first.as_fd()).unwrap_or(*address);
    let mut sockets = vec![first];
    while sockets.len() < count {
        sockopt::set_socket_reuseport(&sockets[0], true)?;
        let next = udp_socket(address)?;
        sockopt::set_socket_reuseport(&next, true)?;
        rustix::net::bind(&next, &bound)?;
        sockets.push(next);
    }
    Ok(sockets)
}

fn udp_socket(address: &SocketAddr) -> io::Result<OwnedFd> {
    let socket = internet_socket(address, SocketType::DGRAM)?;
    // The sockets do not block, so the kernel drops or refuses datagrams that do not fit into the send buffer. The
    // buffer should hold a reply of many datagrams.
    sockopt::set_socket_send_buffer_size(&socket, SEND_BUFFER_BYTES)?;
    Ok(socket)
}

fn internet_socket(address: &SocketAddr, kind: SocketType) -> io::Result<OwnedFd> {
    if address.is_ipv4() {
        return new_socket(AddressFamily::INET, kind);
    }
    let socket = new_socket(AddressFamily::INET6, kind)?;
    sockopt::set_ipv6_v6only(&socket, true)?;
    Ok(socket)
}

fn new_socket(family: AddressFamily, kind: SocketType) -> io::Result<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    Ok(rustix::net::socket_with(family, kind, flags, None)?)
}

/// Returns a Unix socket that is bound to `path`. The socket's file has the permission bits `mode`. If `path` is the
/// socket of an earlier run, replaces it.
pub fn bind_unix(path: &Path, kind: SocketType, mode: u32) -> io::Result<OwnedFd> {
    use rustix::fs::{FileType, Mode};
    if rustix::fs::lstat(path).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_socket()) {
        rustix::fs::unlink(path)?;
    }
    let socket = new_socket(AddressFamily::UNIX, kind)?;
    // The umask restricts the permissions when `bind` creates the file. A later chmod would leave a moment in which
    // other users can connect.
    let before = rustix::process::umask(Mode::from_raw_mode(!mode & 0o777));
    let bound = SocketAddrUnix::new(path).and_then(|address| rustix::net::bind(&socket, &address));
    rustix::process::umask(before);
    bound?;
    Ok(socket)
}

/// Connects to the socket at `path`. Each of the connection, reading and writing fails after `timeout`.
pub fn connect_unix(path: &Path, timeout: Duration) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    for direction in [sockopt::Timeout::Recv, sockopt::Timeout::Send] {
        sockopt::set_socket_timeout(&socket, direction, Some(timeout))?;
    }
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

/// Opens and closes a TCP socket.
pub fn open_socket() -> io::Result<()> {
    drop(rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None)?);
    Ok(())
}

/// True if the error means that the process or the system has reached its limit of open files.
pub fn is_out_of_descriptors(error: &io::Error) -> bool {
    let code = error.raw_os_error();
    code == Some(Errno::MFILE.raw_os_error()) || code == Some(Errno::NFILE.raw_os_error())
}

/// True if an error of [`accept`] concerns only one client, so that the next one can be accepted (accept(2)).
pub fn is_error_of_client(error: &io::Error) -> bool {
    const ERRORS: [Errno; 9] = [
        Errno::CONNABORTED,
        Errno::HOSTDOWN,
        Errno::HOSTUNREACH,
        Errno::NETDOWN,
        Errno::NETUNREACH,
        Errno::NOPROTOOPT,
        Errno::OPNOTSUPP,
        Errno::PERM,
        Errno::PROTO,
    ];
    ERRORS.iter().any(|it| error.raw_os_error() == Some(it.raw_os_error()))
}
