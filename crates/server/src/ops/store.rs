//! Storing a value: at once where it is wholly at hand, else into a reservation as it arrives.
//!
//! ```text
//!   begin --> Finished                  the value was at hand, or there is no place for it
//!         '-> Arriving(Upload) --fill, target/advance--> store
//!                                      '--is_starved---> give_up
//! ```
//!
//! A store that fails must not leave the value that it was to replace: the client counts on its end.

use super::get::{Rules, looking_up};
use super::hooks::{self, extends};
use crate::shared::WorkerContext;
use slabwise_base::{HashedKey, memcached};
use slabwise_engine::{
    ItemMeta, Reservation, ReserveError, StoreConditions, StoreMode, StoreOutcome,
};
use slabwise_protocol::{Store, StoreVerb};

/// What an item takes in memcached beside key, value, CAS and flags.
const MEMCACHED_ITEM_BYTES: usize = memcached::HEADER_SIZE_BYTES + memcached::ENDS_SIZE_BYTES;

/// With less than this missing of a value, the socket is read into the connection's buffer: that
/// read also takes the value's end and the commands after it, which saves one.
const DIRECT_READ_LEN_MIN: usize = 4 << 10;

pub(crate) enum Begun<'e> {
    Finished {
        outcome: StoreOutcome,
        /// Bytes of the input that were taken.
        consumed: usize,
        /// Bytes behind them that belong to the value and its end, and mean nothing.
        skip_len: usize,
    },
    /// The value goes on arriving, or its end was not what it should be.
    Arriving {
        upload: Upload<'e>,
        /// Bytes of the input that were taken.
        consumed: usize,
    },
}

/// As in memcached, `-C` makes a packet's store with a CAS value one without, but nothing that is there matches the
/// CAS value of the text protocols: 0 is no item's.
#[inline(always)]
fn conditions(worker: &WorkerContext<'_>, request: &Store<'_>) -> StoreConditions {
    let cas_enabled = worker.shared.settings.cas_enabled;
    let expected_cas = request.expected_cas.filter(|_| cas_enabled);
    let (mode, expected_cas) = match (request.verb, expected_cas) {
        // A client that names the item which must be there does not mean that there must be none.
        (StoreVerb::Add, Some(cas)) => (StoreMode::Cas(cas), expected_cas),
        (StoreVerb::Cas(_), _) if !cas_enabled => (StoreMode::Cas(0), None),
        (StoreVerb::Cas(cas), _) => (StoreMode::Cas(cas), None),
        (StoreVerb::Set, _) => (StoreMode::Set, expected_cas),
        (StoreVerb::Add, None) => (StoreMode::Add, None),
        (StoreVerb::Replace, _) => (StoreMode::Replace, expected_cas),
        (StoreVerb::Append, _) => (StoreMode::Append, expected_cas),
        (StoreVerb::Prepend, _) => (StoreMode::Prepend, expected_cas),
    };
    StoreConditions {
        mode,
        expected_cas,
        new_cas: request.new_cas.filter(|_| cas_enabled),
        stale_allowed: request.stale_allowed && cas_enabled,
        vivify: request.vivify,
    }
}

/// Begins a store; `rest` is the input from the value on, and `value_end` what follows the value.
#[inline(always)]
pub(crate) fn begin<'e>(
    worker: &mut WorkerContext<'e>,
    key: HashedKey<'_>,
    request: &Store<'_>,
    rules: Rules,
    rest: &[u8],
    value_end: &[u8],
) -> Begun<'e> {
    if worker.shared.counts_prefixes() && rules.counts_prefixes() {
        worker.shared.prefixes.record_set(key.bytes());
    }
    let Store { client_flags, cost, value_len, .. } = *request;
    let conditions = conditions(worker, request);
    let meta = ItemMeta { client_flags, expiry: worker.expiry(request.exptime), cost };
    let meta = hooks::priced(worker, key, value_len, meta, &conditions);
    hooks::paid(worker, key, meta.cost, &conditions);
    let is_too_large = exceeds_item_size(worker, key, client_flags, value_len);
    if let Some(value) = whole_value(rest, value_len, value_end)
        && !is_too_large
        && !extends(conditions.mode)
        && !hooks::stores_are_watched(worker)
    {
        let outcome = worker.handle.set_if(key, value, meta, &conditions, worker.now);
        let mut refused = |error| fail(worker, key, conditions.mode, rules, error);
        match outcome {
            StoreOutcome::TooLarge => refused(ReserveError::TooLarge),
            StoreOutcome::OutOfMemory => refused(ReserveError::OutOfMemory),
            _ => {}
        }
        return Begun::Finished { outcome, consumed: value_len + value_end.len(), skip_len: 0 };
    }
    let reserved = if is_too_large {
        worker.handle.count_too_large();
        Err(ReserveError::TooLarge)
    } else {
        worker.handle.reserve(key, value_len, meta, worker.now)
    };
    let mut reservation = match reserved {
        Ok(reservation) => reservation,
        Err(error) => {
            fail(worker, key, conditions.mode, rules, error);
            let skip_len = value_len + value_end.len();
            return Begun::Finished { outcome: error.into(), consumed: 0, skip_len };
        }
    };
    let consumed = reservation.fill(rest);
    let upload = Upload { reservation, conditions, rules };
    if upload.reservation.is_starved() {
        let skip_len = upload.reservation.remaining() + value_end.len();
        let outcome = upload.give_up(worker);
        return Begun::Finished { outcome, consumed, skip_len };
    }
    Begun::Arriving { upload, consumed }
}

/// A value that is arriving, in memory that no other client sees yet.
pub(crate) struct Upload<'e> {
    pub(crate) reservation: Reservation<'e>,
    conditions: StoreConditions,
    rules: Rules,
}

impl<'e> Upload<'e> {
    /// Where the socket's next bytes go. `None`: into the connection's buffer, for little is missing or there
    /// is no memory for more.
    pub(crate) fn target(&mut self) -> Option<&mut [u8]> {
        if self.reservation.remaining() < DIRECT_READ_LEN_MIN {
            return None;
        }
        let place = self.reservation.unfilled();
        (!place.is_empty()).then_some(place)
    }

    pub(crate) fn store(mut self, worker: &mut WorkerContext<'e>) -> StoreOutcome {
        let announced = hooks::storing(worker, &mut self.reservation);
        let outcome = match worker.handle.store_if(self.reservation, &self.conditions, worker.now) {
            // The value fitted, what it would have grown into does not: the item stays as it was.
            StoreOutcome::TooLarge | StoreOutcome::OutOfMemory if extends(self.conditions.mode) => {
                StoreOutcome::NotStored
            }
            outcome => outcome,
        };
        if let Some(announced) = announced {
            hooks::stored(worker, announced, &self.conditions, outcome);
        }
        outcome
    }

    pub(crate) fn give_up(self, worker: &mut WorkerContext<'e>) -> StoreOutcome {
        let key = self.reservation.key().to_vec();
        worker.handle.give_up(self.reservation);
        let key = worker.handle.hashed(&key);
        fail(worker, key, self.conditions.mode, self.rules, ReserveError::OutOfMemory);
        StoreOutcome::OutOfMemory
    }
}

/// Reports that there is no place for a value, and removes what it was to replace.
#[cold]
fn fail(
    worker: &mut WorkerContext<'_>,
    key: HashedKey<'_>,
    mode: StoreMode,
    rules: Rules,
    error: ReserveError,
) {
    hooks::store_refused(worker, key.bytes(), mode, error);
    if rules.discards(mode) {
        looking_up(worker, key);
        worker.handle.discard(key, worker.now);
    }
}

/// Whether memcached would find the item larger than `-I`. The engine's items are smaller, so its own
/// limit would let a few bytes more pass; clients, and the operator who set `-I`, know memcached's.
fn exceeds_item_size(
    worker: &WorkerContext<'_>,
    key: HashedKey<'_>,
    client_flags: u32,
    value_len: usize,
) -> bool {
    let settings = worker.shared.settings;
    let overhead = MEMCACHED_ITEM_BYTES
        + if settings.cas_enabled { size_of::<u64>() } else { 0 }
        + if client_flags != 0 { size_of::<u32>() } else { 0 };
    let size_bytes = overhead + key.bytes().len() + value_len;
    size_bytes as u64 > settings.engine.item_size_bytes_max
}

/// The value, if all of it and its end are at hand.
fn whole_value<'a>(rest: &'a [u8], value_len: usize, value_end: &[u8]) -> Option<&'a [u8]> {
    let end = rest.get(value_len..value_len + value_end.len())?;
    // Two bytes or none: a call that compares them costs more than they do.
    end.iter().eq(value_end).then(|| &rest[..value_len])
}
