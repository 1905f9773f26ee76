//! Side effects of operations: events for watchers, measurement of costs, and counters by key prefix. Only the
//! operations of `ops` call these functions. The doc comment of each function says when to call it.
//!
//! Watchers: as in memcached, every command that needs an item first reports a lookup. Therefore a set of a new key
//! writes two lines: an `item_get` with status `not_found`, then an `item_store`. The fields of a line come from an
//! inspection of the item, a separate lookup without side effects. The inspection runs only while a client watches
//! events of the line's kind. Another client can change the item between the inspection and the command, so a line can
//! differ from the item that the command found.
//!
//! `-o cost=measured`: the server measures the time from a miss of a key to the next store of the key. A store without
//! a client-supplied cost gets the measured cost.
//!
//! Costs by key prefix: while `stats detail` is on, the server counts the costs that gets save and stores pay, in all
//! dialects. These costs have counters of their own, so the counts that memcached also shows in `stats detail` do not
//! change.

use super::get::{before_lookup, write_lookup};
use crate::shared::{MeasuredCosts, WatchEvent, WorkerContext};
use slabwise_base::{Cost, Expiry, HashedKey};
use slabwise_engine::{
    ItemInfo, ItemMeta, Reservation, ReserveError, StoreConditions, StoreMode, StoreOutcome,
    Validity,
};
use slabwise_protocol::WatchKinds;

/// True if a client watches stores, or the lookups that are part of stores.
#[inline]
pub(crate) fn stores_are_watched(worker: &WorkerContext<'_>) -> bool {
    worker.shared.is_watched(WatchKinds::FETCHERS.union(WatchKinds::MUTATIONS))
}

/// True if a store in this mode extends the existing value: append and prepend.
pub(super) fn extends(mode: StoreMode) -> bool {
    matches!(mode, StoreMode::Append | StoreMode::Prepend)
}

/// The key of a store that is about to run, and the metadata of the item that the store offers.
type OfferedItem = (Vec<u8>, ItemInfo);

/// Reports the lookup of a store to watchers. Call this function before a filled reservation is stored, and pass the
/// result to [`after_store`].
#[inline]
pub(crate) fn before_store(
    worker: &WorkerContext<'_>,
    reservation: &mut Reservation<'_>,
) -> Option<OfferedItem> {
    if !stores_are_watched(worker) {
        return None;
    }
    before_lookup(worker, reservation.hashed_key());
    let offered = reservation.inspect();
    Some((reservation.key().to_vec(), offered))
}

/// Reports a store to watchers. Call this function after a store for which [`before_store`] returned an item.
#[cold]
pub(crate) fn after_store(
    worker: &WorkerContext<'_>,
    (key, offered): OfferedItem,
    conditions: &StoreConditions,
    outcome: StoreOutcome,
) {
    let mode = conditions.mode;
    let extends = extends(mode);
    let is_stored = matches!(outcome, StoreOutcome::Stored { .. });
    // After an append or prepend, the event describes the whole item, not the value that was added.
    let extended = (extends && is_stored).then(|| worker.handle.inspect(&key, worker.now));
    let item = extended.flatten().unwrap_or(offered);
    // As in memcached, a binary set or replace with a CAS value is reported as a cas.
    let is_cas = conditions.expected_cas.is_some() && !extends;
    let command = if is_cas { "cas" } else { command(mode) };
    write_store(worker, &key, status(outcome), command, Some(item));
}

/// Reports to watchers a store that failed because its value is too large or because there is no memory for the value.
/// In this case, call this function instead of [`after_store`].
#[inline]
pub(crate) fn report_refused_store(
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

/// Reports a new number to watchers as an add, and cancels the cost measurement of the number's key. Call this function
/// after an increment or decrement has created a number.
#[inline]
pub(crate) fn after_creating_number(worker: &WorkerContext<'_>, key: HashedKey<'_>) {
    if stores_are_watched(worker) {
        write_lookup(worker, key.bytes(), None);
        write_current_item(worker, key, "add");
    }
    if let Some(measured) = &worker.shared.measured_costs {
        measured.cancel(key);
    }
}

/// Reports to watchers a delete that replaced the item by an empty item: a set, then a deletion. After such a delete,
/// call this function instead of [`after_delete`].
#[inline]
pub(crate) fn after_emptying(
    worker: &WorkerContext<'_>,
    key: HashedKey<'_>,
    seen: Option<ItemInfo>,
    command: &'static str,
) {
    if seen.is_some() {
        write_lookup(worker, key.bytes(), seen);
        write_current_item(worker, key, "set");
        after_delete(worker, key, worker.handle.inspect(key, worker.now), command);
    }
}

/// Writes the watch event of a store, with the item that the key has now.
#[cold]
fn write_current_item(worker: &WorkerContext<'_>, key: HashedKey<'_>, command: &'static str) {
    if let Some(item) = worker.handle.inspect(key, worker.now) {
        write_store(worker, key.bytes(), "stored", command, Some(item));
    }
}

/// Reports the lookup of a delete to watchers. Call this function before a delete, and pass the result to
/// [`after_delete`] or [`after_emptying`].
#[inline]
pub(crate) fn before_delete(worker: &WorkerContext<'_>, key: HashedKey<'_>) -> Option<ItemInfo> {
    before_lookup(worker, key);
    if !stores_are_watched(worker) && !worker.shared.is_watched(WatchKinds::DELETIONS) {
        return None;
    }
    worker.handle.inspect(key, worker.now)
}

/// Reports a deletion to watchers. Call this function after a delete; `seen` is the result of [`before_delete`].
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

/// Returns the status of a store in the log lines of watchers, as in memcached.
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

/// Returns the command name of a store in the log lines of watchers, as in memcached.
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

/// Returns the item's metadata, with the measured cost if the client supplied none. Call this function before a store.
///
/// The measurement of a key begins with a miss. It ends when the session has parsed the line of the next store of the
/// key, before the value has arrived, even if the store then fails. An append or prepend does not end the measurement:
/// a client whose append finds no item stores the whole value next.
// Always inlined: a call would write the metadata to memory in small parts and read it back in large parts.
#[inline(always)]
pub(crate) fn with_measured_cost(
    worker: &WorkerContext<'_>,
    key: HashedKey<'_>,
    value_len: usize,
    meta: ItemMeta,
    conditions: &StoreConditions,
) -> ItemMeta {
    match &worker.shared.measured_costs {
        Some(measured) => {
            let cost = cost_of_store(worker, measured, key, value_len, meta, conditions);
            ItemMeta { cost, ..meta }
        }
        None => meta,
    }
}

/// Returns the cost that a store gives its item: the client's, else the measured cost, if there is one.
fn cost_of_store(
    worker: &WorkerContext<'_>,
    measured: &MeasuredCosts,
    key: HashedKey<'_>,
    value_len: usize,
    meta: ItemMeta,
    conditions: &StoreConditions,
) -> Option<Cost> {
    let extends = extends(conditions.mode);
    if extends && !conditions.vivify {
        return meta.cost;
    }
    if extends || meta.cost.is_some() {
        measured.cancel(key);
        return meta.cost;
    }
    // An item with a cost is a few bytes larger, which can select another class.
    let with_cost = ItemMeta { cost: Some(Cost::from_units(0)), ..meta };
    let Some(class) = worker.shared.engine.class_of_size(key.bytes().len(), value_len, with_cost)
    else {
        // The value is too large to be stored. A measurement until a later store of the key would be too long.
        measured.cancel(key);
        return None;
    };
    measured.record_store(key, class, || worker.shared.clock.nanos())
}

/// Adds the cost to the `cost_paid` of the key's prefix if the store is a set or an add and the key has no live item.
/// Call this function before each store, also before a store that may fail.
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
