//! set, add, replace, append, prepend, cas: the value after the line, or after the packet's key.
//!
//! What differs by dialect is how a value ends and how the client is told: [`Ack`] knows both.

use super::ack::Ack;
use super::{Next, Phase, Session, Step};
use crate::context::WorkerContext;
use crate::out::Out;
use slabwise_engine::{
    ItemMeta, Reservation, ReserveError, StoreConditions, StoreMode, StoreOutcome,
};
use slabwise_protocol::{StoreHeader, StoreVerb};

/// With less than this missing of a value, the socket is read into the connection's buffer: that
/// read also takes the value's end and the commands after it, which saves one.
const DIRECT_READ_LEN_MIN: usize = 4 << 10;

/// What an item takes in memcached beside key, value, CAS and flags: its header, and the ends of key and
/// value.
const MEMCACHED_ITEM_BYTES: usize = 48 + 1 + 2;

/// A storage command without its value, whatever the dialect.
pub(super) struct StoreOrder<'a> {
    pub(super) key: &'a [u8],
    pub(super) value_len: usize,
    pub(super) meta: ItemMeta,
    pub(super) conditions: StoreConditions,
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
    pub(super) fn store_line(
        &mut self,
        worker: &mut WorkerContext<'e>,
        header: StoreHeader<'_>,
        noreply: bool,
        rest: &[u8],
        out: &mut Out<'e>,
    ) -> usize {
        let meta =
            ItemMeta { client_flags: header.client_flags, expiry: worker.expiry(header.exptime) };
        let order = StoreOrder {
            key: header.key,
            value_len: header.value_len,
            meta,
            conditions: mode(worker, header.verb).into(),
            ack: Ack::Text { noreply },
        };
        self.store(worker, order, rest, out)
    }

    /// The same for any dialect.
    pub(super) fn store(
        &mut self,
        worker: &mut WorkerContext<'e>,
        order: StoreOrder<'_>,
        rest: &[u8],
        out: &mut Out<'e>,
    ) -> usize {
        let prefixes = &worker.shared.prefixes;
        if prefixes.is_enabled() {
            prefixes.record_set(order.key);
        }
        let StoreOrder { key, value_len, meta, conditions, ack } = order;
        let value_end = ack.value_end();
        let is_too_large = exceeds_item_size(worker, &order);
        if let Some(value) = whole_value(rest, value_len, value_end)
            && !is_too_large
            && !extends(conditions.mode)
        {
            let outcome = worker.handle.set_if(key, value, meta, &conditions, worker.now);
            match outcome {
                StoreOutcome::TooLarge => refuse(worker, &order, ReserveError::TooLarge, out),
                StoreOutcome::OutOfMemory => {
                    refuse(worker, &order, ReserveError::OutOfMemory, out);
                }
                _ => ack.outcome(worker, conditions.mode, outcome, out),
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
        let Upload { reservation, conditions, ack } = upload;
        if rest.starts_with(value_end) {
            let outcome = worker.handle.store_if(reservation, &conditions, worker.now);
            ack.outcome(worker, conditions.mode, outcome, out);
        } else {
            ack.bad_end(worker, out);
        }
        Step::Took(count + value_end.len())
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
        self.phase = Phase::Skip(upload.reservation.remaining() + upload.ack.value_end().len());
        upload.ack.refusal(worker, ReserveError::OutOfMemory, out);
        let key = upload.reservation.key().to_vec();
        worker.handle.give_up(upload.reservation);
        if upload.conditions.mode == StoreMode::Set {
            worker.handle.discard(&key, worker.now);
        }
        Step::Took(count)
    }
}

/// Whether memcached would find the item larger than `-I`. The engine's items are smaller, so its own
/// limit would let a few bytes more pass; clients, and whoever set `-I`, know memcached's.
fn exceeds_item_size(worker: &WorkerContext<'_>, order: &StoreOrder<'_>) -> bool {
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
    (end == value_end).then(|| &rest[..value_len])
}

/// Whether the value is added to the one that is there.
pub(super) fn extends(mode: StoreMode) -> bool {
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

/// No memory for an item. A set that fails must not leave the old value to be read: the client has
/// been told to forget it.
fn refuse(
    worker: &mut WorkerContext<'_>,
    order: &StoreOrder<'_>,
    error: ReserveError,
    out: &mut Out<'_>,
) {
    order.ack.refusal(worker, error, out);
    if order.conditions.mode == StoreMode::Set {
        worker.handle.discard(order.key, worker.now);
    }
}
