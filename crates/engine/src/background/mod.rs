//! Background work: the LRU maintainer, the crawler and the sweep, which run in bounded steps, the check of all
//! invariants, and the restart.
//!
//! Stores and hits keep the queues within their size limits (`evict/order.rs`). The LRU maintainer enforces the age
//! limits and the expiry of items. One step of the maintainer visits every class and checks the tails of its queues:
//! expired and flushed items are removed, and items above the age limit of their queue move to the next queue.

pub mod check;
mod crawler;
pub mod restart;
mod sweep;

pub use crawler::{CrawlStep, CrawledItem, Crawler};
pub use restart::handover::{
    self, AdoptError, Adopted, AdoptedCache, Adoption as MappedCache, ArenaFile, StateLens,
};
pub use restart::{
    ColdReason, LimitError, Progress, RestartError, Start, Stop, Warm, saved_layout,
};
pub use sweep::Sweep;

use crate::class::Class;
use crate::space::Space;
use slabwise_base::Now;

/// Runs one step of the LRU maintainer: at most `budget` rounds for each class. A round removes one item, or moves at
/// most one item from each queue. Returns the number of rounds that removed or moved an item, summed over all classes.
pub fn maintain_step(space: &Space, budget: usize, now: Now) -> usize {
    space.observe_time(now);
    space.queueing_classes().map(|class| maintain_class(space, class, budget, now)).sum()
}

fn maintain_class(space: &Space, class: &Class, budget: usize, now: Now) -> usize {
    let mut rounds = 0;
    while rounds < budget {
        let none_reclaimed = space.reclaim_tail(class.lock(), now);
        if let Some(mut state) = none_reclaimed
            && !state.balance_all(space.work.now())
        {
            break;
        }
        rounds += 1;
    }
    rounds
}
