//! Packets about one item: get, touch, delete, increment, decrement.

use crate::context::WorkerContext;
use crate::ops::get::{Access, PINNED_VALUE_LEN_MIN, Shown};
use crate::ops::{self, Rules};
use crate::out::Out;
use slabwise_engine::{
    ArithmeticConditions, ArithmeticOutcome, DeleteOutcome, Delta, Initial, ItemView, Leave,
};
use slabwise_protocol::Direction;
use slabwise_protocol::binary::{Head, Status, compose};

/// get, getk, and with a lifetime gat, gatk.
pub(super) fn get<'e>(
    worker: &mut WorkerContext<'e>,
    head: &Head,
    key: &[u8],
    exptime: Option<u32>,
    with_key: bool,
    out: &mut Out<'e>,
) {
    let cas_enabled = worker.shared.settings.cas_enabled;
    let key_shown = if with_key { key } else { b"" };
    let access =
        exptime.map_or(Access::Plain, |exptime| Access::Touch(worker.expiry_unsigned(exptime)));
    let hashed = worker.handle.hashed(key);
    let shown = ops::get::get(worker, hashed, access, Rules::Classic, |view, _| {
        hit(view, head, key_shown, cas_enabled, out)
    });
    match shown {
        Err(_) => compose::error(out.bytes(), head, Status::OutOfMemory),
        Ok(Some(Shown::Answered | Shown::Recache)) => {}
        Ok(Some(Shown::PassedOver) | None) if head.quiet => {}
        Ok(_) if with_key => compose::miss_with_key(out.bytes(), head, key),
        Ok(_) => compose::error(out.bytes(), head, Status::NotFound),
    }
}

/// Appends a hit. A large value that too many
/// clients are being sent already is passed over like a miss, as in text.
fn hit<'e>(
    view: &ItemView<'_, 'e>,
    head: &Head,
    key_shown: &[u8],
    cas_enabled: bool,
    out: &mut Out<'e>,
) -> Shown {
    let value_len = view.value_len();
    let is_large = value_len >= PINNED_VALUE_LEN_MIN;
    let pinned = if is_large { view.pin() } else { None };
    if is_large && pinned.is_none() {
        return Shown::PassedOver;
    }
    let cas = if cas_enabled { view.cas() } else { 0 };
    compose::hit(out.bytes(), head, view.client_flags(), key_shown, value_len, cas);
    match pinned {
        Some(pinned) => out.push_pinned(pinned),
        None => view.copy_value(out.bytes()),
    }
    Shown::Answered
}

pub(super) fn touch<'e>(
    worker: &mut WorkerContext<'e>,
    head: &Head,
    key: &[u8],
    exptime: u32,
    out: &mut Out<'e>,
) {
    let expiry = worker.expiry_unsigned(exptime);
    let flags_and_cas = |view: ItemView<'_, 'e>| (view.client_flags(), view.cas());
    let key = worker.handle.hashed(key);
    match ops::touch::touch_and_show(worker, key, expiry, flags_and_cas) {
        Ok(Some((client_flags, cas))) => {
            let cas = shown_cas(worker, cas);
            compose::hit(out.bytes(), head, client_flags, b"", 0, cas);
        }
        Ok(None) => compose::error(out.bytes(), head, Status::NotFound),
        Err(_) => compose::error(out.bytes(), head, Status::OutOfMemory),
    }
}

pub(super) fn delete(worker: &mut WorkerContext<'_>, head: &Head, key: &[u8], out: &mut Vec<u8>) {
    let expected_cas = expected_cas(worker, head);
    let key = worker.handle.hashed(key);
    match ops::delete::delete(worker, key, expected_cas, Leave::Nothing, Rules::Classic) {
        DeleteOutcome::Done if head.quiet => {}
        DeleteOutcome::Done => compose::success(out, head, 0),
        DeleteOutcome::NotFound => compose::error(out, head, Status::NotFound),
        DeleteOutcome::Exists => compose::error(out, head, Status::Exists),
        DeleteOutcome::OutOfMemory => unreachable!("to leave nothing takes no memory"),
    }
}

/// What becomes of a number.
pub(super) struct Change {
    delta: Delta,
    initial: Option<Initial>,
}

impl Change {
    pub(super) fn new(
        worker: &WorkerContext<'_>,
        direction: Direction,
        delta: u64,
        initial: Option<(u64, u32)>,
    ) -> Change {
        let delta = match direction {
            Direction::Increment => Delta::Increment(delta),
            Direction::Decrement => Delta::Decrement(delta),
        };
        let initial = initial
            .map(|(value, exptime)| Initial { value, expiry: worker.expiry_unsigned(exptime) });
        Change { delta, initial }
    }
}

pub(super) fn arithmetic(
    worker: &mut WorkerContext<'_>,
    head: &Head,
    key: &[u8],
    change: Change,
    out: &mut Vec<u8>,
) {
    let conditions = ArithmeticConditions {
        expected_cas: expected_cas(worker, head),
        initial: change.initial,
        ..ArithmeticConditions::default()
    };
    let key = worker.handle.hashed(key);
    match ops::arithmetic::arithmetic(worker, key, change.delta, &conditions) {
        ArithmeticOutcome::Value { .. } if head.quiet => {}
        ArithmeticOutcome::Value { value, cas, .. } => {
            compose::number(out, head, value, shown_cas(worker, cas));
        }
        ArithmeticOutcome::Exists => compose::error(out, head, Status::Exists),
        ArithmeticOutcome::NotFound => compose::error(out, head, Status::NotFound),
        ArithmeticOutcome::NotNumeric => compose::error(out, head, Status::NotNumeric),
        ArithmeticOutcome::OutOfMemory => {
            compose::text(out, head, Status::OutOfMemory, b"Out of memory incrementing value");
        }
    }
}

/// The CAS value that the item must have. With `-C` items have none, so none matches: 0 is no item's.
fn expected_cas(worker: &WorkerContext<'_>, head: &Head) -> Option<u64> {
    match head.cas {
        0 => None,
        _ if !worker.shared.settings.cas_enabled => Some(0),
        cas => Some(cas),
    }
}

/// The CAS value as the client gets it.
fn shown_cas(worker: &WorkerContext<'_>, cas: u64) -> u64 {
    if worker.shared.settings.cas_enabled { cas } else { 0 }
}
