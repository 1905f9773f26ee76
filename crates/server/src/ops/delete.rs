//! Deleting an item, or leaving something in its place.

use super::hooks::events;
use super::rules::Rules;
use crate::context::WorkerContext;
use slabwise_base::HashedKey;
use slabwise_engine::{DeleteOutcome, ItemMeta, Leave};
use slabwise_protocol::{Delete, Leave as Leaves};

/// Deletes an item, or invalidates it, if its CAS value is the one expected.
pub(crate) fn delete(
    worker: &mut WorkerContext<'_>,
    key: HashedKey<'_>,
    request: &Delete<'_>,
    rules: Rules,
) -> DeleteOutcome {
    let prefixes = &worker.shared.prefixes;
    if rules.counts_prefixes() && prefixes.is_enabled() {
        prefixes.record_delete(key.bytes());
    }
    let leave = leave(worker, request.leaves);
    let expected_cas = worker.expected_cas(request.expected_cas);
    let seen = events::deleting(worker, key);
    let outcome = worker.handle.delete_if(key, expected_cas, leave, worker.now);
    if outcome == DeleteOutcome::Done {
        match leave {
            Leave::Nothing => events::deleted(worker, key, seen, rules.delete_command()),
            Leave::Empty { .. } => events::emptied(worker, key, seen, rules.delete_command()),
            Leave::Stale { .. } => {}
        }
    }
    outcome
}

fn leave(worker: &WorkerContext<'_>, leaves: Leaves) -> Leave {
    let cas_enabled = worker.shared.settings.cas_enabled;
    match leaves {
        Leaves::Nothing => Leave::Nothing,
        Leaves::Stale { exptime, new_cas } => Leave::Stale {
            expiry: exptime.map(|exptime| worker.expiry(exptime)),
            new_cas: new_cas.filter(|_| cas_enabled),
        },
        Leaves::Empty { client_flags, exptime, stale, new_cas } => Leave::Empty {
            meta: ItemMeta { client_flags, expiry: worker.expiry(exptime), cost: None },
            stale,
            new_cas: new_cas.filter(|_| cas_enabled),
        },
    }
}
