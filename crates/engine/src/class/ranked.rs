//! How items that are ranked enter a class, are hit, and leave. What each eviction kind goes by is in `queues`.

use super::ClassState;
use crate::config::EvictionKind;
use crate::index::StripeGuard;
use crate::mem::{ChunkAddress, MetaRight, OwnedChunk, QueueKind, ReadProof};
use crate::memory::Memory;
use crate::queues::{Lane, Ranking, gd_wheel, greedydual_size, reserved};
use slabwise_base::Ticks;

/// What an item of unknown cost counts as, in units: the published kinds know of none.
const COST_UNKNOWN: u64 = 1;

impl ClassState {
    /// What its ranks go by.
    pub fn ranking(&self) -> &Ranking {
        &self.ranking
    }

    /// The same, to change.
    pub fn ranking_mut(&mut self) -> &mut Ranking {
        &mut self.ranking
    }

    /// The lane of an item of its own.
    #[inline]
    pub fn lane_of(&self, memory: &Memory, address: ChunkAddress) -> Lane {
        match self.kind {
            EvictionKind::Segmented | EvictionKind::Lru | EvictionKind::Reserved => Lane::FIRST,
            EvictionKind::CostBands => {
                crate::queues::band_of(memory.cost(address, ReadProof::under_class(self)))
            }
            EvictionKind::GreedyDualSize => {
                let size_bytes = self.counted_size_of(memory, address);
                greedydual_size::lane_of(self.cost_of(memory, address), size_bytes)
            }
            EvictionKind::GdWheel => gd_wheel::lane_of(self, memory, address),
        }
    }

    /// What an item of its own costs, in units; unknown ones as the mean of the others.
    pub fn cost_at(&self, memory: &Memory, address: ChunkAddress) -> f64 {
        let cost = memory.cost(address, ReadProof::under_class(self));
        cost.map_or(self.cost_mean() as f64, |cost| f64::from(cost.units()))
    }

    fn cost_of(&self, memory: &Memory, address: ChunkAddress) -> u64 {
        let cost = memory.cost(address, ReadProof::under_class(self));
        cost.map_or(COST_UNKNOWN, |cost| u64::from(cost.units()))
    }

    /// The rank that an item is given now.
    fn rank_now(&self, memory: &Memory, address: ChunkAddress) -> u32 {
        let cost = self.cost_of(memory, address);
        match self.kind {
            EvictionKind::GreedyDualSize => {
                self.ranking.rank_of(greedydual_size::ratio_of(self.lane_of(memory, address)))
            }
            EvictionKind::GdWheel => self.ranking.rank_of(gd_wheel::worth_of(self, cost)),
            _ => self.ranking.reserved_rank_of(cost),
        }
    }

    /// Ranks an item that is to enter `queue`; returns where it goes.
    pub(super) fn place_entering(
        &mut self,
        memory: &Memory,
        chunk: &mut OwnedChunk,
        queue: QueueKind,
    ) -> (Lane, QueueKind) {
        let address = chunk.address();
        if !self.kind.goes_by_rank() {
            return (self.lane_of(memory, address), queue);
        }
        let rank = self.rank_now(memory, address);
        memory.write_rank(chunk, rank);
        match self.kind {
            EvictionKind::GreedyDualSize => (self.lane_of(memory, address), greedydual_size::QUEUE),
            EvictionKind::GdWheel => gd_wheel::place_of(self, rank),
            _ => (Lane::FIRST, reserved::queue_for(self, memory, rank, QueueKind::Hot)),
        }
    }

    /// A hit, where items are ranked: the item is ranked anew, and goes where it then belongs. Where its rank
    /// stays, nothing changes.
    pub fn rank_hit(&mut self, memory: &Memory, address: ChunkAddress, stripe: &StripeGuard<'_>) {
        let state = memory.header(address).state().load();
        let (old, new) =
            (memory.rank(address, ReadProof::under_class(self)), self.rank_now(memory, address));
        if !state.queued() || old == new {
            return;
        }
        if self.kind == EvictionKind::Reserved {
            memory.set_rank(&MetaRight::under_both(address, stripe, self), new);
            let queue = reserved::queue_after_hit(self, memory, address, new);
            if queue == reserved::RESERVED {
                self.requeue(memory, address, queue);
            }
            return;
        }
        let size_bytes = self.counted_size_of(memory, address);
        self.take_from(memory, address, (self.lane_of(memory, address), state.queue()), size_bytes);
        memory.set_rank(&MetaRight::under_both(address, stripe, self), new);
        let place = match self.kind {
            EvictionKind::GdWheel => gd_wheel::place_of(self, new),
            _ => (self.lane_of(memory, address), state.queue()),
        };
        self.put_in(memory, address, place, size_bytes);
        memory.header(address).state().requeue(place.1);
    }

    /// Moves a queued item to the head of another queue, of whatever lane.
    pub fn move_to(&mut self, memory: &Memory, address: ChunkAddress, place: (Lane, QueueKind)) {
        let _: QueueKind = self.move_from(memory, address, self.lane_of(memory, address), place);
    }

    /// The same of an item in this lane. Returns the queue it left.
    pub(super) fn move_from(
        &mut self,
        memory: &Memory,
        address: ChunkAddress,
        lane: Lane,
        place: (Lane, QueueKind),
    ) -> QueueKind {
        let from = memory.header(address).state().load().queue();
        let size_bytes = self.counted_size_of(memory, address);
        self.take_from(memory, address, (lane, from), size_bytes);
        self.put_in(memory, address, place, size_bytes);
        memory.header(address).state().requeue(place.1);
        from
    }

    /// Notes that an item is evicted.
    pub fn note_evicted(&mut self, memory: &Memory, address: ChunkAddress, now: Ticks) {
        if self.kind == EvictionKind::CostBands {
            let age_ticks = memory.header(address).time().age_at(now);
            let (lane, cost) = (self.lane_of(memory, address), self.cost_at(memory, address));
            self.bands.note_evicted(lane, age_ticks, cost, now);
        }
        if self.kind.goes_by_rank() {
            let rank = memory.rank(address, ReadProof::under_class(self));
            self.ranking.note_evicted(rank);
        }
    }

    pub(super) fn put_in(
        &mut self,
        memory: &Memory,
        address: ChunkAddress,
        (lane, queue): (Lane, QueueKind),
        size_bytes: u64,
    ) {
        self.lanes.change(lane, queue, |q| q.push_head(memory, address, size_bytes));
        self.note_tail(memory, lane);
    }

    pub(super) fn take_from(
        &mut self,
        memory: &Memory,
        address: ChunkAddress,
        (lane, queue): (Lane, QueueKind),
        size_bytes: u64,
    ) {
        self.lanes.change(lane, queue, |q| q.remove(memory, address, size_bytes));
        self.note_tail(memory, lane);
    }

    /// Notes the rank of a lane's tail, which may be another one now.
    #[inline]
    pub(super) fn note_tail(&mut self, memory: &Memory, lane: Lane) {
        if self.kind == EvictionKind::GreedyDualSize
            && let Some(tail) = self.lanes.queue(lane, greedydual_size::QUEUE).tail()
        {
            let rank = memory.rank(tail, ReadProof::under_class(self));
            self.ranking.set_tail_rank(lane, rank);
        }
    }
}
