//! One client: its stream, its session, and what is on its way between them.
//!
//! ```text
//!   stream --receive--> worker's read buffer --consume--> session
//!      ^                  |  half a request                |
//!      |                  v                                v
//!      |               unread (own, usually none)         out (lent by the worker)
//!      '----------------------------write------------------'
//! ```
//!
//! The unit of work is a *turn*: at most one receive, one consume and one bounded flush (after the rest
//! of the one before), so that a client that sends or reads without end takes its turn like any
//! other. An idle connection owns no buffer.
//!
//! Invariants:
//! - BLOCKED-STOPS: while output of an earlier turn is not all written, nothing is received or
//!   consumed. A client that does not read can hold one full [`Out`], and no more.
//! - SHORT-READ: readiness is edge-triggered; a receive that returned less than it could take has
//!   emptied the socket, unless the peer has closed its side, which another receive (0) must confirm.
//!   The stream counts, and says whether there may be more; TLS counts ciphertext.
//! - A half-closed client gets every reply before its connection is closed.

use super::tls_stream::TlsStream;
use crate::config::Protocol;
use crate::os::sys;
use crate::os::sys::Receipt;
use crate::out::{Flush, Out};
use crate::session::{Next, Progress, Session};
use crate::shared::{Client, ClientState, CloseReason, WorkerContext};
use slabwise_base::Seconds;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A turn cut short by the request budget writes only from this much on; less waits for the turn
/// that ends the batch, so that one receive still costs one send.
const EARLY_FLUSH_BYTES_MIN: usize = 32 << 10;

/// What a worker lends to the connection, or the UDP socket, whose turn it is.
pub(super) struct Lent<'e> {
    pub context: WorkerContext<'e>,
    pub read_buffer: Vec<u8>,
    /// Where TLS receives; empty without `-Z`.
    pub ciphertext: Vec<u8>,
    pub outs: OutPool<'e>,
}

/// Output buffers that are in no connection's use. Few are ever needed: a connection holds one only
/// from its first reply until the socket has taken the last.
#[derive(Default)]
pub(super) struct OutPool<'e> {
    #[expect(clippy::vec_box, reason = "connections hold boxes: one pointer while they are idle")]
    spare: Vec<Box<Out<'e>>>,
}

impl<'e> OutPool<'e> {
    const SPARE_MAX: usize = 4;

    pub fn take(&mut self) -> Box<Out<'e>> {
        self.spare.pop().unwrap_or_default()
    }

    pub fn put_back(&mut self, out: Box<Out<'e>>) {
        debug_assert!(out.is_empty());
        if self.spare.len() < OutPool::SPARE_MAX && out.is_worth_keeping() {
            self.spare.push(out);
        }
    }
}

/// What the worker does with a connection after its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    AwaitReadable,
    AwaitWritable,
    /// As `AwaitReadable`; it is a watcher, so lines may come as well.
    AwaitLines,
    /// Another turn, once others had theirs.
    Again,
    Close,
}

pub(super) struct Connection<'e> {
    pub stream: Stream,
    session: Session<'e>,
    pub client: Arc<Client>,
    unread: Unread,
    /// Replies that wait: to be written if `blocked`, else for the end of their batch.
    out: Option<Box<Out<'e>>>,
    blocked: bool,
    phase: Phase,
    /// The stream may hold input that is not received yet.
    readable: bool,
    /// The peer has closed its side: the next short read is not the last.
    peer_closed: bool,
    last_active: Seconds,
    /// Whether the connection stands in the worker's queue for another turn.
    pub queued: bool,
    /// Whether the event loop was asked to tell when the socket is writable.
    pub awaits_writable: bool,
}

/// What remains to be done, beyond writing what is pending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Serve,
    /// The session asked to be called again before more is received.
    Resume,
    Finish,
}

/// Input that the session has not consumed: usually half a request, and usually none.
#[derive(Default)]
struct Unread {
    bytes: Vec<u8>,
    start: usize,
}

impl Unread {
    fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    fn consume(&mut self, count: usize) {
        self.start += count;
        if self.start == self.bytes.len() {
            *self = Unread::default();
        }
    }
}

impl<'e> Connection<'e> {
    pub fn new(
        stream: Stream,
        client: Arc<Client>,
        protocol: Protocol,
        now: Seconds,
    ) -> Connection<'e> {
        Connection {
            stream,
            session: Session::speaking(protocol),
            client,
            unread: Unread::default(),
            out: None,
            blocked: false,
            phase: Phase::Serve,
            readable: false,
            peer_closed: false,
            last_active: now,
            queued: false,
            awaits_writable: false,
        }
    }

    pub fn close_reason(&self) -> CloseReason {
        self.session.close_reason().unwrap_or(match self.phase {
            // The client has sent all that it ever will.
            Phase::Finish => CloseReason::Normal,
            Phase::Serve | Phase::Resume => CloseReason::Error,
        })
    }

    /// Notes that the socket has input, or that the peer closed its side.
    pub fn note_readable(&mut self, peer_closed: bool) {
        self.readable = true;
        self.peer_closed |= peer_closed;
    }

    /// Whether the client has asked nothing since `since`, and is owed nothing: one whose handshake is
    /// not through never is, whether or not it reads.
    pub fn is_idle_since(&self, since: Seconds) -> bool {
        self.last_active < since
            && self.phase == Phase::Serve
            && self.session.is_idle()
            && (self.stream.is_handshaking() || (self.out.is_none() && !self.blocked))
    }

    pub fn turn(&mut self, lent: &mut Lent<'e>) -> Turn {
        let mut out = self.out.take().unwrap_or_else(|| lent.outs.take());
        if self.blocked {
            // BLOCKED-STOPS
            match self.flush(&mut out, lent) {
                Ok(Flush::Drained) => {
                    self.blocked = false;
                    self.note_state();
                }
                Ok(Flush::Blocked) => return self.wait(out, lent, Turn::AwaitWritable),
                Ok(Flush::Paused) => return self.wait(out, lent, Turn::Again),
                Err(_) => return Turn::Close,
            }
        }
        let served = match self.phase {
            Phase::Serve if self.readable => self.receive_and_serve(&mut out, lent),
            Phase::Serve | Phase::Finish => Ok(()),
            Phase::Resume => self.resume(&mut out, lent),
        };
        if served.is_err() {
            return Turn::Close;
        }
        if self.session.is_watching() {
            self.session.take_lines(&mut out);
        }
        if self.phase == Phase::Resume && out.pending_bytes() < EARLY_FLUSH_BYTES_MIN {
            self.keep(out, lent);
            return Turn::Again;
        }
        match self.flush(&mut out, lent) {
            Ok(Flush::Drained) => {
                lent.outs.put_back(out);
                self.after_drained()
            }
            Ok(Flush::Blocked) => self.wait(out, lent, Turn::AwaitWritable),
            Ok(Flush::Paused) => self.wait(out, lent, Turn::Again),
            Err(_) => Turn::Close,
        }
    }

    fn after_drained(&self) -> Turn {
        match self.phase {
            Phase::Finish => Turn::Close,
            Phase::Resume => Turn::Again,
            Phase::Serve if self.readable => Turn::Again,
            Phase::Serve if self.session.is_watching() => Turn::AwaitLines,
            Phase::Serve => Turn::AwaitReadable,
        }
    }

    /// Keeps what is not written; the turn that `next` brings begins with it.
    fn wait(&mut self, out: Box<Out<'e>>, lent: &mut Lent<'e>, next: Turn) -> Turn {
        // With TLS it may be only ciphertext that waits, which the stream keeps.
        self.keep(out, lent);
        self.blocked = true;
        self.client.set_state(ClientState::Writing);
        next
    }

    /// Keeps an output, unless it is empty.
    fn keep(&mut self, out: Box<Out<'e>>, lent: &mut Lent<'e>) {
        if out.is_empty() {
            lent.outs.put_back(out);
        } else {
            self.out = Some(out);
        }
    }

    fn flush(&mut self, out: &mut Out<'e>, lent: &mut Lent<'e>) -> io::Result<Flush> {
        let (flush, count) = self.stream.write(out)?;
        if count > 0 {
            lent.context.traffic.add_written(count);
        }
        Ok(flush)
    }

    /// Calls the session again with the input it left.
    fn resume(&mut self, out: &mut Out<'e>, lent: &mut Lent<'e>) -> io::Result<()> {
        let progress = self.session.consume(&mut lent.context, self.unread.bytes(), out);
        self.unread.consume(progress.consumed);
        self.note_progress(progress, lent)
    }

    /// One receive, and everything complete in it served.
    fn receive_and_serve(&mut self, out: &mut Out<'e>, lent: &mut Lent<'e>) -> io::Result<()> {
        let (receipt, input_len) = self.receive(lent)?;
        // SHORT-READ
        self.readable = matches!(receipt, Receipt::Bytes { more, .. } if more || self.peer_closed);
        if receipt == Receipt::End {
            // Whatever is unread is half a request that will never be whole.
            self.phase = Phase::Finish;
        }
        let count = receipt.count();
        if count == 0 {
            return Ok(());
        }
        self.last_active = lent.context.now.seconds;
        self.client.note_active(self.last_active);
        lent.context.traffic.add_read(count);

        let input = &lent.read_buffer[..input_len];
        let progress = self.session.consume(&mut lent.context, input, out);
        let rest = &input[progress.consumed..];
        if !rest.is_empty() || !self.unread.bytes.is_empty() {
            // The memory goes with the last byte: ten thousand idle clients hold none.
            self.unread = Unread { bytes: rest.to_vec(), start: 0 };
        }
        self.note_progress(progress, lent)
    }

    /// Receives into the value that is being uploaded, if there is one, and into the read buffer
    /// behind what was left unread. Also returns how many bytes the read buffer holds then.
    fn receive(&mut self, lent: &mut Lent<'e>) -> io::Result<(Receipt, usize)> {
        let Lent { read_buffer, ciphertext, .. } = lent;
        let unread = self.unread.bytes();
        let (head, room) = read_buffer.split_at_mut(unread.len());
        head.copy_from_slice(unread);
        let target = self.session.upload_target().unwrap_or_default();
        debug_assert!(target.is_empty() || head.is_empty(), "a value under way left input unread");
        let target_len = target.len();
        let receipt = self.stream.receive([target, room], ciphertext)?;
        let direct = receipt.count().min(target_len);
        if direct > 0 {
            self.session.upload_advance(direct);
        }
        Ok((receipt, head.len() + receipt.count() - direct))
    }

    fn note_progress(&mut self, progress: Progress, lent: &Lent<'e>) -> io::Result<()> {
        self.phase = match progress.next {
            Next::Read if self.unread.bytes().len() >= lent.read_buffer.len() => {
                // A request that fills the whole buffer could never become complete in it.
                return Err(io::ErrorKind::InvalidData.into());
            }
            Next::Read => Phase::Serve,
            Next::Close => Phase::Finish,
            Next::Yield => {
                if lent.context.requests_left == 0 {
                    lent.context.shared.counters.conn_yields.fetch_add(1, Ordering::Relaxed);
                }
                Phase::Resume
            }
        };
        self.note_state();
        Ok(())
    }

    fn note_state(&self) {
        self.client.set_state(if self.session.is_idle() {
            ClientState::Reading
        } else if self.session.is_watching() {
            ClientState::Watching
        } else {
            ClientState::Uploading
        });
    }
}

/// The way between a session and its peer.
pub(super) enum Stream {
    Plain(OwnedFd),
    /// A socket with TLS before it. Boxed: most connections are plain.
    Tls(Box<TlsStream>),
}

impl Stream {
    pub fn socket(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Plain(socket) => socket.as_fd(),
            Stream::Tls(tls) => tls.socket(),
        }
    }

    /// Receives into the places, one after the other; the second is not empty. TLS decrypts by way of
    /// `ciphertext`.
    pub fn receive(
        &mut self,
        [first, second]: [&mut [u8]; 2],
        ciphertext: &mut [u8],
    ) -> io::Result<Receipt> {
        match self {
            Stream::Plain(socket) if first.is_empty() => sys::receive(socket.as_fd(), second),
            Stream::Plain(socket) => sys::receive_two(socket.as_fd(), first, second),
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
