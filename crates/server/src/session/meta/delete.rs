//! `md`.

use super::Asked;
use crate::context::WorkerContext;
use crate::ops::{self, Rules};
use slabwise_base::Expiry;
use slabwise_engine::{DeleteOutcome, ItemMeta, Leave};
use slabwise_protocol::meta::reply;

pub(super) fn delete(worker: &mut WorkerContext<'_>, asked: Asked<'_>, out: &mut Vec<u8>) {
    let leave = leave(worker, &asked);
    let expected = asked.expected_cas(worker);
    let key = worker.handle.hashed(asked.key);
    let outcome = ops::delete::delete(worker, key, expected, leave, Rules::Meta);
    let code = match outcome {
        DeleteOutcome::Done if asked.has(b'q') => return,
        DeleteOutcome::Done => reply::CODE_DONE,
        DeleteOutcome::NotFound => reply::CODE_NOT_FOUND,
        DeleteOutcome::Exists => reply::CODE_EXISTS,
        DeleteOutcome::OutOfMemory => return out.extend_from_slice(reply::NO_MEMORY),
    };
    asked.bare_line(out, code);
}

fn leave(worker: &WorkerContext<'_>, asked: &Asked<'_>) -> Leave {
    let options = &asked.request.options;
    let expiry = options.exptime.map(|exptime| worker.expiry(exptime));
    let new_cas = asked.new_cas(worker);
    let stale = asked.has(b'I');
    if asked.has(b'x') {
        let client_flags = options.client_flags;
        let meta = ItemMeta { client_flags, expiry: expiry.unwrap_or(Expiry::NEVER), cost: None };
        Leave::Empty { meta, stale, new_cas }
    } else if stale {
        Leave::Stale { expiry, new_cas }
    } else {
        Leave::Nothing
    }
}
