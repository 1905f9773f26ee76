//! How a connection receives: into the worker's read buffer, and into the memory of the item whose value is arriving.
//!
//! ```text
//!   small requests    | read buffer, up to 64 KiB                  | the session copies the values into their items
//!   large requests    | read buffer, 4 KiB | the item's memory ... | only the start of a value is copied
//! ```
//!
//! Most clients send small requests, and one receive call takes many of them. From a client without TLS whose last requests
//! were large, the first receive call of a request takes only [`SHORT_ROOM_BYTES`]. The session then knows the item, and the
//! next call receives into it. docs/decisions/0024-large-values.md has the reasons.

use super::unread::Unread;
use super::{Connection, Phase};
use crate::net::event_loop::EventLoop;
use crate::net::round::WorkerCore;
use crate::net::stream::Stream;
use crate::os::sockets::ReceiveOutcome;
use crate::out::Out;
use std::io;

/// The number of bytes that are received at once from a client that sends large values, before the item is known. It
/// holds the longest line of a storage command.
const SHORT_ROOM_BYTES: usize = 4 << 10;

/// Requests are large if a receive call returned this number of bytes for each. To copy fewer bytes takes less time than
/// another system call.
const LARGE_REQUEST_BYTES_MIN: usize = 32 << 10;

impl<'e> Connection<'e> {
    /// Receives, and lets the session serve the complete requests of the input. If the input was the start of a large value,
    /// receives its next part, too.
    pub(super) fn receive_and_serve<L: EventLoop>(
        &mut self,
        out: &mut Out<'e>,
        worker: &mut WorkerCore<'e, L>,
    ) -> io::Result<()> {
        let was_uploading = self.session.is_uploading();
        self.receive_once(out, worker)?;
        if self.readable
            && !was_uploading
            && self.sends_large_values
            && self.phase == Phase::AwaitInput
            && self.session.upload_target().is_some()
        {
            self.receive_once(out, worker)?;
        }
        Ok(())
    }

    /// Receives once, and lets the session serve the complete requests of the input.
    fn receive_once<L: EventLoop>(
        &mut self,
        out: &mut Out<'e>,
        worker: &mut WorkerCore<'e, L>,
    ) -> io::Result<()> {
        let requests_before = worker.context.served.requests;
        let (outcome, input_len) = self.receive(worker)?;
        if outcome == ReceiveOutcome::WouldBlock {
            self.peer_half_closed = false;
        }
        // SHORT-READ: without more input in the socket, the next receive call waits for an event.
        let peer_half_closed = self.peer_half_closed;
        self.readable =
            matches!(outcome, ReceiveOutcome::Bytes { more, .. } if more || peer_half_closed);
        if outcome == ReceiveOutcome::PeerClosed {
            // The unread input is an incomplete request, and its rest will never arrive.
            self.phase = Phase::CloseWhenWritten;
        }
        let count = outcome.byte_count();
        if count == 0 {
            return Ok(());
        }
        self.last_active = worker.context.now.seconds;
        self.client.note_active(self.last_active);
        worker.context.traffic.add_read(count);

        let input = &worker.read_buffer[..input_len];
        let progress = self.session.consume(&mut worker.context, input, out);
        let rest = &input[progress.consumed..];
        let rest_len = rest.len();
        if !rest.is_empty() || !self.unread.bytes.is_empty() {
            // The new value replaces the old buffer, which is freed. If `rest` is empty, the connection owns no buffer.
            self.unread = Unread::of(rest);
            self.may_hold_memory = true;
        }
        let requests = worker.context.served.requests - requests_before;
        self.note_request_size(count.saturating_sub(rest_len), requests);
        self.apply_progress(progress, worker)
    }

    /// Copies the unread input into the read buffer, and receives into the value that the client is uploading, if any,
    /// and then into the read buffer after the unread input. Returns the outcome and the number of bytes in the read
    /// buffer.
    fn receive<L: EventLoop>(
        &mut self,
        worker: &mut WorkerCore<'e, L>,
    ) -> io::Result<(ReceiveOutcome, usize)> {
        let WorkerCore { event_loop, read_buffer, ciphertext, context, share_bytes, .. } = worker;
        let unread = self.unread.bytes();
        let (head, room) = read_buffer.split_at_mut(unread.len());
        head.copy_from_slice(unread);
        // A TLS stream would have to keep the rest of a record that it has received.
        let is_short = self.sends_large_values && matches!(self.stream, Stream::Plain(_));
        let room_max = if is_short { SHORT_ROOM_BYTES } else { usize::MAX };
        let room_len = room.len().min(room_max).min(*share_bytes);
        let room = &mut room[..room_len];
        let target = self.session.upload_target().unwrap_or_default();
        debug_assert!(
            target.is_empty() || head.is_empty(),
            "there is no unread input while the client uploads a value"
        );
        let target_len = target.len();
        let outcome = self.stream.receive(event_loop, [target, room], ciphertext)?;
        let uploaded = outcome.byte_count().min(target_len);
        if uploaded > 0 {
            self.session.upload_advance(context, uploaded);
        }
        Ok((outcome, head.len() + outcome.byte_count() - uploaded))
    }

    /// Records whether the client sends large values. `bytes` are those that one receive call returned and the session
    /// consumed, and `requests` is the number of requests that began in them.
    #[inline(always)]
    fn note_request_size(&mut self, bytes: usize, requests: u32) {
        if requests > 0 && bytes >= LARGE_REQUEST_BYTES_MIN * requests as usize {
            self.sends_large_values = true;
        } else if self.sends_large_values && self.readable && self.session.upload_target().is_none()
        {
            // The input filled the short room with small requests.
            self.sends_large_values = false;
        }
    }
}
