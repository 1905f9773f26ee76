//! Deletes and arithmetic. A meta delete can keep the item as stale, or replace it by an empty item.

use super::get::{Rules, before_lookup};
use super::hooks;
use crate::shared::WorkerContext;
use slabwise_base::HashedKey;
use slabwise_engine::{
    ArithmeticConditions, ArithmeticOutcome, DeleteOutcome, Delta, Initial, ItemMeta, Replacement,
};
use slabwise_protocol::{Arithmetic, Delete, Direction, Replacement as RequestedReplacement};

/// Deletes an item, marks it as stale or empties it, if its CAS value is the expected one.
pub(crate) fn delete(
    worker: &mut WorkerContext<'_>,
    key: HashedKey<'_>,
    request: &Delete<'_>,
    rules: Rules,
) -> DeleteOutcome {
    let prefixes = &worker.shared.prefixes;
    if worker.shared.counts_prefixes() && rules.counts_prefixes() {
        prefixes.record_delete(key.bytes());
    }
    let replacement = engine_replacement(worker, request.replacement);
    let expected_cas = worker.expected_cas(request.expected_cas);
    let seen = hooks::before_delete(worker, key);
    let outcome = worker.handle.delete_if(key, expected_cas, replacement, worker.now);
    if outcome == DeleteOutcome::Done {
        match replacement {
            Replacement::Nothing => hooks::after_delete(worker, key, seen, rules.delete_command()),
            Replacement::Empty { .. } => {
                hooks::after_emptying(worker, key, seen, rules.delete_command())
            }
            Replacement::Stale { .. } => {}
        }
    }
    outcome
}

/// Converts the requested replacement of a deleted item into the engine's form.
fn engine_replacement(worker: &WorkerContext<'_>, requested: RequestedReplacement) -> Replacement {
    let cas_enabled = worker.shared.settings.cas_enabled;
    match requested {
        RequestedReplacement::Nothing => Replacement::Nothing,
        RequestedReplacement::Stale { exptime, new_cas } => Replacement::Stale {
            expiry: exptime.map(|exptime| worker.expiry(exptime)),
            new_cas: new_cas.filter(|_| cas_enabled),
        },
        RequestedReplacement::Empty { client_flags, exptime, stale, new_cas } => {
            Replacement::Empty {
                meta: ItemMeta { client_flags, expiry: worker.expiry(exptime), cost: None },
                stale,
                new_cas: new_cas.filter(|_| cas_enabled),
            }
        }
    }
}

/// Converts the conditions of an increment or decrement into the engine's form.
pub(crate) fn conditions(
    worker: &WorkerContext<'_>,
    request: &Arithmetic<'_>,
) -> ArithmeticConditions {
    ArithmeticConditions {
        expected_cas: worker.expected_cas(request.expected_cas),
        new_cas: request.new_cas.filter(|_| worker.shared.settings.cas_enabled),
        touch: request.touch.map(|exptime| worker.expiry(exptime)),
        initial: request.initial.map(|initial| Initial {
            value: initial.value,
            expiry: worker.expiry(initial.exptime),
        }),
    }
}

/// Increments or decrements the number in an item's value, if the conditions hold.
pub(crate) fn arithmetic(
    worker: &mut WorkerContext<'_>,
    key: HashedKey<'_>,
    request: &Arithmetic<'_>,
    conditions: &ArithmeticConditions,
) -> ArithmeticOutcome {
    let delta = match request.direction {
        Direction::Increment => Delta::Increment(request.delta),
        Direction::Decrement => Delta::Decrement(request.delta),
    };
    before_lookup(worker, key);
    let outcome = worker.handle.arithmetic(key, delta, conditions, worker.now);
    if matches!(outcome, ArithmeticOutcome::Value { is_new: true, .. }) {
        hooks::after_creating_number(worker, key);
    }
    outcome
}
