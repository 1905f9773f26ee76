//! How a connection's bytes travel: as they are, or through TLS.
//!
//! ```text
//!   Connection -- receive --> Stream --> Plain: recv, send, writev
//!              -- write  -->        '--> Tls:   the same around a TLS state
//! ```
//!
//! One match a call is all that plain connections pay for the others.

use super::receipt::{Receipt, receipt};
use super::tls_stream::TlsStream;
use crate::os::sys;
use crate::out::{Flush, Out};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// The way between a session and its peer.
pub(super) enum Stream {
    /// A socket.
    Plain(OwnedFd),
    /// A socket with TLS before it. Boxed: most connections are plain.
    Tls(Box<TlsStream>),
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
