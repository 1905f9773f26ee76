//! `-o cost=measured`, from the side of the commands: misses and stores are told, and a store that tells no cost
//! has the measured one. All dialects come here.

use crate::context::WorkerContext;
use slabwise_base::Cost;
use slabwise_engine::{ItemMeta, StoreConditions, StoreMode};

/// To be called when a get of this key missed, or told its client to store the item anew.
#[inline]
pub(super) fn missed(worker: &WorkerContext<'_>, key: &[u8]) {
    if let Some(measured) = &worker.shared.measured_costs {
        measured.missed(key, || worker.shared.clock.nanos());
    }
}

/// To be called after a command made this key's item otherwise than by a store.
#[inline]
pub(super) fn made(worker: &WorkerContext<'_>, key: &[u8]) {
    if let Some(measured) = &worker.shared.measured_costs {
        measured.answered(key);
    }
}

/// To be called before a store: what the item is stored with. The time counts to the store's line, before its
/// value has arrived, and whatever comes of the store. One that adds to an item waits on: a client whose append
/// finds nothing stores the whole.
#[inline]
pub(super) fn priced(
    worker: &WorkerContext<'_>,
    key: &[u8],
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
    let Some(class) = worker.shared.engine.class_of_size(key.len(), value_len, with_cost) else {
        // Too large: what comes later is not its recomputation.
        measured.answered(key);
        return meta;
    };
    let cost = measured.stored(key, class, || worker.shared.clock.nanos());
    ItemMeta { cost, ..meta }
}
