//! One client connection: its stream, its session, and the input and output between them.
//!
//! ```text
//!   stream --receive--> worker's read buffer --consume--> session
//!      ^                  |  half a request                |
//!      |                  v                                v
//!      |               unread (own, usually none)         out (from the worker's pool)
//!      '----------------------------write------------------'
//! ```
//!
//! The unit of work is a *round*: the rest of the previous output, then at most one receive, one consume and one
//! bounded flush. A client that sends or reads without pause therefore does not delay others. An idle connection owns
//! no buffer.
//!
//! Invariants:
//! - BLOCKED-STOPS: while output of an earlier round is not completely written, nothing is received or consumed. A
//!   client that does not read uses at most one full [`Out`].
//! - SHORT-READ: readiness is edge-triggered. A receive that returned less than it had room for has emptied the
//!   socket, unless the peer has closed its side, which another receive (of 0 bytes) must confirm. The stream reports
//!   whether there may be more; TLS counts ciphertext.
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

/// A round that ends at its request budget writes its output only from this size on. A smaller output waits for the
/// last round of its input, so that one receive still costs one send.
const EARLY_FLUSH_BYTES_MIN: usize = 32 << 10;

/// The part of a worker that the connection or UDP socket being served uses.
pub(super) struct WorkerCore<'e> {
    pub context: WorkerContext<'e>,
    pub read_buffer: Vec<u8>,
    /// The buffer for received ciphertext; empty without `-Z`.
    pub ciphertext: Vec<u8>,
    pub outs: OutPool<'e>,
}

/// Unused output buffers. Few are needed, because a connection holds one only while it has replies to write.
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

/// The worker's next action for a connection after a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RoundEnd {
    AwaitReadable,
    AwaitWritable,
    /// The connection is a watcher, and awaits input or lines.
    AwaitLines,
    /// The connection has more work, after others were served.
    Again,
    Close,
}

pub(super) struct Connection<'e> {
    pub stream: Stream,
    session: Session<'e>,
    pub client: Arc<Client>,
    unread: Unread,
    /// Pending replies: to be written if `blocked`, otherwise waiting for the end of their batch.
    out: Option<Box<Out<'e>>>,
    blocked: bool,
    phase: Phase,
    /// The stream may hold input that is not received yet.
    readable: bool,
    /// The peer has closed its side, so a short read must be followed by another.
    peer_closed: bool,
    last_active: Seconds,
    /// True if the connection is in the worker's queue for another round.
    pub queued: bool,
    /// True if the socket is registered for writability.
    pub awaits_writable: bool,
}

/// The work that remains besides writing pending output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Serve,
    /// Call the session again before more is received.
    Resume,
    Finish,
}

/// Input that the session has not consumed: usually none, else a part of a request.
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
            // The client has closed its side.
            Phase::Finish => CloseReason::Normal,
            Phase::Serve | Phase::Resume => CloseReason::Error,
        })
    }

    /// Records that the socket has input, or that the peer closed its side.
    pub fn note_readable(&mut self, peer_closed: bool) {
        self.readable = true;
        self.peer_closed |= peer_closed;
    }

    /// True if the client has sent nothing since `since` and no reply is pending. During a TLS handshake pending output
    /// does not matter.
    pub fn is_idle_since(&self, since: Seconds) -> bool {
        self.last_active < since
            && self.phase == Phase::Serve
            && self.session.is_idle()
            && (self.stream.is_handshaking() || (self.out.is_none() && !self.blocked))
    }

    pub fn serve_round(&mut self, worker: &mut WorkerCore<'e>) -> RoundEnd {
        let mut out = self.out.take().unwrap_or_else(|| worker.outs.take());
        if self.blocked {
            // BLOCKED-STOPS
            match self.flush(&mut out, worker) {
                Ok(Flush::Drained) => {
                    self.blocked = false;
                    self.note_state();
                }
                Ok(Flush::Blocked) => return self.wait(out, worker, RoundEnd::AwaitWritable),
                Ok(Flush::Paused) => return self.wait(out, worker, RoundEnd::Again),
                Err(_) => return RoundEnd::Close,
            }
        }
        let served = match self.phase {
            Phase::Serve if self.readable => self.receive_and_serve(&mut out, worker),
            Phase::Serve | Phase::Finish => Ok(()),
            Phase::Resume => self.resume(&mut out, worker),
        };
        if served.is_err() {
            return RoundEnd::Close;
        }
        if self.session.is_watching() {
            self.session.take_lines(&mut out);
        }
        if self.phase == Phase::Resume && out.pending_bytes() < EARLY_FLUSH_BYTES_MIN {
            self.keep(out, worker);
            return RoundEnd::Again;
        }
        match self.flush(&mut out, worker) {
            Ok(Flush::Drained) => {
                worker.outs.put_back(out);
                self.after_drained()
            }
            Ok(Flush::Blocked) => self.wait(out, worker, RoundEnd::AwaitWritable),
            Ok(Flush::Paused) => self.wait(out, worker, RoundEnd::Again),
            Err(_) => RoundEnd::Close,
        }
    }

    fn after_drained(&self) -> RoundEnd {
        match self.phase {
            Phase::Finish => RoundEnd::Close,
            Phase::Resume => RoundEnd::Again,
            Phase::Serve if self.readable => RoundEnd::Again,
            Phase::Serve if self.session.is_watching() => RoundEnd::AwaitLines,
            Phase::Serve => RoundEnd::AwaitReadable,
        }
    }

    /// Keeps unwritten output for the next round, which follows as `next` says.
    fn wait(&mut self, out: Box<Out<'e>>, worker: &mut WorkerCore<'e>, next: RoundEnd) -> RoundEnd {
        // With TLS `out` may be empty while the stream still has ciphertext to write.
        self.keep(out, worker);
        self.blocked = true;
        self.client.set_state(ClientState::Writing);
        next
    }

    /// Keeps an output, unless it is empty.
    fn keep(&mut self, out: Box<Out<'e>>, worker: &mut WorkerCore<'e>) {
        if out.is_empty() {
            worker.outs.put_back(out);
        } else {
            self.out = Some(out);
        }
    }

    fn flush(&mut self, out: &mut Out<'e>, worker: &mut WorkerCore<'e>) -> io::Result<Flush> {
        let (flush, count) = self.stream.write(out)?;
        if count > 0 {
            worker.context.traffic.add_written(count);
        }
        Ok(flush)
    }

    /// Calls the session again with the unread input.
    fn resume(&mut self, out: &mut Out<'e>, worker: &mut WorkerCore<'e>) -> io::Result<()> {
        let progress = self.session.consume(&mut worker.context, self.unread.bytes(), out);
        self.unread.consume(progress.consumed);
        self.note_progress(progress, worker)
    }

    /// Receives once, and serves all complete requests.
    fn receive_and_serve(
        &mut self,
        out: &mut Out<'e>,
        worker: &mut WorkerCore<'e>,
    ) -> io::Result<()> {
        let (receipt, input_len) = self.receive(worker)?;
        // SHORT-READ
        self.readable = matches!(receipt, Receipt::Bytes { more, .. } if more || self.peer_closed);
        if receipt == Receipt::End {
            // Unread input is an incomplete request that can never become complete.
            self.phase = Phase::Finish;
        }
        let count = receipt.count();
        if count == 0 {
            return Ok(());
        }
        self.last_active = worker.context.now.seconds;
        self.client.note_active(self.last_active);
        worker.context.traffic.add_read(count);

        let input = &worker.read_buffer[..input_len];
        let progress = self.session.consume(&mut worker.context, input, out);
        let rest = &input[progress.consumed..];
        if !rest.is_empty() || !self.unread.bytes.is_empty() {
            // The buffer is freed with its last byte, so that idle clients use no memory.
            self.unread = Unread { bytes: rest.to_vec(), start: 0 };
        }
        self.note_progress(progress, worker)
    }

    /// Receives into the value being uploaded, if any, and into the read buffer behind the unread input. Also returns
    /// the number of bytes in the read buffer.
    fn receive(&mut self, worker: &mut WorkerCore<'e>) -> io::Result<(Receipt, usize)> {
        let WorkerCore { read_buffer, ciphertext, .. } = worker;
        let unread = self.unread.bytes();
        let (head, room) = read_buffer.split_at_mut(unread.len());
        head.copy_from_slice(unread);
        let target = self.session.upload_target().unwrap_or_default();
        debug_assert!(target.is_empty() || head.is_empty(), "unread input while a value arrives");
        let target_len = target.len();
        let receipt = self.stream.receive([target, room], ciphertext)?;
        let direct = receipt.count().min(target_len);
        if direct > 0 {
            self.session.upload_advance(direct);
        }
        Ok((receipt, head.len() + receipt.count() - direct))
    }

    fn note_progress(&mut self, progress: Progress, worker: &WorkerCore<'e>) -> io::Result<()> {
        self.phase = match progress.next {
            Next::Read if self.unread.bytes().len() >= worker.read_buffer.len() => {
                // A request that fills the whole buffer can never become complete in it.
                return Err(io::ErrorKind::InvalidData.into());
            }
            Next::Read => Phase::Serve,
            Next::Close => Phase::Finish,
            Next::Yield => {
                if worker.context.requests_left == 0 {
                    worker.context.shared.counters.conn_yields.fetch_add(1, Ordering::Relaxed);
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

/// The byte stream between a session and its peer.
pub(super) enum Stream {
    Plain(OwnedFd),
    /// Boxed because most connections are plain.
    Tls(Box<TlsStream>),
}

impl Stream {
    pub fn socket(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Plain(socket) => socket.as_fd(),
            Stream::Tls(tls) => tls.socket(),
        }
    }

    /// Receives into the two slices in order; the second is not empty. TLS receives into `ciphertext` first.
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

    /// Writes as much as the socket accepts. Returns how the call ended and the number of bytes taken from `out`.
    /// Call it with an empty `out`, too, because TLS has messages of its own.
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

    /// Sends TLS's close notice, if the socket accepts it at once.
    pub fn notify_close(&mut self) {
        if let Stream::Tls(tls) = self {
            tls.notify_close();
        }
    }
}
