//! System calls of the server, through the safe wrappers of rustix and nix. A port of the server to another operating
//! system replaces this file.

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

/// Returns the processor time that the calling thread has used since its start.
pub fn thread_processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
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

/// True if the process can open another TCP socket.
pub fn can_open_sockets() -> bool {
    rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).is_ok()
}

/// Returns the address to which a socket is bound, or `None` if it is not an internet address.
pub fn local_address(socket: BorrowedFd<'_>) -> Option<SocketAddr> {
    SocketAddr::try_from(rustix::net::getsockname(socket).ok()?).ok()
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
    sockopt::set_socket_keepalive(&socket, true)?;
    sockopt::set_tcp_nodelay(&socket, true)?;
    rustix::net::bind(&socket, address)?;
    Ok(socket)
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
pub fn bind_unix(path: &Path, mode: u32) -> io::Result<OwnedFd> {
    use rustix::fs::{FileType, Mode};
    if rustix::fs::lstat(path).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_socket()) {
        rustix::fs::unlink(path)?;
    }
    let socket = new_socket(AddressFamily::UNIX, SocketType::STREAM)?;
    // The umask restricts the permissions when `bind` creates the file. A later chmod would leave a moment in which
    // other users can connect.
    let before = rustix::process::umask(Mode::from_raw_mode(!mode & 0o777));
    let bound = SocketAddrUnix::new(path).and_then(|address| rustix::net::bind(&socket, &address));
    rustix::process::umask(before);
    bound?;
    Ok(socket)
}

/// True if the error means that the process or the system has reached its limit of open files.
pub fn is_out_of_descriptors(error: &io::Error) -> bool {
    let code = error.raw_os_error();
    code == Some(Errno::MFILE.raw_os_error()) || code == Some(Errno::NFILE.raw_os_error())
}

/// Raises the limit of open files to `wanted`, or to the highest possible limit of at least `needed`. Returns the new
/// limit. If the highest possible limit is below `needed`, returns that limit as an error.
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

/// Raises the limit of the size of core files to the highest possible limit. Returns false if that limit is 0.
pub fn raise_core_limit() -> bool {
    let unlimited = Rlimit { current: None, maximum: None };
    if rustix::process::setrlimit(Resource::Core, unlimited).is_err() {
        let hard = rustix::process::getrlimit(Resource::Core).maximum;
        let raised = Rlimit { current: hard, maximum: hard };
        // A failure is ignored here, because the last line of this function checks the resulting limit.
        let _ = rustix::process::setrlimit(Resource::Core, raised);
    }
    rustix::process::getrlimit(Resource::Core).current != Some(0)
}

/// Locks all current and future memory of the process. The kernel locks a page when the process first uses the page,
/// because the engine reserves more addresses than it uses.
pub fn lock_memory() -> io::Result<()> {
    use rustix::mm::MlockAllFlags;
    let flags = MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT;
    Ok(rustix::mm::mlockall(flags)?)
}

/// True if the file, or its folder if the file does not exist, is on a file system in memory.
pub fn is_on_ram_disk(path: &Path) -> bool {
    // The constants are from the kernel's header linux/magic.h: TMPFS_MAGIC, RAMFS_MAGIC and HUGETLBFS_MAGIC.
    const IN_MEMORY: [u64; 3] = [0x0102_1994, 0x8584_58f6, 0x9584_58f6];
    let folder = path.parent().unwrap_or(path);
    let found = rustix::fs::statfs(path).or_else(|_| rustix::fs::statfs(folder));
    found.is_ok_and(|file_system| IN_MEMORY.contains(&(file_system.f_type as u64)))
}

/// True if the real or the effective user of the process is root.
pub fn is_root() -> bool {
    rustix::process::getuid().is_root() || rustix::process::geteuid().is_root()
}

/// Changes the user and the group of the process to those of the user `name`. The caller writes the user's name before
/// the returned error text.
pub fn become_user(name: &str) -> Result<(), String> {
    use nix::errno::Errno as NixErrno;
    use nix::unistd;
    let cannot_change =
        |errno: NixErrno| format!("cannot change to this user: {}", io::Error::from(errno));
    let user =
        unistd::User::from_name(name).map_err(cannot_change)?.ok_or("there is no such user")?;
    match unistd::setgroups(&[]) {
        // EPERM means that the process may not change its groups. It then keeps the groups that it has.
        Ok(()) | Err(NixErrno::EPERM) => {}
        Err(errno) => return Err(cannot_change(errno)),
    }
    unistd::setgid(user.gid).map_err(cannot_change)?;
    unistd::setuid(user.uid).map_err(cannot_change)
}

/// Makes the process a daemon. Changes the working directory to `/` unless `keep_directory` is true, and redirects the
/// standard streams to `/dev/null` unless `keep_streams` is true. The caller spawns threads only after this call.
pub fn daemonize(keep_directory: bool, keep_streams: bool) -> io::Result<()> {
    Ok(nix::unistd::daemon(keep_directory, keep_streams)?)
}

/// True if a process with this id exists.
pub fn process_exists(id: i32) -> bool {
    rustix::process::Pid::from_raw(id)
        .is_some_and(|pid| rustix::process::test_kill_process(pid) != Err(Errno::SRCH))
}
