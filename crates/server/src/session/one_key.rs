//! delete, touch, incr, decr.

use super::{Reply, events};
use crate::context::WorkerContext;
use crate::shared::DeleteCommand;
use slabwise_engine::{ArithmeticOutcome, Delta};
use slabwise_protocol::Direction;
use slabwise_protocol::text::{compose, reply};

pub(super) fn delete(worker: &mut WorkerContext<'_>, key: &[u8], reply: &mut Reply<'_>) {
    let prefixes = &worker.shared.prefixes;
    if prefixes.is_enabled() {
        prefixes.record_delete(key);
    }
    let seen = events::deleting(worker, key);
    let deleted = worker.handle.delete(key, worker.now);
    if deleted {
        events::deleted(worker, key, seen, DeleteCommand::Delete);
    }
    reply.line(if deleted { reply::DELETED } else { reply::NOT_FOUND });
}

pub(super) fn touch(
    worker: &mut WorkerContext<'_>,
    key: &[u8],
    exptime: i32,
    reply: &mut Reply<'_>,
) {
    let expiry = worker.expiry(exptime);
    events::looking_up(worker, key);
    reply.line(match worker.handle.touch(key, expiry, worker.now) {
        Ok(true) => reply::TOUCHED,
        Ok(false) => reply::NOT_FOUND,
        Err(_) => reply::NO_MEMORY,
    });
}

pub(super) fn arithmetic(
    worker: &mut WorkerContext<'_>,
    key: &[u8],
    direction: Direction,
    delta: u64,
    reply: &mut Reply<'_>,
) {
    let delta = match direction {
        Direction::Increment => Delta::Increment(delta),
        Direction::Decrement => Delta::Decrement(delta),
    };
    events::looking_up(worker, key);
    match worker.handle.arithmetic(key, delta, worker.now) {
        ArithmeticOutcome::Value { value, .. } if !reply.noreply => {
            compose::number_line(reply.out, value);
        }
        ArithmeticOutcome::Value { .. } => {}
        ArithmeticOutcome::NotFound => reply.line(reply::NOT_FOUND),
        ArithmeticOutcome::NotNumeric => reply.line(reply::NOT_NUMERIC),
        ArithmeticOutcome::OutOfMemory => reply.line(reply::NO_MEMORY),
    }
}
