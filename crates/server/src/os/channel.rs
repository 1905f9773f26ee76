//! A connection between two processes of the same machine that carries messages with open files: a Unix socket of the type
//! SOCK_SEQPACKET, which keeps the boundaries of messages, and SCM_RIGHTS.

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, Shutdown, SocketAddrUnix, SocketFlags,
    SocketType,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

/// The maximum number of descriptors in a message. The kernel's maximum is 253.
pub const DESCRIPTORS_MAX: usize = 64;
/// The maximum length of a message, in bytes.
const MESSAGE_LEN_MAX: usize = 64 << 10;
/// The time between two attempts to send when too many descriptors are on their way.
const RETRY_PERIOD: Duration = Duration::from_millis(1);

/// A message.
#[derive(Debug)]
pub struct Received {
    pub bytes: Vec<u8>,
    pub descriptors: Vec<OwnedFd>,
}

/// The reason why no message arrived.
#[derive(Debug, thiserror::Error)]
pub enum ReceiveError {
    /// The other process has closed the channel, because it ended or gave up.
    #[error("the other process has ended or closed the connection")]
    Closed,
    #[error("the other process did not answer within {0:?}")]
    Timeout(Duration),
    /// The descriptor that interrupts the wait is readable.
    #[error("the wait was interrupted")]
    Interrupted,
    #[error(
        "a message has more than {MESSAGE_LEN_MAX} bytes or {DESCRIPTORS_MAX} descriptors, or this process has no free \
         descriptors: raise the limit of open files (ulimit -n)"
    )]
    TooLong,
    #[error("{0}")]
    System(#[from] io::Error),
}

/// One end of a channel.
#[derive(Debug)]
pub struct Channel(OwnedFd);

/// Returns a socket that listens for channels at `path`. Only the user of this process can connect to it. Fails with
/// `AddrInUse` if another process listens there, and replaces the socket of a process that has ended.
pub fn listen(path: &Path) -> io::Result<OwnedFd> {
    match Channel::connect(path) {
        Ok(_) => return Err(io::ErrorKind::AddrInUse.into()),
        Err(error) if error.raw_os_error() == Some(Errno::PROTOTYPE.raw_os_error()) => {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        Err(_) => {}
    }
    let socket = super::sockets::bind_unix(path, SocketType::SEQPACKET, 0o600)?;
    super::sockets::listen(socket.as_fd(), 8)?;
    Ok(socket)
}

impl Channel {
    /// Connects to the process that listens at `path`.
    pub fn connect(path: &Path) -> io::Result<Channel> {
        let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let socket = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
        rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
        Ok(Channel(socket))
    }

    /// Accepts a connection of a listening socket.
    pub fn accept(listener: BorrowedFd<'_>) -> io::Result<Channel> {
        Ok(Channel(rustix::net::accept_with(listener, SocketFlags::CLOEXEC)?))
    }

    /// Returns the id of the user of the other process, at the time of its call of `connect` or `listen`.
    pub fn peer_user_id(&self) -> io::Result<u32> {
        Ok(getsockopt(&self.0, PeerCredentials)?.uid())
    }

    /// Sends a message. The descriptors stay open here. Waits at most about `timeout` while the other process does not read.
    pub fn send(
        &self,
        bytes: &[u8],
        descriptors: &[BorrowedFd<'_>],
        timeout: Duration,
    ) -> io::Result<()> {
        let mut left = timeout;
        loop {
            let mut space =
                [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
            let mut ancillary = SendAncillaryBuffer::new(&mut space);
            let fits = descriptors.is_empty()
                || ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
            assert!(fits, "a message has at most {DESCRIPTORS_MAX} descriptors");
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            match rustix::net::sendmsg(&self.0, &[IoSlice::new(bytes)], &mut ancillary, flags) {
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(_) if left.is_zero() => return Err(io::ErrorKind::TimedOut.into()),
                Err(Errno::AGAIN) => {
                    wait(&mut [PollFd::new(&self.0, PollFlags::OUT)], RETRY_PERIOD)?;
                    left = left.saturating_sub(RETRY_PERIOD);
                }
                // The user has too many descriptors on their way.
                Err(Errno::TOOMANYREFS) => {
                    wait(&mut [], RETRY_PERIOD)?;
                    left = left.saturating_sub(RETRY_PERIOD);
                }
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Refuses all later messages: the other process cannot send any more. Messages that have arrived can be received.
    pub fn close_input(&self) {
        // An error is ignored: the other process has closed the channel.
        let _ = rustix::net::shutdown(&self.0, Shutdown::Read);
    }

    /// Receives a message. Waits at most `timeout`, and ends the wait if `interrupt` is readable.
    pub fn receive(
        &self,
        timeout: Duration,
        interrupt: Option<BorrowedFd<'_>>,
    ) -> Result<Received, ReceiveError> {
        let mut waits = vec![PollFd::new(&self.0, PollFlags::IN)];
        waits.extend(interrupt.iter().map(|it| PollFd::new(it, PollFlags::IN)));
        if !wait(&mut waits, timeout)? {
            return Err(ReceiveError::Timeout(timeout));
        }
        if waits[0].revents().is_empty() {
            return Err(ReceiveError::Interrupted);
        }
        let mut bytes = vec![0; MESSAGE_LEN_MAX];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut slices = [IoSliceMut::new(&mut bytes)];
        let flags = RecvFlags::CMSG_CLOEXEC;
        let received = loop {
            match rustix::net::recvmsg(&self.0, &mut slices, &mut ancillary, flags) {
                // The other process has closed the channel without reading all messages. The kernel reports this once,
                // before the messages that the other process has sent.
                Err(Errno::INTR | Errno::CONNRESET) => {}
                received => break received.map_err(io::Error::from)?,
            }
        };
        let mut descriptors = Vec::new();
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                descriptors.extend(rights);
            }
        }
        if received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
            return Err(ReceiveError::TooLong);
        }
        if received.bytes == 0 {
            return Err(ReceiveError::Closed);
        }
        bytes.truncate(received.bytes);
        Ok(Received { bytes, descriptors })
    }
}

/// Waits until one of the descriptors is readable.
pub fn wait_for(descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut waits: Vec<_> = descriptors.iter().map(|it| PollFd::new(it, PollFlags::IN)).collect();
    Ok(rustix::io::retry_on_intr(|| poll(&mut waits, None)).map(|_| ())?)
}

/// True if a listening socket has a pending connection.
pub fn is_ready(listener: BorrowedFd<'_>) -> io::Result<bool> {
    wait(&mut [PollFd::new(&listener, PollFlags::IN)], Duration::ZERO)
}

/// Returns true if one of the descriptors is ready within `timeout`.
fn wait(waits: &mut [PollFd<'_>], timeout: Duration) -> io::Result<bool> {
    let timeout =
        Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: timeout.subsec_nanos().into() };
    Ok(rustix::io::retry_on_intr(|| poll(waits, Some(&timeout)))? > 0)
}

#[cfg(test)]
mod tests {
    use super::{Channel, DESCRIPTORS_MAX, ReceiveError, listen};
    use std::io::{ErrorKind, Read, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    const TIMEOUT: Duration = Duration::from_secs(10);

    /// Returns the two ends of a channel.
    fn pair() -> (Channel, Channel) {
        let folder = tempfile::tempdir().expect("a temporary folder can be created");
        let path = folder.path().join("control");
        let listener = listen(&path).expect("the folder is writable");
        let error = listen(&path).expect_err("the socket is in use");
        assert_eq!(error.kind(), ErrorKind::AddrInUse);
        // The second `listen` has connected, too.
        drop(Channel::accept(listener.as_fd()).expect("a connection is pending"));
        let connected = Channel::connect(&path).expect("the socket listens");
        (connected, Channel::accept(listener.as_fd()).expect("a connection is pending"))
    }

    #[test]
    fn messages_keep_their_boundaries_and_their_descriptors() {
        let (near, far) = pair();
        assert_eq!(far.peer_user_id().expect("Unix sockets know it"), crate::os::sys::user_id());
        let (mut kept, given) = UnixStream::pair().expect("descriptors are free");
        near.send(b"first", &[given.as_fd()], TIMEOUT).expect("the other end is open");
        near.send(b"second", &[], TIMEOUT).expect("the other end is open");
        drop(given);
        let first = far.receive(TIMEOUT, None).expect("a message was sent");
        assert_eq!((&first.bytes[..], first.descriptors.len()), (&b"first"[..], 1));
        let mut received = UnixStream::from(first.descriptors.into_iter().next().expect("one"));
        received.write_all(b"x").expect("the socket is open");
        let mut byte = [0];
        kept.read_exact(&mut byte).expect("the other end has written");
        assert_eq!(byte, *b"x");
        let second = far.receive(TIMEOUT, None).expect("a message was sent");
        assert_eq!((&second.bytes[..], second.descriptors.len()), (&b"second"[..], 0));
    }

    #[test]
    fn a_closed_input_keeps_what_has_arrived_and_refuses_the_rest() {
        let (near, far) = pair();
        near.send(b"early", &[], TIMEOUT).expect("the other end is open");
        far.close_input();
        let error = near.send(b"late", &[], TIMEOUT).expect_err("the input is closed");
        assert_eq!(error.kind(), ErrorKind::BrokenPipe);
        let received = far.receive(Duration::ZERO, None).expect("a message has arrived");
        assert_eq!(received.bytes, b"early");
        assert!(matches!(far.receive(Duration::ZERO, None), Err(ReceiveError::Closed)));
    }

    #[test]
    fn a_wait_ends_by_a_timeout_an_interrupt_or_the_end_of_the_other_process() {
        let (near, far) = pair();
        let short = Duration::from_millis(1);
        assert!(matches!(far.receive(short, None), Err(ReceiveError::Timeout(_))));
        let counter = crate::os::sys::event_counter().expect("a descriptor is free");
        crate::os::sys::increment(counter.as_fd());
        let interrupted = far.receive(TIMEOUT, Some(counter.as_fd()));
        assert!(matches!(interrupted, Err(ReceiveError::Interrupted)));
        drop(near);
        assert!(matches!(far.receive(TIMEOUT, None), Err(ReceiveError::Closed)));
    }

    #[test]
    fn a_process_that_closes_the_channel_without_reading_has_sent_its_messages() {
        let (near, far) = pair();
        far.send(b"unread", &[], TIMEOUT).expect("the other end is open");
        near.send(b"abort", &[], TIMEOUT).expect("the other end is open");
        drop(near);
        assert_eq!(far.receive(TIMEOUT, None).expect("a message was sent").bytes, b"abort");
        assert!(matches!(far.receive(TIMEOUT, None), Err(ReceiveError::Closed)));
    }

    #[test]
    fn a_process_that_does_not_read_blocks_a_sender_only_for_the_timeout() {
        let (near, _far) = pair();
        let (_kept, given) = UnixStream::pair().expect("descriptors are free");
        let descriptors = vec![given.as_fd(); DESCRIPTORS_MAX];
        let send = || near.send(&[7; 60_000], &descriptors, Duration::from_millis(3));
        let error = (0..100_000).find_map(|_| send().err()).expect("the socket's buffer is full");
        assert_eq!(error.kind(), ErrorKind::TimedOut);
    }
}
