//! What the `stats` commands need to know.

use crate::memory_model::MemoryModel;
use crate::shared::{Shared, WorkerContext};
use slabwise_base::Now;

/// The server whose statistics are requested, and the time of the request.
#[derive(Clone, Copy)]
pub(crate) struct StatsContext<'e> {
    pub shared: &'e Shared<'e>,
    pub now: Now,
}

impl<'e> StatsContext<'e> {
    /// Returns the context of a request that a worker serves.
    pub fn of(worker: &WorkerContext<'e>) -> StatsContext<'e> {
        StatsContext { shared: worker.shared, now: worker.now }
    }

    /// Returns the current limit of the memory for items, in bytes, and the memory model with this limit.
    pub fn memory_model(self) -> (u64, MemoryModel) {
        let limit_bytes = self.shared.engine.stats(self.now).memory_limit_bytes;
        let model = MemoryModel::new(self.shared.settings).with_memory_limit(limit_bytes);
        (limit_bytes, model)
    }
}
