//! Event sites: what commands tell watchers, each with one call where it happens.
//!
//! As in memcached a command that looks a key up first tells that, whatever it looks for: a set of a new
//! key is an `item_get` that found nothing, then an `item_store`. What a line says of an item is seen by
//! a look of its own, which leaves no trace and is only taken while somebody watches; between it and the
//! command another client may change the item, so a line is a moment's truth.

use crate::context::WorkerContext;
use crate::shared::{DeleteCommand, FetchStatus, StoreStatus, WatchEvent};
use slabwise_base::{Expiry, HashedKey};
use slabwise_engine::{
    Life, Reservation, ReserveError, Seen, StoreConditions, StoreMode, StoreOutcome,
};
use slabwise_protocol::WatchKinds;

/// Whether anybody wants to know of stores, or of the look-ups that are part of them.
#[inline]
pub(crate) fn stores_are_watched(worker: &WorkerContext<'_>) -> bool {
    worker.shared.watch.wants(WatchKinds::FETCHERS.union(WatchKinds::MUTATIONS))
}

/// To be called before each operation that looks this key up.
#[inline]
pub(crate) fn looking_up(worker: &WorkerContext<'_>, key: HashedKey<'_>) {
    if worker.shared.watch.wants(WatchKinds::FETCHERS) {
        tell_look_up(worker, key.bytes(), worker.handle.inspect(key, worker.now));
    }
}

#[cold]
fn tell_look_up(worker: &WorkerContext<'_>, key: &[u8], seen: Option<Seen>) {
    let found = seen.filter(|seen| seen.life == Life::Live);
    worker.shared.watch.write(&WatchEvent::Fetch {
        key,
        status: seen.map_or(FetchStatus::NotFound, |seen| seen.life.into()),
        class: found.map(|found| found.class),
        value_len: found.map_or(0, |found| found.value_len),
        descriptor: worker.descriptor,
    });
}

/// A store under way, as it is told afterwards.
pub(crate) struct Announced {
    key: Vec<u8>,
    offered: Seen,
}

/// To be called before a filled reservation is stored; what it returns goes to [`stored`].
#[inline]
pub(crate) fn storing(
    worker: &WorkerContext<'_>,
    reservation: &mut Reservation<'_>,
) -> Option<Box<Announced>> {
    if !stores_are_watched(worker) {
        return None;
    }
    looking_up(worker, reservation.hashed_key());
    let offered = reservation.inspect();
    Some(Box::new(Announced { key: reservation.key().to_vec(), offered }))
}

/// To be called after a store, with what came of it.
#[inline]
pub(crate) fn stored(
    worker: &WorkerContext<'_>,
    announced: Option<Box<Announced>>,
    conditions: &StoreConditions,
    outcome: StoreOutcome,
) {
    if let Some(announced) = announced {
        tell_store(worker, &announced, conditions, outcome);
    }
}

#[cold]
fn tell_store(
    worker: &WorkerContext<'_>,
    announced: &Announced,
    conditions: &StoreConditions,
    outcome: StoreOutcome,
) {
    let mode = conditions.mode;
    let extends = matches!(mode, StoreMode::Append | StoreMode::Prepend);
    let is_stored = matches!(outcome, StoreOutcome::Stored { .. });
    // What was offered is not the item that it became a part of.
    let joined = (extends && is_stored).then(|| worker.handle.inspect(&announced.key, worker.now));
    let item = joined.flatten().unwrap_or(announced.offered);
    worker.shared.watch.write(&WatchEvent::Store {
        key: &announced.key,
        status: status(outcome, extends),
        // A packet's set or replace that names the item it replaces.
        command: if conditions.expected_cas.is_some() && !extends { "cas" } else { command(mode) },
        expiry: item.expiry,
        now: worker.now,
        class: Some(item.class),
        value_len: item.value_len,
        descriptor: worker.descriptor,
    });
}

/// To be called when there is no memory for a value, in place of [`stored`].
#[inline]
pub(crate) fn store_refused(
    worker: &WorkerContext<'_>,
    key: &[u8],
    mode: StoreMode,
    error: ReserveError,
) {
    if worker.shared.watch.wants(WatchKinds::MUTATIONS) {
        worker.shared.watch.write(&WatchEvent::Store {
            key,
            status: status(error.into(), false),
            command: command(mode),
            expiry: Expiry::NEVER,
            now: worker.now,
            class: None,
            value_len: 0,
            descriptor: worker.descriptor,
        });
    }
}

/// To be called after a command made a number where there was none: it is told as an add.
#[inline]
pub(crate) fn made(worker: &WorkerContext<'_>, key: HashedKey<'_>) {
    if stores_are_watched(worker) {
        tell_look_up(worker, key.bytes(), None);
        tell_stored(worker, key, "add");
    }
}

/// To be called after a delete that left an empty item, instead of [`deleted`]: it is told as a set, too.
#[inline]
pub(crate) fn emptied(
    worker: &WorkerContext<'_>,
    key: HashedKey<'_>,
    seen: Option<Seen>,
    command: DeleteCommand,
) {
    if seen.is_some() {
        tell_look_up(worker, key.bytes(), seen);
        tell_stored(worker, key, "set");
        deleted(worker, key, worker.handle.inspect(key, worker.now), command);
    }
}

/// Tells that the item which is there now was stored.
#[cold]
fn tell_stored(worker: &WorkerContext<'_>, key: HashedKey<'_>, command: &'static str) {
    let Some(item) = worker.handle.inspect(key, worker.now) else { return };
    worker.shared.watch.write(&WatchEvent::Store {
        key: key.bytes(),
        status: StoreStatus::Stored,
        command,
        expiry: item.expiry,
        now: worker.now,
        class: Some(item.class),
        value_len: item.value_len,
        descriptor: worker.descriptor,
    });
}

/// To be called before a delete; what it returns goes to [`deleted`] or [`emptied`].
#[inline]
pub(crate) fn deleting(worker: &WorkerContext<'_>, key: HashedKey<'_>) -> Option<Seen> {
    looking_up(worker, key);
    if !stores_are_watched(worker) && !worker.shared.watch.wants(WatchKinds::DELETIONS) {
        return None;
    }
    worker.handle.inspect(key, worker.now)
}

/// To be called after a delete that found something.
#[inline]
pub(crate) fn deleted(
    worker: &WorkerContext<'_>,
    key: HashedKey<'_>,
    seen: Option<Seen>,
    command: DeleteCommand,
) {
    if let Some(Seen { class, value_len, .. }) = seen {
        let key = key.bytes();
        worker.shared.watch.write(&WatchEvent::Deletion { key, command, class, value_len });
    }
}

fn status(outcome: StoreOutcome, extends: bool) -> StoreStatus {
    match outcome {
        StoreOutcome::Stored { .. } => StoreStatus::Stored,
        StoreOutcome::NotStored => StoreStatus::NotStored,
        StoreOutcome::Exists => StoreStatus::Exists,
        StoreOutcome::NotFound => StoreStatus::NotFound,
        // The value had its place; what it would have grown into has none.
        StoreOutcome::TooLarge | StoreOutcome::OutOfMemory if extends => StoreStatus::NotStored,
        StoreOutcome::TooLarge => StoreStatus::TooLarge,
        StoreOutcome::OutOfMemory => StoreStatus::NoMemory,
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
