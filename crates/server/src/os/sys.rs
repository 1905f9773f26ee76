//! System calls of the server, through the safe wrappers of rustix and nix. A port to another system replaces this file.

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, sockopt,
};
use rustix::process::{Resource, Rlimit};
use std::io::{self, IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

/// The result of a receive call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receipt {
    /// Bytes for the session; the count is 0 if only TLS records without application data arrived.
    Bytes {
        count: usize,
        /// Whether another receive call may return more bytes before the next event.
        more: bool,
    },
    /// No bytes are available until the next event.
    Nothing,
    /// The peer has closed its sending side.
    End,
}

impl Receipt {
    pub fn count(self) -> usize {
        match self {
            Receipt::Bytes { count, .. } => count,
            Receipt::Nothing | Receipt::End => 0,
        }
    }
}

/// Converts the result of a system call that reads up to `capacity` bytes (SHORT-READ).
fn receipt(received: Result<usize, Errno>, capacity: usize) -> io::Result<Receipt> {
    match received {
        Ok(0) => Ok(Receipt::End),
        Ok(count) => Ok(Receipt::Bytes { count, more: count == capacity }),
        Err(Errno::WOULDBLOCK) => Ok(Receipt::Nothing),
        Err(Errno::INTR) => Ok(Receipt::Bytes { count: 0, more: true }),
        Err(error) => Err(error.into()),
    }
}

pub fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<Receipt> {
    let received = rustix::net::recv(socket, &mut *buffer, RecvFlags::empty());
    receipt(received.map(|(count, _)| count), buffer.len())
}

pub fn receive_two(
    socket: BorrowedFd<'_>,
    first: &mut [u8],
    second: &mut [u8],
) -> io::Result<Receipt> {
    let capacity = first.len() + second.len();
    let mut slices = [IoSliceMut::new(first), IoSliceMut::new(second)];
    receipt(rustix::io::readv(socket, &mut slices), capacity)
}

/// Writes to a socket. A closed connection is an error, not a signal.
pub fn send(socket: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    Ok(rustix::net::send(socket, bytes, SendFlags::NOSIGNAL)?)
}

pub fn thread_processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// Receives a datagram and its sender, truncated to the buffer.
pub fn receive_datagram(
    socket: BorrowedFd<'_>,
    buffer: &mut [u8],
) -> io::Result<(usize, Option<SocketAddr>)> {
    let (count, _, sender) = rustix::net::recvfrom(socket, buffer, RecvFlags::empty())?;
    Ok((count, sender.and_then(|address| SocketAddr::try_from(address).ok())))
}

pub fn send_datagram(socket: BorrowedFd<'_>, bytes: &[u8], to: &SocketAddr) -> io::Result<()> {
    rustix::net::sendto(socket, bytes, SendFlags::NOSIGNAL, to)?;
    Ok(())
}

/// Writes several slices in one call. `writev` can raise SIGPIPE, which the Rust runtime ignores.
pub fn send_vectored(socket: BorrowedFd<'_>, slices: &[IoSlice<'_>]) -> io::Result<usize> {
    Ok(rustix::io::writev(socket, slices)?)
}

/// Accepts a connection as a non-blocking socket, with its peer's address.
pub fn accept(listener: BorrowedFd<'_>) -> io::Result<(OwnedFd, Option<SocketAddr>)> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let (socket, peer) = rustix::net::acceptfrom_with(listener, flags)?;
    Ok((socket, peer.and_then(|address| SocketAddr::try_from(address).ok())))
}

/// Sends a TCP acknowledgment now instead of delaying it until the next reply.
pub fn acknowledge_now(socket: BorrowedFd<'_>) -> io::Result<()> {
    Ok(sockopt::set_tcp_quickack(socket, true)?)
}

pub fn can_open_sockets() -> bool {
    rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).is_ok()
}

pub fn local_address(socket: BorrowedFd<'_>) -> Option<SocketAddr> {
    SocketAddr::try_from(rustix::net::getsockname(socket).ok()?).ok()
}

/// Starts to listen, or changes the backlog of a listening socket.
pub fn listen(socket: BorrowedFd<'_>, backlog: i32) -> io::Result<()> {
    Ok(rustix::net::listen(socket, backlog)?)
}

/// Returns a bound TCP socket with memcached's options, which its connections inherit.
pub fn bind_tcp(address: &SocketAddr) -> io::Result<OwnedFd> {
    let socket = internet_socket(address, SocketType::STREAM)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    sockopt::set_socket_keepalive(&socket, true)?;
    sockopt::set_tcp_nodelay(&socket, true)?;
    rustix::net::bind(&socket, address)?;
    Ok(socket)
}

/// The requested send buffer of a UDP socket; the kernel limits it.
const SEND_BUFFER_BYTES: usize = 64 << 20;

/// Returns UDP sockets bound to one address. The kernel distributes datagrams among them by sender.
///
/// The first socket is bound without SO_REUSEPORT, so an address in use is an error instead of being shared with
/// another server.
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
    // A reply of many datagrams must fit into the buffer, because sending it does not block.
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

/// Returns a bound Unix socket whose file has `mode`. Replaces the socket of an earlier run.
pub fn bind_unix(path: &Path, mode: u32) -> io::Result<OwnedFd> {
    use rustix::fs::{FileType, Mode};
    if rustix::fs::lstat(path).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_socket()) {
        rustix::fs::unlink(path)?;
    }
    let socket = new_socket(AddressFamily::UNIX, SocketType::STREAM)?;
    // The umask sets the mode at creation, so there is no moment in which others can connect.
    let before = rustix::process::umask(Mode::from_raw_mode(!mode & 0o777));
    let bound = SocketAddrUnix::new(path).and_then(|address| rustix::net::bind(&socket, &address));
    rustix::process::umask(before);
    bound?;
    Ok(socket)
}

/// True if the process or the system has no descriptors left.
pub fn is_out_of_descriptors(error: &io::Error) -> bool {
    let code = error.raw_os_error();
    code == Some(Errno::MFILE.raw_os_error()) || code == Some(Errno::NFILE.raw_os_error())
}

/// Raises the limit of open files to `wanted`, or at least to `needed`, and returns the limit.
pub fn raise_open_files(needed: u64, wanted: u64) -> Result<u64, u64> {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let (soft, hard) = (limit.current.unwrap_or(u64::MAX), limit.maximum.unwrap_or(u64::MAX));
    if soft >= wanted {
        return Ok(soft);
    }
    for target in [wanted, needed.max(hard.min(wanted))] {
        let raised = Rlimit { current: Some(target), maximum: Some(target.max(hard)) };
        if rustix::process::setrlimit(Resource::Nofile, raised).is_ok() {
            return Ok(target);
        }
    }
    if soft >= needed { Ok(soft) } else { Err(soft.max(hard)) }
}

/// Raises the limit of core files to its maximum. Returns false if it is 0.
pub fn raise_core_limit() -> bool {
    let unlimited = Rlimit { current: None, maximum: None };
    if rustix::process::setrlimit(Resource::Core, unlimited).is_err() {
        let hard = rustix::process::getrlimit(Resource::Core).maximum;
        let raised = Rlimit { current: hard, maximum: hard };
        // The check below reads the resulting limit.
        let _ = rustix::process::setrlimit(Resource::Core, raised);
    }
    rustix::process::getrlimit(Resource::Core).current != Some(0)
}

/// Locks all current and future memory of the process. A page is locked at its first use, because the engine reserves
/// more addresses than it uses.
pub fn lock_memory() -> io::Result<()> {
    use rustix::mm::MlockAllFlags;
    let flags = MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT;
    Ok(rustix::mm::mlockall(flags)?)
}

/// True if the process runs as root.
pub fn is_root() -> bool {
    rustix::process::getuid().is_root() || rustix::process::geteuid().is_root()
}

/// Changes the user and its group. An error text follows the user's name.
pub fn become_user(name: &str) -> Result<(), String> {
    use nix::errno::Errno as NixErrno;
    use nix::unistd;
    let refused =
        |errno: NixErrno| format!("cannot change to this user: {}", io::Error::from(errno));
    let user = unistd::User::from_name(name).map_err(refused)?.ok_or("there is no such user")?;
    match unistd::setgroups(&[]) {
        // The process lacks the privilege to change groups.
        Ok(()) | Err(NixErrno::EPERM) => {}
        Err(errno) => return Err(refused(errno)),
    }
    unistd::setgid(user.gid).map_err(refused)?;
    unistd::setuid(user.uid).map_err(refused)
}

/// Becomes a daemon in `/` (unless `keep_directory`) and without standard streams (unless `keep_streams`). Call it
/// before threads are spawned.
pub fn daemonize(keep_directory: bool, keep_streams: bool) -> io::Result<()> {
    Ok(nix::unistd::daemon(keep_directory, keep_streams)?)
}

pub fn process_exists(id: i32) -> bool {
    rustix::process::Pid::from_raw(id)
        .is_some_and(|pid| rustix::process::test_kill_process(pid) != Err(Errno::SRCH))
}
