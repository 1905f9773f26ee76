//! The byte stream between a session and its client: a socket, with or without TLS.

use super::event_loop::{EventLoop, Socket, SocketSink};
use super::tls_stream::TlsStream;
use crate::os::sockets::ReceiveOutcome;
use crate::out::{Flush, Out};
use std::fmt::Display;
use std::io;

/// The byte stream between a session and its client.
pub(super) enum Stream {
    /// A socket without TLS.
    Plain(Socket),
    /// TLS over a socket. The variant is boxed, so that connections without TLS need less memory.
    Tls(Box<TlsStream>),
}

impl Stream {
    /// Returns the socket of the stream.
    pub fn socket(&self) -> &Socket {
        match self {
            Stream::Plain(socket) => socket,
            Stream::Tls(tls) => tls.socket(),
        }
    }

    /// Returns the socket of the stream.
    pub fn socket_mut(&mut self) -> &mut Socket {
        match self {
            Stream::Plain(socket) => socket,
            Stream::Tls(tls) => tls.socket_mut(),
        }
    }

    /// Receives into the first slice and, when the first slice is full, into the second slice, which must not be empty.
    /// A TLS stream receives ciphertext into `ciphertext` and decrypts it into the slices.
    pub fn receive<L: EventLoop>(
        &mut self,
        event_loop: &mut L,
        targets: [&mut [u8]; 2],
        ciphertext: &mut [u8],
    ) -> io::Result<ReceiveOutcome> {
        match self {
            Stream::Plain(socket) => event_loop.receive(socket, targets),
            Stream::Tls(tls) => tls.receive(event_loop, targets, ciphertext),
        }
    }

    /// Writes output until the socket accepts no more, at most 1 MiB. Returns how the call ended and the number of
    /// bytes taken from `out`. The caller calls this function even if `out` is empty, because a TLS stream may have
    /// messages of the TLS protocol to send.
    pub fn write<L: EventLoop>(
        &mut self,
        event_loop: &mut L,
        out: &mut Out<'_>,
    ) -> io::Result<(Flush, usize)> {
        match self {
            Stream::Plain(_) if out.is_empty() => Ok((Flush::Drained, 0)),
            Stream::Plain(socket) => out.write_to(&mut SocketSink { event_loop, socket }),
            Stream::Tls(tls) => tls.write(event_loop, out),
        }
    }

    /// Sends everything that the socket has accepted. Returns [`Flush::Drained`] or [`Flush::Blocked`].
    pub fn flush<L: EventLoop>(&mut self, event_loop: &mut L) -> io::Result<Flush> {
        match event_loop.flush(self.socket()) {
            Ok(()) => Ok(Flush::Drained),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Flush::Blocked),
            Err(error) => Err(error),
        }
    }

    /// Returns the size of the buffers that the client makes the stream hold, in bytes.
    pub fn held_bytes<L: EventLoop>(&self, event_loop: &L) -> usize {
        match self {
            Stream::Plain(socket) => event_loop.held_bytes(socket),
            Stream::Tls(tls) => tls.held_bytes() + event_loop.held_bytes(tls.socket()),
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
    pub fn fail_handshake<L: EventLoop>(&mut self, event_loop: &mut L, reason: &dyn Display) {
        if let Stream::Tls(tls) = self {
            tls.fail(event_loop, reason);
        }
    }

    /// On a TLS stream, sends the alert `close_notify` if the socket accepts it at once.
    pub fn notify_close<L: EventLoop>(&mut self, event_loop: &mut L) {
        if let Stream::Tls(tls) = self {
            tls.notify_close(event_loop);
        }
    }
}
