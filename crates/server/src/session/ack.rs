//! How the end of a store is told to the client: one variant a dialect.

use super::Reply;
use super::binary::StoreAck;
use super::storage::extends;
use crate::context::WorkerContext;
use crate::out::Out;
use slabwise_engine::{ReserveError, StoreMode, StoreOutcome};
use slabwise_protocol::text::reply;

/// Who waits for the answer to a store, and in which dialect.
#[derive(Clone, Copy)]
pub(super) enum Ack {
    /// A line, if it is wanted.
    Text {
        /// It is not.
        noreply: bool,
    },
    /// A packet.
    Binary(StoreAck),
}

impl Ack {
    /// What follows a value on the wire.
    pub(super) fn value_end(self) -> &'static [u8] {
        match self {
            Ack::Text { .. } => b"\r\n",
            Ack::Binary(_) => b"",
        }
    }

    /// The value arrived whole; this is what came of it.
    pub(super) fn outcome(
        self,
        worker: &WorkerContext<'_>,
        mode: StoreMode,
        outcome: StoreOutcome,
        out: &mut Out<'_>,
    ) {
        match self {
            Ack::Text { noreply } => {
                Reply::new(worker, out, noreply).line(line(mode, outcome));
            }
            Ack::Binary(ack) => ack.outcome(worker, mode, outcome, out.bytes()),
        }
    }

    /// There is no place for the value.
    pub(super) fn refusal(
        self,
        worker: &WorkerContext<'_>,
        error: ReserveError,
        out: &mut Out<'_>,
    ) {
        match self {
            Ack::Text { noreply } => Reply::new(worker, out, noreply).line(match error {
                ReserveError::TooLarge => reply::TOO_LARGE,
                ReserveError::OutOfMemory => reply::NO_MEMORY_STORING,
            }),
            Ack::Binary(ack) => ack.refusal(error, out.bytes()),
        }
    }

    /// The value does not end where its length says.
    pub(super) fn bad_end(self, worker: &WorkerContext<'_>, out: &mut Out<'_>) {
        match self {
            Ack::Text { noreply } => Reply::new(worker, out, noreply).line(reply::BAD_DATA),
            Ack::Binary(_) => unreachable!("these values end where their length says"),
        }
    }
}

fn line(mode: StoreMode, outcome: StoreOutcome) -> &'static [u8] {
    match outcome {
        StoreOutcome::Stored { .. } => reply::STORED,
        StoreOutcome::NotStored => reply::NOT_STORED,
        StoreOutcome::Exists => reply::EXISTS,
        StoreOutcome::NotFound => reply::NOT_FOUND,
        // The value fitted, what it would have grown into does not: the item stays as it was.
        StoreOutcome::TooLarge | StoreOutcome::OutOfMemory if extends(mode) => reply::NOT_STORED,
        StoreOutcome::TooLarge => reply::TOO_LARGE,
        StoreOutcome::OutOfMemory => reply::NO_MEMORY_STORING,
    }
}
