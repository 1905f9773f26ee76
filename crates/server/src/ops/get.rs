//! Gets in all dialects, touches, and lookups that do not count as gets.

use crate::shared::{WatchEvent, WorkerContext};
use slabwise_base::{Expiry, HashedKey};
use slabwise_engine::{
    GetEffects, GetOptions, ItemInfo, ItemView, Pinned, ReserveError, StoreMode, Validity, Vivify,
};
use slabwise_protocol::{Get, WatchKinds};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rules {
    /// Rules of the classic text protocol and of the binary one.
    Classic,
    Meta,
}

impl Rules {
    #[inline]
    pub(super) fn counts_prefixes(self) -> bool {
        self == Rules::Classic
    }

    /// The command name that watchers see, as in memcached.
    pub(super) fn delete_command(self) -> &'static str {
        match self {
            Rules::Classic => "delete",
            Rules::Meta => "md",
        }
    }

    /// True if a failed store removes the item that it was to replace. Clients rely on the old value being gone.
    pub(super) fn discards(self, mode: StoreMode) -> bool {
        match self {
            Rules::Classic => mode == StoreMode::Set,
            Rules::Meta => matches!(mode, StoreMode::Set | StoreMode::Replace | StoreMode::Cas(_)),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Plain,
    /// Gives the item a new expiry; a miss counts as a touch that missed.
    Touch(Expiry),
    With(GetOptions),
}

impl Access {
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
                let options = GetOptions { touch, vivify, marks: !request.leaves_no_mark };
                if options == GetOptions::default() { Access::Plain } else { Access::With(options) }
            }
        }
    }
}

/// The kind of reply for an item that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HitReply {
    Answered,
    /// Like a miss, because too many clients are being sent its large value already.
    PassedOver,
    /// With the request to recompute and store it.
    Recache,
}

const UNCHANGED: GetEffects = GetEffects { is_new: false, expiry_before: Expiry::NEVER };

/// Call before each operation that looks this key up.
#[inline]
pub(crate) fn before_lookup(worker: &WorkerContext<'_>, key: HashedKey<'_>) {
    if worker.shared.is_watched(WatchKinds::FETCHERS) {
        report_lookup(worker, key.bytes(), worker.handle.inspect(key, worker.now));
    }
}

#[cold]
pub(super) fn report_lookup(worker: &WorkerContext<'_>, key: &[u8], seen: Option<ItemInfo>) {
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

/// Looks a key up and passes its item to `show`, which must copy or pin the value and return soon: the item's stripe
/// is locked meanwhile. Returns `None` for a miss, and an error if there is no memory for the new expiry.
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
    let (now, counts_prefixes) = (worker.now, worker.shared.counts_prefixes());
    let show = |view: ItemView<'_, 'e>, effects| {
        (show(&view, effects), if counts_prefixes { view.cost() } else { None })
    };
    let found = match *access {
        Access::Plain => worker.handle.get(key, now, |view| show(view, UNCHANGED)),
        Access::Touch(expiry) => {
            worker.handle.get_and_touch(key, expiry, now, |view| show(view, UNCHANGED))?
        }
        Access::With(ref options) => worker.handle.get_with(key, options, now, show)?,
    };
    let (reply, cost) = found.unzip();
    if matches!(reply, None | Some(HitReply::Recache))
        && let Some(measured) = &worker.shared.measured_costs
    {
        measured.record_miss(key, || worker.shared.clock.nanos());
    }
    if worker.shared.counts_prefixes() {
        let prefixes = &worker.shared.prefixes;
        if rules.counts_prefixes() {
            prefixes.record_get(key.bytes(), reply.is_some());
        }
        if let Some(cost) = cost.flatten() {
            prefixes.record_cost_saved(key.bytes(), u64::from(cost.units()));
        }
    }
    Ok(reply)
}

/// Sets an item's expiry. Returns `Ok(false)` if there is no such item.
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

/// Passes an item to `show` for the meta protocol's `me`.
pub(crate) fn examine<'e, R>(
    worker: &mut WorkerContext<'e>,
    key: HashedKey<'_>,
    show: impl FnOnce(ItemView<'_, 'e>) -> R,
) -> Option<R> {
    worker.traffic.count_meta_debug();
    before_lookup(worker, key);
    worker.handle.peek(key, worker.now, show)
}

/// Pins an item for `debugitem`, without a watch event.
pub(crate) fn pin<'e>(worker: &mut WorkerContext<'e>, key: &[u8]) -> Option<Pinned<'e>> {
    worker.handle.peek(key, worker.now, |view| view.pin()).flatten()
}
