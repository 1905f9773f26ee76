//! Changing a number.

use super::hooks::{events, measuring};
use crate::context::WorkerContext;
use slabwise_base::HashedKey;
use slabwise_engine::{ArithmeticConditions, ArithmeticOutcome, Delta};

/// Changes the number that an item's value stands for, under conditions.
pub(crate) fn arithmetic(
    worker: &mut WorkerContext<'_>,
    key: HashedKey<'_>,
    delta: Delta,
    conditions: &ArithmeticConditions,
) -> ArithmeticOutcome {
    events::looking_up(worker, key);
    let outcome = worker.handle.arithmetic_if(key, delta, conditions, worker.now);
    if matches!(outcome, ArithmeticOutcome::Value { is_new: true, .. }) {
        events::made(worker, key);
        measuring::made(worker, key);
    }
    outcome
}
