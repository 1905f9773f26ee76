//! A socket with TLS before it.
//!
//! ```text
//!   socket --recv--> worker's ciphertext buffer --> rustls: half a record --> value or read buffer
//!                                                     |
//!                                                     |  replies to handshakes, tickets, alerts
//!                                                     v
//!   socket <--writev-- rustls: ciphertext <--encrypt-- Out
//! ```
//!
//! rustls does no input and no output; it holds what is not yet a whole record, and ciphertext that the
//! socket has not taken.
//!
//! Invariants:
//! - FITS: a receive takes no more ciphertext than there is room for its plaintext. So at most one
//!   record's plaintext stays in rustls (what it held of a record before may come on top), and is
//!   what the next receive brings.
//! - SHORT-READ: plaintext that stayed behind is brought without a look at the socket, so that receive
//!   says that there may be more. For all others it is the socket's ciphertext that is counted.
//! - BLOCKED-STOPS: nothing is encrypted while ciphertext waits for the socket; an output whose
//!   ciphertext waits is not drained. A client that does not read holds one full [`Out`], and
//!   `ssl_wbuf_size` of ciphertext.
//! - A peer that breaks the protocol is told so by an alert, and then there is nothing more to say.
//! - The end of the connection without TLS's own end is an end, as in memcached: every request says by
//!   itself where it ends, so that nobody gains by cutting one off.
//!
//! A connection whose handshake is not through holds rustls's state and at most 64 KiB of a message.

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
    /// Of whatever family: what is done with it is the same.
    socket: TcpStream,
    tls: ServerConnection,
    counters: Arc<TlsCounters>,
    watch: Arc<WatchLog>,
    stage: Stage,
    /// The peer said that it closes.
    peer_ended: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Handshake,
    Open,
    /// Broken off: the alert is all that was left to say.
    Broken,
}

impl TlsStream {
    /// A connection before its first byte.
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

    /// Receives into the places, one after the other; together they have room for a byte.
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

    /// Encrypts and writes what the socket takes; returns how far it came and how much it took out of
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

    /// Says that this end closes, as far as the socket takes it at once.
    pub fn part(&mut self) {
        if self.stage == Stage::Open {
            self.tls.send_close_notify();
            // The peer may be gone or may not read: it is closed either way.
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
            // No reply carries the acknowledgement of the client's last message, and without it
            // Nagle's algorithm keeps the client's first request back for 40 ms. It is only a hint.
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

    /// The peer broke the protocol, or does not get in.
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
        // rustls has made the alert; whether the peer still reads it is the peer's business.
        let _ = self.push_ciphertext();
        io::ErrorKind::InvalidData.into()
    }

    /// Writes all ciphertext there is; `WouldBlock` when the socket takes no more.
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
    /// Takes up to `ssl_wbuf_size` bytes, and writes as much of their ciphertext as the socket takes.
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

    /// The rest of the first place that has any.
    fn unfilled(&mut self) -> &mut [u8] {
        let [first, second] = &mut self.places;
        match self.filled.checked_sub(first.len()) {
            None => &mut first[self.filled..],
            Some(filled) => &mut second[filled..],
        }
    }
}
