//! How a connection's bytes travel: as they are, or through TLS.
//!
//! ```text
//!   Connection -- receive --> Stream --> Plain: recv, send, writev
//!              -- write  -->        '--> Tls:   the same around a TLS state
//! ```
//!
//! One match a call is all that plain connections pay for the others.
//!
//! Who may call it: the connection that owns it.

use super::tls_stream::TlsStream;
use crate::out::{Flush, Out};
use crate::sys;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// The way between a session and its peer.
pub(super) enum Stream {
    /// A socket.
    Plain(OwnedFd),
    /// A socket with TLS before it. Boxed: most connections are plain.
    Tls(Box<TlsStream>),
}

/// What a receive brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Receipt {
    /// So many bytes for the session; none, where all that came was TLS's own.
    Bytes {
        /// How many.
        count: usize,
        /// Whether another receive may bring more, without a new event.
        more: bool,
    },
    /// Nothing is there; there will be an event.
    Nothing,
    /// The peer will send no more.
    End,
}

impl Receipt {
    /// Bytes for the session.
    pub fn count(self) -> usize {
        match self {
            Receipt::Bytes { count, .. } => count,
            Receipt::Nothing | Receipt::End => 0,
        }
    }
}

impl Stream {
    pub fn socket(&self) -> &OwnedFd {
        match self {
            Stream::Plain(socket) => socket,
            Stream::Tls(tls) => tls.socket(),
        }
    }

    /// Receives into `buffer`, which is not empty; TLS decrypts by way of `ciphertext`.
    pub fn receive(&mut self, buffer: &mut [u8], ciphertext: &mut [u8]) -> io::Result<Receipt> {
        match self {
            Stream::Plain(socket) => receipt(sys::receive(socket.as_fd(), buffer), buffer.len()),
            Stream::Tls(tls) => tls.receive([&mut [], buffer], ciphertext),
        }
    }

    /// Receives into two buffers, one after the other.
    pub fn receive_two(
        &mut self,
        first: &mut [u8],
        second: &mut [u8],
        ciphertext: &mut [u8],
    ) -> io::Result<Receipt> {
        match self {
            Stream::Plain(socket) => {
                let room = first.len() + second.len();
                receipt(sys::receive_two(socket.as_fd(), first, second), room)
            }
            Stream::Tls(tls) => tls.receive([first, second], ciphertext),
        }
    }

    /// Writes what the socket takes; returns how far it came and how many bytes it took out of `out`.
    /// Call it with an empty `out`, too: TLS has messages of its own to write.
    pub fn write(&mut self, out: &mut Out<'_>) -> io::Result<(Flush, usize)> {
        match self {
            Stream::Plain(_) if out.is_empty() => Ok((Flush::Drained, 0)),
            Stream::Plain(socket) => out.write_to(&mut socket.as_fd()),
            Stream::Tls(tls) => tls.write(out),
        }
    }

    /// Whether the two ends are not yet agreed on how to talk.
    pub fn is_handshaking(&self) -> bool {
        match self {
            Stream::Plain(_) => false,
            Stream::Tls(tls) => tls.is_handshaking(),
        }
    }

    /// Tells the peer that this end is about to close, as far as the socket takes it at once.
    pub fn part(&mut self) {
        if let Stream::Tls(tls) = self {
            tls.part();
        }
    }
}

/// SHORT-READ: what one system call into `room` bytes says.
pub(super) fn receipt(received: io::Result<usize>, room: usize) -> io::Result<Receipt> {
    match received {
        Ok(0) => Ok(Receipt::End),
        Ok(count) => Ok(Receipt::Bytes { count, more: count == room }),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Receipt::Nothing),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => {
            Ok(Receipt::Bytes { count: 0, more: true })
        }
        Err(error) => Err(error),
    }
}
