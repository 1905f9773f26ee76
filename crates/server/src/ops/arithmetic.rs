//! Changing a number.

use super::hooks::{events, measuring};
use crate::context::WorkerContext;
use slabwise_base::HashedKey;
use slabwise_engine::{ArithmeticConditions, ArithmeticOutcome, Delta, Initial};
use slabwise_protocol::{Arithmetic, Direction};

/// What a change of a number depends on.
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

/// Changes the number that an item's value stands for, under these conditions.
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
    events::looking_up(worker, key);
    let outcome = worker.handle.arithmetic_if(key, delta, conditions, worker.now);
    if matches!(outcome, ArithmeticOutcome::Value { is_new: true, .. }) {
        events::made(worker, key);
        measuring::made(worker, key);
    }
    outcome
}
