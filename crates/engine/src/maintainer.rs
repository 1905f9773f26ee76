//! The LRU maintainer: what segmented queues need beside the traffic itself.
//!
//! Shares hold by themselves (`queues/segmented.rs`); ages and expiry do not. A step goes over the
//! classes, moves tails that grew too old, and removes items at the tails that have ended.

use crate::class::{Class, ClassState};
use crate::engine::Engine;
use crate::mem::{ChunkAddress, QueueKind, ReadProof};
use crate::queues::{Demotion, balance};
use slabwise_base::{ClassId, Now};

impl Engine {
    /// One bounded step: at most `budget` items a class. Returns how many were moved or removed.
    pub fn maintain_step(&self, budget: usize, now: Now) -> usize {
        self.settle_flush(now);
        self.queueing_classes().map(|class| self.maintain_class(class, budget, now)).sum()
    }

    fn maintain_class(&self, class: &Class, budget: usize, now: Now) -> usize {
        let mut done = 0;
        while done < budget {
            let mut state = class.lock();
            if let Some(ended) = self.ended_tail(&state, now) {
                self.count_reclaim(&mut state, ended);
                let pin = state.detach(&self.memory, ended);
                drop(state);
                self.remove_detached(&pin);
                self.unpin(pin);
            } else if balance(&mut state, &self.memory, Some(now.ticks)) == Demotion::Settled {
                break;
            }
            done += 1;
        }
        done
    }

    /// Removes the item at a tail of the class if it has ended.
    pub(crate) fn reclaim_tail(&self, class: ClassId, now: Now) {
        let pin = {
            let mut state = self.class(class).lock();
            let Some(ended) = self.ended_tail(&state, now) else { return };
            self.count_reclaim(&mut state, ended);
            state.detach(&self.memory, ended)
        };
        self.remove_detached(&pin);
        self.unpin(pin);
    }

    /// A tail whose item has ended and that nobody pins.
    fn ended_tail(&self, state: &ClassState, now: Now) -> Option<ChunkAddress> {
        let proof = ReadProof::under_class(state);
        QueueKind::ALL.into_iter().filter_map(|kind| state.queue(kind).tail()).find(|&tail| {
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
