//! Getting an item, in any of the ways that a dialect has; touching it, and looks that count as no get.

use crate::shared::{WatchEvent, WorkerContext};
use slabwise_base::{Expiry, HashedKey};
use slabwise_engine::{
    GetOptions, ItemView, Life, Met, Pinned, ReserveError, Seen, StoreMode, Vivify,
};
use slabwise_protocol::{Get, WatchKinds};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rules {
    /// Those of the classic text protocol and of the binary one.
    Classic,
    Meta,
}

impl Rules {
    #[inline]
    pub(super) fn counts_prefixes(self) -> bool {
        self == Rules::Classic
    }

    /// As memcached's watchers read it.
    pub(super) fn delete_command(self) -> &'static str {
        match self {
            Rules::Classic => "delete",
            Rules::Meta => "md",
        }
    }

    /// Whether a store that failed removes the item that was to be replaced: the client counts on its end.
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

/// What the client learned of an item that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    Answered,
    /// Nothing: too many clients are being sent its large value already.
    PassedOver,
    /// It was asked to store the item anew.
    Recache,
}

/// How a plain get met its item.
const UNCHANGED: Met = Met { is_new: false, expiry_before: Expiry::NEVER };

/// To be called before each operation that looks this key up.
#[inline]
pub(crate) fn looking_up(worker: &WorkerContext<'_>, key: HashedKey<'_>) {
    if worker.shared.is_watched(WatchKinds::FETCHERS) {
        tell_look_up(worker, key.bytes(), worker.handle.inspect(key, worker.now));
    }
}

#[cold]
pub(super) fn tell_look_up(worker: &WorkerContext<'_>, key: &[u8], seen: Option<Seen>) {
    let found = seen.filter(|seen| seen.life == Life::Live);
    worker.shared.watch.write(&WatchEvent::Fetch {
        key,
        status: match seen.map(|seen| seen.life) {
            None => "not_found",
            Some(Life::Live) => "found",
            Some(Life::Expired) => "expired",
            Some(Life::Flushed) => "flushed",
        },
        class: found.map(|found| found.class),
        value_len: found.map_or(0, |found| found.value_len),
        descriptor: worker.descriptor,
    });
}

/// Looks a key up and shows its item to `show`. Its stripe is locked meanwhile: copy or pin, and return.
/// `None` is a miss. An error: there is no memory for the new expiry.
#[inline(always)]
pub(crate) fn get<'e>(
    worker: &mut WorkerContext<'e>,
    key: HashedKey<'_>,
    access: &Access,
    rules: Rules,
    show: impl FnOnce(&ItemView<'_, 'e>, Met) -> Shown,
) -> Result<Option<Shown>, ReserveError> {
    looking_up(worker, key);
    worker.served.gets += 1;
    let (now, counts_prefixes) = (worker.now, worker.shared.counts_prefixes());
    let show = |view: ItemView<'_, 'e>, met| {
        (show(&view, met), if counts_prefixes { view.cost() } else { None })
    };
    let found = match *access {
        Access::Plain => worker.handle.get(key, now, |view| show(view, UNCHANGED)),
        Access::Touch(expiry) => {
            worker.handle.get_and_touch(key, expiry, now, |view| show(view, UNCHANGED))?
        }
        Access::With(ref options) => worker.handle.get_with(key, options, now, show)?,
    };
    let (shown, cost) = found.unzip();
    if matches!(shown, None | Some(Shown::Recache))
        && let Some(measured) = &worker.shared.measured_costs
    {
        measured.missed(key, || worker.shared.clock.nanos());
    }
    if worker.shared.counts_prefixes() {
        let prefixes = &worker.shared.prefixes;
        if rules.counts_prefixes() {
            prefixes.record_get(key.bytes(), shown.is_some());
        }
        if let Some(cost) = cost.flatten() {
            prefixes.record_cost_saved(key.bytes(), u64::from(cost.units()));
        }
    }
    Ok(shown)
}

/// Changes when an item ends. `Ok(false)`: there is no such item.
pub(crate) fn touch(
    worker: &mut WorkerContext<'_>,
    key: HashedKey<'_>,
    expiry: Expiry,
) -> Result<bool, ReserveError> {
    looking_up(worker, key);
    worker.handle.touch(key, expiry, worker.now)
}

/// Changes when an item ends and shows it, which counts as a get that touches.
pub(crate) fn touch_and_show<'e, R>(
    worker: &mut WorkerContext<'e>,
    key: HashedKey<'_>,
    expiry: Expiry,
    show: impl FnOnce(ItemView<'_, 'e>) -> R,
) -> Result<Option<R>, ReserveError> {
    looking_up(worker, key);
    let found = worker.handle.get_and_touch(key, expiry, worker.now, show);
    let prefixes = &worker.shared.prefixes;
    if worker.shared.counts_prefixes() {
        prefixes.record_get(key.bytes(), matches!(found, Ok(Some(_))));
    }
    found
}

/// Shows an item as the meta protocol's `me` sees it.
pub(crate) fn examine<'e, R>(
    worker: &mut WorkerContext<'e>,
    key: HashedKey<'_>,
    show: impl FnOnce(ItemView<'_, 'e>) -> R,
) -> Option<R> {
    worker.traffic.count_meta_debug();
    looking_up(worker, key);
    worker.handle.peek(key, worker.now, show)
}

/// Pins an item, and reports nothing: what `debugitem` asks for.
pub(crate) fn pin<'e>(worker: &mut WorkerContext<'e>, key: &[u8]) -> Option<Pinned<'e>> {
    worker.handle.peek(key, worker.now, |view| view.pin()).flatten()
}
