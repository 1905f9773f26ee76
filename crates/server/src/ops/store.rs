//! Stores: at once if the whole value is in the input, otherwise into a reservation while the value arrives.
//!
//! ```text
//!   begin --> Finished                  the value was complete, or there is no memory for it
//!         '-> Arriving(Upload) --fill, target/advance--> store
//!                                      '--is_starved---> give_up
//! ```
//!
//! A failed store must not leave the value that it was to replace. Clients rely on the old value being gone.

use super::get::{Rules, before_lookup};
use super::hooks::{self, extends};
use crate::shared::WorkerContext;
use slabwise_base::{HashedKey, memcached};
use slabwise_engine::{
    ItemMeta, Reservation, ReserveError, StoreConditions, StoreMode, StoreOutcome,
};
use slabwise_protocol::{Store, StoreVerb};

/// The size of an item in memcached without key, value, CAS value and flags.
const MEMCACHED_ITEM_BYTES: usize = memcached::HEADER_SIZE_BYTES + memcached::ENDS_SIZE_BYTES;

/// The minimum number of missing bytes for which a value is received directly into its memory. A smaller rest is
/// received into the connection's buffer together with the commands after it, which saves a system call.
const DIRECT_READ_LEN_MIN: usize = 4 << 10;

pub(crate) enum Begun<'e> {
    Finished {
        outcome: StoreOutcome,
        /// Bytes of the input that were consumed.
        consumed: usize,
        /// Bytes of the value and its end that follow and are to be skipped.
        skip_len: usize,
    },
    /// The value is not complete, or its end is wrong.
    Arriving {
        upload: Upload<'e>,
        /// Bytes of the input that were consumed.
        consumed: usize,
    },
}

/// With `-C`, as in memcached, a binary store ignores its CAS value, while the CAS value of a text store matches no
/// item: no item has 0.
#[inline(always)]
fn conditions(worker: &WorkerContext<'_>, request: &Store<'_>) -> StoreConditions {
    let cas_enabled = worker.shared.settings.cas_enabled;
    let expected_cas = request.expected_cas.filter(|_| cas_enabled);
    let (mode, expected_cas) = match (request.verb, expected_cas) {
        // A client that sends a CAS value expects an item to exist, so this cannot be an add.
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

/// Begins a store. `rest` is the input from the value on, and `value_end` are the bytes that end the value.
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
    let meta = hooks::with_measured_cost(worker, key, value_len, meta, &conditions);
    hooks::count_cost_paid(worker, key, meta.cost, &conditions);
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

/// A value that is arriving, in unpublished memory.
pub(crate) struct Upload<'e> {
    pub(crate) reservation: Reservation<'e>,
    conditions: StoreConditions,
    rules: Rules,
}

impl<'e> Upload<'e> {
    /// The place for the socket's next bytes. `None` means the connection's buffer, because little is missing or
    /// there is no memory for more.
    pub(crate) fn target(&mut self) -> Option<&mut [u8]> {
        if self.reservation.remaining() < DIRECT_READ_LEN_MIN {
            return None;
        }
        let place = self.reservation.unfilled();
        (!place.is_empty()).then_some(place)
    }

    pub(crate) fn store(mut self, worker: &mut WorkerContext<'e>) -> StoreOutcome {
        let pending = hooks::before_store(worker, &mut self.reservation);
        let outcome = match worker.handle.store_if(self.reservation, &self.conditions, worker.now) {
            // The value fits, but the item that an append would make does not: the old item stays.
            StoreOutcome::TooLarge | StoreOutcome::OutOfMemory if extends(self.conditions.mode) => {
                StoreOutcome::NotStored
            }
            outcome => outcome,
        };
        if let Some(pending) = pending {
            hooks::after_store(worker, pending, &self.conditions, outcome);
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

/// Reports that there is no memory for a value, and removes the item that it was to replace.
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
        before_lookup(worker, key);
        worker.handle.discard(key, worker.now);
    }
}

/// True if the item would exceed `-I` in memcached. The engine's items are smaller, so the engine's own limit would
/// accept a few bytes more than clients and operators expect.
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

/// Returns the value if it and its end are complete in `rest`.
fn whole_value<'a>(rest: &'a [u8], value_len: usize, value_end: &[u8]) -> Option<&'a [u8]> {
    let end = rest.get(value_len..value_len + value_end.len())?;
    // The end has at most two bytes, so a call to compare them would cost more than the comparison.
    end.iter().eq(value_end).then(|| &rest[..value_len])
}
