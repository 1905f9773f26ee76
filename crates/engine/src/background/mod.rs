//! Background work: the LRU maintainer and the crawler in bounded steps, the check of all invariants, and the restart.
//!
//! Operations themselves keep the queues' size limits (`evict/order.rs`). The LRU maintainer enforces age limits and
//! expiry: a step visits the classes, moves items at the tails that are too old to the next queue, and removes
//! expired and flushed items at the tails.

pub mod check;
mod crawler;
pub mod restart;

pub use crawler::{CrawlStep, CrawledItem, Crawler};
pub use restart::{ColdReason, MemoryFile, Progress, RestartError, Start, Stop, Warm};

use crate::class::Class;
use crate::space::Space;
use slabwise_base::Now;

/// Runs one step of the maintainer on at most `budget` items per class. Returns the number of items moved or removed.
pub fn maintain_step(space: &Space, budget: usize, now: Now) -> usize {
    space.flush.settle(now);
    space.queueing_classes().map(|class| maintain_class(space, class, budget, now)).sum()
}

fn maintain_class(space: &Space, class: &Class, budget: usize, now: Now) -> usize {
    let mut done = 0;
    while done < budget {
        let none_reclaimed = space.reclaim_tail(class.lock(), now);
        if let Some(mut state) = none_reclaimed
            && !state.balance_all(now.ticks)
        {
            break;
        }
        done += 1;
    }
    done
}
