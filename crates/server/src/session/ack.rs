//! How a client is told what came of a store: one form for each dialect.
//!
//! An upload keeps its form while its value arrives, so it owns what it needs.

use super::Reply;
use super::binary::StoreAck;
use super::meta::MetaAck;
use crate::context::WorkerContext;
use crate::out::Out;
use slabwise_engine::StoreOutcome;
use slabwise_protocol::text::reply;

/// The form of an answer to a store.
pub(super) enum Ack {
    /// The classic text protocol's.
    Text {
        /// The client wants none.
        noreply: bool,
    },
    /// The meta protocol's.
    Meta(MetaAck),
    /// The binary protocol's.
    Binary(StoreAck),
}

impl Ack {
    /// What follows a value.
    #[inline]
    pub(super) fn value_end(&self) -> &'static [u8] {
        match self {
            Ack::Text { .. } | Ack::Meta(_) => b"\r\n",
            Ack::Binary(_) => b"",
        }
    }

    /// Tells what came of a store of `value_len` bytes under `key`.
    #[inline(always)]
    pub(super) fn answer<'e>(
        &self,
        worker: &mut WorkerContext<'e>,
        key: &[u8],
        outcome: StoreOutcome,
        value_len: usize,
        out: &mut Out<'e>,
    ) {
        let noreply = match self {
            Ack::Text { noreply } => *noreply,
            Ack::Meta(meta) => return meta.answer(worker, key, outcome, value_len, out),
            Ack::Binary(binary) => return binary.answer(worker, outcome, out.bytes()),
        };
        Reply::new(worker, out, noreply).line(match outcome {
            StoreOutcome::Stored { .. } => reply::STORED,
            StoreOutcome::NotStored => reply::NOT_STORED,
            StoreOutcome::Exists => reply::EXISTS,
            StoreOutcome::NotFound => reply::NOT_FOUND,
            StoreOutcome::TooLarge => reply::TOO_LARGE,
            StoreOutcome::OutOfMemory => reply::NO_MEMORY_STORING,
        });
    }

    /// Says that the value does not end where its length says.
    pub(super) fn bad_data<'e>(&self, worker: &mut WorkerContext<'e>, out: &mut Out<'e>) {
        // Errors of the meta protocol are not silenced by quiet mode.
        let noreply = match self {
            Ack::Text { noreply } => *noreply,
            Ack::Meta(_) => false,
            Ack::Binary(_) => unreachable!("nothing follows a value that could be wrong"),
        };
        Reply::new(worker, out, noreply).line(reply::BAD_DATA);
    }
}
