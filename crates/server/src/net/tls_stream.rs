//! A stream that encrypts and decrypts the bytes of a socket with TLS.
//!
//! ```text
//!   socket --recv--> worker's ciphertext buffer --> rustls: partial record --> value or read buffer
//!                         |         ^                 |
//!                         v         |                 |  replies to handshakes, tickets, alerts
//!                         '-backlog-'                 v
//!   socket <--writev-- rustls: ciphertext <--encrypt-- Out
//! ```
//!
//! rustls makes no system calls. It buffers incomplete records, and ciphertext that the socket has not accepted.
//!
//! Invariants:
//! - FEW-RECORDS: a call of [`TlsStream::receive`] decrypts at most [`RECORDS_PER_CALL_MAX`] records; the rest of the
//!   received ciphertext is the backlog of the stream. A record takes time even if it contains no request: a key update
//!   takes several microseconds.
//! - FITS: a call decrypts only while its target slices have room. So rustls keeps the plaintext of at most one record,
//!   and of 4 KiB of ciphertext after it. The next call returns that plaintext.
//! - SHORT-READ: a call that returns plaintext from the buffer of rustls, or that decrypts the backlog, does not read
//!   the socket, so it reports that more input may follow. Any other call reports more input if the socket filled the
//!   buffer for ciphertext, if there is a backlog, if the targets are full, or if the client has sent `close_notify`.
//! - BLOCKED-STOPS: while ciphertext waits for the socket, no output is encrypted, and the output is not reported as
//!   drained. A client that does not read uses the memory of one full [`Out`] and of `ssl_wbuf_size` bytes of
//!   ciphertext.
//! - After a client has violated the protocol, the server sends one alert and nothing else.
//! - As in memcached, a client may close the connection without the alert `close_notify`. An attacker gains nothing by
//!   truncating a connection, because every request states its length or ends with a line end.

use super::event_loop::{EventLoop, Socket, SocketSink};
use super::tls_state::TlsState;
use crate::os::sockets::{self, ReceiveOutcome};
use crate::out::{Flush, Out, Sink};
use crate::shared::{WatchEvent, WatchLog};
use crate::tls::TlsCounters;
use rustls::server::ServerConnection;
use slabwise_base::Seconds;
use std::fmt::Display;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The maximum number of records that a call decrypts.
pub(super) const RECORDS_PER_CALL_MAX: usize = 32;

/// A socket with TLS.
pub(super) struct TlsStream {
    socket: Socket,
    tls: TlsState,
    backlog: Backlog,
    counters: Arc<TlsCounters>,
    watch: Arc<WatchLog>,
    stage: Stage,
    /// The second of the clock at which the client connected.
    opened_at: Seconds,
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

/// Ciphertext that was received, and that rustls has not read.
#[derive(Default)]
struct Backlog {
    bytes: Vec<u8>,
    /// The number of bytes at the start of `bytes` that rustls has read.
    start: usize,
}

impl TlsStream {
    /// Makes the stream of a connection that a client has opened at this second.
    pub fn new(
        socket: Socket,
        tls: ServerConnection,
        counters: Arc<TlsCounters>,
        watch: Arc<WatchLog>,
        opened_at: Seconds,
    ) -> TlsStream {
        TlsStream {
            socket,
            tls: TlsState::new(tls),
            backlog: Backlog::default(),
            counters,
            watch,
            stage: Stage::Handshake,
            opened_at,
        }
    }

    pub fn socket(&self) -> &Socket {
        &self.socket
    }

    pub fn socket_mut(&mut self) -> &mut Socket {
        &mut self.socket
    }

    pub fn is_handshaking(&self) -> bool {
        self.stage == Stage::Handshake
    }

    /// True if the client connected before `since`, and the handshake is not complete.
    pub fn is_handshaking_since(&self, since: Seconds) -> bool {
        self.is_handshaking() && self.opened_at < since
    }

    /// Returns the size of the buffers that the client makes the stream hold, in bytes. It is 0 for an idle connection
    /// of a client without a certificate.
    pub fn held_bytes(&self) -> usize {
        self.tls.held_bytes() + self.backlog.bytes.capacity()
    }

    /// Receives into the first slice and, when the first slice is full, into the second slice. At least one slice is
    /// not empty. `ciphertext` is the worker's buffer for received ciphertext.
    pub fn receive<L: EventLoop>(
        &mut self,
        event_loop: &mut L,
        targets: [&mut [u8]; 2],
        ciphertext: &mut [u8],
    ) -> io::Result<ReceiveOutcome> {
        let mut targets = TargetSlices { targets, filled: 0 };
        self.take_plaintext(&mut targets)?;
        if targets.filled > 0 {
            // SHORT-READ: the socket was not read, so it may have input.
            return Ok(ReceiveOutcome::Bytes { count: targets.filled, more: true });
        }
        if self.tls.peer_sent_close_notify() {
            return Ok(ReceiveOutcome::PeerClosed);
        }
        if !self.backlog.bytes.is_empty() {
            self.decrypt_backlog(event_loop, &mut targets)?;
            return Ok(ReceiveOutcome::Bytes { count: targets.filled, more: true });
        }
        // The plaintext of this ciphertext usually fits into the targets, so that there is no backlog.
        let room = ciphertext.len().min(targets.room());
        match event_loop.receive(&self.socket, [&mut [], &mut ciphertext[..room]])? {
            ReceiveOutcome::Bytes { count, more } => {
                let rest = self.decrypt(event_loop, &ciphertext[..count], &mut targets)?;
                if !rest.is_empty() {
                    self.backlog = Backlog { bytes: rest.to_vec(), start: 0 };
                }
                let more = more
                    || !self.backlog.bytes.is_empty()
                    || targets.room() == 0
                    || self.tls.peer_sent_close_notify();
                Ok(ReceiveOutcome::Bytes { count: targets.filled, more })
            }
            no_bytes => Ok(no_bytes),
        }
    }

    /// Encrypts and writes output until the socket accepts no more, at most 1 MiB. Returns how the call ended and the
    /// number of bytes taken from `out`.
    pub fn write<L: EventLoop>(
        &mut self,
        event_loop: &mut L,
        out: &mut Out<'_>,
    ) -> io::Result<(Flush, usize)> {
        let (flush, count) = out.write_to(&mut TlsSink { stream: self, event_loop })?;
        if flush != Flush::Drained {
            return Ok((flush, count));
        }
        // BLOCKED-STOPS: the output is drained only when the socket has accepted its ciphertext.
        match self.write_ciphertext(event_loop) {
            Ok(()) => Ok((Flush::Drained, count)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok((Flush::Blocked, count)),
            Err(error) => Err(error),
        }
    }

    /// Sends the alert `close_notify` if the socket accepts it at once.
    pub fn notify_close<L: EventLoop>(&mut self, event_loop: &mut L) {
        if self.stage == Stage::Established {
            self.tls.send_close_notify();
            // An error is ignored, because the caller closes the connection in any case.
            let _ = self.write_ciphertext(event_loop);
        }
    }

    /// Decrypts the backlog into the targets.
    fn decrypt_backlog<L: EventLoop>(
        &mut self,
        event_loop: &mut L,
        targets: &mut TargetSlices<'_>,
    ) -> io::Result<()> {
        let Backlog { bytes, start } = std::mem::take(&mut self.backlog);
        let rest_len = self.decrypt(event_loop, &bytes[start..], targets)?.len();
        if rest_len > 0 {
            self.backlog = Backlog { start: bytes.len() - rest_len, bytes };
        }
        Ok(())
    }

    /// Decrypts `ciphertext` into the targets. Returns the rest, which is not decrypted because the targets are full or
    /// because of FEW-RECORDS. Returns an error if the client violates the protocol.
    fn decrypt<'c, L: EventLoop>(
        &mut self,
        event_loop: &mut L,
        mut ciphertext: &'c [u8],
        targets: &mut TargetSlices<'_>,
    ) -> io::Result<&'c [u8]> {
        let mut records_left = RECORDS_PER_CALL_MAX;
        while !ciphertext.is_empty() && records_left > 0 && targets.room() > 0 {
            let decrypted = self.tls.decrypt(&mut ciphertext, &mut records_left);
            if self.is_handshaking() && !self.tls.is_handshaking() {
                self.complete_handshake();
            }
            if let Err(fault) = decrypted {
                return Err(self.fail(event_loop, &fault));
            }
            self.take_plaintext(targets)?;
            if self.tls.peer_sent_close_notify() {
                // TLS requires that the server ignores everything after this alert.
                ciphertext = &[];
            }
        }
        self.tls.free_input_buffer();
        Ok(ciphertext)
    }

    /// Counts the session, unless the client resumed one, and acknowledges the client's last message.
    fn complete_handshake(&mut self) {
        self.stage = Stage::Established;
        if !self.tls.is_resumed() {
            self.counters.new_sessions.fetch_add(1, Ordering::Relaxed);
        }
        if !self.tls.wants_write() {
            // The server sends no reply to the last message of the handshake, so the kernel would delay the TCP
            // acknowledgment by 40 ms, and Nagle's algorithm in the client's kernel would delay the first request until
            // then. A failure is ignored, because it only costs this time.
            let _ = sockets::acknowledge_now(self.socket.as_fd());
        }
    }

    /// Moves decrypted bytes from rustls into the targets.
    fn take_plaintext(&mut self, targets: &mut TargetSlices<'_>) -> io::Result<()> {
        while targets.room() > 0 {
            match self.tls.take_plaintext(targets.unfilled())? {
                0 => break,
                count => targets.filled += count,
            }
        }
        Ok(())
    }

    /// Logs and counts a failure: a violation of the protocol, a rejected certificate, or a handshake that takes too
    /// long. Sends the alert, if rustls has made one. Returns the error that closes the connection.
    pub fn fail<L: EventLoop>(&mut self, event_loop: &mut L, reason: &dyn Display) -> io::Error {
        let descriptor = self.socket.as_fd().as_raw_fd();
        let reason = reason.to_string().replace(['\r', '\n'], " ");
        tracing::info!("<{descriptor} TLS: {reason}");
        self.watch.write(&WatchEvent::TlsFailed { reason: &reason, descriptor });
        let counter = match self.stage {
            Stage::Handshake => &self.counters.handshake_errors,
            Stage::Established | Stage::Failed => &self.counters.protocol_errors,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        self.stage = Stage::Failed;
        // An error is ignored, because the client may have closed the connection.
        let _ = self.write_ciphertext(event_loop);
        io::ErrorKind::InvalidData.into()
    }

    /// Writes all ciphertext that rustls has buffered. Returns the error `WouldBlock` if the socket accepts no more.
    fn write_ciphertext<L: EventLoop>(&mut self, event_loop: &mut L) -> io::Result<()> {
        self.tls.write_to(&mut SocketSink { event_loop, socket: &self.socket })
    }
}

/// A TLS stream as the target of replies.
struct TlsSink<'a, L> {
    stream: &'a mut TlsStream,
    event_loop: &'a mut L,
}

impl<L: EventLoop> Sink for TlsSink<'_, L> {
    /// Encrypts at most `ssl_wbuf_size` bytes, and writes their ciphertext until the socket accepts no more. Returns
    /// the number of encrypted bytes.
    fn send_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        // BLOCKED-STOPS: nothing is encrypted while earlier ciphertext waits for the socket.
        let TlsSink { stream, event_loop } = self;
        stream.write_ciphertext(*event_loop)?;
        let count = stream.tls.encrypt(slices)?;
        match stream.write_ciphertext(*event_loop) {
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
