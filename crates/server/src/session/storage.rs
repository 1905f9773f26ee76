//! A store: the value after the line, whatever dialect the line was in.

use super::ack::Ack;
use super::{Next, Phase, Session, Step};
use crate::context::WorkerContext;
use crate::ops::Rules;
use crate::ops::store::{Begun, Order, Upload, begin};
use crate::out::Out;
use slabwise_engine::{ItemMeta, StoreMode};
use slabwise_protocol::{LIMITS, StoreHeader, StoreVerb};

/// A value that is arriving, and how its store is answered.
pub(super) struct Arriving<'e> {
    pub(super) upload: Upload<'e>,
    ack: Ack,
}

impl<'e> Session<'e> {
    /// A storage command whose line has been read; `rest` is the input after it. Returns how much of
    /// `rest` it took.
    pub(super) fn store(
        &mut self,
        worker: &mut WorkerContext<'e>,
        header: StoreHeader<'_>,
        noreply: bool,
        rest: &[u8],
        out: &mut Out<'e>,
    ) -> usize {
        let order = Order {
            key: worker.handle.hashed(header.key),
            meta: ItemMeta {
                client_flags: header.client_flags,
                expiry: worker.expiry(header.exptime),
                cost: header.cost,
            },
            conditions: mode(worker, header.verb).into(),
            value_len: header.value_len,
            rules: Rules::Classic,
        };
        self.begin_store(worker, (order, Ack::Text { noreply }), rest, out)
    }

    /// Carries out a store, or begins to: `rest` is the input after its line. Returns how much of `rest` it
    /// took.
    #[inline(always)]
    pub(super) fn begin_store(
        &mut self,
        worker: &mut WorkerContext<'e>,
        (order, ack): (Order<'_>, Ack),
        rest: &[u8],
        out: &mut Out<'e>,
    ) -> usize {
        match begin(worker, order, rest, ack.value_end()) {
            Begun::Finished { outcome, consumed, skip_len } => {
                ack.answer(worker, order.key.bytes(), outcome, order.value_len, out);
                if skip_len > 0 {
                    self.phase = Phase::Skip(skip_len);
                }
                consumed
            }
            Begun::Arriving { upload, consumed } => {
                self.phase = Phase::Value(Arriving { upload, ack });
                consumed
            }
        }
    }

    /// More of a value, or its end.
    pub(super) fn value(
        &mut self,
        worker: &mut WorkerContext<'e>,
        input: &[u8],
        out: &mut Out<'e>,
    ) -> Step {
        let Phase::Value(Arriving { upload, ack }) = &mut self.phase else {
            unreachable!("called only while a value is read");
        };
        let count = upload.fill(input);
        let rest = &input[count..];
        let value_end = ack.value_end();
        let is_starved = upload.is_starved();
        if !is_starved && (upload.remaining() > 0 || rest.len() < value_end.len()) {
            return Step::Pause(count, Next::Read);
        }
        let Phase::Value(Arriving { mut upload, ack }) = std::mem::take(&mut self.phase) else {
            unreachable!("it was a value above");
        };
        let mut key = [0; LIMITS.key_len_max];
        let key_len = upload.key().len();
        key[..key_len].copy_from_slice(upload.key());
        let (key, value_len) = (&key[..key_len], upload.value_len());
        if is_starved {
            self.phase = Phase::Skip(upload.remaining() + value_end.len());
            let outcome = upload.give_up(worker);
            ack.answer(worker, key, outcome, value_len, out);
            return Step::Took(count);
        }
        if rest.starts_with(value_end) {
            let outcome = upload.store(worker);
            ack.answer(worker, key, outcome, value_len, out);
        } else {
            ack.bad_data(worker, out);
        }
        Step::Took(count + value_end.len())
    }
}

fn mode(worker: &WorkerContext<'_>, verb: StoreVerb) -> StoreMode {
    match verb {
        StoreVerb::Set => StoreMode::Set,
        StoreVerb::Add => StoreMode::Add,
        StoreVerb::Replace => StoreMode::Replace,
        StoreVerb::Append => StoreMode::Append,
        StoreVerb::Prepend => StoreMode::Prepend,
        // Without CAS nothing that is there matches: 0 is no item's.
        StoreVerb::Cas(_) if !worker.shared.settings.cas_enabled => StoreMode::Cas(0),
        StoreVerb::Cas(cas) => StoreMode::Cas(cas),
    }
}
