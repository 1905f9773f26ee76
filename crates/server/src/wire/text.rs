//! Replies of the classic text protocol.

use crate::ops::get::{PINNED_VALUE_LEN_MIN, Shown};
use crate::out::Out;
use slabwise_engine::{ArithmeticOutcome, DeleteOutcome, ItemView, ReserveError, StoreOutcome};
use slabwise_protocol::text::{compose, reply};

/// Appends an item's line and value.
///
/// A large value that too many clients are being sent already is passed over like a miss, as in
/// memcached: copies of it would be memory without a bound.
#[inline]
pub(crate) fn hit<'e>(
    view: &ItemView<'_, 'e>,
    with_cas: bool,
    cas_enabled: bool,
    out: &mut Out<'e>,
) -> Shown {
    let value_len = view.value_len();
    let is_large = value_len >= PINNED_VALUE_LEN_MIN;
    let pinned = if is_large { view.pin() } else { None };
    if is_large && pinned.is_none() {
        return Shown::PassedOver;
    }
    let cas = with_cas.then(|| if cas_enabled { view.cas() } else { 0 });
    compose::value_line(out.bytes(), view.key(), view.client_flags(), value_len, cas);
    match pinned {
        Some(pinned) => out.push_pinned(pinned),
        None => view.copy_value(out.bytes()),
    }
    out.bytes().extend_from_slice(b"\r\n");
    Shown::Answered
}

/// The answer to a store.
pub(crate) fn stored(outcome: StoreOutcome) -> &'static [u8] {
    match outcome {
        StoreOutcome::Stored { .. } => reply::STORED,
        StoreOutcome::NotStored => reply::NOT_STORED,
        StoreOutcome::Exists => reply::EXISTS,
        StoreOutcome::NotFound => reply::NOT_FOUND,
        StoreOutcome::TooLarge => reply::TOO_LARGE,
        StoreOutcome::OutOfMemory => reply::NO_MEMORY_STORING,
    }
}

/// The answer to a delete.
pub(crate) fn deleted(outcome: DeleteOutcome) -> &'static [u8] {
    match outcome {
        DeleteOutcome::Done => reply::DELETED,
        DeleteOutcome::NotFound => reply::NOT_FOUND,
        DeleteOutcome::Exists => reply::EXISTS,
        DeleteOutcome::OutOfMemory => reply::NO_MEMORY,
    }
}

/// The answer to a touch.
pub(crate) fn touched(outcome: Result<bool, ReserveError>) -> &'static [u8] {
    match outcome {
        Ok(true) => reply::TOUCHED,
        Ok(false) => reply::NOT_FOUND,
        Err(_) => reply::NO_MEMORY,
    }
}

/// The new number, or the line that says why there is none.
pub(crate) fn number(outcome: ArithmeticOutcome) -> Result<u64, &'static [u8]> {
    match outcome {
        ArithmeticOutcome::Value { value, .. } => Ok(value),
        ArithmeticOutcome::NotFound => Err(reply::NOT_FOUND),
        ArithmeticOutcome::Exists => Err(reply::EXISTS),
        ArithmeticOutcome::NotNumeric => Err(reply::NOT_NUMERIC),
        ArithmeticOutcome::OutOfMemory => Err(reply::NO_MEMORY),
    }
}
