//! Stand-in: what a worker lends to the sessions it drives.
use crate::shared::Shared;
use slabwise_base::Now;
use slabwise_engine::Handle;

/// A worker's face of everything shared.
pub struct WorkerContext<'e> {
    /// The engine's operations.
    pub handle: Handle<'e>,
    /// The time of this wake-up.
    pub now: Now,
    /// What all threads share.
    pub shared: &'e Shared<'e>,
    /// How many requests may still be served before others have a turn.
    pub requests_left: u32,
}
