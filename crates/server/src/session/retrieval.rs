//! Retrievals: classic gets of several keys. The keys of a line can be more than an input holds, so they are consumed as
//! they arrive.

use super::batch::ITEMS_MAX;
use super::items::{Next, Step, charge, get_and_write};
use crate::ops::get::{self, Access, Rules};
use crate::out::Out;
use crate::shared::WorkerContext;
use slabwise_base::HashedKey;
use slabwise_protocol::text::{NextKey, next_key, reply};
use slabwise_protocol::{Exptime, Get, TextAnswer};

/// This number of keys of a line counts as one request in the request budget (see [`charge`]). Therefore a line of
/// 10,000 keys yields to other clients several times, and a line of 50 keys is answered in one write.
const KEYS_PER_REQUEST: u32 = 64;

/// A classic `get`, `gets`, `gat` or `gats` whose keys are still arriving.
pub(super) struct Retrieval {
    answer: TextAnswer,
    access: Access,
    /// The number of keys that can be served before the next request is subtracted from the request budget.
    keys_until_charge: u32,
}

/// The outcome of one step of a retrieval.
pub(super) enum RetrievalStep {
    /// The end of the line was not reached. The session stays in the phase `Keys`.
    Continues(Step),
    /// The reply is complete. The step consumed this number of bytes, including the end of the line.
    Finished(usize),
    /// An error was written. The step consumed this number of bytes; the session must ignore the rest of the line.
    Failed(usize),
}

impl Retrieval {
    /// Starts a retrieval. `touch` is the expiration time that `gat` and `gats` set.
    pub(super) fn new(
        worker: &WorkerContext<'_>,
        touch: Option<Exptime>,
        answer: TextAnswer,
    ) -> Retrieval {
        let request = Get { touch, ..Get::default() };
        let access = Access::of(worker, &request, Rules::Classic);
        Retrieval { answer, access, keys_until_charge: KEYS_PER_REQUEST }
    }

    /// Counts one key against the request budget. Returns false if the budget is used up.
    fn try_charge(&mut self, worker: &mut WorkerContext<'_>) -> bool {
        if self.keys_until_charge == 0 {
            if worker.requests_left == 0 {
                return false;
            }
            charge(worker);
            self.keys_until_charge = KEYS_PER_REQUEST;
        }
        self.keys_until_charge -= 1;
        true
    }

    /// Serves up to `count_max` keys, and the end of the line if it is reached.
    pub(super) fn step<'e>(
        &mut self,
        worker: &mut WorkerContext<'e>,
        input: &[u8],
        count_max: usize,
        out: &mut Out<'e>,
    ) -> RetrievalStep {
        let (mut consumed, mut left) = (0, count_max);
        while left > 0 {
            let ahead = KeysAhead::read(worker, &input[consumed..], left);
            for (&key, len) in ahead.keys() {
                if out.is_full() || !self.try_charge(worker) {
                    return RetrievalStep::Continues(Step::Pause(consumed, Next::Yield));
                }
                if worker.large_values_wait && get::has_large_value(worker, key) {
                    return RetrievalStep::Continues(Step::Pause(consumed, Next::AwaitReplies));
                }
                if get_and_write(worker, key, &self.access, self.answer, out).is_err() {
                    out.bytes().extend_from_slice(reply::NO_MEMORY);
                    return RetrievalStep::Failed(consumed);
                }
                consumed += len;
                left -= 1;
            }
            match ahead.end {
                None => {}
                Some(NextKey::Key(..)) => unreachable!("a key does not end the keys"),
                Some(NextKey::End(len)) => {
                    out.bytes().extend_from_slice(reply::END);
                    return RetrievalStep::Finished(consumed + len);
                }
                Some(NextKey::Incomplete(len)) => {
                    return RetrievalStep::Continues(Step::Pause(consumed + len, Next::Read));
                }
                Some(NextKey::TooLong) => {
                    out.bytes().extend_from_slice(reply::BAD_FORMAT);
                    return RetrievalStep::Failed(consumed);
                }
            }
        }
        RetrievalStep::Continues(Step::Consumed(consumed))
    }
}

/// The next keys of a retrieval, whose lookups are prefetched together, as those of a [`Batch`](super::batch::Batch).
struct KeysAhead<'i> {
    /// The keys, in the first `count` entries, and the number of bytes that each takes in the input.
    keys: [HashedKey<'i>; ITEMS_MAX],
    lens: [usize; ITEMS_MAX],
    count: usize,
    /// What follows the keys, if it is no key.
    end: Option<NextKey<'i>>,
}

impl<'i> KeysAhead<'i> {
    /// Reads at most `count_max` keys from the start of the input.
    fn read(worker: &WorkerContext<'_>, input: &'i [u8], count_max: usize) -> KeysAhead<'i> {
        let keys = [HashedKey::from_parts(b"", 0); ITEMS_MAX];
        let mut ahead = KeysAhead { keys, lens: [0; ITEMS_MAX], count: 0, end: None };
        let mut rest = input;
        while ahead.count < count_max.min(ITEMS_MAX) {
            match next_key(rest) {
                NextKey::Key(key, len) => {
                    ahead.keys[ahead.count] = worker.handle.hashed(key);
                    ahead.lens[ahead.count] = len;
                    ahead.count += 1;
                    rest = &rest[len..];
                }
                end => {
                    ahead.end = Some(end);
                    break;
                }
            }
        }
        if ahead.count > 1 {
            worker.handle.prefetch(&ahead.keys[..ahead.count]);
        }
        ahead
    }

    fn keys(&self) -> impl Iterator<Item = (&HashedKey<'i>, usize)> {
        self.keys[..self.count].iter().zip(self.lens)
    }
}
