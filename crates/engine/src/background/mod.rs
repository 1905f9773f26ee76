//! What is done beside the traffic: bounded steps, a check of every invariant, and the restart.
//!
//! The LRU maintainer does beside segmented queues what the traffic itself does not. Shares hold by themselves
//! (`evict/order.rs`); ages and expiry do not: a step goes over the classes, moves tails that grew too old, and removes
//! items at the tails that have ended.

pub mod check;
mod crawler;
pub mod restart;

pub use crawler::{CrawlStep, CrawledItem, Crawler};
pub use restart::{ColdReason, MemoryFile, Progress, RestartError, Start, Stop, Warm};

use crate::class::Class;
use crate::space::Space;
use slabwise_base::Now;

/// One bounded step of the maintainer: at most `budget` items a class. Returns how many were moved or removed.
pub fn maintain_step(space: &Space, budget: usize, now: Now) -> usize {
    space.flush.settle(now);
    space.queueing_classes().map(|class| maintain_class(space, class, budget, now)).sum()
}

fn maintain_class(space: &Space, class: &Class, budget: usize, now: Now) -> usize {
    let mut done = 0;
    while done < budget {
        let nothing_ended = space.reclaim_tail(class.lock(), now);
        if let Some(mut state) = nothing_ended
            && !state.balance_all(now.ticks)
        {
            break;
        }
        done += 1;
    }
    done
}
