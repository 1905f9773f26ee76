//! How a client speaks.

use super::authentication::may_ask;
use crate::config::Protocol;
use crate::context::WorkerContext;
use crate::sasl::Exchange;
use slabwise_protocol::binary::REQUEST_MAGIC;
use slabwise_protocol::{Answer, Dialect};

/// How the client speaks, from its first byte on.
#[derive(Default)]
pub(super) enum Speech {
    /// Lines.
    #[default]
    Text,
    /// Packets, from a client that may have to authenticate.
    Binary(Exchange),
}

impl Speech {
    /// Of a client that begins with this byte.
    pub(super) fn of(first: u8, protocol: Protocol) -> Speech {
        match protocol {
            Protocol::Binary => Speech::Binary(Exchange::default()),
            Protocol::Auto if first == REQUEST_MAGIC => Speech::Binary(Exchange::default()),
            Protocol::Auto | Protocol::Ascii => Speech::Text,
        }
    }

    #[inline]
    pub(super) fn dialect(&self, worker: &WorkerContext<'_>) -> Dialect {
        match self {
            Speech::Text => Dialect::Text(worker.shared.settings.cost_wire),
            Speech::Binary(_) => Dialect::Binary,
        }
    }

    /// Whether the client may ask for what is answered so.
    #[inline]
    pub(super) fn allows(&self, worker: &WorkerContext<'_>, answer: &Answer) -> bool {
        match (self, answer) {
            (Speech::Binary(exchange), Answer::Binary(head)) => {
                may_ask(worker, exchange, head.opcode)
            }
            _ => true,
        }
    }
}
