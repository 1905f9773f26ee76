//! A value that arrives after its line, and the answer to its store.

use crate::context::WorkerContext;
use crate::ops::store::Upload;
use crate::out::Out;
use crate::wire::reply::Reply;
use crate::wire::{binary, meta, text};
use slabwise_engine::StoreOutcome;
use slabwise_protocol::text::reply;
use slabwise_protocol::{Answer, LIMITS};

/// A value that is arriving, and how its store is answered.
pub(super) struct Arriving<'e> {
    pub(super) upload: Upload<'e>,
    pub(super) answer: Answer,
}

impl<'e> Arriving<'e> {
    /// Takes more of the value; returns how much that was, and whether the value has arrived or is given up.
    pub(super) fn fill(&mut self, input: &[u8]) -> (usize, bool) {
        let count = self.upload.fill(input);
        let is_whole =
            self.upload.remaining() == 0 && input.len() - count >= self.answer.value_end().len();
        (count, is_whole || self.upload.is_starved())
    }

    /// Ends the store. `rest` is the input after the value. Returns how much of what follows the value's last
    /// byte at hand belongs to it and means nothing.
    pub(super) fn finish(
        mut self,
        worker: &mut WorkerContext<'e>,
        rest: &[u8],
        out: &mut Out<'e>,
    ) -> usize {
        let mut key = [0; LIMITS.key_len_max];
        let key_len = self.upload.key().len();
        key[..key_len].copy_from_slice(self.upload.key());
        let (key, value_len) = (&key[..key_len], self.upload.value_len());
        let (remaining, value_end) = (self.upload.remaining(), self.answer.value_end());
        if self.upload.is_starved() {
            let outcome = self.upload.give_up(worker);
            answer_store(worker, &self.answer, key, outcome, value_len, out);
        } else if rest.starts_with(value_end) {
            let outcome = self.upload.store(worker);
            answer_store(worker, &self.answer, key, outcome, value_len, out);
        } else {
            bad_data(worker, &self.answer, out);
        }
        remaining + value_end.len()
    }
}

/// Says what came of a store of `value_len` bytes under `key`.
#[inline]
pub(super) fn answer_store<'e>(
    worker: &mut WorkerContext<'e>,
    answer: &Answer,
    key: &[u8],
    outcome: StoreOutcome,
    value_len: usize,
    out: &mut Out<'e>,
) {
    match answer {
        Answer::Text(answer) => {
            Reply::new(worker, out, answer.noreply).line(text::stored(outcome));
        }
        Answer::Meta(echo) => meta::stored(worker, (echo, key), outcome, value_len, out.bytes()),
        Answer::Binary(head) => binary::stored(worker, head, outcome, out.bytes()),
    }
}

/// Says that the value does not end where its length says.
fn bad_data<'e>(worker: &mut WorkerContext<'e>, answer: &Answer, out: &mut Out<'e>) {
    let noreply = match answer {
        Answer::Text(answer) => answer.noreply,
        // Errors of the meta protocol are not silenced by quiet mode.
        Answer::Meta(_) => false,
        Answer::Binary(_) => unreachable!("nothing follows a value that could be wrong"),
    };
    Reply::new(worker, out, noreply).line(reply::BAD_DATA);
}
