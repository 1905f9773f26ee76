//! How items enter, change and leave the queues of a class, as its order says.

use super::ClassState;
use crate::evict::{Entry, Hit, Lane, Move, Order, Place, Queue};
use crate::layout::ChunkAddress;
use crate::mem::StripeGuard;
use crate::mem::{MetaRight, OwnedChunk, Pin, QueueKind, ReadProof};
use crate::memory::Memory;
use slabwise_base::{Cost, Ticks};

impl ClassState {
    /// Sets a queue that is linked already.
    pub fn restore_queue(&mut self, memory: &Memory, place: Place, queue: Queue) {
        self.lanes.change(place, |empty| *empty = queue);
        self.note_tail(memory, place.lane);
    }

    /// Counts an item of a restored queue.
    pub fn count_restored(&mut self, size_bytes: u64, cost: Option<Cost>) {
        self.sizes.add(size_bytes);
        self.costs.add(cost);
    }

    /// Counted bytes of an item that is in its queues, or enters or leaves them.
    pub fn counted_size_of(&self, memory: &Memory, address: ChunkAddress) -> u64 {
        memory.counted_size_of(address, ReadProof::under_class(self))
    }

    /// The lane of an item of its own.
    #[inline]
    pub fn lane_of(&self, memory: &Memory, address: ChunkAddress) -> Lane {
        self.order.lane_of(self.view(memory).item(address))
    }

    #[inline]
    fn place_of(&self, memory: &Memory, address: ChunkAddress, queue: QueueKind) -> Place {
        Place { lane: self.lane_of(memory, address), queue }
    }

    /// Publishes an item: linked, the newest of a queue, which is `queue` unless the order has another.
    pub fn enqueue(
        &mut self,
        memory: &Memory,
        mut chunk: OwnedChunk,
        queue: QueueKind,
    ) -> ChunkAddress {
        let Entry { place, .. } = self.enter(memory, &mut chunk, queue);
        self.publish_newest(memory, chunk, place)
    }

    /// Publishes an item that was carried here from another class, in `queue`, where its age belongs.
    pub fn enqueue_carried(&mut self, memory: &Memory, mut chunk: OwnedChunk, queue: QueueKind) {
        let Entry { place, rank, .. } = self.enter(memory, &mut chunk, queue);
        if rank.is_some() {
            // Ranks of two classes do not compare: it is ranked as new.
            self.publish_newest(memory, chunk, place);
            return;
        }
        let size_bytes = self.count_entering(memory, chunk.address());
        let address = chunk.address();
        self.lanes.change(place, |q| q.insert_by_age(memory, address, size_bytes));
        memory.arena.publish(chunk, place.queue);
        self.balance_after(memory, place);
    }

    /// Publishes the copy of a queued item in its place; both are of one size.
    pub fn replace(&mut self, memory: &Memory, old: ChunkAddress, chunk: OwnedChunk) {
        let queue = memory.header(old).state().load().queue();
        let place = self.place_of(memory, old, queue);
        self.lanes.change(place, |q| q.replace(memory, old, chunk.address()));
        memory.arena.publish(chunk, queue);
    }

    /// Ranks an item that is to enter `queue`, and makes room for it.
    fn enter(&mut self, memory: &Memory, chunk: &mut OwnedChunk, queue: QueueKind) -> Entry {
        let (order, view) = self.order_and_view(memory);
        let entry = order.enter(&view, view.item(chunk.address()), queue);
        if let Some(rank) = entry.rank {
            memory.write_rank(chunk, rank);
        }
        if let Some(displaced) = entry.displaced {
            self.displace(memory, displaced);
        }
        entry
    }

    fn displace(&mut self, memory: &Memory, displaced: Move) {
        self.apply(memory, displaced);
        // The next to enter will displace this one.
        if let Some(next) = self.lanes.queue(displaced.from).tail() {
            memory.arena.prefetch_item(next);
        }
    }

    fn publish_newest(&mut self, memory: &Memory, chunk: OwnedChunk, place: Place) -> ChunkAddress {
        let size_bytes = self.count_entering(memory, chunk.address());
        self.put_in(memory, chunk.address(), place, size_bytes);
        let address = memory.arena.publish(chunk, place.queue);
        self.balance_after(memory, place);
        address
    }

    fn count_entering(&mut self, memory: &Memory, address: ChunkAddress) -> u64 {
        let size_bytes = self.counted_size_of(memory, address);
        self.sizes.add(size_bytes);
        self.costs.add(memory.cost(address, ReadProof::under_class(self)));
        size_bytes
    }

    fn balance_after(&mut self, memory: &Memory, entered: Place) {
        if entered.queue != QueueKind::Cold {
            let _: bool =
                self.balance(memory, entered.lane, &[QueueKind::Hot, QueueKind::Warm], None);
        }
    }

    /// Looks at the tails of every lane once; moves what is over its share of the lane or too old. Returns
    /// whether anything moved.
    pub fn balance_all(&mut self, memory: &Memory, now: Ticks) -> bool {
        let queues = [QueueKind::Cold, QueueKind::Hot, QueueKind::Warm];
        let (mut from, mut has_moved) = (Lane::FIRST, false);
        while let Some(lane) = self.lanes.next_from(from) {
            has_moved |= self.balance(memory, lane, &queues, Some(now));
            from = Lane(lane.0 + 1);
        }
        has_moved
    }

    #[inline]
    fn balance(
        &mut self,
        memory: &Memory,
        lane: Lane,
        queues: &[QueueKind],
        now: Option<Ticks>,
    ) -> bool {
        let mut has_moved = false;
        for &queue in queues {
            let (order, view) = self.order_and_view(memory);
            if let Some(target) = order.balance(&view, Place { lane, queue }, now) {
                self.apply(memory, Move::within(lane, queue, target));
                has_moved = true;
            }
        }
        has_moved
    }

    /// A hit, where hits act: the item goes where it then belongs.
    pub fn hit(&mut self, memory: &Memory, address: ChunkAddress, stripe: &StripeGuard<'_>) {
        let state = memory.header(address).state().load();
        if !state.queued() {
            return;
        }
        let (order, view) = self.order_and_view(memory);
        let hit = order.hit(&view, view.item(address));
        let (entry, is_counted) = match hit {
            Hit::Stay => return,
            Hit::Rank(rank) => {
                return memory.set_rank(&MetaRight::under_both(address, stripe, self), rank);
            }
            Hit::Enter(entry, is_counted) => (entry, is_counted),
        };
        // The rank may decide about the lane: the old one is read before it changes.
        let from = self.place_of(memory, address, state.queue());
        if let Some(rank) = entry.rank {
            memory.set_rank(&MetaRight::under_both(address, stripe, self), rank);
        }
        if let Some(displaced) = entry.displaced {
            self.displace(memory, displaced);
        }
        self.shift(memory, address, from, entry.place);
        if is_counted {
            self.count_move(from, entry.place);
        }
    }

    /// Notes that an item is evicted.
    pub fn note_evicted(&mut self, memory: &Memory, address: ChunkAddress, now: Ticks) {
        let (order, view) = self.order_and_view(memory);
        order.note_evicted(&view, view.item(address), now);
    }

    /// Ends a linked item: out of its queue if it is in one, and unlinked. `Some`: nobody pins it, so the
    /// caller frees it.
    pub fn unlink(&mut self, memory: &Memory, address: ChunkAddress) -> Option<OwnedChunk> {
        let state = memory.header(address).state().load();
        if state.queued() {
            self.take_out(memory, address, state.queue());
        }
        memory.arena.unlink(address)
    }

    /// Takes a queued item out of its queue and pins it, so that it can be removed without this lock.
    pub fn detach(&mut self, memory: &Memory, address: ChunkAddress) -> Pin {
        self.take_out(memory, address, memory.header(address).state().load().queue());
        memory.arena.detach(address)
    }

    fn take_out(&mut self, memory: &Memory, address: ChunkAddress, queue: QueueKind) {
        let size_bytes = self.counted_size_of(memory, address);
        self.take_from(memory, address, self.place_of(memory, address, queue), size_bytes);
        self.sizes.remove(size_bytes);
        self.costs.remove(memory.cost(address, ReadProof::under_class(self)));
    }

    /// Makes a move that the order wants.
    pub(super) fn apply(&mut self, memory: &Memory, Move { from, to, is_counted }: Move) {
        let Some(address) = self.lanes.queue(from).tail() else { return };
        self.shift(memory, address, from, to);
        if is_counted {
            self.count_move(from, to);
        }
    }

    fn count_move(&mut self, from: Place, to: Place) {
        let counters = &mut self.counters;
        let moves = match to.queue {
            queue if queue == from.queue => &mut counters.moves_within_lru,
            QueueKind::Cold => &mut counters.moves_to_cold,
            _ => &mut counters.moves_to_warm,
        };
        *moves += 1;
    }

    /// Moves a queued item to the head of another queue, or of its own.
    fn shift(&mut self, memory: &Memory, address: ChunkAddress, from: Place, to: Place) {
        let size_bytes = self.counted_size_of(memory, address);
        self.take_from(memory, address, from, size_bytes);
        self.put_in(memory, address, to, size_bytes);
        memory.header(address).state().requeue(to.queue);
    }

    fn put_in(&mut self, memory: &Memory, address: ChunkAddress, place: Place, size_bytes: u64) {
        self.lanes.change(place, |q| q.push_head(memory, address, size_bytes));
        self.note_tail(memory, place.lane);
    }

    fn take_from(&mut self, memory: &Memory, address: ChunkAddress, place: Place, size_bytes: u64) {
        self.lanes.change(place, |q| q.remove(memory, address, size_bytes));
        self.note_tail(memory, place.lane);
    }

    #[inline]
    fn note_tail(&mut self, memory: &Memory, lane: Lane) {
        let (order, view) = self.order_and_view(memory);
        order.note_tail(&view, lane);
    }
}
