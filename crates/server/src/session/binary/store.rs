//! set, add, replace, append, prepend: the order, and how its end is told.

use super::super::ack::Ack;
use super::super::storage::StoreOrder;
use crate::context::WorkerContext;
use slabwise_engine::{ItemMeta, ReserveError, StoreConditions, StoreMode, StoreOutcome};
use slabwise_protocol::StoreVerb;
use slabwise_protocol::binary::{self, Head, Status, compose};

/// Who waits for the answer to a store.
#[derive(Clone, Copy)]
pub(in crate::session) struct StoreAck {
    head: Head,
}

/// What a packet asks to be stored.
pub(super) fn order<'a>(
    worker: &WorkerContext<'_>,
    head: &Head,
    order: &binary::StoreOrder<'a>,
) -> StoreOrder<'a> {
    let expiry = worker.expiry_unsigned(order.exptime);
    StoreOrder {
        key: order.key,
        value_len: order.value_len,
        meta: ItemMeta { client_flags: order.client_flags, expiry },
        conditions: conditions(worker, head, order.verb),
        ack: Ack::Binary(StoreAck { head: *head }),
    }
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
    /// The value arrived; this is what came of it.
    pub(in crate::session) fn outcome(
        self,
        worker: &WorkerContext<'_>,
        mode: StoreMode,
        outcome: StoreOutcome,
        out: &mut Vec<u8>,
    ) {
        let status = match outcome {
            StoreOutcome::Stored { cas, .. } => {
                if !self.head.quiet {
                    let cas_enabled = worker.shared.settings.cas_enabled;
                    compose::success(out, &self.head, if cas_enabled { cas } else { 0 });
                }
                return;
            }
            StoreOutcome::Exists => Status::Exists,
            StoreOutcome::NotFound => Status::NotFound,
            // What the value would have grown into has no room: the item stays as it was.
            StoreOutcome::NotStored | StoreOutcome::TooLarge | StoreOutcome::OutOfMemory => {
                match mode {
                    StoreMode::Add => Status::Exists,
                    StoreMode::Replace => Status::NotFound,
                    _ => Status::NotStored,
                }
            }
        };
        compose::error(out, &self.head, status);
    }

    /// There is no place for the value.
    pub(in crate::session) fn refusal(self, error: ReserveError, out: &mut Vec<u8>) {
        match error {
            ReserveError::TooLarge => compose::error(out, &self.head, Status::TooLarge),
            ReserveError::OutOfMemory => {
                let message = b"Out of memory allocating item";
                compose::text(out, &self.head, Status::OutOfMemory, message);
            }
        }
    }
}
