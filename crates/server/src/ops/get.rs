//! Gets in all dialects, touches, and the lookups of `me` and `debugitem`, which do not count as gets.

use crate::out::is_large;
use crate::shared::{WatchEvent, WorkerContext};
use slabwise_base::{Cost, Expiry, HashedKey};
use slabwise_engine::{
    GetEffects, GetOptions, ItemInfo, ItemView, Pinned, ReserveError, StoreMode, Validity, Vivify,
};
use slabwise_protocol::{Get, WatchKinds};

/// The rules in which the meta protocol differs from the other protocols: the statistics that an operation counts, and
/// the items that a failed store removes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rules {
    /// The rules of the classic text protocol and of the binary protocol.
    Classic,
    /// The rules of the meta protocol.
    Meta,
}

impl Rules {
    /// True if requests are counted in `stats detail`, by key prefix.
    #[inline]
    pub(super) fn counts_prefixes(self) -> bool {
        self == Rules::Classic
    }

    /// Returns the name of the delete command in the log lines of watchers, as in memcached.
    pub(super) fn delete_command(self) -> &'static str {
        match self {
            Rules::Classic => "delete",
            Rules::Meta => "md",
        }
    }

    /// True if a store in this mode removes the existing item when the new value is too large or there is no memory for
    /// it. Clients rely on the removal: after such a failed set they must not read the old value.
    pub(super) fn discards(self, mode: StoreMode) -> bool {
        match self {
            Rules::Classic => mode == StoreMode::Set,
            Rules::Meta => matches!(mode, StoreMode::Set | StoreMode::Replace | StoreMode::Cas(_)),
        }
    }
}

/// The way in which a get accesses the item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// The get changes nothing except the item's last access.
    Plain,
    /// The get sets this expiry. A miss also counts in `touch_misses`.
    Touch(Expiry),
    /// A meta get with flags that change or create the item.
    WithOptions(GetOptions),
}

impl Access {
    /// Returns the access that a request needs.
    #[inline]
    pub(crate) fn of(worker: &WorkerContext<'_>, request: &Get<'_>, rules: Rules) -> Access {
        let touch = request.touch.map(|exptime| worker.expiry(exptime));
        match rules {
            Rules::Classic => touch.map_or(Access::Plain, Access::Touch),
            Rules::Meta => {
                let vivify = request.vivify.map(|vivify| {
                    let cas = vivify.cas.filter(|_| worker.shared.settings.cas_enabled);
                    Vivify { expiry: worker.expiry(vivify.exptime), cas }
                });
                let options = GetOptions { touch, vivify, marks: !request.keeps_access_time };
                if options == GetOptions::default() {
                    Access::Plain
                } else {
                    Access::WithOptions(options)
                }
            }
        }
    }
}

/// The kind of reply that was written for an item that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HitReply {
    /// The item was written.
    Answered,
    /// The item was not written: its large value is being sent to too many clients already.
    TooManyReaders,
    /// The item was written, and its client was asked to recompute and store it.
    Recache,
}

/// The effects that `show` receives unless the access is [`Access::WithOptions`]: no item was created, and the expiry
/// before the get is not reported.
const UNCHANGED: GetEffects = GetEffects { is_new: false, expiry_before: Expiry::NEVER };

/// Reports a lookup of this key to watchers. Each operation calls this function before it looks up the key.
#[inline]
pub(crate) fn before_lookup(worker: &WorkerContext<'_>, key: HashedKey<'_>) {
    if worker.shared.is_watched(WatchKinds::FETCHERS) {
        write_lookup(worker, key.bytes(), worker.handle.inspect(key, worker.now));
    }
}

/// Writes the watch event of a lookup. `seen` is the item that an inspection found, if any.
#[cold]
pub(super) fn write_lookup(worker: &WorkerContext<'_>, key: &[u8], seen: Option<ItemInfo>) {
    let found = seen.filter(|seen| seen.validity == Validity::Live);
    worker.shared.watch.write(&WatchEvent::Fetch {
        key,
        status: match seen.map(|seen| seen.validity) {
            None => "not_found",
            Some(Validity::Live) => "found",
            Some(Validity::Expired) => "expired",
            Some(Validity::Flushed) => "flushed",
        },
        class: found.map(|found| found.class),
        value_len: found.map_or(0, |found| found.value_len),
        descriptor: worker.descriptor,
    });
}

/// True if the key's item has a large value. Does not count as a lookup.
#[cold]
pub(crate) fn has_large_value(worker: &mut WorkerContext<'_>, key: HashedKey<'_>) -> bool {
    let now = worker.now;
    worker.handle.peek(key, now, |view| is_large(&view)).unwrap_or(false)
}

/// Looks up a key and passes its item to `show`. The item's stripe is locked while `show` runs, so `show` must copy or
/// pin the value and return soon. Returns `None` for a miss, and an error if there is no memory for the new expiry.
#[inline(always)]
pub(crate) fn get<'e>(
    worker: &mut WorkerContext<'e>,
    key: HashedKey<'_>,
    access: &Access,
    rules: Rules,
    show: impl FnOnce(&ItemView<'_, 'e>, GetEffects) -> HitReply,
) -> Result<Option<HitReply>, ReserveError> {
    before_lookup(worker, key);
    worker.served.gets += 1;
    let (now, observers) = (worker.now, worker.shared.key_observers.get());
    let show = |view: ItemView<'_, 'e>, effects| {
        (show(&view, effects), if observers.count_prefixes() { view.cost() } else { None })
    };
    let found = match *access {
        Access::Plain => worker.handle.get(key, now, |view| show(view, UNCHANGED)),
        Access::Touch(expiry) => {
            worker.handle.get_and_touch(key, expiry, now, |view| show(view, UNCHANGED))?
        }
        Access::WithOptions(ref options) => worker.handle.get_with(key, options, now, show)?,
    };
    let (reply, cost) = found.unzip();
    if matches!(reply, None | Some(HitReply::Recache))
        && let Some(measured) = &worker.shared.measured_costs
    {
        measured.record_miss(key, || worker.shared.clock.nanos());
    }
    if worker.shared.key_observers.get().any() {
        after_get(worker, key.bytes(), rules, reply.is_some(), cost.flatten());
    }
    Ok(reply)
}

/// Counts a get by prefix and samples its key, as far as the observers of keys are on.
#[cold]
fn after_get(
    worker: &WorkerContext<'_>,
    key: &[u8],
    rules: Rules,
    is_hit: bool,
    cost: Option<Cost>,
) {
    if let Some(samples) = worker.key_samples {
        samples.push(key);
    }
    if !worker.shared.counts_prefixes() {
        return;
    }
    let prefixes = &worker.shared.prefixes;
    if rules.counts_prefixes() {
        prefixes.record_get(key, is_hit);
    }
    if let Some(cost) = cost {
        prefixes.record_cost_saved(key, u64::from(cost.units()));
    }
}

/// Sets an item's expiry. Returns `Ok(false)` if there is no item with this key.
pub(crate) fn touch(
    worker: &mut WorkerContext<'_>,
    key: HashedKey<'_>,
    expiry: Expiry,
) -> Result<bool, ReserveError> {
    before_lookup(worker, key);
    worker.handle.touch(key, expiry, worker.now)
}

/// Sets an item's expiry and passes the item to `show`. Counts as a get with a touch.
pub(crate) fn touch_and_show<'e, R>(
    worker: &mut WorkerContext<'e>,
    key: HashedKey<'_>,
    expiry: Expiry,
    show: impl FnOnce(ItemView<'_, 'e>) -> R,
) -> Result<Option<R>, ReserveError> {
    before_lookup(worker, key);
    let found = worker.handle.get_and_touch(key, expiry, worker.now, show);
    let prefixes = &worker.shared.prefixes;
    if worker.shared.counts_prefixes() {
        prefixes.record_get(key.bytes(), matches!(found, Ok(Some(_))));
    }
    found
}

/// Looks up an item for the meta command `me`, and passes it to `show`. Counts in `cmd_meta`, but not as a get.
pub(crate) fn examine<'e, R>(
    worker: &mut WorkerContext<'e>,
    key: HashedKey<'_>,
    show: impl FnOnce(ItemView<'_, 'e>) -> R,
) -> Option<R> {
    worker.traffic.count_meta_debug();
    before_lookup(worker, key);
    worker.handle.peek(key, worker.now, show)
}

/// Pins an item for the command `debugitem ref`. Watchers get no event.
pub(crate) fn pin<'e>(worker: &mut WorkerContext<'e>, key: &[u8]) -> Option<Pinned<'e>> {
    worker.handle.peek(key, worker.now, |view| view.pin()).flatten()
}
