//! The memory of replies and input that a connection holds between two rounds, and clients that make no progress.

use super::{Connection, Phase, READ_PROGRESS_BYTES, WorkerCore};
use crate::net::event_loop::EventLoop;
use crate::shared::{ClientState, ReplyBytes, SHARE_BYTES_MIN, SLOW_NANOS_MIN};

impl<'e> Connection<'e> {
    /// Ends the connection's part in the counts that all connections share. The caller closes the connection.
    pub fn release<L: EventLoop>(&mut self, worker: &WorkerCore<'e, L>) {
        let shared = worker.context.shared;
        self.end_reply_wait(worker);
        if !self.held.is_empty() {
            shared.settle_replies(std::mem::take(&mut self.held), ReplyBytes::default());
        }
    }

    /// Ends the wait of a get for other clients, if one waits.
    pub(super) fn end_reply_wait<L: EventLoop>(&mut self, worker: &WorkerCore<'e, L>) {
        if self.waiting_ticket().is_some() {
            worker.context.shared.replies.end_wait();
            self.phase = Phase::ResumeSession;
        }
    }

    /// Counts the memory of replies and input that the connection holds after a round.
    pub(super) fn settle<L: EventLoop>(&mut self, worker: &mut WorkerCore<'e, L>) {
        let mut held = self.out.as_mut().map_or(ReplyBytes::default(), |out| out.shrink());
        held.buffered += self.unread.bytes.capacity() + self.stream.held_bytes(&worker.event_loop);
        self.hold(held, worker);
        self.may_hold_memory = !held.is_empty();
    }

    /// Counts the memory of requests that further rounds serve, and of their replies. A small amount is not counted, so
    /// that most clients that pipeline requests cause no lock: every connection may have that amount anyway.
    pub(super) fn settle_queued<L: EventLoop>(&mut self, worker: &mut WorkerCore<'e, L>) {
        let mut held = self.out.as_ref().map_or(ReplyBytes::default(), |out| out.held());
        held.buffered += self.unread.bytes.capacity() + self.stream.held_bytes(&worker.event_loop);
        if held.buffered <= 2 * SHARE_BYTES_MIN {
            held.buffered = 0;
        }
        self.hold(held, worker);
    }

    /// Replaces the counted memory by `held`.
    pub(super) fn hold<L: EventLoop>(&mut self, held: ReplyBytes, worker: &mut WorkerCore<'e, L>) {
        if held != self.held {
            worker.context.shared.settle_replies(self.held, held);
            worker.set_limits();
            self.held = held;
        }
    }

    /// True if the client holds memory that others need, and has made no progress for too long.
    pub fn is_slow_reader<L: EventLoop>(&self, worker: &WorkerCore<'e, L>, now_nanos: u64) -> bool {
        self.flush_is_unfinished
            && worker.context.shared.replies.must_end(self.held)
            && now_nanos.saturating_sub(self.written_at_nanos) >= SLOW_NANOS_MIN
    }

    /// Records that the socket has taken only a part of the output. `pending_bytes` is the number of bytes that wait in
    /// the connection.
    pub(super) fn note_unfinished_flush<L: EventLoop>(
        &mut self,
        pending_bytes: usize,
        worker: &mut WorkerCore<'e, L>,
    ) {
        let pending_bytes = pending_bytes + worker.event_loop.unsent_bytes(self.stream.socket());
        let written_bytes = self.pending_bytes.saturating_sub(pending_bytes);
        if !self.flush_is_unfinished || written_bytes >= READ_PROGRESS_BYTES {
            self.written_at_nanos = worker.context.shared.clock.nanos();
            self.pending_bytes = pending_bytes;
        }
        // Others must not wait for a client that does not read. Its get waits again when its output is written.
        self.end_reply_wait(worker);
        self.flush_is_unfinished = true;
        self.may_hold_memory = true;
        self.client.set_state(ClientState::Writing);
    }

    /// Records that the socket has taken only a part of the output that the event loop had accepted.
    pub fn note_blocked<L: EventLoop>(&mut self, worker: &mut WorkerCore<'e, L>) {
        let pending_bytes = self.out.as_ref().map_or(0, |out| out.pending_bytes());
        self.note_unfinished_flush(pending_bytes, worker);
        self.settle(worker);
    }

    /// Refuses the value that is arriving if its upload was silent for too long, and counts the pinned values again,
    /// because the number of their pins changes. The next round then writes the error. Returns true if the caller should
    /// serve a round: the upload was refused, or the connection waits.
    pub fn check<L: EventLoop>(&mut self, worker: &mut WorkerCore<'e, L>) -> bool {
        if self.held.pinned > 0 {
            self.settle(worker);
        }
        if !self.session.is_uploading() {
            return self.waiting_ticket().is_some();
        }
        let mut out = self.out.take().unwrap_or_else(|| worker.out_pool.take());
        let is_refused = self.session.refuse_silent_upload(&mut worker.context, &mut out);
        self.keep_output(out, worker);
        if is_refused && self.phase != Phase::CloseWhenWritten {
            self.phase = Phase::ResumeSession;
        }
        is_refused || self.phase == Phase::AwaitMemory
    }
}
