//! `-o cost=measured`, from the side of the operations: misses and stores are reported, and a store without a
//! cost is given the measured one.

use crate::context::WorkerContext;
use slabwise_base::{Cost, HashedKey};
use slabwise_engine::{ItemMeta, StoreConditions, StoreMode};

/// To be called when a get of this key missed, or told its client to store the item anew.
#[inline]
pub(crate) fn missed(worker: &WorkerContext<'_>, key: HashedKey<'_>) {
    if let Some(measured) = &worker.shared.measured_costs {
        measured.missed(key, || worker.shared.clock.nanos());
    }
}

/// To be called after a command made this key's item otherwise than by a store.
#[inline]
pub(crate) fn made(worker: &WorkerContext<'_>, key: HashedKey<'_>) {
    if let Some(measured) = &worker.shared.measured_costs {
        measured.answered(key);
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
    let extends = matches!(conditions.mode, StoreMode::Append | StoreMode::Prepend);
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
