//! Looks at an item that count as no get.

use super::hooks::events;
use crate::context::WorkerContext;
use slabwise_base::HashedKey;
use slabwise_engine::{ItemView, Pinned};

/// Shows an item as the meta protocol's `me` sees it.
pub(crate) fn examine<'e, R>(
    worker: &mut WorkerContext<'e>,
    key: HashedKey<'_>,
    show: impl FnOnce(ItemView<'_, 'e>) -> R,
) -> Option<R> {
    worker.traffic.count_meta_debug();
    events::looking_up(worker, key);
    worker.handle.peek(key, worker.now, show)
}

/// Pins an item, and reports nothing: what `debugitem` asks for.
pub(crate) fn pin<'e>(worker: &mut WorkerContext<'e>, key: &[u8]) -> Option<Pinned<'e>> {
    worker.handle.peek(key, worker.now, |view| view.pin()).flatten()
}
