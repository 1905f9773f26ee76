//! Writes the replies of the binary protocol. Each reply repeats parts of the request's head. A quiet command gets a
//! reply only for an error. A quiet get gets a reply for a hit or an error, but not for a miss.

use crate::ops::get::HitReply;
use crate::out::{Out, pin_if_large};
use crate::shared::WorkerContext;
use slabwise_engine::{ArithmeticOutcome, DeleteOutcome, ItemView, ReserveError, StoreOutcome};
use slabwise_protocol::binary::{Head, Status, compose, opcode};

/// Appends the reply to a get that found an item. Appends nothing if the value is large and is being sent to too many
/// clients already.
#[inline]
pub(crate) fn write_hit<'e>(
    view: &ItemView<'_, 'e>,
    head: &Head,
    cas_enabled: bool,
    out: &mut Out<'e>,
) -> HitReply {
    let Some(pinned) = pin_if_large(view) else { return HitReply::TooManyReaders };
    let key = if head.with_key { view.key() } else { b"" };
    let cas = if cas_enabled { view.cas() } else { 0 };
    compose::write_hit(out.bytes(), head, view.client_flags(), key, view.value_len(), cas);
    out.push_value(view, pinned);
    HitReply::Answered
}

/// Appends the reply to a get that failed or missed. Does nothing if [`write_hit`] has written the item.
#[inline]
pub(crate) fn write_miss_or_error(
    head: &Head,
    key: &[u8],
    reply: Result<Option<HitReply>, ReserveError>,
    out: &mut Vec<u8>,
) {
    match reply {
        Err(_) => compose::write_error(out, head, Status::OutOfMemory),
        Ok(Some(HitReply::Answered | HitReply::Recache)) => {}
        Ok(Some(HitReply::TooManyReaders) | None) if head.quiet => {}
        Ok(_) if head.with_key => compose::write_miss_with_key(out, head, key),
        Ok(_) => compose::write_error(out, head, Status::NotFound),
    }
}

/// Appends the reply to a touch. `found` contains the client flags and the CAS value of the item, if there is an item.
pub(crate) fn write_touch(
    worker: &WorkerContext<'_>,
    head: &Head,
    found: Result<Option<(u32, u64)>, ReserveError>,
    out: &mut Vec<u8>,
) {
    match found {
        Ok(Some((client_flags, cas))) => {
            compose::write_hit(out, head, client_flags, b"", 0, worker.shown_cas(cas));
        }
        Ok(None) => compose::write_error(out, head, Status::NotFound),
        Err(_) => compose::write_error(out, head, Status::OutOfMemory),
    }
}

/// Appends the reply to a delete.
pub(crate) fn write_delete(head: &Head, outcome: DeleteOutcome, out: &mut Vec<u8>) {
    match outcome {
        DeleteOutcome::Done if head.quiet => {}
        DeleteOutcome::Done => compose::write_success(out, head, 0),
        DeleteOutcome::NotFound => compose::write_error(out, head, Status::NotFound),
        DeleteOutcome::Exists => compose::write_error(out, head, Status::Exists),
        DeleteOutcome::OutOfMemory => {
            unreachable!("a binary delete allocates no memory, because it leaves no item")
        }
    }
}

/// Appends the reply to an increment or decrement.
pub(crate) fn write_arithmetic(
    worker: &WorkerContext<'_>,
    head: &Head,
    outcome: ArithmeticOutcome,
    out: &mut Vec<u8>,
) {
    match outcome {
        ArithmeticOutcome::Value { .. } if head.quiet => {}
        ArithmeticOutcome::Value { value, cas, .. } => {
            compose::write_number(out, head, value, worker.shown_cas(cas));
        }
        ArithmeticOutcome::Exists => compose::write_error(out, head, Status::Exists),
        ArithmeticOutcome::NotFound => compose::write_error(out, head, Status::NotFound),
        ArithmeticOutcome::NotNumeric => compose::write_error(out, head, Status::NotNumeric),
        ArithmeticOutcome::OutOfMemory => {
            compose::write_text(
                out,
                head,
                Status::OutOfMemory,
                b"Out of memory incrementing value",
            );
        }
    }
}

/// Appends the reply to a store.
#[inline]
pub(crate) fn write_store(
    worker: &WorkerContext<'_>,
    head: &Head,
    outcome: StoreOutcome,
    out: &mut Vec<u8>,
) {
    match outcome {
        StoreOutcome::Stored { .. } if head.quiet => {}
        StoreOutcome::Stored { cas, .. } => {
            compose::write_success(out, head, worker.shown_cas(cas))
        }
        StoreOutcome::Exists => compose::write_error(out, head, Status::Exists),
        StoreOutcome::NotFound => compose::write_error(out, head, Status::NotFound),
        StoreOutcome::NotStored => compose::write_error(out, head, not_stored_status(head.opcode)),
        StoreOutcome::TooLarge => compose::write_error(out, head, Status::TooLarge),
        StoreOutcome::OutOfMemory => {
            compose::write_text(out, head, Status::OutOfMemory, b"Out of memory allocating item");
        }
    }
}

/// Returns the status of a store that failed because the item exists (add) or does not exist (the other commands).
fn not_stored_status(opcode: u8) -> Status {
    match opcode {
        opcode::ADD | opcode::ADDQ => Status::Exists,
        opcode::REPLACE | opcode::REPLACEQ => Status::NotFound,
        _ => Status::NotStored,
    }
}
