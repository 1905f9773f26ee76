//! Replies of the meta protocol but to a get that hit.

use super::lifetime::{Lifetime, ttl_seconds};
use crate::context::WorkerContext;
use slabwise_base::{Expiry, Now, Ticks};
use slabwise_engine::{ArithmeticOutcome, DeleteOutcome, ItemView, StoreOutcome};
use slabwise_protocol::meta::{Echo, compose, reply};
use slabwise_protocol::text::compose::number as write_number;

pub(crate) fn missed(echo: &Echo, key: &[u8], out: &mut Vec<u8>) {
    if !echo.has(b'q') {
        compose::bare_line(out, reply::CODE_MISS, echo, key);
    }
}

pub(crate) fn stored(
    worker: &WorkerContext<'_>,
    (echo, key): (&Echo, &[u8]),
    outcome: StoreOutcome,
    value_len: usize,
    out: &mut Vec<u8>,
) {
    let (code, cas, value_len) = match outcome {
        StoreOutcome::Stored { .. } if echo.has(b'q') => return,
        StoreOutcome::Stored { cas, value_len } => (reply::CODE_DONE, cas, value_len),
        StoreOutcome::NotStored => (reply::CODE_NOT_STORED, 0, value_len),
        StoreOutcome::Exists => (reply::CODE_EXISTS, 0, value_len),
        StoreOutcome::NotFound => (reply::CODE_NOT_FOUND, 0, value_len),
        StoreOutcome::TooLarge => return out.extend_from_slice(reply::TOO_LARGE),
        StoreOutcome::OutOfMemory => return out.extend_from_slice(reply::NO_MEMORY_STORING),
    };
    out.extend_from_slice(code);
    for &letter in echo.letters() {
        match letter {
            b'O' => compose::flag_opaque(out, echo.opaque()),
            b'k' => compose::flag_key(out, echo.key_is_base64, key),
            b'c' => compose::flag_number(out, b'c', worker.shown_cas(cas)),
            b's' => compose::flag_number(out, b's', value_len),
            _ => {}
        }
    }
    out.extend_from_slice(b"\r\n");
}

pub(crate) fn deleted(echo: &Echo, key: &[u8], outcome: DeleteOutcome, out: &mut Vec<u8>) {
    let code = match outcome {
        DeleteOutcome::Done if echo.has(b'q') => return,
        DeleteOutcome::Done => reply::CODE_DONE,
        DeleteOutcome::NotFound => reply::CODE_NOT_FOUND,
        DeleteOutcome::Exists => reply::CODE_EXISTS,
        DeleteOutcome::OutOfMemory => return out.extend_from_slice(reply::NO_MEMORY),
    };
    compose::bare_line(out, code, echo, key);
}

/// The answer to a change of a number; `touch` is the lifetime that it gave, `initial_expiry` that of a number
/// that it may have made.
pub(crate) fn number(
    worker: &WorkerContext<'_>,
    (echo, key): (&Echo, &[u8]),
    outcome: ArithmeticOutcome,
    (touch, initial_expiry): (Option<Expiry>, Option<Expiry>),
    out: &mut Vec<u8>,
) {
    match outcome {
        ArithmeticOutcome::Value { .. } if echo.has(b'q') => {}
        ArithmeticOutcome::Value { value, cas, is_new, expiry_before } => {
            let vivify = initial_expiry.filter(|_| is_new);
            let lifetime = Lifetime { expiry: expiry_before, touch, vivify };
            let shown = (value, worker.shown_cas(cas));
            number_line((echo, key), shown, lifetime, worker.now, out);
        }
        ArithmeticOutcome::NotFound => compose::bare_line(out, reply::CODE_NOT_FOUND, echo, key),
        ArithmeticOutcome::Exists => compose::bare_line(out, reply::CODE_EXISTS, echo, key),
        ArithmeticOutcome::NotNumeric => out.extend_from_slice(reply::NOT_NUMERIC),
        ArithmeticOutcome::OutOfMemory if initial_expiry.is_some() => {
            out.extend_from_slice(reply::NO_MEMORY_FOR_NUMBER);
        }
        ArithmeticOutcome::OutOfMemory => out.extend_from_slice(reply::NO_MEMORY),
    }
}

pub(crate) fn seen_of(view: &ItemView<'_, '_>, cas_enabled: bool, now: Now) -> compose::DebugLine {
    compose::DebugLine {
        ttl_seconds: ttl_seconds(view.expiry(), now),
        idle_seconds: view.last_access().age_at(now.ticks) / Ticks::PER_SECOND,
        cas: if cas_enabled { view.cas() } else { 0 },
        fetched: view.fetched(),
        class_number: view.class().wire(),
        size_bytes: view.size_bytes(),
    }
}

pub(crate) fn examined(
    echo: &Echo,
    key: &[u8],
    seen: Option<compose::DebugLine>,
    out: &mut Vec<u8>,
) {
    match seen {
        Some(seen) => compose::debug_line(out, echo.key_is_base64, key, &seen),
        None => out.extend_from_slice(reply::MISS),
    }
}

fn number_line(
    (echo, key): (&Echo, &[u8]),
    (value, cas): (u64, u64),
    mut lifetime: Lifetime,
    now: Now,
    out: &mut Vec<u8>,
) {
    let shows_value = echo.has(b'v');
    if shows_value {
        let digit_count = value.checked_ilog10().map_or(1, |log| log as usize + 1);
        compose::value_code(out, digit_count);
    } else {
        out.extend_from_slice(reply::CODE_DONE);
    }
    for &letter in echo.letters() {
        match letter {
            b'c' => compose::flag_number(out, b'c', cas),
            b't' => compose::flag_ttl(out, lifetime.ttl_seconds(now)),
            b'T' | b'N' => lifetime.pass(letter),
            b'O' => compose::flag_opaque(out, echo.opaque()),
            b'k' => compose::flag_key(out, echo.key_is_base64, key),
            _ => {}
        }
    }
    out.extend_from_slice(b"\r\n");
    if shows_value {
        write_number(out, value);
        out.extend_from_slice(b"\r\n");
    }
}
