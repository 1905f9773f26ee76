//! A store: the value after the line, whatever dialect the line was in.
//!
//! A value that is wholly at hand is stored at once; else it is read into a reservation as it arrives. How
//! the client is told what came of it is the [`Ack`]'s to know.

use super::ack::{Ack, Failure};
use super::{Next, Phase, Session, Step, events, measuring, prefix_costs};
use crate::context::WorkerContext;
use crate::out::Out;
use slabwise_engine::{
    ItemMeta, Reservation, ReserveError, StoreConditions, StoreMode, StoreOutcome,
};
use slabwise_protocol::{LIMITS, StoreHeader, StoreVerb};

/// With less than this missing of a value, the socket is read into the connection's buffer: that
/// read also takes the value's end and the commands after it, which saves one.
const DIRECT_READ_LEN_MIN: usize = 4 << 10;

/// What an item takes in memcached beside key, value, CAS and flags: its header, and the ends of key and
/// value.
const MEMCACHED_ITEM_BYTES: usize = 48 + 1 + 2;

/// A store whose line has been read.
pub(super) struct Order<'a> {
    pub(super) key: &'a [u8],
    pub(super) meta: ItemMeta,
    pub(super) conditions: StoreConditions,
    /// Bytes of the value that follows.
    pub(super) value_len: usize,
    pub(super) ack: Ack,
}

/// A value that is arriving, in memory that nobody sees yet.
pub(super) struct Upload<'e> {
    reservation: Reservation<'e>,
    conditions: StoreConditions,
    ack: Ack,
}

impl Upload<'_> {
    pub(super) fn target(&mut self) -> Option<&mut [u8]> {
        if self.reservation.remaining() < DIRECT_READ_LEN_MIN {
            return None;
        }
        // Empty where there is no memory for more: what follows is then read and skipped.
        let place = self.reservation.unfilled();
        (!place.is_empty()).then_some(place)
    }

    pub(super) fn advance(&mut self, count: usize) {
        self.reservation.advance(count);
    }
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
        let prefixes = &worker.shared.prefixes;
        if prefixes.is_enabled() {
            prefixes.record_set(header.key);
        }
        let order = Order {
            key: header.key,
            meta: ItemMeta {
                client_flags: header.client_flags,
                expiry: worker.expiry(header.exptime),
                cost: header.cost,
            },
            conditions: mode(worker, header.verb).into(),
            value_len: header.value_len,
            ack: Ack::Text { noreply },
        };
        self.begin_store(worker, order, rest, out)
    }

    /// Carries out a store, or begins to: `rest` is the input after its line. Returns how much of `rest` it
    /// took.
    #[inline(always)]
    pub(super) fn begin_store(
        &mut self,
        worker: &mut WorkerContext<'e>,
        mut order: Order<'_>,
        rest: &[u8],
        out: &mut Out<'e>,
    ) -> usize {
        order.meta =
            measuring::priced(worker, order.key, order.value_len, order.meta, &order.conditions);
        let Order { key, meta, ref conditions, value_len, ref ack } = order;
        prefix_costs::storing(worker, key, meta.cost, conditions);
        let value_end = ack.value_end();
        let is_too_large = exceeds_item_size(worker, &order);
        if let Some(value) = whole_value(rest, value_len, value_end)
            && !is_too_large
            && !extends(conditions.mode)
            && !events::stores_are_watched(worker)
        {
            let outcome = worker.handle.set_if(key, value, meta, conditions, worker.now);
            match outcome {
                StoreOutcome::TooLarge => refuse(worker, &order, ReserveError::TooLarge, out),
                StoreOutcome::OutOfMemory => {
                    refuse(worker, &order, ReserveError::OutOfMemory, out);
                }
                _ => ack.answer(worker, key, outcome, value_len, out),
            }
            return value_len + value_end.len();
        }
        let reserved = if is_too_large {
            worker.handle.count_too_large();
            Err(ReserveError::TooLarge)
        } else {
            worker.handle.reserve(key, value_len, meta, worker.now)
        };
        match reserved {
            Ok(mut reservation) => {
                let count = reservation.fill(rest);
                if reservation.is_starved() {
                    self.phase = Phase::Skip(reservation.remaining() + value_end.len());
                    worker.handle.give_up(reservation);
                    refuse(worker, &order, ReserveError::OutOfMemory, out);
                } else {
                    let Order { conditions, ack, .. } = order;
                    self.phase = Phase::Value(Upload { reservation, conditions, ack });
                }
                count
            }
            Err(error) => {
                refuse(worker, &order, error, out);
                self.phase = Phase::Skip(value_len + value_end.len());
                0
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
        let Phase::Value(upload) = &mut self.phase else {
            unreachable!("called only while a value is read");
        };
        let count = upload.reservation.fill(input);
        let rest = &input[count..];
        if upload.reservation.is_starved() {
            return self.give_up_upload(worker, count, out);
        }
        let value_end = upload.ack.value_end();
        if upload.reservation.remaining() > 0 || rest.len() < value_end.len() {
            return Step::Pause(count, Next::Read);
        }
        let Phase::Value(upload) = std::mem::take(&mut self.phase) else {
            unreachable!("it was a value above");
        };
        if rest.starts_with(value_end) {
            upload.store(worker, out);
        } else {
            upload.ack.fail(worker, Failure::BadData, out);
        }
        Step::Took(count + value_end.len())
    }
}

impl<'e> Upload<'e> {
    /// Stores a value that has arrived.
    fn store(mut self, worker: &mut WorkerContext<'e>, out: &mut Out<'e>) {
        let mut key = [0; LIMITS.key_len_max];
        let key_len = self.reservation.key().len();
        key[..key_len].copy_from_slice(self.reservation.key());
        let key = &key[..key_len];
        let value_len = self.reservation.value_len();
        let mode = self.conditions.mode;
        let announced = events::storing(worker, &mut self.reservation);
        let outcome = worker.handle.store_if(self.reservation, &self.conditions, worker.now);
        events::stored(worker, announced, &self.conditions, outcome);
        let outcome = match outcome {
            // The value fitted, what it would have grown into does not: the item stays as it was.
            StoreOutcome::TooLarge | StoreOutcome::OutOfMemory if extends(mode) => {
                StoreOutcome::NotStored
            }
            outcome => outcome,
        };
        self.ack.answer(worker, key, outcome, value_len, out);
    }
}

impl<'e> Session<'e> {
    /// There is no memory for the rest of the value: says so, and skips what is still to come.
    fn give_up_upload(
        &mut self,
        worker: &mut WorkerContext<'e>,
        count: usize,
        out: &mut Out<'e>,
    ) -> Step {
        let Phase::Value(mut upload) = std::mem::take(&mut self.phase) else {
            unreachable!("called only while a value is read");
        };
        let value_end = upload.ack.value_end();
        self.phase = Phase::Skip(upload.reservation.remaining() + value_end.len());
        upload.ack.fail(worker, Failure::OutOfMemory, out);
        let key = upload.reservation.key().to_vec();
        worker.handle.give_up(upload.reservation);
        events::store_refused(worker, &key, upload.conditions.mode, ReserveError::OutOfMemory);
        if upload.ack.discards(upload.conditions.mode) {
            events::looking_up(worker, &key);
            worker.handle.discard(&key, worker.now);
        }
        Step::Took(count)
    }
}

/// Whether memcached would find the item larger than `-I`. The engine's items are smaller, so its own
/// limit would let a few bytes more pass; clients, and whoever set `-I`, know memcached's.
fn exceeds_item_size(worker: &WorkerContext<'_>, order: &Order<'_>) -> bool {
    let settings = worker.shared.settings;
    let overhead = MEMCACHED_ITEM_BYTES
        + if settings.cas_enabled { size_of::<u64>() } else { 0 }
        + if order.meta.client_flags != 0 { size_of::<u32>() } else { 0 };
    let size_bytes = overhead + order.key.len() + order.value_len;
    size_bytes as u64 > settings.engine.item_size_bytes_max
}

/// The value, if all of it and its end are at hand.
fn whole_value<'a>(rest: &'a [u8], value_len: usize, value_end: &[u8]) -> Option<&'a [u8]> {
    let end = rest.get(value_len..value_len + value_end.len())?;
    // Two bytes or none: a call that compares them costs more than they do.
    end.iter().eq(value_end).then(|| &rest[..value_len])
}

fn extends(mode: StoreMode) -> bool {
    matches!(mode, StoreMode::Append | StoreMode::Prepend)
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

/// No memory for an item. A store that fails must not leave the value that it was to replace: the client
/// has been told to forget it.
fn refuse<'e>(
    worker: &mut WorkerContext<'e>,
    order: &Order<'_>,
    error: ReserveError,
    out: &mut Out<'e>,
) {
    let failure = match error {
        ReserveError::TooLarge => Failure::TooLarge,
        ReserveError::OutOfMemory => Failure::OutOfMemory,
    };
    order.ack.fail(worker, failure, out);
    events::store_refused(worker, order.key, order.conditions.mode, error);
    if order.ack.discards(order.conditions.mode) {
        events::looking_up(worker, order.key);
        worker.handle.discard(order.key, worker.now);
    }
}
