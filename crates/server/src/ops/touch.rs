//! Changing when an item ends.

use super::hooks::events;
use crate::context::WorkerContext;
use slabwise_base::{Expiry, HashedKey};
use slabwise_engine::{ItemView, ReserveError};

/// Changes when an item ends. `Ok(false)`: there is no such item.
pub(crate) fn touch(
    worker: &mut WorkerContext<'_>,
    key: HashedKey<'_>,
    expiry: Expiry,
) -> Result<bool, ReserveError> {
    events::looking_up(worker, key);
    worker.handle.touch(key, expiry, worker.now)
}

/// Changes when an item ends and shows it, which counts as a get that touches.
pub(crate) fn touch_and_show<'e, R>(
    worker: &mut WorkerContext<'e>,
    key: HashedKey<'_>,
    expiry: Expiry,
    show: impl FnOnce(ItemView<'_, 'e>) -> R,
) -> Result<Option<R>, ReserveError> {
    events::looking_up(worker, key);
    let found = worker.handle.get_and_touch(key, expiry, worker.now, show);
    let prefixes = &worker.shared.prefixes;
    if prefixes.is_enabled() {
        prefixes.record_get(key.bytes(), matches!(found, Ok(Some(_))));
    }
    found
}
