//! What the `stats` commands need to know.

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
}
