//! Stores. If a value is complete in the input, it is usually stored at once. Otherwise the session receives it in
//! pieces, by an [`Upload`].
//!
//! ```text
//!   start_store --> Finished           the value was complete, is too large, or has no memory
//!         '-------> Receiving(Upload)
//! ```
//!
//! A set whose value is too large or has no memory must remove the old value. Clients rely on the removal: they must
//! not read an outdated value.

use super::get::Rules;
use super::hooks::{self, extends};
use super::upload::{Room, Upload, discard_and_report};
use crate::shared::WorkerContext;
use slabwise_base::{HashedKey, memcached};
use slabwise_engine::{ItemMeta, ReserveError, StoreConditions, StoreMode, StoreOutcome};
use slabwise_protocol::{Store, StoreVerb};

/// The size of an item in memcached without its key, value, CAS value and client flags, in bytes.
const MEMCACHED_ITEM_BYTES: usize = memcached::HEADER_SIZE_BYTES + memcached::ENDS_SIZE_BYTES;

/// The state of a store after its line was parsed.
pub(crate) enum StoreStart<'e> {
    /// The store has ended.
    Finished {
        outcome: StoreOutcome,
        /// The number of bytes of the value and its line end that the store consumed.
        consumed: usize,
        /// The number of bytes after the consumed bytes that belong to the value and that the session must ignore.
        skip_len: usize,
    },
    /// The store is an upload: the value is not complete in the input, or the bytes after the value are not its line
    /// end, or the store is an append or prepend, or a client watches stores.
    Receiving {
        upload: Upload<'e>,
        /// The number of bytes of the value that the store consumed.
        consumed: usize,
    },
}

/// Returns the conditions of a store in the engine's form.
///
/// As in memcached, with `-C` a binary store ignores its CAS value. With `-C` the CAS value of a text store becomes 0,
/// which no item has, so the store fails.
#[inline(always)]
fn conditions(worker: &WorkerContext<'_>, request: &Store<'_>) -> StoreConditions {
    let cas_enabled = worker.shared.settings.cas_enabled;
    let expected_cas = request.expected_cas.filter(|_| cas_enabled);
    let (mode, expected_cas) = match (request.verb, expected_cas) {
        // A client that sends a CAS value expects that the item exists. An add of an existing item always fails, so the
        // add becomes a cas.
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

/// Starts a store. `rest` is the input that begins with the value. `value_end` is the line end that must follow the
/// value; it is empty in the binary dialect.
#[inline(always)]
pub(crate) fn start_store<'e>(
    worker: &mut WorkerContext<'e>,
    key: HashedKey<'_>,
    request: &Store<'_>,
    rules: Rules,
    rest: &[u8],
    value_end: &[u8],
) -> StoreStart<'e> {
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
        let mut refused = |error| discard_and_report(worker, key, conditions.mode, rules, error);
        match outcome {
            StoreOutcome::TooLarge => refused(ReserveError::TooLarge),
            StoreOutcome::OutOfMemory => refused(ReserveError::OutOfMemory),
            _ => {}
        }
        return StoreStart::Finished {
            outcome,
            consumed: value_len + value_end.len(),
            skip_len: 0,
        };
    }
    let begun = if is_too_large {
        worker.handle.count_too_large();
        Err(ReserveError::TooLarge)
    } else {
        let is_whole = rest.len() >= value_len + value_end.len();
        Upload::begin(worker, key, (value_len, meta), (conditions, rules), is_whole)
    };
    let mut upload = match begun {
        Ok(upload) => upload,
        Err(error) => {
            discard_and_report(worker, key, conditions.mode, rules, error);
            let skip_len = value_len + value_end.len();
            return StoreStart::Finished { outcome: error.into(), consumed: 0, skip_len };
        }
    };
    let (consumed, room) = upload.fill(worker, rest);
    if room == Room::Refused {
        let skip_len = upload.remaining() + value_end.len();
        let outcome = upload.give_up(worker);
        return StoreStart::Finished { outcome, consumed, skip_len };
    }
    StoreStart::Receiving { upload, consumed }
}

/// True if the item would exceed the limit of `-I` in memcached. An item of the engine has a smaller header, so the
/// engine's limit alone would accept values that are a few bytes larger than memcached's largest value.
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

/// Returns the value if `rest` contains all of it and then its line end.
fn whole_value<'a>(rest: &'a [u8], value_len: usize, value_end: &[u8]) -> Option<&'a [u8]> {
    let end = rest.get(value_len..value_len + value_end.len())?;
    // The line end has at most two bytes. A call of the comparison function would cost more than this loop.
    end.iter().eq(value_end).then(|| &rest[..value_len])
}
