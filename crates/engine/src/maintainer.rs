//! The LRU maintainer: what segmented queues need beside the traffic itself.
//!
//! Shares hold by themselves (`evict/segments.rs`); ages and expiry do not. A step goes over the
//! classes, moves tails that grew too old, and removes items at the tails that have ended.

use crate::class::{Class, ClassState};
use crate::engine::Engine;
use crate::evict::Place;
use crate::mem::{ChunkAddress, QueueKind, ReadProof};
use slabwise_base::Now;
use slabwise_base::sync::MutexGuard;

impl Engine {
    /// One bounded step: at most `budget` items a class. Returns how many were moved or removed.
    pub fn maintain_step(&self, budget: usize, now: Now) -> usize {
        self.settle_flush(now);
        self.queueing_classes().map(|class| self.maintain_class(class, budget, now)).sum()
    }

    fn maintain_class(&self, class: &Class, budget: usize, now: Now) -> usize {
        let mut done = 0;
        while done < budget {
            let nothing_ended = self.reclaim_tail(class.lock(), now);
            if let Some(mut state) = nothing_ended
                && !state.balance_all(&self.memory, now.ticks)
            {
                break;
            }
            done += 1;
        }
        done
    }

    /// Removes an item at a tail of the class that has ended. The class stays locked only if there is none.
    pub(crate) fn reclaim_tail<'c>(
        &self,
        mut state: MutexGuard<'c, ClassState>,
        now: Now,
    ) -> Option<MutexGuard<'c, ClassState>> {
        let Some(ended) = self.ended_tail(&state, now) else { return Some(state) };
        self.count_reclaim(&mut state, ended);
        let pin = state.detach(&self.memory, ended);
        drop(state);
        self.remove_detached(&pin, true);
        self.unpin(pin);
        None
    }

    /// A tail whose item has ended and that nobody pins.
    fn ended_tail(&self, state: &ClassState, now: Now) -> Option<ChunkAddress> {
        let proof = ReadProof::under_class(state);
        let tail = |lane, queue| state.lanes().queue(Place { lane, queue }).tail();
        let tails = |lane| QueueKind::ALL.into_iter().filter_map(move |queue| tail(lane, queue));
        state.lanes().all().flat_map(tails).find(|&tail| {
            let unpinned = self.memory.header(tail).state().load().pins() == 0;
            unpinned && self.death_of(tail, now, proof).is_some()
        })
    }

    pub(crate) fn count_reclaim(&self, state: &mut ClassState, ended: ChunkAddress) {
        let fetched = self.memory.header(ended).state().load().fetched();
        state.counters.reclaimed += 1;
        state.counters.expired_unfetched += u64::from(!fetched);
    }
}
