//! Deleting an item, or leaving something in its place.

use super::Rules;
use super::hooks::events;
use crate::context::WorkerContext;
use slabwise_base::HashedKey;
use slabwise_engine::{DeleteOutcome, Leave};

/// Deletes an item, or invalidates it, if its CAS value is the one expected.
pub(crate) fn delete(
    worker: &mut WorkerContext<'_>,
    key: HashedKey<'_>,
    expected_cas: Option<u64>,
    leave: Leave,
    rules: Rules,
) -> DeleteOutcome {
    let prefixes = &worker.shared.prefixes;
    if rules.counts_prefixes() && prefixes.is_enabled() {
        prefixes.record_delete(key.bytes());
    }
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
