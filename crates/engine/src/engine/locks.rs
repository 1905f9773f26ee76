//! The counts of the engine's locks.

use super::Engine;
use crate::class::Class;
use crate::counted_lock::{LockKind, LockStats};

impl Engine {
    /// Returns how often threads have taken the locks of the engine, and how long they have waited, in the order of the
    /// rows of `docs/locking.md`. The locks that statistics take are not counted.
    pub fn lock_stats(&self) -> [LockStats; 4] {
        let space = self.space();
        let classes = space.queueing_classes().map(Class::lock_counts);
        [
            LockStats { kind: LockKind::Mover, locks: vec![self.cache.mover.counts()] },
            LockStats { kind: LockKind::Stripe, locks: space.index.lock_counts() },
            LockStats { kind: LockKind::Class, locks: classes.collect() },
            LockStats { kind: LockKind::PagePool, locks: vec![space.pool_lock_counts()] },
        ]
    }
}
