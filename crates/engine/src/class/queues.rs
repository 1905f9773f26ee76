//! The queues of a class: how items enter the queues, move between the queues, and are removed from the queues.
//!
//! The order of the class (`evict`) decides which queue an item enters and which item is evicted next. The functions of
//! this module ask the order and then change the queues and the sums over their items.

use super::{ClassState, VictimStep};
use crate::evict::{
    ClassOrder, Entry as OrderEntry, Hit, Lane, Lanes, Move, Order, Place, Position, Victim, View,
    dispatch,
};
use crate::layout::ChunkAddress;
use crate::mem::{
    Broken, ClassToken, Entry, Inserted, List, ListImage, Pin, QueueKind, Queued, Removed, Restore,
    Takeover, UnlinkedChunks, Unqueued,
};
use slabwise_base::{Cost, WorkTime};
use std::sync::atomic::Ordering::Relaxed;

impl ClassState {
    /// Returns the order, and a view of the data that the order reads.
    #[inline]
    fn order_and_view(&mut self) -> (&mut ClassOrder, View<'_>) {
        let ClassState { order, lanes, costs, pages, segments, .. } = self;
        (order, View { pages, lanes, costs, segments })
    }

    /// Returns a view of the data that the order reads.
    #[inline]
    pub(super) fn view(&self) -> View<'_> {
        let ClassState { lanes, costs, pages, segments, .. } = self;
        View { pages, lanes, costs, segments }
    }

    /// Restores a queue of an earlier process from its links, beginning with the item at `tail`. Returns the number of
    /// items in the queue.
    pub fn restore_queue(
        &mut self,
        restore: &mut Restore,
        place: Place,
        tail: Option<ChunkAddress>,
    ) -> Result<u64, Broken> {
        let ClassState { order, sizes, costs, pages, .. } = self;
        let list = restore.list(&mut pages.token, (tail, place.queue), |item| {
            if dispatch!(order, lane_of(item)) != place.lane {
                let (invariant, address) = ("an item is in a queue of its lane", item.address());
                return Err(Broken { invariant, address });
            }
            let size_bytes = item.counted_size_bytes();
            sizes.add(size_bytes);
            costs.add(item.cost());
            Ok(size_bytes)
        })?;
        let count = list.count();
        change(&mut self.lanes, place, |empty| *empty = list);
        self.note_tail(place.lane);
        Ok(count)
    }

    /// Makes a queue that the class had in another process. The caller sets the statistics of sizes and costs.
    pub fn resume_queue(
        &mut self,
        takeover: &Takeover,
        place: Place,
        image: ListImage,
    ) -> Result<(), Broken> {
        let list = takeover.list(&self.pages.token, image)?;
        change(&mut self.lanes, place, |empty| *empty = list);
        self.note_tail(place.lane);
        Ok(())
    }

    /// Returns the kind of queue that a new item enters. `is_short_lived` is true if the item has a short TTL.
    pub fn queue_for_new(&self, is_short_lived: bool) -> QueueKind {
        dispatch!(&self.order, queue_for_new(&self.view(), is_short_lived))
    }

    /// Returns the lane of an item in the class's queues.
    #[inline]
    pub fn lane_of(&self, item: Queued<'_>) -> Lane {
        dispatch!(&self.order, lane_of(item))
    }

    /// Returns the lane and the queue of an item in the class's queues.
    #[inline]
    fn place_of(&self, item: Queued<'_>) -> Place {
        Place { lane: self.lane_of(item), queue: item.state().queue() }
    }

    /// Puts an item that has just entered the index at the head of a queue. The order chooses the queue; `queue` is the
    /// caller's proposal.
    pub fn enqueue(&mut self, mut item: Inserted<'_>, queue: QueueKind) {
        let OrderEntry { place, .. } = self.enter(&mut item, queue);
        self.queue_newest(item, place);
    }

    /// Puts an item that the mover has carried here from another class into a queue: by its age, or at the head if the
    /// item has a rank. The order chooses the queue; `queue` is the caller's proposal.
    pub fn enqueue_carried(&mut self, mut item: Inserted<'_>, queue: QueueKind) {
        let OrderEntry { place, rank, .. } = self.enter(&mut item, queue);
        if rank.is_some() {
            // The ranks of two classes are not comparable. So an item that has a rank enters this class like a new
            // item.
            return self.queue_newest(item, place);
        }
        let size_bytes = self.count_entering(item.item().without_value());
        let token = &mut self.pages.token;
        change(&mut self.lanes, place, |list| {
            list.insert_by_age(token, item, place.queue, size_bytes)
        });
        self.balance_after(place);
    }

    /// Puts the copy of an item into the original's position in its queue, and unlinks the original. Returns the chunks
    /// of the original, which the caller must free, or `None` if the original still has pins.
    pub fn replace(&mut self, old: Removed, new: Inserted<'_>) -> Option<UnlinkedChunks> {
        let item = old.queued(&self.pages.token).expect("the replaced item is in a queue");
        let (place, size_bytes) = (self.place_of(item), item.counted_size_bytes());
        let token = &mut self.pages.token;
        let sizes = (size_bytes, size_bytes);
        self.lanes.queue_mut(place).take_place(token, old, new, sizes)
    }

    /// Puts a new item into a queue, and unlinks the item of its key, which it has replaced in the index. `is_short_lived`
    /// is true if the new item has a short TTL. Returns the chunks of the old item, which the caller must free, or `None` if
    /// the old item still has pins.
    ///
    /// If the order permits it, neither item can expire, and the old one is not at the tail, then the new item takes the
    /// position of the old one, and the order does not see it as a new item. So the store writes to few cache lines that all
    /// stores of the class write to: neither to the head of the queue nor to the state of the order, nor usually to any
    /// statistic.
    pub fn supersede(
        &mut self,
        old: Removed,
        new: Inserted<'_>,
        is_short_lived: bool,
    ) -> Option<UnlinkedChunks> {
        let takes_place = dispatch!(&self.order, successors_take_places(&self.view()));
        // The LRU maintainer looks for expired items at the tails.
        let may_expire = |item: Queued<'_>| item.state().fields().expiry;
        let item = new.item().without_value();
        let place_taken = |old: Queued<'_>| {
            let place = self.place_of(old);
            let is_tail = self.lanes.queue(place).tail_address() == Some(old.address());
            let stays = takes_place && !may_expire(old) && !may_expire(item) && !is_tail;
            stays.then(|| (place, old.counted_size_bytes(), old.cost()))
        };
        let taken = old.queued(&self.pages.token).and_then(place_taken);
        let Some((place, old_size_bytes, old_cost)) = taken else {
            let remains = self.unlink(old);
            self.enqueue(new, self.queue_for_new(is_short_lived));
            return remains;
        };
        let (new_size_bytes, new_cost) = (item.counted_size_bytes(), item.cost());
        if old_size_bytes != new_size_bytes {
            self.sizes.remove(old_size_bytes);
            self.sizes.add(new_size_bytes);
        }
        if old_cost != new_cost {
            self.costs.remove(old_cost);
            self.costs.add(new_cost);
        }
        let (token, sizes) = (&mut self.pages.token, (old_size_bytes, new_size_bytes));
        self.lanes.queue_mut(place).take_place(token, old, new, sizes)
    }

    /// Asks the order for the place and the rank of an item that will enter the class, and sets the rank. Also moves
    /// the item that the order moves to another queue to make room. `queue` is the caller's proposal.
    fn enter(&mut self, item: &mut Inserted<'_>, queue: QueueKind) -> OrderEntry {
        let (order, view) = self.order_and_view();
        let entry = dispatch!(order, enter(&view, item.item().without_value(), queue));
        if let Some(rank) = entry.rank {
            item.set_rank(rank);
        }
        if let Some(displaced) = entry.displaced {
            self.displace(displaced);
        }
        entry
    }

    /// Makes a move that another item's entry into a queue causes.
    fn displace(&mut self, displaced: Move) {
        self.apply(displaced);
        // The next item that enters the class will probably displace the new tail.
        if let Some(next) = self.lanes.queue(displaced.from).tail_address() {
            self.pages.token.memory().prefetch_item(next);
        }
    }

    /// Counts an item and puts it at the head of a queue. Then lets the order move items that are beyond the queues'
    /// shares.
    fn queue_newest(&mut self, item: Inserted<'_>, place: Place) {
        let size_bytes = self.count_entering(item.item().without_value());
        let token = &mut self.pages.token;
        change(&mut self.lanes, place, |list| list.push_head(token, item, place.queue, size_bytes));
        self.note_tail(place.lane);
        self.balance_after(place);
    }

    /// Adds an item to the statistics of sizes and costs. Returns the size of the item in bytes.
    fn count_entering(&mut self, item: Queued<'_>) -> u64 {
        let size_bytes = item.counted_size_bytes();
        self.sizes.add(size_bytes);
        self.costs.add(item.cost());
        size_bytes
    }

    /// Moves at most one item out of each of the hot and the warm queue, if a queue is beyond its share. Called after
    /// an item entered a queue of the same lane. Does nothing if the item entered the cold queue.
    fn balance_after(&mut self, entered: Place) {
        if entered.queue != QueueKind::Cold {
            let _: bool = self.balance(entered.lane, &[QueueKind::Hot, QueueKind::Warm], None);
        }
    }

    /// Moves at most one item out of each cold, hot and warm queue: the item at the tail, if it is too old or active in
    /// COLD, or if the queue is beyond its share. The order decides this. Returns true if an item moved.
    pub fn balance_all(&mut self, now: WorkTime) -> bool {
        let queues = [QueueKind::Cold, QueueKind::Hot, QueueKind::Warm];
        let (mut from, mut has_moved) = (Lane::FIRST, false);
        while let Some(lane) = self.lanes.next_from(from) {
            has_moved |= self.balance(lane, &queues, Some(now));
            from = Lane(lane.0 + 1);
        }
        has_moved
    }

    /// Moves at most one item out of each of these queues of a lane, as the order decides. Ages count only if `now` is
    /// given. Returns true if an item moved.
    #[inline]
    fn balance(&mut self, lane: Lane, queues: &[QueueKind], now: Option<WorkTime>) -> bool {
        let mut has_moved = false;
        for &queue in queues {
            let (order, view) = self.order_and_view();
            if let Some(target) = dispatch!(order, balance(&view, Place { lane, queue }, now)) {
                self.apply(Move::within(lane, queue, target));
                has_moved = true;
            }
        }
        has_moved
    }

    /// Reports a hit of an item to the order, and moves or ranks the item as the order decides. Does nothing if the
    /// item is in no queue.
    pub fn hit(&mut self, entry: &mut Entry<'_>) {
        if !entry.item().state().queued() {
            return;
        }
        let (order, view) = self.order_and_view();
        let hit = dispatch!(order, hit(&view, entry.item().without_value()));
        let (to, is_counted) = match hit {
            Hit::Stay => return,
            Hit::Rank(rank) => return entry.meta_access(&mut self.pages.token).set_rank(rank),
            Hit::Enter(to, is_counted) => (to, is_counted),
        };
        // The lane may depend on the rank, so the function reads the lane before it changes the rank.
        let from = self.place_of(entry.item().without_value());
        if let Some(rank) = to.rank {
            entry.meta_access(&mut self.pages.token).set_rank(rank);
        }
        if let Some(displaced) = to.displaced {
            self.displace(displaced);
        }
        let size_bytes = entry.item().counted_size_bytes();
        self.move_item(from, to.place, size_bytes, |list, token| {
            Some(list.take_entry(token, entry, size_bytes))
        });
        if is_counted {
            self.count_move(from, to.place);
        }
    }

    /// Reports to the order that the item at a position will be evicted.
    pub fn note_evicted(&mut self, position: Position, now: WorkTime) {
        let (order, view) = self.order_and_view();
        if let Some(item) = item_at(&view, position) {
            dispatch!(order, note_evicted(&view, item, now));
        }
    }

    /// Unlinks an item that was removed from the index, and removes it from its queue if it is in one. Returns the
    /// item's chunks, which the caller must free, or `None` if the item still has pins.
    pub fn unlink(&mut self, item: Removed) -> Option<UnlinkedChunks> {
        let Some(queued) = item.queued(&self.pages.token) else {
            return item.unlink(self.pages.token.memory());
        };
        let place = self.place_of(queued);
        let counted = (queued.counted_size_bytes(), queued.cost());
        self.take_out(place, counted, |list, token, size_bytes| {
            list.unlink(token, item, size_bytes)
        })
    }

    /// Removes the item at the tail of a queue and pins it, so that the caller can remove it from the index after the
    /// class is unlocked. Returns `None` if the queue is empty.
    pub fn detach_tail(&mut self, place: Place) -> Option<Pin> {
        let item = self.tail(place)?;
        let counted = (item.counted_size_bytes(), item.cost());
        self.take_out(place, counted, List::detach_tail)
    }

    /// Removes the item at a position from its queue and pins it, as [`ClassState::detach_tail`] does. Returns `None` if
    /// no item is there.
    pub fn detach(&mut self, position: Position) -> Option<Pin> {
        if let Position::Tail(place) = position {
            return self.detach_tail(place);
        }
        let pin = self.item_at(position)?.pin_key()?;
        let detached = self.detach_pinned(&pin);
        let remains = self.pages.token.memory().unpin(pin);
        debug_assert!(remains.is_none(), "the detached item has a second pin");
        Some(detached)
    }

    /// Removes a pinned item from its queue, and pins it a second time. Returns the second pin.
    pub fn detach_pinned(&mut self, pin: &Pin) -> Pin {
        let item = self.pages.token.queued_pinned(pin);
        let item = item.expect("the pinned item is in a queue of the class");
        let (place, counted) = (self.place_of(item), (item.counted_size_bytes(), item.cost()));
        self.take_out(place, counted, |list, token, size_bytes| {
            list.detach_pinned(token, pin, size_bytes)
        })
    }

    /// Removes an item of this size and cost from a queue by calling `take`, and from the statistics of sizes and
    /// costs.
    #[inline]
    fn take_out<R>(
        &mut self,
        place: Place,
        (size_bytes, cost): (u64, Option<Cost>),
        take: impl FnOnce(&mut List, &mut ClassToken, u64) -> R,
    ) -> R {
        self.sizes.remove(size_bytes);
        self.costs.remove(cost);
        let token = &mut self.pages.token;
        let taken = change(&mut self.lanes, place, |list| take(list, token, size_bytes));
        self.note_tail(place.lane);
        taken
    }

    /// Makes a move that the order has decided: moves the item at the tail of the queue `from` to the head of the queue
    /// `to`. Does nothing if the queue is empty.
    pub fn apply(&mut self, Move { from, to, is_counted }: Move) {
        let Some(tail) = self.tail(from) else { return };
        let size_bytes = tail.counted_size_bytes();
        self.move_item(from, to, size_bytes, |list, token| list.take_tail(token, size_bytes));
        if is_counted {
            self.count_move(from, to);
        }
    }

    /// Counts a move in the statistics.
    fn count_move(&mut self, from: Place, to: Place) {
        let counters = &mut self.counters;
        let moves = match to.queue {
            queue if queue == from.queue => &mut counters.moves_within_lru,
            QueueKind::Cold => &mut counters.moves_to_cold,
            _ => &mut counters.moves_to_warm,
        };
        *moves += 1;
    }

    /// Moves an item of this size from the queue `from` to the head of the queue `to`, which may be the same queue.
    /// `take` removes the item from its queue.
    #[inline]
    fn move_item(
        &mut self,
        from: Place,
        to: Place,
        size_bytes: u64,
        take: impl for<'c> FnOnce(&mut List, &'c mut ClassToken) -> Option<Unqueued<'c>>,
    ) {
        let ClassState { lanes, pages, .. } = self;
        let token = &mut pages.token;
        if from == to {
            change(lanes, from, |list| {
                if let Some(item) = take(list, token) {
                    item.push_head(list, to.queue, size_bytes);
                }
            });
        } else {
            let Some(item) = change(lanes, from, |list| take(list, token)) else { return };
            change(lanes, to, |list| item.push_head(list, to.queue, size_bytes));
            self.note_tail(from.lane);
        }
        self.note_tail(to.lane);
    }

    /// Reports to the order that the tail of a queue of this lane may have changed.
    #[inline]
    fn note_tail(&mut self, lane: Lane) {
        let (order, view) = self.order_and_view();
        dispatch!(order, note_tail(&view, lane));
    }

    /// Returns the item at the tail of a queue.
    #[inline]
    pub fn tail(&self, place: Place) -> Option<Queued<'_>> {
        self.lanes.queue(place).tail(&self.pages.token)
    }

    /// Returns the item at a position. `None`: no queued item is there.
    #[inline]
    pub fn item_at(&self, position: Position) -> Option<Queued<'_>> {
        item_at(&self.view(), position)
    }

    /// Returns the estimate of the order how cold its next victim is ([`Order::coldness`]).
    pub fn coldness(&self, now: WorkTime) -> Option<u32> {
        dispatch!(&self.order, coldness(&self.view(), now))
    }

    /// Returns true if the mover should evict the item instead of carrying it ([`Order::is_cold`]).
    pub fn is_cold(&self, item: Queued<'_>, now: WorkTime) -> bool {
        dispatch!(&self.order, is_cold(&self.view(), item, now))
    }

    /// Returns the item with which a search for the next item to evict would begin. The search itself may evict another
    /// item, because this item is pinned or was hit.
    pub fn coldest(&self, now: WorkTime) -> Option<Queued<'_>> {
        self.tail(self.coldest_place(now)?)
    }

    /// Returns the queue with whose tail a search for the next item to evict would begin. `None`: the class is empty.
    pub fn coldest_place(&self, now: WorkTime) -> Option<Place> {
        dispatch!(&self.order, coldest(&self.view(), now))
    }

    /// Makes one step of a search for the next item to evict. First makes the moves that the order requires. Returns
    /// `Nothing` also if the item that the order chooses is pinned. `is_invalid` returns true for an item that has
    /// expired or was flushed.
    pub fn choose_victim(
        &mut self,
        now: WorkTime,
        is_invalid: impl Fn(Queued<'_>) -> bool,
    ) -> VictimStep {
        self.note_costs();
        let mut moves = 0;
        loop {
            let (order, view) = self.order_and_view();
            let position = match dispatch!(order, victim_preferring(&view, moves, now, &is_invalid))
            {
                Victim::Evict(place) => Position::Tail(place),
                Victim::EvictAt(position) => position,
                Victim::Move(step) => {
                    self.apply(step);
                    moves += 1;
                    continue;
                }
                Victim::Continue => return VictimStep::Continue,
                Victim::Nothing => return VictimStep::Nothing,
            };
            return match self.item_at(position) {
                Some(item) if item.is_unpinned() => VictimStep::Found(position),
                _ => VictimStep::Nothing,
            };
        }
    }

    /// Records whether the costs of the class's items differ widely, for [`Class`](super::Class) to read without the
    /// lock.
    fn note_costs(&mut self) {
        let differ = dispatch!(&self.order, costs_differ_widely(&self.view()));
        if self.costs_differ_widely.load(Relaxed) != differ {
            self.costs_differ_widely.store(differ, Relaxed);
        }
    }
}

/// Returns the item at a position. `None`: no queued item is there.
#[inline]
fn item_at<'c>(view: &View<'c>, position: Position) -> Option<Queued<'c>> {
    match position {
        Position::Tail(place) => view.tail(place),
        Position::In(slot) => view.pages.token.queued_in(slot),
        Position::FromTail(place, count) => {
            view.lanes.queue(place).iter_from_tail(&view.pages.token).nth(count)
        }
    }
}

/// Calls `change` with a queue. Afterwards updates the sets of occupied lanes, if the queue has got its first item or
/// lost its last item.
#[inline]
fn change<R>(lanes: &mut Lanes, place: Place, change: impl FnOnce(&mut List) -> R) -> R {
    let queue = lanes.queue_mut(place);
    let was_empty = queue.count() == 0;
    let result = change(queue);
    let is_empty = queue.count() == 0;
    if was_empty != is_empty {
        lanes.note_use(place, !is_empty);
    }
    result
}
