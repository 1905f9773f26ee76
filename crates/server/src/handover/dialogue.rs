//! One message after the other: what both processes of a handover have in common.

use super::message::Message;
use crate::config::Protocol;
use crate::os::channel::{Channel, DESCRIPTORS_MAX, ReceiveError};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

/// The time for which a process waits for a message that the other one can send at once.
pub(super) const STEP_TIMEOUT: Duration = Duration::from_secs(10);

/// Returns the longest time in which a process builds the index of this number of items on a slow machine.
pub(super) fn rebuild_timeout(items: u64) -> Duration {
    STEP_TIMEOUT + Duration::from_micros(5 * items)
}

/// Parses a message of a handover, and returns the text that composes it, which is the same text. Returns `None` for an
/// invalid message. Fuzz tests call this function.
pub fn recompose(bytes: &[u8]) -> Option<String> {
    Message::parse(bytes).map(|message| message.compose())
}

/// The reason why a handover ends.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error(transparent)]
    Channel(#[from] ReceiveError),
    #[error("{0}")]
    Aborted(String),
    #[error("the other process sent an invalid message")]
    Invalid,
    #[error("{0}")]
    Own(String),
    #[error("cannot send to the other process: {0}")]
    Send(#[from] io::Error),
}

pub(super) fn send(
    channel: &Channel,
    message: &Message,
    descriptors: &[BorrowedFd<'_>],
) -> Result<(), Failure> {
    Ok(channel.send(message.compose().as_bytes(), descriptors, STEP_TIMEOUT)?)
}

pub(super) fn receive(
    channel: &Channel,
    timeout: Duration,
    interrupt: Option<BorrowedFd<'_>>,
) -> Result<(Message, Vec<OwnedFd>), Failure> {
    let received = channel.receive(timeout, interrupt)?;
    match Message::parse(&received.bytes).ok_or(Failure::Invalid)? {
        Message::Abort { reason } => Err(Failure::Aborted(reason)),
        message if message.descriptor_count() == received.descriptors.len() => {
            Ok((message, received.descriptors))
        }
        _ => Err(Failure::Invalid),
    }
}

/// Sends the sockets of idle connections that use one protocol, and whose clients have authenticated or not. They stay open
/// here.
pub fn send_connections(
    channel: &Channel,
    (protocol, has_logged_in): (Protocol, bool),
    sockets: &[BorrowedFd<'_>],
) -> io::Result<u64> {
    for part in sockets.chunks(DESCRIPTORS_MAX) {
        let message = Message::Connections { protocol, has_logged_in, count: part.len() };
        channel.send(message.compose().as_bytes(), part, STEP_TIMEOUT)?;
    }
    Ok(sockets.len() as u64)
}
