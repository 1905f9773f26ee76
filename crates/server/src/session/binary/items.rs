//! Packets about one item: get, touch, delete, increment, decrement.

use super::super::retrieval::PINNED_VALUE_LEN_MIN;
use crate::context::WorkerContext;
use crate::out::Out;
use crate::session::{events, measuring, prefix_costs};
use crate::shared::DeleteCommand;
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
    events::looking_up(worker, key);
    worker.served.gets += 1;
    let cas_enabled = worker.shared.settings.cas_enabled;
    let key_shown = if with_key { key } else { b"" };
    let counted = prefix_costs::Counted::now(worker);
    let show = |view: ItemView<'_, 'e>| {
        (hit(&view, head, key_shown, cas_enabled, out), counted.cost(&view))
    };
    let found = match exptime {
        None => worker.handle.get(key, worker.now, show),
        Some(exptime) => {
            let expiry = worker.expiry_unsigned(exptime);
            match worker.handle.get_and_touch(key, expiry, worker.now, show) {
                Ok(found) => found,
                Err(_) => return compose::error(out.bytes(), head, Status::OutOfMemory),
            }
        }
    };
    if found.is_none() {
        measuring::missed(worker, key);
    }
    record_get(worker, key, found.is_some());
    let (shown, cost) = found.unzip();
    prefix_costs::hit(worker, key, cost.flatten());
    match shown {
        Some(Shown::Yes) => {}
        Some(Shown::No) | None if head.quiet => {}
        Some(Shown::No) | None if with_key => compose::miss_with_key(out.bytes(), head, key),
        Some(Shown::No) | None => compose::error(out.bytes(), head, Status::NotFound),
    }
}

/// Whether a hit was answered.
enum Shown {
    Yes,
    No,
}

/// Appends a hit. The item's stripe is locked meanwhile: copy or pin, and leave. A large value that too many
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
        return Shown::No;
    }
    let cas = if cas_enabled { view.cas() } else { 0 };
    compose::hit(out.bytes(), head, view.client_flags(), key_shown, value_len, cas);
    match pinned {
        Some(pinned) => out.push_pinned(pinned),
        None => view.copy_value(out.bytes()),
    }
    Shown::Yes
}

pub(super) fn touch<'e>(
    worker: &mut WorkerContext<'e>,
    head: &Head,
    key: &[u8],
    exptime: u32,
    out: &mut Out<'e>,
) {
    events::looking_up(worker, key);
    let expiry = worker.expiry_unsigned(exptime);
    let flags_and_cas = |view: ItemView<'_, 'e>| (view.client_flags(), view.cas());
    let found = worker.handle.get_and_touch(key, expiry, worker.now, flags_and_cas);
    record_get(worker, key, matches!(found, Ok(Some(_))));
    match found {
        Ok(Some((client_flags, cas))) => {
            let cas = shown_cas(worker, cas);
            compose::hit(out.bytes(), head, client_flags, b"", 0, cas);
        }
        Ok(None) => compose::error(out.bytes(), head, Status::NotFound),
        Err(_) => compose::error(out.bytes(), head, Status::OutOfMemory),
    }
}

pub(super) fn delete(worker: &mut WorkerContext<'_>, head: &Head, key: &[u8], out: &mut Vec<u8>) {
    let prefixes = &worker.shared.prefixes;
    if prefixes.is_enabled() {
        prefixes.record_delete(key);
    }
    let expected_cas = expected_cas(worker, head);
    let seen = events::deleting(worker, key);
    let outcome = worker.handle.delete_if(key, expected_cas, Leave::Nothing, worker.now);
    if outcome == DeleteOutcome::Done {
        events::deleted(worker, key, seen, DeleteCommand::Delete);
    }
    match outcome {
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
    events::looking_up(worker, key);
    let outcome = worker.handle.arithmetic_if(key, change.delta, &conditions, worker.now);
    if matches!(outcome, ArithmeticOutcome::Value { is_new: true, .. }) {
        events::made(worker, key);
        measuring::made(worker, key);
    }
    match outcome {
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

fn record_get(worker: &WorkerContext<'_>, key: &[u8], is_hit: bool) {
    let prefixes = &worker.shared.prefixes;
    if prefixes.is_enabled() {
        prefixes.record_get(key, is_hit);
    }
}
