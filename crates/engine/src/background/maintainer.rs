//! The LRU maintainer: what segmented queues need beside the traffic itself.
//!
//! Shares hold by themselves (`evict/order.rs`); ages and expiry do not. A step goes over the
//! classes, moves tails that grew too old, and removes items at the tails that have ended.

use crate::class::Class;
use crate::space::Space;
use slabwise_base::Now;

/// One bounded step: at most `budget` items a class. Returns how many were moved or removed.
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
