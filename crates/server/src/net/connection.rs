//! One client connection: it connects a stream (a socket, or TLS over a socket) with a session.
//!
//! ```text
//!   stream --receive--> worker's read buffer --consume--> session
//!      ^                  |  part of a request             |
//!      |                  v                                v
//!      |               `unread` of the connection         `out`, from the worker's pool
//!      '----------------------------write------------------'
//! ```
//!
//! A worker serves a connection in *rounds*. In a round, the connection writes the rest of the previous output. Then it
//! receives at most once, and once more if the input was the start of a large value. The session consumes the input, and
//! the connection writes at most 1 MiB of output. A client that sends or reads continuously therefore does not delay other
//! clients. An idle connection owns no buffer.
//!
//! Invariants:
//! - BLOCKED-STOPS: while output of an earlier round is not completely written, the connection receives nothing and the
//!   session consumes nothing. A client that does not read therefore uses the memory of at most one full [`Out`]; the
//!   workers limit its size if there are many such clients.
//! - SHORT-READ: the event loop reports input only when new input arrives. A receive call that returns fewer bytes than
//!   its buffer can hold has emptied the socket, so the next round waits for an event. If the client has closed its
//!   sending side, there is no further event, so the connection receives again until a call returns 0 bytes. The stream
//!   reports whether the socket may have more input. For TLS the number of bytes of ciphertext decides this.
//! - While an upload waits for memory, or a get waits for other clients to read, the connection receives nothing.
//! - A client that has closed its sending side receives every reply before the server closes the connection.

mod memory;
mod receive;
mod unread;

use super::event_loop::EventLoop;
use super::round::{AfterRound, WorkerCore};
use super::stream::Stream;
use crate::config::Protocol;
use crate::out::{Flush, Out};
use crate::session::{Next, Progress, Session};
use crate::shared::{Client, ClientState, CloseReason, ReplyBytes, Shared};
use slabwise_base::Seconds;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use unread::Unread;

/// The minimum number of bytes of output that a round writes if it ends before all its input is served. A smaller
/// output is written in the last round for the same input, so that the replies to one receive call need one send call.
const EARLY_FLUSH_BYTES_MIN: usize = 32 << 10;

/// A client that reads fewer bytes than this in [`SLOW_NANOS_MIN`] makes no progress.
const READ_PROGRESS_BYTES: usize = 64 << 10;

/// If at least this number of bytes of a value has not arrived, they are received into the memory of the item. Fewer bytes
/// may be copied there.
const LARGE_PART_BYTES_MIN: usize = 64 << 10;

/// A client connection.
pub(super) struct Connection<'e> {
    pub stream: Stream,
    session: Session<'e>,
    /// The protocol of the listener that has accepted the connection.
    pub protocol: Protocol,
    /// The connection's entry in the connection table.
    pub client: Arc<Client>,
    unread: Unread,
    /// Replies that are not written. If `flush_is_unfinished`, the next round writes them first. Otherwise they are
    /// written together with the other replies to the same input.
    out: Option<Box<Out<'e>>>,
    /// True if the stream accepted only a part of the output in the last write, or if ciphertext of the output waits
    /// for the socket.
    flush_is_unfinished: bool,
    phase: Phase,
    /// True if the stream may have input that is not received yet.
    readable: bool,
    /// True if the client may have closed its sending side, so that another receive call must follow a short read.
    peer_half_closed: bool,
    /// True if the last requests were large, so that the next receive call takes only the start of a request.
    sends_large_values: bool,
    /// The second of the clock at which the last bytes were received.
    last_active: Seconds,
    /// True if the connection is in the worker's queue for another round.
    pub queued: bool,
    /// True if the connection is in the worker's list of connections to check.
    pub is_listed: bool,
    /// True if the connection holds memory that is not counted, or that is counted and may be freed.
    may_hold_memory: bool,
    /// The memory of replies and input that the connection holds between two rounds, as it is counted.
    held: ReplyBytes,
    /// The time at which the client last made progress, in nanoseconds of the clock: the flush became unfinished, or the
    /// socket accepted [`READ_PROGRESS_BYTES`]. Valid while a flush is unfinished.
    written_at_nanos: u64,
    /// The number of bytes that were not written at this time.
    pending_bytes: usize,
}

/// The work of a connection that follows when its output is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Receive more input.
    AwaitInput,
    /// Call the session again with the unread input before more input is received.
    ResumeSession,
    /// Call the session again with the unread input, but not before memory may be free for a value that is arriving.
    AwaitMemory,
    /// Call the session again with the unread input, but not before other clients may have read their replies. The
    /// ticket shows the order of the gets that wait.
    AwaitReplies { ticket: u64 },
    /// Close the connection.
    CloseWhenWritten,
}

impl<'e> Connection<'e> {
    pub fn new(
        stream: Stream,
        client: Arc<Client>,
        (protocol, has_logged_in): (Protocol, bool),
        now: Seconds,
    ) -> Connection<'e> {
        Connection {
            stream,
            session: Session::resumed(protocol, has_logged_in),
            protocol,
            client,
            unread: Unread::default(),
            out: None,
            flush_is_unfinished: false,
            phase: Phase::AwaitInput,
            readable: false,
            peer_half_closed: false,
            sends_large_values: false,
            last_active: now,
            queued: false,
            is_listed: false,
            may_hold_memory: false,
            held: ReplyBytes::default(),
            written_at_nanos: 0,
            pending_bytes: 0,
        }
    }

    /// Returns the reason why the connection is closed. Watchers of connection events receive this reason.
    pub fn close_reason(&self) -> CloseReason {
        self.session.close_reason().unwrap_or(match self.phase {
            // The client has closed its sending side.
            Phase::CloseWhenWritten => CloseReason::Normal,
            _ => CloseReason::Error,
        })
    }

    /// Records that the event loop reported input, and whether the client may have closed its sending side.
    pub fn note_readable(&mut self, peer_half_closed: bool) {
        self.readable = true;
        self.peer_half_closed |= peer_half_closed;
    }

    /// True if the client has sent nothing since `since`, no value or dump is in progress, and every reply is written. During
    /// a TLS handshake the result does not depend on unwritten output.
    pub fn is_idle_since(&self, since: Seconds) -> bool {
        self.last_active < since
            && self.phase == Phase::AwaitInput
            && self.session.awaits_line()
            && (self.stream.is_handshaking() || (self.out.is_none() && !self.flush_is_unfinished))
    }

    /// True if every received request is answered completely, and nothing of the next one is received. Requests may wait in
    /// the socket.
    pub fn is_between_requests<L: EventLoop>(&self, event_loop: &L) -> bool {
        self.phase == Phase::AwaitInput
            && self.session.is_idle()
            && self.unread.bytes().is_empty()
            && self.out.is_none()
            && !self.flush_is_unfinished
            && self.stream.held_bytes(event_loop) == 0
    }

    /// True if the event loop receives nothing more for the connection. Connections with TLS are not handed over, so it does
    /// not matter for them.
    pub fn is_detached<L: EventLoop>(&self, event_loop: &L) -> bool {
        match &self.stream {
            Stream::Plain(socket) => event_loop.is_detached(socket),
            Stream::Tls(_) => true,
        }
    }

    /// True if another process can serve the connection from its socket and [`Connection::has_logged_in`]: the connection is
    /// between requests, and has neither TLS nor an authentication in progress.
    pub fn is_movable<L: EventLoop>(&self, event_loop: &L) -> bool {
        matches!(self.stream, Stream::Plain(_))
            && self.is_between_requests(event_loop)
            && self.is_detached(event_loop)
            && !self.session.is_authenticating()
    }

    /// True if the client has authenticated, which this server requires.
    pub fn has_logged_in(&self, shared: &Shared<'_>) -> bool {
        self.session.has_logged_in(shared)
    }

    /// True if the connection is a watcher.
    pub fn is_watching(&self) -> bool {
        self.session.is_watching()
    }

    /// True if the client connected before `since`, and its TLS handshake is not complete.
    pub fn is_handshaking_since(&self, since: Seconds) -> bool {
        match &self.stream {
            Stream::Plain(_) => false,
            Stream::Tls(tls) => tls.is_handshaking_since(since),
        }
    }

    /// True if a value is arriving, a get waits or a reply pins values, so that the worker must check the connection from
    /// time to time.
    pub fn must_be_checked(&self) -> bool {
        self.session.is_uploading() || self.waiting_ticket().is_some() || self.held.pinned > 0
    }

    /// True if the part of a value that has not arrived is large enough to be received into the memory of its item.
    pub fn awaits_large_part(&mut self) -> bool {
        self.session.upload_target().is_some_and(|target| target.len() >= LARGE_PART_BYTES_MIN)
    }

    /// True if the connection waits for memory or for other clients.
    pub fn is_waiting(&self) -> bool {
        matches!(self.phase, Phase::AwaitMemory | Phase::AwaitReplies { .. })
    }

    /// Returns the ticket of the get that waits for other clients, if any.
    pub fn waiting_ticket(&self) -> Option<u64> {
        match self.phase {
            Phase::AwaitReplies { ticket } => Some(ticket),
            _ => None,
        }
    }

    /// Serves one round of the connection, and returns the worker's next action for the connection.
    pub fn serve_round<L: EventLoop>(&mut self, worker: &mut WorkerCore<'e, L>) -> AfterRound {
        let after = self.round(worker);
        if self.may_hold_memory
            || !self.held.is_empty()
            || self.stream.held_bytes(&worker.event_loop) > 0
        {
            if after != AfterRound::NextRound || self.flush_is_unfinished {
                self.settle(worker);
            } else {
                self.settle_queued(worker);
            }
        }
        after
    }

    /// Serves one round.
    #[inline(always)]
    fn round<L: EventLoop>(&mut self, worker: &mut WorkerCore<'e, L>) -> AfterRound {
        let mut out = self.out.take().unwrap_or_else(|| worker.out_pool.take());
        out.set_pending_bytes_max(worker.share_bytes);
        if self.flush_is_unfinished {
            // BLOCKED-STOPS: the rest of the earlier output is written first.
            match self.flush(&mut out, worker) {
                Ok(Flush::Drained) => {
                    self.flush_is_unfinished = false;
                    self.publish_state();
                }
                Ok(Flush::Blocked) => {
                    return self.await_next_round(out, worker, AfterRound::AwaitWritable);
                }
                Ok(Flush::Paused) => {
                    return self.await_next_round(out, worker, AfterRound::NextRound);
                }
                Err(_) => return AfterRound::Close,
            }
        }
        let served = match self.phase {
            Phase::AwaitInput if self.readable => self.receive_and_serve(&mut out, worker),
            Phase::AwaitInput | Phase::CloseWhenWritten => Ok(()),
            Phase::ResumeSession | Phase::AwaitMemory | Phase::AwaitReplies { .. } => {
                self.resume_session(&mut out, worker)
            }
        };
        if served.is_err() {
            return AfterRound::Close;
        }
        if self.session.is_watching() {
            self.session.take_lines(&mut out);
        }
        if self.phase == Phase::ResumeSession
            && out.pending_bytes() < EARLY_FLUSH_BYTES_MIN
            && !out.is_full()
        {
            self.keep_output(out, worker);
            return AfterRound::NextRound;
        }
        match self.flush(&mut out, worker) {
            Ok(Flush::Drained) => {
                worker.out_pool.put_back(out);
                self.next_step_after_drain()
            }
            Ok(Flush::Blocked) => self.await_next_round(out, worker, AfterRound::AwaitWritable),
            Ok(Flush::Paused) => self.await_next_round(out, worker, AfterRound::NextRound),
            Err(_) => AfterRound::Close,
        }
    }

    /// Returns the worker's next action. The caller has written all output.
    fn next_step_after_drain(&self) -> AfterRound {
        match self.phase {
            Phase::CloseWhenWritten => AfterRound::Close,
            Phase::ResumeSession => AfterRound::NextRound,
            Phase::AwaitMemory | Phase::AwaitReplies { .. } => AfterRound::AwaitMemory,
            Phase::AwaitInput if self.readable => AfterRound::NextRound,
            Phase::AwaitInput if self.session.is_watching() => AfterRound::AwaitLines,
            Phase::AwaitInput if self.session.is_uploading() => AfterRound::AwaitValue,
            Phase::AwaitInput => AfterRound::AwaitReadable,
        }
    }

    /// Keeps the unwritten output for the next round, and returns `next`, the event that the next round needs.
    fn await_next_round<L: EventLoop>(
        &mut self,
        out: Box<Out<'e>>,
        worker: &mut WorkerCore<'e, L>,
        next: AfterRound,
    ) -> AfterRound {
        // Even if `out` is empty, the flush is unfinished: a TLS stream may have ciphertext that the socket has not
        // accepted, and the event loop may have accepted output.
        self.note_unfinished_flush(out.pending_bytes(), worker);
        self.keep_output(out, worker);
        next
    }

    /// Stores an output in the connection, or returns it to the pool if it is empty.
    fn keep_output<L: EventLoop>(&mut self, out: Box<Out<'e>>, worker: &mut WorkerCore<'e, L>) {
        if out.is_empty() {
            worker.out_pool.put_back(out);
        } else {
            self.out = Some(out);
        }
    }

    /// Writes output to the stream, and counts the written bytes. If a flush is unfinished, or the connection is about to be
    /// closed, the output is drained only when the socket has taken it.
    fn flush<L: EventLoop>(
        &mut self,
        out: &mut Out<'e>,
        worker: &mut WorkerCore<'e, L>,
    ) -> io::Result<Flush> {
        let (flush, count) = self.stream.write(&mut worker.event_loop, out)?;
        if count > 0 {
            worker.context.traffic.add_written(count);
        }
        let must_be_sent = self.flush_is_unfinished || self.phase == Phase::CloseWhenWritten;
        if flush == Flush::Drained && must_be_sent {
            return self.stream.flush(&mut worker.event_loop);
        }
        Ok(flush)
    }

    /// Calls the session again with the unread input.
    fn resume_session<L: EventLoop>(
        &mut self,
        out: &mut Out<'e>,
        worker: &mut WorkerCore<'e, L>,
    ) -> io::Result<()> {
        let has_waited = self.waiting_ticket().is_some();
        if has_waited {
            worker.context.large_values_wait = !worker.context.shared.replies.may_pin();
        }
        let progress = self.session.consume(&mut worker.context, self.unread.bytes(), out);
        self.unread.consume(progress.consumed);
        if has_waited {
            if progress.next != Next::AwaitReplies {
                self.end_reply_wait(worker);
            }
            worker.set_limits();
        }
        self.apply_progress(progress, worker)
    }

    /// Sets the phase according to the session's progress.
    #[inline(always)]
    fn apply_progress<L: EventLoop>(
        &mut self,
        progress: Progress,
        worker: &WorkerCore<'e, L>,
    ) -> io::Result<()> {
        self.phase = match progress.next {
            Next::Read if self.unread.bytes().len() >= worker.read_buffer.len() => {
                // The session needs more input, but the incomplete request already fills the read buffer.
                return Err(io::ErrorKind::InvalidData.into());
            }
            Next::Read => Phase::AwaitInput,
            Next::AwaitMemory => Phase::AwaitMemory,
            Next::AwaitReplies => Phase::AwaitReplies {
                ticket: self
                    .waiting_ticket()
                    .unwrap_or_else(|| worker.context.shared.begin_reply_wait()),
            },
            Next::Close => Phase::CloseWhenWritten,
            Next::Yield => {
                if worker.context.requests_left == 0 {
                    worker.context.shared.counters.conn_yields.fetch_add(1, Ordering::Relaxed);
                }
                Phase::ResumeSession
            }
        };
        self.publish_state();
        Ok(())
    }

    /// Sets the state of the connection that `stats conns` shows.
    fn publish_state(&self) {
        self.client.set_state(if self.session.is_idle() {
            ClientState::Reading
        } else if self.session.is_watching() {
            ClientState::Watching
        } else {
            ClientState::Uploading
        });
    }
}
