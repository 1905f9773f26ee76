//! A stream that encrypts and decrypts the bytes of a socket with TLS.
//!
//! ```text
//!   socket --recv--> worker's ciphertext buffer --> rustls: partial record --> value or read buffer
//!                                                     |
//!                                                     |  replies to handshakes, tickets, alerts
//!                                                     v
//!   socket <--writev-- rustls: ciphertext <--encrypt-- Out
//! ```
//!
//! rustls makes no system calls. It buffers incomplete records, and ciphertext that the socket has not accepted.
//!
//! Invariants:
//! - FITS: a call of [`TlsStream::receive`] reads no more bytes of ciphertext from the socket than its target slices
//!   can hold. A plaintext is shorter than its ciphertext, so rustls keeps the plaintext of at most one record that was
//!   incomplete before the call. The next call returns that plaintext.
//! - SHORT-READ: a call that returns plaintext from the buffer of rustls does not read the socket, so it reports that
//!   more input may follow. Any other call reports more input if the socket filled the buffer for ciphertext, if the
//!   targets are full, or if the client has sent `close_notify`.
//! - BLOCKED-STOPS: while ciphertext waits for the socket, no output is encrypted, and the output is not reported as
//!   drained. A client that does not read uses the memory of one full [`Out`] and of `ssl_wbuf_size` bytes of
//!   ciphertext.
//! - After a client has violated the protocol, the server sends one alert and nothing else.
//! - As in memcached, a client may close the connection without the alert `close_notify`. An attacker gains nothing by
//!   truncating a connection, because every request states its length or ends with a line end.
//!
//! During a handshake a connection owns the state of rustls and at most 64 KiB of an incomplete message.

use crate::os::sys;
use crate::os::sys::ReceiveOutcome;
use crate::out::{Flush, Out, Sink};
use crate::shared::{WatchEvent, WatchLog};
use crate::tls::TlsCounters;
use rustls::HandshakeKind;
use rustls::server::ServerConnection;
use std::fmt::Display;
use std::io::{self, IoSlice, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A socket with TLS.
pub(super) struct TlsStream {
    /// The socket. It may be a Unix socket, too: the type `TcpStream` is used only for its reads and writes.
    socket: TcpStream,
    tls: ServerConnection,
    counters: Arc<TlsCounters>,
    watch: Arc<WatchLog>,
    stage: Stage,
    /// True if the client has sent the alert `close_notify`, which ends its side of the connection.
    peer_sent_close_notify: bool,
}

/// The stage of a TLS connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The handshake is not complete.
    Handshake,
    /// The handshake is complete.
    Established,
    /// The client has violated the protocol or has an invalid certificate. The server sends nothing more.
    Failed,
}

impl TlsStream {
    /// Makes the stream of a new connection.
    pub fn new(
        socket: OwnedFd,
        tls: ServerConnection,
        counters: Arc<TlsCounters>,
        watch: Arc<WatchLog>,
    ) -> TlsStream {
        let socket = socket.into();
        TlsStream {
            socket,
            tls,
            counters,
            watch,
            stage: Stage::Handshake,
            peer_sent_close_notify: false,
        }
    }

    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    pub fn is_handshaking(&self) -> bool {
        self.stage == Stage::Handshake
    }

    /// Receives into the first slice and, when the first slice is full, into the second slice. At least one slice is
    /// not empty. `ciphertext` is the worker's buffer for received ciphertext.
    pub fn receive(
        &mut self,
        targets: [&mut [u8]; 2],
        ciphertext: &mut [u8],
    ) -> io::Result<ReceiveOutcome> {
        let mut targets = TargetSlices { targets, filled: 0 };
        self.take_plaintext(&mut targets)?;
        if targets.filled > 0 {
            // SHORT-READ: the socket was not read, so it may have input.
            return Ok(ReceiveOutcome::Bytes { count: targets.filled, more: true });
        }
        if self.peer_sent_close_notify {
            return Ok(ReceiveOutcome::PeerClosed);
        }
        // FITS: the plaintext of this ciphertext must fit into the targets.
        let room = ciphertext.len().min(targets.room());
        match sys::receive(self.socket.as_fd(), &mut ciphertext[..room])? {
            ReceiveOutcome::Bytes { count, more } => {
                self.decrypt(&ciphertext[..count], &mut targets)?;
                let more = more || targets.room() == 0 || self.peer_sent_close_notify;
                Ok(ReceiveOutcome::Bytes { count: targets.filled, more })
            }
            no_bytes => Ok(no_bytes),
        }
    }

    /// Encrypts and writes output until the socket accepts no more, at most 1 MiB. Returns how the call ended and the
    /// number of bytes taken from `out`.
    pub fn write(&mut self, out: &mut Out<'_>) -> io::Result<(Flush, usize)> {
        let (flush, count) = out.write_to(self)?;
        if flush != Flush::Drained {
            return Ok((flush, count));
        }
        // BLOCKED-STOPS: the output is drained only when the socket has accepted its ciphertext.
        match self.write_ciphertext() {
            Ok(()) => Ok((Flush::Drained, count)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok((Flush::Blocked, count)),
            Err(error) => Err(error),
        }
    }

    /// Sends the alert `close_notify` if the socket accepts it at once.
    pub fn notify_close(&mut self) {
        if self.stage == Stage::Established {
            self.tls.send_close_notify();
            // An error is ignored, because the caller closes the connection in any case.
            let _ = self.write_ciphertext();
        }
    }

    /// Decrypts `ciphertext` into the targets. Returns an error if the client violates the protocol.
    fn decrypt(&mut self, mut ciphertext: &[u8], targets: &mut TargetSlices<'_>) -> io::Result<()> {
        while !ciphertext.is_empty() && !self.peer_sent_close_notify {
            match self.tls.read_tls(&mut ciphertext) {
                Ok(0) => return Err(self.fail(&"a record is longer than TLS allows")),
                Ok(_) => {}
                Err(error) => return Err(self.fail(&error)),
            }
            match self.tls.process_new_packets() {
                Ok(state) => self.peer_sent_close_notify = state.peer_has_closed(),
                Err(error) => return Err(self.fail(&error)),
            }
            self.take_plaintext(targets)?;
        }
        if self.stage == Stage::Handshake && !self.tls.is_handshaking() {
            self.complete_handshake();
        }
        Ok(())
    }

    /// Counts the session, unless the client resumed one, and acknowledges the client's last message.
    fn complete_handshake(&mut self) {
        self.stage = Stage::Established;
        if self.tls.handshake_kind() != Some(HandshakeKind::Resumed) {
            self.counters.new_sessions.fetch_add(1, Ordering::Relaxed);
        }
        if !self.tls.wants_write() {
            // The server sends no reply to the last message of the handshake, so the kernel would delay the TCP
            // acknowledgment by 40 ms, and Nagle's algorithm in the client's kernel would delay the first request until
            // then. A failure is ignored, because it only costs this time.
            let _ = sys::acknowledge_now(self.socket.as_fd());
        }
    }

    /// Moves decrypted bytes from rustls into the targets.
    fn take_plaintext(&mut self, targets: &mut TargetSlices<'_>) -> io::Result<()> {
        while targets.room() > 0 {
            match self.tls.reader().read(targets.unfilled()) {
                Ok(0) => break,
                Ok(count) => targets.filled += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Logs and counts a protocol error or a rejected certificate, and sends the alert. Returns the error that closes
    /// the connection.
    fn fail(&mut self, reason: &dyn Display) -> io::Error {
        let descriptor = self.socket.as_raw_fd();
        let reason = reason.to_string().replace(['\r', '\n'], " ");
        tracing::info!("<{descriptor} TLS: {reason}");
        self.watch.write(&WatchEvent::TlsFailed { reason: &reason, descriptor });
        let counter = match self.stage {
            Stage::Handshake => &self.counters.handshake_errors,
            Stage::Established | Stage::Failed => &self.counters.protocol_errors,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        self.stage = Stage::Failed;
        // rustls has already encrypted the alert. An error is ignored, because the client may have closed the
        // connection.
        let _ = self.write_ciphertext();
        io::ErrorKind::InvalidData.into()
    }

    /// Writes all ciphertext that rustls has buffered. Returns the error `WouldBlock` if the socket accepts no more.
    fn write_ciphertext(&mut self) -> io::Result<()> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut &self.socket) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl Sink for TlsStream {
    /// Encrypts at most `ssl_wbuf_size` bytes, and writes their ciphertext until the socket accepts no more. Returns
    /// the number of encrypted bytes.
    fn send_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        // BLOCKED-STOPS: nothing is encrypted while earlier ciphertext waits for the socket.
        self.write_ciphertext()?;
        let count = self.tls.writer().write_vectored(slices)?;
        match self.write_ciphertext() {
            // The bytes are encrypted, so they count as accepted. The next call returns `WouldBlock`.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(count),
            pushed => pushed.map(|()| count),
        }
    }
}

/// The two slices into which a call receives: the value that the client is uploading, if any, and the read buffer.
struct TargetSlices<'a> {
    targets: [&'a mut [u8]; 2],
    /// The number of bytes that are filled, in the first slice and then in the second slice.
    filled: usize,
}

impl TargetSlices<'_> {
    /// Returns the number of bytes that are not filled.
    fn room(&self) -> usize {
        let [first, second] = &self.targets;
        first.len() + second.len() - self.filled
    }

    /// Returns the unfilled part of the first slice or, if the first slice is full, of the second slice.
    fn unfilled(&mut self) -> &mut [u8] {
        let [first, second] = &mut self.targets;
        match self.filled.checked_sub(first.len()) {
            None => &mut first[self.filled..],
            Some(filled) => &mut second[filled..],
        }
    }
}
