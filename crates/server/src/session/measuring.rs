//! `-o cost=measured`, from the side of the commands: misses and stores are told, and a store that tells no cost
//! has the measured one. All dialects come here.

use crate::context::WorkerContext;
use slabwise_engine::{ItemMeta, StoreMode};

/// To be called when a get of this key missed.
#[inline]
pub(super) fn missed(worker: &WorkerContext<'_>, key: &[u8]) {
    if let Some(measured) = &worker.shared.measured_costs {
        measured.missed(key, || worker.shared.clock.nanos());
    }
}

/// To be called before a store: what the item is stored with. The time counts to the store's line, before its
/// value has arrived, and whatever comes of the store.
#[inline]
pub(super) fn priced(
    worker: &WorkerContext<'_>,
    key: &[u8],
    value_len: usize,
    meta: ItemMeta,
    mode: StoreMode,
) -> ItemMeta {
    let Some(measured) = &worker.shared.measured_costs else { return meta };
    let extends = matches!(mode, StoreMode::Append | StoreMode::Prepend);
    if meta.cost.is_some() || extends {
        return meta;
    }
    let Some(class) = worker.shared.engine.class_of_size(key.len(), value_len, meta) else {
        return meta;
    };
    let cost = measured.stored(key, class, || worker.shared.clock.nanos());
    ItemMeta { cost, ..meta }
}
