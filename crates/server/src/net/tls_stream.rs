//! TLS over a socket.
//!
//! ```text
//!   socket --recv--> worker's ciphertext buffer --> rustls: partial record --> value or read buffer
//!                                                     |
//!                                                     |  replies to handshakes, tickets, alerts
//!                                                     v
//!   socket <--writev-- rustls: ciphertext <--encrypt-- Out
//! ```
//!
//! rustls does no input or output itself. It buffers incomplete records, and ciphertext that the socket has not
//! accepted.
//!
//! Invariants:
//! - FITS: a receive reads at most as many bytes of ciphertext as there is room for plaintext. At most one record's
//!   plaintext therefore stays in rustls, plus the part of a record that it already had. The next receive returns it.
//! - SHORT-READ: a receive that returns plaintext buffered in rustls does not read the socket, so it reports that
//!   there may be more. All other receives go by the amount of ciphertext read.
//! - BLOCKED-STOPS: nothing is encrypted while ciphertext waits for the socket, and an output whose ciphertext waits is
//!   not drained. A client that does not read uses one full [`Out`], and `ssl_wbuf_size` of ciphertext.
//! - A peer that violates the protocol is sent one alert, and nothing after it.
//! - A connection may end without TLS's close notice, as in memcached. Truncation is no attack here, because every
//!   request states its own length or end.
//!
//! During a handshake a connection holds rustls's state and at most 64 KiB of a message.

use crate::os::sys;
use crate::os::sys::Receipt;
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

pub(super) struct TlsStream {
    /// A socket of any family: only reads and writes are used.
    socket: TcpStream,
    tls: ServerConnection,
    counters: Arc<TlsCounters>,
    watch: Arc<WatchLog>,
    stage: Stage,
    /// The peer sent its close notice.
    peer_ended: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Handshake,
    Open,
    /// Failed; the alert was the last message.
    Broken,
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
        TlsStream { socket, tls, counters, watch, stage: Stage::Handshake, peer_ended: false }
    }

    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    pub fn is_handshaking(&self) -> bool {
        self.stage == Stage::Handshake
    }

    /// Receives into the two slices in order; together they have room for at least one byte.
    pub fn receive(
        &mut self,
        places: [&mut [u8]; 2],
        ciphertext: &mut [u8],
    ) -> io::Result<Receipt> {
        let mut places = Places { places, filled: 0 };
        self.take_plaintext(&mut places)?;
        if places.filled > 0 {
            // SHORT-READ
            return Ok(Receipt::Bytes { count: places.filled, more: true });
        }
        if self.peer_ended {
            return Ok(Receipt::End);
        }
        // FITS
        let room = ciphertext.len().min(places.room());
        match sys::receive(self.socket.as_fd(), &mut ciphertext[..room])? {
            Receipt::Bytes { count, more } => {
                self.decrypt(&ciphertext[..count], &mut places)?;
                let more = more || places.room() == 0 || self.peer_ended;
                Ok(Receipt::Bytes { count: places.filled, more })
            }
            nothing_or_end => Ok(nothing_or_end),
        }
    }

    /// Encrypts and writes as much as the socket accepts. Returns how the call ended and the number of bytes taken from
    /// `out`.
    pub fn write(&mut self, out: &mut Out<'_>) -> io::Result<(Flush, usize)> {
        let (flush, count) = out.write_to(self)?;
        if flush != Flush::Drained {
            return Ok((flush, count));
        }
        // BLOCKED-STOPS
        match self.push_ciphertext() {
            Ok(()) => Ok((Flush::Drained, count)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok((Flush::Blocked, count)),
            Err(error) => Err(error),
        }
    }

    /// Sends the close notice, if the socket accepts it at once.
    pub fn notify_close(&mut self) {
        if self.stage == Stage::Open {
            self.tls.send_close_notify();
            // The connection closes even if the peer is gone or does not read.
            let _ = self.push_ciphertext();
        }
    }

    fn decrypt(&mut self, mut ciphertext: &[u8], places: &mut Places<'_>) -> io::Result<()> {
        while !ciphertext.is_empty() && !self.peer_ended {
            match self.tls.read_tls(&mut ciphertext) {
                Ok(0) => return Err(self.break_off(&"a record of impossible length")),
                Ok(_) => {}
                Err(error) => return Err(self.break_off(&error)),
            }
            match self.tls.process_new_packets() {
                Ok(state) => self.peer_ended = state.peer_has_closed(),
                Err(error) => return Err(self.break_off(&error)),
            }
            self.take_plaintext(places)?;
        }
        if self.stage == Stage::Handshake && !self.tls.is_handshaking() {
            self.open();
        }
        Ok(())
    }

    fn open(&mut self) {
        self.stage = Stage::Open;
        if self.tls.handshake_kind() != Some(HandshakeKind::Resumed) {
            self.counters.new_sessions.fetch_add(1, Ordering::Relaxed);
        }
        if !self.tls.wants_write() {
            // No reply carries the acknowledgement of the client's last message. Without it, Nagle's algorithm delays
            // the client's first request by 40 ms. Failure is harmless.
            let _ = sys::acknowledge_now(self.socket.as_fd());
        }
    }

    fn take_plaintext(&mut self, places: &mut Places<'_>) -> io::Result<()> {
        while places.room() > 0 {
            match self.tls.reader().read(places.unfilled()) {
                Ok(0) => break,
                Ok(count) => places.filled += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Ends the stream after a protocol error or a rejected certificate.
    fn break_off(&mut self, reason: &dyn Display) -> io::Error {
        let descriptor = self.socket.as_raw_fd();
        let reason = reason.to_string().replace(['\r', '\n'], " ");
        tracing::info!("<{descriptor} TLS: {reason}");
        self.watch.write(&WatchEvent::TlsFailed { reason: &reason, descriptor });
        let counter = match self.stage {
            Stage::Handshake => &self.counters.handshake_errors,
            Stage::Open | Stage::Broken => &self.counters.protocol_errors,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        self.stage = Stage::Broken;
        // rustls has made the alert. The peer may not read it any more.
        let _ = self.push_ciphertext();
        io::ErrorKind::InvalidData.into()
    }

    /// Writes all waiting ciphertext. Returns `WouldBlock` if the socket accepts no more.
    fn push_ciphertext(&mut self) -> io::Result<()> {
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
    /// Encrypts up to `ssl_wbuf_size` bytes, and writes as much of their ciphertext as the socket accepts.
    fn send_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        // BLOCKED-STOPS
        self.push_ciphertext()?;
        let count = self.tls.writer().write_vectored(slices)?;
        match self.push_ciphertext() {
            // The next call finds the socket blocked.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(count),
            pushed => pushed.map(|()| count),
        }
    }
}

struct Places<'a> {
    places: [&'a mut [u8]; 2],
    filled: usize,
}

impl Places<'_> {
    fn room(&self) -> usize {
        let [first, second] = &self.places;
        first.len() + second.len() - self.filled
    }

    /// The unfilled rest of the first place that is not full.
    fn unfilled(&mut self) -> &mut [u8] {
        let [first, second] = &mut self.places;
        match self.filled.checked_sub(first.len()) {
            None => &mut first[self.filled..],
            Some(filled) => &mut second[filled..],
        }
    }
}
