//! What an operation reports beside its answer: to watchers, to the clock that measures what misses cost, and
//! to the counters by key prefix. An operation of `ops` calls each hook once.
//!
//! Watchers: as in memcached a command that looks a key up first reports that, whatever it looks for: a set of a new
//! key is an `item_get` that found nothing, then an `item_store`. What a line says of an item is seen by
//! a look of its own, which leaves no trace and is only taken while somebody watches; between it and the
//! command another client may change the item, so a line is a moment's truth.
//!
//! `-o cost=measured`: misses and stores are reported, and a store without a cost is given the measured one.
//!
//! Costs by key prefix, while `stats detail` is on, are counted for all dialects alike: they are slabwise's own, so
//! nothing that memcached shows changes by it.

use super::get::{looking_up, tell_look_up};
use crate::shared::{WatchEvent, WorkerContext};
use slabwise_base::{Cost, Expiry, HashedKey};
use slabwise_engine::{
    ItemMeta, Life, Reservation, ReserveError, Seen, StoreConditions, StoreMode, StoreOutcome,
};
use slabwise_protocol::WatchKinds;

/// Whether anybody wants to know of stores, or of the look-ups that are part of them.
#[inline]
pub(crate) fn stores_are_watched(worker: &WorkerContext<'_>) -> bool {
    worker.shared.is_watched(WatchKinds::FETCHERS.union(WatchKinds::MUTATIONS))
}

/// Whether a store adds to the value that is there.
pub(super) fn extends(mode: StoreMode) -> bool {
    matches!(mode, StoreMode::Append | StoreMode::Prepend)
}

/// A store under way: its key, and the item that was offered.
type Announced = (Vec<u8>, Seen);

/// To be called before a filled reservation is stored; what it returns goes to [`stored`].
#[inline]
pub(crate) fn storing(
    worker: &WorkerContext<'_>,
    reservation: &mut Reservation<'_>,
) -> Option<Announced> {
    if !stores_are_watched(worker) {
        return None;
    }
    looking_up(worker, reservation.hashed_key());
    let offered = reservation.inspect();
    Some((reservation.key().to_vec(), offered))
}

/// To be called after a store that was announced, with what came of it.
#[cold]
pub(crate) fn stored(
    worker: &WorkerContext<'_>,
    (key, offered): Announced,
    conditions: &StoreConditions,
    outcome: StoreOutcome,
) {
    let mode = conditions.mode;
    let extends = extends(mode);
    let is_stored = matches!(outcome, StoreOutcome::Stored { .. });
    // What was offered is not the item that it became a part of.
    let joined = (extends && is_stored).then(|| worker.handle.inspect(&key, worker.now));
    let item = joined.flatten().unwrap_or(offered);
    // A packet's set or replace that names the item it replaces.
    let is_cas = conditions.expected_cas.is_some() && !extends;
    let command = if is_cas { "cas" } else { command(mode) };
    write_store(worker, &key, status(outcome), command, Some(item));
}

/// To be called when there is no memory for a value, in place of [`stored`].
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
    item: Option<Seen>,
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

/// To be called after a command made a number where there was none: watchers read it as an add.
#[inline]
pub(crate) fn made(worker: &WorkerContext<'_>, key: HashedKey<'_>) {
    if stores_are_watched(worker) {
        tell_look_up(worker, key.bytes(), None);
        tell_stored(worker, key, "add");
    }
    if let Some(measured) = &worker.shared.measured_costs {
        measured.answered(key);
    }
}

/// To be called after a delete that left an empty item, instead of [`deleted`]: it is told as a set, too.
#[inline]
pub(crate) fn emptied(
    worker: &WorkerContext<'_>,
    key: HashedKey<'_>,
    seen: Option<Seen>,
    command: &'static str,
) {
    if seen.is_some() {
        tell_look_up(worker, key.bytes(), seen);
        tell_stored(worker, key, "set");
        deleted(worker, key, worker.handle.inspect(key, worker.now), command);
    }
}

#[cold]
fn tell_stored(worker: &WorkerContext<'_>, key: HashedKey<'_>, command: &'static str) {
    if let Some(item) = worker.handle.inspect(key, worker.now) {
        write_store(worker, key.bytes(), "stored", command, Some(item));
    }
}

/// To be called before a delete; what it returns goes to [`deleted`] or [`emptied`].
#[inline]
pub(crate) fn deleting(worker: &WorkerContext<'_>, key: HashedKey<'_>) -> Option<Seen> {
    looking_up(worker, key);
    if !stores_are_watched(worker) && !worker.shared.is_watched(WatchKinds::DELETIONS) {
        return None;
    }
    worker.handle.inspect(key, worker.now)
}

#[inline]
pub(crate) fn deleted(
    worker: &WorkerContext<'_>,
    key: HashedKey<'_>,
    seen: Option<Seen>,
    command: &'static str,
) {
    if let Some(Seen { class, value_len, .. }) = seen {
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

/// To be called before a store: what the item is stored with. The time counts to the store's line, before its
/// value has arrived, and whatever comes of the store. One that adds to an item waits on: a client whose append
/// finds nothing stores the whole.
#[inline]
pub(crate) fn priced(
    worker: &WorkerContext<'_>,
    key: HashedKey<'_>,
    value_len: usize,
    meta: ItemMeta,
    conditions: &StoreConditions,
) -> ItemMeta {
    let Some(measured) = &worker.shared.measured_costs else { return meta };
    let extends = extends(conditions.mode);
    if extends && !conditions.vivify {
        return meta;
    }
    if extends || meta.cost.is_some() {
        measured.answered(key);
        return meta;
    }
    // With a cost, an item is a little longer.
    let with_cost = ItemMeta { cost: Some(Cost::from_units(0)), ..meta };
    let Some(class) = worker.shared.engine.class_of_size(key.bytes().len(), value_len, with_cost)
    else {
        // Too large: what comes later is not its recomputation.
        measured.answered(key);
        return meta;
    };
    let cost = measured.stored(key, class, || worker.shared.clock.nanos());
    ItemMeta { cost, ..meta }
}

/// To be called before a store, whatever comes of it. It pays if it is one that goes on where nothing is, and
/// nothing is there.
#[inline]
pub(crate) fn paid(
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
        if found.is_none_or(|seen| seen.life != Life::Live) {
            worker.shared.prefixes.record_cost_paid(key.bytes(), u64::from(cost.units()));
        }
    }
}
