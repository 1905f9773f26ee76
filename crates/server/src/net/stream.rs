//! The byte stream between a session and its client: a socket, with or without TLS.

use super::tls_stream::TlsStream;
use crate::os::sys::{self, ReceiveOutcome};
use crate::out::{Flush, Out};
use std::fmt::Display;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The byte stream between a session and its client.
pub(super) enum Stream {
    /// A socket without TLS.
    Plain(OwnedFd),
    /// TLS over a socket. The variant is boxed, so that connections without TLS need less memory.
    Tls(Box<TlsStream>),
}

impl Stream {
    /// Returns the socket of the stream.
    pub fn socket(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Plain(socket) => socket.as_fd(),
            Stream::Tls(tls) => tls.socket(),
        }
    }

    /// Receives into the first slice and, when the first slice is full, into the second slice, which must not be empty.
    /// A TLS stream receives ciphertext into `ciphertext` and decrypts it into the slices.
    pub fn receive(
        &mut self,
        [first, second]: [&mut [u8]; 2],
        ciphertext: &mut [u8],
    ) -> io::Result<ReceiveOutcome> {
        match self {
            Stream::Plain(socket) if first.is_empty() => sys::receive(socket.as_fd(), second),
            Stream::Plain(socket) => sys::receive_into_two(socket.as_fd(), first, second),
            Stream::Tls(tls) => tls.receive([first, second], ciphertext),
        }
    }

    /// Writes output until the socket accepts no more, at most 1 MiB. Returns how the call ended and the number of
    /// bytes taken from `out`. The caller calls this function even if `out` is empty, because a TLS stream may have
    /// messages of the TLS protocol to send.
    pub fn write(&mut self, out: &mut Out<'_>) -> io::Result<(Flush, usize)> {
        match self {
            Stream::Plain(_) if out.is_empty() => Ok((Flush::Drained, 0)),
            Stream::Plain(socket) => out.write_to(&mut socket.as_fd()),
            Stream::Tls(tls) => tls.write(out),
        }
    }

    /// Returns the size of the buffers that the client makes the stream hold, in bytes.
    pub fn held_bytes(&self) -> usize {
        match self {
            Stream::Plain(_) => 0,
            Stream::Tls(tls) => tls.held_bytes(),
        }
    }

    /// True during a TLS handshake.
    pub fn is_handshaking(&self) -> bool {
        match self {
            Stream::Plain(_) => false,
            Stream::Tls(tls) => tls.is_handshaking(),
        }
    }

    /// On a TLS stream, logs and counts a handshake that takes too long.
    pub fn fail_handshake(&mut self, reason: &dyn Display) {
        if let Stream::Tls(tls) = self {
            tls.fail(reason);
        }
    }

    /// On a TLS stream, sends the alert `close_notify` if the socket accepts it at once.
    pub fn notify_close(&mut self) {
        if let Stream::Tls(tls) = self {
            tls.notify_close();
        }
    }
}
