//! get, gets, gat, gats with several keys: one key after the other.

use super::step::Next;
use crate::context::WorkerContext;
use crate::ops::Rules;
use crate::ops::get::{Access, get};
use crate::out::Out;
use crate::wire::text;
use slabwise_base::HashedKey;
use slabwise_engine::ReserveError;
use slabwise_protocol::text::{NextKey, next_key, reply};
use slabwise_protocol::{Get, Retrieval, TextAnswer};

/// A line counts as one request for each group of keys of this size, so that a line of ten thousand keys lets
/// others have their turn, and one of fifty is answered in one write.
const KEYS_PER_REQUEST: u32 = 64;

/// A retrieval whose keys are being read.
pub(super) struct Keys {
    answer: TextAnswer,
    access: Access,
    keys_before_charge: u32,
}

/// What reading keys came to.
pub(super) enum KeysStep {
    /// Took these bytes; more keys may follow.
    Took(usize),
    /// Took these bytes; nothing more to do for now.
    Pause(usize, Next),
    /// Took these bytes, the end of the line among them.
    Ended(usize),
    /// Took these bytes; the rest of the line means nothing.
    Failed(usize),
}

impl Keys {
    pub(super) fn new(
        worker: &WorkerContext<'_>,
        retrieval: Retrieval,
        answer: TextAnswer,
    ) -> Keys {
        let request = Get { touch: retrieval.touch, ..Get::new(b"") };
        let access = Access::of(worker, &request, Rules::Classic);
        Keys { answer, access, keys_before_charge: KEYS_PER_REQUEST }
    }

    /// Charges the turn for the next key; false when the turn is used up.
    fn try_charge(&mut self, worker: &mut WorkerContext<'_>) -> bool {
        if self.keys_before_charge == 0 {
            if worker.requests_left == 0 {
                return false;
            }
            worker.charge();
            self.keys_before_charge = KEYS_PER_REQUEST;
        }
        self.keys_before_charge -= 1;
        true
    }

    /// The next keys, at most `count_max` of them, or the end of the line.
    pub(super) fn step<'e>(
        &mut self,
        worker: &mut WorkerContext<'e>,
        input: &[u8],
        count_max: usize,
        out: &mut Out<'e>,
    ) -> KeysStep {
        let mut consumed = 0;
        for _ in 0..count_max {
            match next_key(&input[consumed..]) {
                NextKey::Key { key, consumed: len } => {
                    if out.is_full() || !self.try_charge(worker) {
                        return KeysStep::Pause(consumed, Next::Yield);
                    }
                    let key = worker.handle.hashed(key);
                    if look_up(worker, key, &self.access, self.answer, out).is_err() {
                        out.bytes().extend_from_slice(reply::NO_MEMORY);
                        return KeysStep::Failed(consumed);
                    }
                    consumed += len;
                }
                NextKey::End { consumed: len } => {
                    out.bytes().extend_from_slice(reply::END);
                    return KeysStep::Ended(consumed + len);
                }
                NextKey::Incomplete { consumed: len } => {
                    return KeysStep::Pause(consumed + len, Next::Read);
                }
                NextKey::TooLong => {
                    out.bytes().extend_from_slice(reply::BAD_FORMAT);
                    return KeysStep::Failed(consumed);
                }
            }
        }
        KeysStep::Took(consumed)
    }
}

/// Looks one key up and answers if it is there. Fails only where an item needs room for the lifetime
/// that it is given, and there is none.
#[inline(always)]
pub(super) fn look_up<'e>(
    worker: &mut WorkerContext<'e>,
    key: HashedKey<'_>,
    access: &Access,
    answer: TextAnswer,
    out: &mut Out<'e>,
) -> Result<(), ReserveError> {
    let cas_enabled = worker.shared.settings.cas_enabled;
    get(worker, key, access, Rules::Classic, |view, _| {
        text::hit(view, answer.with_cas, cas_enabled, out)
    })?;
    Ok(())
}
