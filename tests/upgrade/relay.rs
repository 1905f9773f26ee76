//! A process between the old and the new process of an upgrade. It forwards their messages, can change one, and can stop
//! before any message, so that a test ends a process exactly there.

use super::setup::{Items, Setup, fill};
use crate::support::{Client, Server};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::Child;

/// The largest number of descriptors in a message.
const DESCRIPTORS_MAX: usize = 64;

/// A socket at the path `relay`, to which a new process connects.
struct Listener(OwnedFd);

/// A connection to each process.
pub struct Relay {
    new: OwnedFd,
    old: OwnedFd,
}

/// An upgrade that has begun through a relay.
pub struct RelayedUpgrade {
    pub setup: Setup,
    /// The old process.
    pub server: Server,
    /// A connection to the old process.
    pub client: Client,
    /// The new process, whose log is `log1`.
    pub new: Child,
    pub relay: Relay,
}

impl RelayedUpgrade {
    /// Starts a server with `count` items, and an upgrade whose messages wait for [`Relay::run`].
    pub fn begin(items: Items, count: usize) -> RelayedUpgrade {
        RelayedUpgrade::begin_with(&[], items, count)
    }

    /// As [`RelayedUpgrade::begin`]. `flags` are further options of the upgrade.
    pub fn begin_with(flags: &[&str], items: Items, count: usize) -> RelayedUpgrade {
        let setup = Setup::new(items, &[], ",debug_commands");
        let server = setup.start();
        let mut client = server.connect();
        fill(&mut client, count);
        let listener = Listener::new(&setup);
        let at_relay = setup.at_relay();
        let all: Vec<&str> =
            at_relay.iter().map(String::as_str).chain(flags.iter().copied()).collect();
        let new = setup.spawn_upgrade(&all, "log1");
        let relay = listener.accept(&setup);
        RelayedUpgrade { setup, server, client, new, relay }
    }
}

/// What the relay does with a message.
pub enum Action {
    Forward,
    /// Forwards this text instead.
    Replace(String),
    /// Forwards neither this nor any later message.
    Stop,
}

fn socket() -> OwnedFd {
    let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None)
        .expect("descriptors are free")
}

impl Listener {
    fn new(setup: &Setup) -> Listener {
        let (listener, path) = (socket(), setup.path("relay"));
        // An earlier relay of the same test may have left its file.
        let _ = std::fs::remove_file(&path);
        let address = SocketAddrUnix::new(path).expect("the path is short");
        rustix::net::bind(&listener, &address).expect("the folder is writable");
        rustix::net::listen(&listener, 1).expect("the socket is bound");
        Listener(listener)
    }

    /// Waits for the new process, and connects to the old one.
    fn accept(self, setup: &Setup) -> Relay {
        let new = rustix::net::accept_with(&self.0, SocketFlags::CLOEXEC);
        let old = socket();
        let address = SocketAddrUnix::new(setup.path("control")).expect("the path is short");
        rustix::net::connect(&old, &address).expect("the server listens");
        Relay { new: new.expect("the new process connects"), old }
    }
}

impl Relay {
    /// Forwards messages, and calls `decide` with the text of each. Returns true if `decide` has stopped the relay, and false
    /// if a process has closed its end.
    pub fn run(&self, mut decide: impl FnMut(&str) -> Action) -> bool {
        loop {
            let mut waits =
                [PollFd::new(&self.new, PollFlags::IN), PollFd::new(&self.old, PollFlags::IN)];
            rustix::io::retry_on_intr(|| poll(&mut waits, None)).expect("the sockets are open");
            let is_from_new = !waits[0].revents().is_empty();
            let (from, to) =
                if is_from_new { (&self.new, &self.old) } else { (&self.old, &self.new) };
            let Some((text, descriptors)) = receive(from.as_fd()) else { return false };
            match decide(&text) {
                Action::Forward => send(to.as_fd(), &text, &descriptors),
                Action::Replace(text) => send(to.as_fd(), &text, &descriptors),
                Action::Stop => return true,
            }
        }
    }
}

/// Receives a message. `None`: the other end is closed.
fn receive(from: BorrowedFd<'_>) -> Option<(String, Vec<OwnedFd>)> {
    let mut bytes = vec![0; 65_536];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut slices = [IoSliceMut::new(&mut bytes)];
    let received = rustix::net::recvmsg(from, &mut slices, &mut ancillary, RecvFlags::CMSG_CLOEXEC);
    // A process that has ended may have left messages unread, which resets the connection.
    let count = received.map_or(0, |received| received.bytes);
    let rights = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(rights) => Some(rights),
        _ => None,
    });
    let descriptors = rights.flatten().collect();
    let text = String::from_utf8(bytes[..count].to_vec()).expect("a message is text");
    (!text.is_empty()).then_some((text, descriptors))
}

fn send(to: BorrowedFd<'_>, text: &str, descriptors: &[OwnedFd]) {
    let borrowed: Vec<BorrowedFd<'_>> = descriptors.iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let fits = borrowed.is_empty() || ancillary.push(SendAncillaryMessage::ScmRights(&borrowed));
    assert!(fits, "a message has at most {DESCRIPTORS_MAX} descriptors");
    // An error means that the process has ended, which the next receive call reports.
    let _ = rustix::net::sendmsg(
        to,
        &[IoSlice::new(text.as_bytes())],
        &mut ancillary,
        SendFlags::NOSIGNAL,
    );
}
