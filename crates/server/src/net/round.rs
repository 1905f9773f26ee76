//! A round of a connection or a UDP socket: what it uses of its worker, and what the worker does next.

use super::event_loop::EventLoop;
use crate::out::{KEPT_OUTPUTS_MAX, Out};
use crate::shared::WorkerContext;

/// The part of a worker that its connections and UDP sockets use while they are served.
pub(super) struct WorkerCore<'e, L> {
    /// The connection to the kernel.
    pub event_loop: L,
    pub context: WorkerContext<'e>,
    /// The buffer into which all connections of the worker receive.
    pub read_buffer: Vec<u8>,
    /// The buffer for received ciphertext; empty without `-Z`.
    pub ciphertext: Vec<u8>,
    pub out_pool: OutPool<'e>,
    /// The number of bytes that a session may append or receive in one round. [`WorkerCore::set_limits`]
    /// sets this field.
    pub share_bytes: usize,
}

impl<L: EventLoop> WorkerCore<'_, L> {
    /// Sets the limits of the next rounds. Returns true if there are any.
    pub fn set_limits(&mut self) -> bool {
        let replies = &self.context.shared.replies;
        let is_scarce = replies.is_scarce();
        self.context.large_values_wait = is_scarce && replies.large_values_wait();
        self.share_bytes = if is_scarce { replies.share_bytes() } else { usize::MAX };
        self.event_loop.limit_input(is_scarce);
        is_scarce
    }
}

/// A worker's unused output buffers. A connection takes a buffer only while it has replies to write, so the pool needs
/// to keep only a few buffers.
#[derive(Default)]
pub(super) struct OutPool<'e> {
    #[expect(
        clippy::vec_box,
        reason = "a connection stores a box, so that an idle connection needs only a pointer"
    )]
    unused: Vec<Box<Out<'e>>>,
}

impl<'e> OutPool<'e> {
    /// Returns an unused or new output buffer, which is empty.
    pub fn take(&mut self) -> Box<Out<'e>> {
        self.unused.pop().unwrap_or_default()
    }

    /// Keeps an empty output buffer for another connection. Frees the buffer if it is too large or if the pool already
    /// has the maximum number of buffers.
    pub fn put_back(&mut self, mut out: Box<Out<'e>>) {
        debug_assert!(out.is_empty(), "an output in the pool must be empty");
        // The limit of one connection does not apply to the next one, which may be a UDP client.
        out.set_pending_bytes_max(usize::MAX);
        if self.unused.len() < KEPT_OUTPUTS_MAX && out.is_small_enough_to_keep() {
            self.unused.push(out);
        }
    }
}

/// The worker's next action for a connection or a UDP socket after a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AfterRound {
    /// Wait until the socket has input.
    AwaitReadable,
    /// Wait until the socket has more bytes of the value that is arriving.
    AwaitValue,
    /// Wait until the socket accepts output.
    AwaitWritable,
    /// The connection is a watcher. Wait until its socket has input, or the watchers' log has lines for it.
    AwaitLines,
    /// The connection waits for memory, or until other clients have read their replies. Serve another round after a
    /// short time.
    AwaitMemory,
    /// Serve another round after a round of the other connections.
    NextRound,
    /// Close the connection.
    Close,
}
