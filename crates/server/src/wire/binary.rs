//! Replies of the binary protocol. Each repeats parts of its request's head. A quiet command is answered only with an
//! error, a quiet get only with a hit.

use crate::ops::get::HitReply;
use crate::out::{Out, pin_if_large};
use crate::shared::WorkerContext;
use slabwise_engine::{ArithmeticOutcome, DeleteOutcome, ItemView, ReserveError, StoreOutcome};
use slabwise_protocol::binary::{Head, Status, compose, opcode};

/// Appends a hit. A large value that is already being sent to too many clients is treated like a miss.
#[inline]
pub(crate) fn hit<'e>(
    view: &ItemView<'_, 'e>,
    head: &Head,
    cas_enabled: bool,
    out: &mut Out<'e>,
) -> HitReply {
    let Some(pinned) = pin_if_large(view) else { return HitReply::PassedOver };
    let key = if head.with_key { view.key() } else { b"" };
    let cas = if cas_enabled { view.cas() } else { 0 };
    compose::hit(out.bytes(), head, view.client_flags(), key, view.value_len(), cas);
    out.push_value(view, pinned);
    HitReply::Answered
}

/// Appends the reply to a get, unless [`hit`] has appended it.
#[inline]
pub(crate) fn got(
    head: &Head,
    key: &[u8],
    reply: Result<Option<HitReply>, ReserveError>,
    out: &mut Vec<u8>,
) {
    match reply {
        Err(_) => compose::error(out, head, Status::OutOfMemory),
        Ok(Some(HitReply::Answered | HitReply::Recache)) => {}
        Ok(Some(HitReply::PassedOver) | None) if head.quiet => {}
        Ok(_) if head.with_key => compose::miss_with_key(out, head, key),
        Ok(_) => compose::error(out, head, Status::NotFound),
    }
}

/// Appends the reply to a touch, with the item's flags and CAS value if there is one.
pub(crate) fn touched(
    worker: &WorkerContext<'_>,
    head: &Head,
    found: Result<Option<(u32, u64)>, ReserveError>,
    out: &mut Vec<u8>,
) {
    match found {
        Ok(Some((client_flags, cas))) => {
            compose::hit(out, head, client_flags, b"", 0, worker.shown_cas(cas));
        }
        Ok(None) => compose::error(out, head, Status::NotFound),
        Err(_) => compose::error(out, head, Status::OutOfMemory),
    }
}

pub(crate) fn deleted(head: &Head, outcome: DeleteOutcome, out: &mut Vec<u8>) {
    match outcome {
        DeleteOutcome::Done if head.quiet => {}
        DeleteOutcome::Done => compose::success(out, head, 0),
        DeleteOutcome::NotFound => compose::error(out, head, Status::NotFound),
        DeleteOutcome::Exists => compose::error(out, head, Status::Exists),
        DeleteOutcome::OutOfMemory => unreachable!("a delete that leaves no item needs no memory"),
    }
}

pub(crate) fn number(
    worker: &WorkerContext<'_>,
    head: &Head,
    outcome: ArithmeticOutcome,
    out: &mut Vec<u8>,
) {
    match outcome {
        ArithmeticOutcome::Value { .. } if head.quiet => {}
        ArithmeticOutcome::Value { value, cas, .. } => {
            compose::number(out, head, value, worker.shown_cas(cas));
        }
        ArithmeticOutcome::Exists => compose::error(out, head, Status::Exists),
        ArithmeticOutcome::NotFound => compose::error(out, head, Status::NotFound),
        ArithmeticOutcome::NotNumeric => compose::error(out, head, Status::NotNumeric),
        ArithmeticOutcome::OutOfMemory => {
            compose::text(out, head, Status::OutOfMemory, b"Out of memory incrementing value");
        }
    }
}

#[inline]
pub(crate) fn stored(
    worker: &WorkerContext<'_>,
    head: &Head,
    outcome: StoreOutcome,
    out: &mut Vec<u8>,
) {
    match outcome {
        StoreOutcome::Stored { .. } if head.quiet => {}
        StoreOutcome::Stored { cas, .. } => compose::success(out, head, worker.shown_cas(cas)),
        StoreOutcome::Exists => compose::error(out, head, Status::Exists),
        StoreOutcome::NotFound => compose::error(out, head, Status::NotFound),
        StoreOutcome::NotStored => compose::error(out, head, not_stored(head.opcode)),
        StoreOutcome::TooLarge => compose::error(out, head, Status::TooLarge),
        StoreOutcome::OutOfMemory => {
            compose::text(out, head, Status::OutOfMemory, b"Out of memory allocating item");
        }
    }
}

/// Returns the status for a store whose condition did not hold.
fn not_stored(opcode: u8) -> Status {
    match opcode {
        opcode::ADD | opcode::ADDQ => Status::Exists,
        opcode::REPLACE | opcode::REPLACEQ => Status::NotFound,
        _ => Status::NotStored,
    }
}
