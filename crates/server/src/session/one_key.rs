//! delete, touch, incr, decr.

use super::Reply;
use crate::context::WorkerContext;
use crate::ops::{self, Rules};
use slabwise_engine::{ArithmeticConditions, ArithmeticOutcome, DeleteOutcome, Delta, Leave};
use slabwise_protocol::Direction;
use slabwise_protocol::text::{compose, reply};

pub(super) fn delete(worker: &mut WorkerContext<'_>, key: &[u8], reply: &mut Reply<'_>) {
    let key = worker.handle.hashed(key);
    let outcome = ops::delete::delete(worker, key, None, Leave::Nothing, Rules::Classic);
    reply.line(match outcome {
        DeleteOutcome::Done => reply::DELETED,
        _ => reply::NOT_FOUND,
    });
}

pub(super) fn touch(
    worker: &mut WorkerContext<'_>,
    key: &[u8],
    exptime: i32,
    reply: &mut Reply<'_>,
) {
    let expiry = worker.expiry(exptime);
    let key = worker.handle.hashed(key);
    reply.line(match ops::touch::touch(worker, key, expiry) {
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
    let key = worker.handle.hashed(key);
    let conditions = ArithmeticConditions::default();
    match ops::arithmetic::arithmetic(worker, key, delta, &conditions) {
        ArithmeticOutcome::Value { value, .. } if !reply.noreply => {
            compose::number_line(reply.out, value);
        }
        ArithmeticOutcome::Value { .. } => {}
        ArithmeticOutcome::NotFound => reply.line(reply::NOT_FOUND),
        ArithmeticOutcome::Exists => reply.line(reply::EXISTS),
        ArithmeticOutcome::NotNumeric => reply.line(reply::NOT_NUMERIC),
        ArithmeticOutcome::OutOfMemory => reply.line(reply::NO_MEMORY),
    }
}
