//! Side effects of operations: events for watchers, measurement of costs, and counters by key prefix. Only the
//! operations of `ops` call these functions; the doc comment of each says when.
//!
//! Watchers: as in memcached, every command that needs an item first reports a lookup. A set of a new key is thus
//! an `item_get` with status `not_found`, then an `item_store`. The fields of a line come from a separate lookup,
//! which happens only while an event of its kind is watched and has no side effects. Another client may change the
//! item between that lookup and the command, so a line can differ from what the command found.
//!
//! `-o cost=measured`: misses and stores are recorded, and a store without a cost is given the measured one.
//!
//! Costs by key prefix are counted for all dialects while `stats detail` is on. They are slabwise's own statistic,
//! so the counts that memcached shows stay the same.

use super::get::{before_lookup, report_lookup};
use crate::shared::{MeasuredCosts, WatchEvent, WorkerContext};
use slabwise_base::{Cost, Expiry, HashedKey};
use slabwise_engine::{
    ItemInfo, ItemMeta, Reservation, ReserveError, StoreConditions, StoreMode, StoreOutcome,
    Validity,
};
use slabwise_protocol::WatchKinds;

/// True if stores, or the lookups that are part of them, are watched.
#[inline]
pub(crate) fn stores_are_watched(worker: &WorkerContext<'_>) -> bool {
    worker.shared.is_watched(WatchKinds::FETCHERS.union(WatchKinds::MUTATIONS))
}

/// True if a store adds to the current value.
pub(super) fn extends(mode: StoreMode) -> bool {
    matches!(mode, StoreMode::Append | StoreMode::Prepend)
}

/// A store in progress: its key, and the new item.
type PendingStore = (Vec<u8>, ItemInfo);

/// Call before a filled reservation is stored, and pass the result to [`after_store`].
#[inline]
pub(crate) fn before_store(
    worker: &WorkerContext<'_>,
    reservation: &mut Reservation<'_>,
) -> Option<PendingStore> {
    if !stores_are_watched(worker) {
        return None;
    }
    before_lookup(worker, reservation.hashed_key());
    let offered = reservation.inspect();
    Some((reservation.key().to_vec(), offered))
}

/// Call after a store for which [`before_store`] returned something.
#[cold]
pub(crate) fn after_store(
    worker: &WorkerContext<'_>,
    (key, offered): PendingStore,
    conditions: &StoreConditions,
    outcome: StoreOutcome,
) {
    let mode = conditions.mode;
    let extends = extends(mode);
    let is_stored = matches!(outcome, StoreOutcome::Stored { .. });
    // An append reports the item that the value became a part of.
    let joined = (extends && is_stored).then(|| worker.handle.inspect(&key, worker.now));
    let item = joined.flatten().unwrap_or(offered);
    // A binary set or replace with a CAS value is reported as a cas.
    let is_cas = conditions.expected_cas.is_some() && !extends;
    let command = if is_cas { "cas" } else { command(mode) };
    write_store(worker, &key, status(outcome), command, Some(item));
}

/// Call instead of [`after_store`] if there is no memory for a value.
#[inline]
pub(crate) fn store_refused(
    worker: &WorkerContext<'_>,
    key: &[u8],
    mode: StoreMode,
    error: ReserveError,
) {
    if worker.shared.is_watched(WatchKinds::MUTATIONS) {
        write_store(worker, key, status(error.into()), command(mode), None);
    }
}

#[cold]
fn write_store(
    worker: &WorkerContext<'_>,
    key: &[u8],
    status: &'static str,
    command: &'static str,
    item: Option<ItemInfo>,
) {
    worker.shared.watch.write(&WatchEvent::Store {
        key,
        status,
        command,
        expiry: item.map_or(Expiry::NEVER, |item| item.expiry),
        now: worker.now,
        class: item.map(|item| item.class),
        value_len: item.map_or(0, |item| item.value_len),
        descriptor: worker.descriptor,
    });
}

/// Call after arithmetic created a number. Watchers see an add.
#[inline]
pub(crate) fn number_created(worker: &WorkerContext<'_>, key: HashedKey<'_>) {
    if stores_are_watched(worker) {
        report_lookup(worker, key.bytes(), None);
        report_stored(worker, key, "add");
    }
    if let Some(measured) = &worker.shared.measured_costs {
        measured.cancel(key);
    }
}

/// Call instead of [`after_delete`] if the delete left an empty item. Watchers see a set, then a deletion.
#[inline]
pub(crate) fn after_emptying(
    worker: &WorkerContext<'_>,
    key: HashedKey<'_>,
    seen: Option<ItemInfo>,
    command: &'static str,
) {
    if seen.is_some() {
        report_lookup(worker, key.bytes(), seen);
        report_stored(worker, key, "set");
        after_delete(worker, key, worker.handle.inspect(key, worker.now), command);
    }
}

#[cold]
fn report_stored(worker: &WorkerContext<'_>, key: HashedKey<'_>, command: &'static str) {
    if let Some(item) = worker.handle.inspect(key, worker.now) {
        write_store(worker, key.bytes(), "stored", command, Some(item));
    }
}

/// Call before a delete, and pass the result to [`after_delete`] or [`after_emptying`].
#[inline]
pub(crate) fn before_delete(worker: &WorkerContext<'_>, key: HashedKey<'_>) -> Option<ItemInfo> {
    before_lookup(worker, key);
    if !stores_are_watched(worker) && !worker.shared.is_watched(WatchKinds::DELETIONS) {
        return None;
    }
    worker.handle.inspect(key, worker.now)
}

#[inline]
pub(crate) fn after_delete(
    worker: &WorkerContext<'_>,
    key: HashedKey<'_>,
    seen: Option<ItemInfo>,
    command: &'static str,
) {
    if let Some(ItemInfo { class, value_len, .. }) = seen {
        let key = key.bytes();
        worker.shared.watch.write(&WatchEvent::Deletion { key, command, class, value_len });
    }
}

fn status(outcome: StoreOutcome) -> &'static str {
    match outcome {
        StoreOutcome::Stored { .. } => "stored",
        StoreOutcome::NotStored => "not_stored",
        StoreOutcome::Exists => "exists",
        StoreOutcome::NotFound => "not_found",
        StoreOutcome::TooLarge => "too_large",
        StoreOutcome::OutOfMemory => "no_memory",
    }
}

fn command(mode: StoreMode) -> &'static str {
    match mode {
        StoreMode::Set => "set",
        StoreMode::Add => "add",
        StoreMode::Replace => "replace",
        StoreMode::Append => "append",
        StoreMode::Prepend => "prepend",
        StoreMode::Cas(_) => "cas",
    }
}

/// Call before a store. Returns the item's metadata, with the measured cost if the client supplied none.
///
/// The measurement ends at the store's line, before its value has arrived, even if the store then fails. An append
/// or prepend does not end it: a client whose append finds no item stores the whole value next.
// Always inlined: a call would write the metadata to memory in small parts and read it back in large ones.
#[inline(always)]
pub(crate) fn with_measured_cost(
    worker: &WorkerContext<'_>,
    key: HashedKey<'_>,
    value_len: usize,
    meta: ItemMeta,
    conditions: &StoreConditions,
) -> ItemMeta {
    match &worker.shared.measured_costs {
        Some(measured) => measure_cost(worker, measured, key, value_len, meta, conditions),
        None => meta,
    }
}

fn measure_cost(
    worker: &WorkerContext<'_>,
    measured: &MeasuredCosts,
    key: HashedKey<'_>,
    value_len: usize,
    meta: ItemMeta,
    conditions: &StoreConditions,
) -> ItemMeta {
    let extends = extends(conditions.mode);
    if extends && !conditions.vivify {
        return meta;
    }
    if extends || meta.cost.is_some() {
        measured.cancel(key);
        return meta;
    }
    // A cost makes the item a little larger.
    let with_cost = ItemMeta { cost: Some(Cost::from_units(0)), ..meta };
    let Some(class) = worker.shared.engine.class_of_size(key.bytes().len(), value_len, with_cost)
    else {
        // The value is too large. The time until the next store would not measure its recomputation.
        measured.cancel(key);
        return meta;
    };
    let cost = measured.record_store(key, class, || worker.shared.clock.nanos());
    ItemMeta { cost, ..meta }
}

/// Call before a store, even if it may fail. Counts the cost as paid if the store is a set or an add and there is no
/// live item.
#[inline]
pub(crate) fn count_cost_paid(
    worker: &WorkerContext<'_>,
    key: HashedKey<'_>,
    cost: Option<Cost>,
    conditions: &StoreConditions,
) {
    if let Some(cost) = cost
        && worker.shared.counts_prefixes()
        && matches!(conditions.mode, StoreMode::Set | StoreMode::Add)
    {
        let found = worker.handle.inspect(key, worker.now);
        if found.is_none_or(|seen| seen.validity != Validity::Live) {
            worker.shared.prefixes.record_cost_paid(key.bytes(), u64::from(cost.units()));
        }
    }
}
