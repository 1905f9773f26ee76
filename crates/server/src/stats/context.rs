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

    /// Returns the memory model with the current limit of the memory for items.
    pub fn memory_model(self) -> MemoryModel {
        let limit_bytes = self.shared.engine.stats(self.now).memory_limit_bytes;
        let kept_bytes = self.shared.engine.kept_bytes();
        MemoryModel::with_memory_limit(self.shared.settings, limit_bytes, kept_bytes)
    }
}
