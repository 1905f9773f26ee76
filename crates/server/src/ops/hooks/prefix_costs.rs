//! What hits save and stores pay, by key prefix, while `stats detail` is on. Counted for all dialects alike: a
//! cost is ours, so nothing that memcached shows changes by it.

use crate::context::WorkerContext;
use slabwise_base::{Cost, HashedKey};
use slabwise_engine::{ItemView, Life, StoreConditions, StoreMode};

/// Whether a get looks at what its item costs.
#[derive(Clone, Copy)]
pub(crate) struct Counted(bool);

impl Counted {
    /// As it is at this moment.
    #[inline]
    pub(crate) fn now(worker: &WorkerContext<'_>) -> Counted {
        Counted(worker.shared.prefixes.is_enabled())
    }

    /// The item's cost, if it is looked at and known.
    #[inline]
    pub(crate) fn cost(self, view: &ItemView<'_, '_>) -> Option<Cost> {
        if self.0 { view.cost() } else { None }
    }
}

/// To be called with what a hit's item costs.
#[inline]
pub(crate) fn hit(worker: &WorkerContext<'_>, key: &[u8], cost: Option<Cost>) {
    if let Some(cost) = cost {
        worker.shared.prefixes.record_cost_saved(key, u64::from(cost.units()));
    }
}

/// To be called before a store, whatever comes of it. It pays if it is one that goes on where nothing is, and
/// nothing is there.
#[inline]
pub(crate) fn storing(
    worker: &WorkerContext<'_>,
    key: HashedKey<'_>,
    cost: Option<Cost>,
    conditions: &StoreConditions,
) {
    if let Some(cost) = cost
        && worker.shared.prefixes.is_enabled()
        && matches!(conditions.mode, StoreMode::Set | StoreMode::Add)
    {
        let found = worker.handle.inspect(key, worker.now);
        if found.is_none_or(|seen| seen.life != Life::Live) {
            worker.shared.prefixes.record_cost_paid(key.bytes(), u64::from(cost.units()));
        }
    }
}
