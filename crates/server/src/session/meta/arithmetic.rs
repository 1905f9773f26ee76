//! `ma`.

use super::{Asked, Lifetime};
use crate::context::WorkerContext;
use crate::ops;
use slabwise_engine::{ArithmeticConditions, ArithmeticOutcome, Delta, Initial};
use slabwise_protocol::Direction;
use slabwise_protocol::meta::{compose, reply};
use slabwise_protocol::text::compose::number;

pub(super) fn arithmetic(
    worker: &mut WorkerContext<'_>,
    asked: Asked<'_>,
    direction: Direction,
    out: &mut Vec<u8>,
) {
    let options = &asked.request.options;
    let delta = match direction {
        Direction::Increment => Delta::Increment(options.delta),
        Direction::Decrement => Delta::Decrement(options.delta),
    };
    let initial_expiry = asked.vivify_expiry(worker);
    let conditions = ArithmeticConditions {
        // 0 asks for nothing.
        expected_cas: options.expected_cas.filter(|&cas| cas != 0).and(asked.expected_cas(worker)),
        new_cas: asked.new_cas(worker),
        touch: options.exptime.map(|exptime| worker.expiry(exptime)),
        initial: initial_expiry.map(|expiry| Initial { value: options.initial, expiry }),
    };
    let key = worker.handle.hashed(asked.key);
    match ops::arithmetic::arithmetic(worker, key, delta, &conditions) {
        ArithmeticOutcome::Value { .. } if asked.has(b'q') => {}
        ArithmeticOutcome::Value { value, cas, is_new, expiry_before } => {
            let lifetime = Lifetime {
                expiry: expiry_before,
                touch: conditions.touch,
                vivify: initial_expiry.filter(|_| is_new),
            };
            let cas = if worker.shared.settings.cas_enabled { cas } else { 0 };
            answer(worker, &asked, value, cas, lifetime, out);
        }
        ArithmeticOutcome::NotFound => asked.bare_line(out, reply::CODE_NOT_FOUND),
        ArithmeticOutcome::Exists => asked.bare_line(out, reply::CODE_EXISTS),
        ArithmeticOutcome::NotNumeric => out.extend_from_slice(reply::NOT_NUMERIC),
        ArithmeticOutcome::OutOfMemory if conditions.initial.is_some() => {
            out.extend_from_slice(reply::NO_MEMORY_FOR_NUMBER);
        }
        ArithmeticOutcome::OutOfMemory => out.extend_from_slice(reply::NO_MEMORY),
    }
}

fn answer(
    worker: &WorkerContext<'_>,
    asked: &Asked<'_>,
    value: u64,
    cas: u64,
    mut lifetime: Lifetime,
    out: &mut Vec<u8>,
) {
    let request = asked.request;
    let tells_value = asked.has(b'v');
    if tells_value {
        let digit_count = value.checked_ilog10().map_or(1, |log| log as usize + 1);
        compose::value_code(out, digit_count);
    } else {
        out.extend_from_slice(reply::CODE_DONE);
    }
    for &letter in request.echo.letters() {
        match letter {
            b'c' => compose::flag_number(out, b'c', cas),
            b't' => compose::flag_ttl(out, lifetime.ttl_seconds(worker.now)),
            b'T' | b'N' => lifetime.pass(letter),
            b'O' => compose::flag_opaque(out, request.echo.opaque()),
            b'k' => compose::flag_key(out, request.key.is_base64(), asked.key),
            _ => {}
        }
    }
    out.extend_from_slice(b"\r\n");
    if tells_value {
        number(out, value);
        out.extend_from_slice(b"\r\n");
    }
}
