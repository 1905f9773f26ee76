//! set, add, replace, append, prepend: the order, and how its end is told.

use super::super::ack::Ack;
use crate::context::WorkerContext;
use crate::ops::Rules;
use crate::ops::store::Order;
use slabwise_engine::{ItemMeta, StoreConditions, StoreMode, StoreOutcome};
use slabwise_protocol::StoreVerb;
use slabwise_protocol::binary::{self, Head, Status, compose};

/// The answer to a store.
pub(in crate::session) struct StoreAck {
    head: Head,
    /// What it says if the command's own condition did not hold.
    not_stored: Status,
}

/// What a packet asks to be stored.
pub(super) fn order<'a>(
    worker: &WorkerContext<'_>,
    head: &Head,
    order: &binary::StoreOrder<'a>,
) -> (Order<'a>, Ack) {
    let expiry = worker.expiry_unsigned(order.exptime);
    let not_stored = match order.verb {
        StoreVerb::Add => Status::Exists,
        StoreVerb::Replace => Status::NotFound,
        _ => Status::NotStored,
    };
    let packet = Order {
        key: worker.handle.hashed(order.key),
        value_len: order.value_len,
        meta: ItemMeta { client_flags: order.client_flags, expiry, cost: None },
        conditions: conditions(worker, head, order.verb),
        rules: Rules::Classic,
    };
    (packet, Ack::Binary(StoreAck { head: *head, not_stored }))
}

/// As in memcached, `-C` makes a store with a CAS value one without.
fn conditions(worker: &WorkerContext<'_>, head: &Head, verb: StoreVerb) -> StoreConditions {
    let has_cas = head.cas != 0 && worker.shared.settings.cas_enabled;
    let mode = match verb {
        StoreVerb::Set => StoreMode::Set,
        // Whoever names the item that must be there does not mean that there must be none.
        StoreVerb::Add if has_cas => StoreMode::Cas(head.cas),
        StoreVerb::Add => StoreMode::Add,
        StoreVerb::Replace => StoreMode::Replace,
        StoreVerb::Append => StoreMode::Append,
        StoreVerb::Prepend => StoreMode::Prepend,
        StoreVerb::Cas(_) => unreachable!("a packet's CAS value is in its head"),
    };
    StoreConditions { expected_cas: has_cas.then_some(head.cas), ..mode.into() }
}

impl StoreAck {
    /// Tells what came of a value that arrived.
    pub(in crate::session) fn answer(
        &self,
        worker: &WorkerContext<'_>,
        outcome: StoreOutcome,
        out: &mut Vec<u8>,
    ) {
        match outcome {
            StoreOutcome::Stored { .. } if self.head.quiet => {}
            StoreOutcome::Stored { cas, .. } => {
                let cas_enabled = worker.shared.settings.cas_enabled;
                compose::success(out, &self.head, if cas_enabled { cas } else { 0 });
            }
            StoreOutcome::Exists => compose::error(out, &self.head, Status::Exists),
            StoreOutcome::NotFound => compose::error(out, &self.head, Status::NotFound),
            StoreOutcome::NotStored => compose::error(out, &self.head, self.not_stored),
            StoreOutcome::TooLarge => compose::error(out, &self.head, Status::TooLarge),
            StoreOutcome::OutOfMemory => {
                let message = b"Out of memory allocating item";
                compose::text(out, &self.head, Status::OutOfMemory, message);
            }
        }
    }
}
