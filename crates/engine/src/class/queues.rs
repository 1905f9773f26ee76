//! The queues of a class: how items enter, change and leave them, as the class's order says.
//!
//! A search for a victim first asks the order which item leaves, and which others move before. Where that item is
//! pinned, the queues are walked lane by lane, in the order COLD, HOT, WARM, TEMP: a pinned item goes to the
//! head of its queue, out of the next search's way.
//!
//! Invariant: under one hold of the class's lock a search looks at a bounded number of items; it goes on from
//! there, and ends without a victim only when it has passed every item of the class.

use super::ClassState;
use crate::evict::{
    COLDEST_FIRST, ClassOrder, Entry as OrderEntry, Hit, Lane, Lanes, Move, Order, Place, Victim,
    View, dispatch,
};
use crate::layout::ChunkAddress;
use crate::mem::{
    Broken, ClassToken, Entered, Entry, List, Pin, QueueKind, Queued, Remains, Removed, Restore,
    Unqueued,
};
use slabwise_base::{Cost, Ticks};
use std::sync::atomic::Ordering::Relaxed;

impl ClassState {
    /// The order, and what it may read.
    #[inline]
    fn order_and_view(&mut self) -> (&mut ClassOrder, View<'_>) {
        let ClassState { order, lanes, costs, pages, segments, .. } = self;
        (order, View { pages, lanes, costs, segments })
    }

    #[inline]
    fn view(&self) -> View<'_> {
        let ClassState { lanes, costs, pages, segments, .. } = self;
        View { pages, lanes, costs, segments }
    }

    /// Takes over a queue that another process left, from its tail on; returns the number of its items.
    pub fn restore_queue(
        &mut self,
        restore: &Restore,
        place: Place,
        tail: Option<ChunkAddress>,
    ) -> Result<u64, Broken> {
        let ClassState { order, sizes, costs, pages, .. } = self;
        let list = restore.list(pages.token_mut(), (tail, place.queue), |item| {
            if dispatch!(order, lane_of(item)) != place.lane {
                let (invariant, address) = ("an item is in its lane", item.address());
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

    /// The queue that a new item enters.
    pub fn queue_for_new(&self, is_short_lived: bool) -> QueueKind {
        dispatch!(&self.order, queue_for_new(&self.view(), is_short_lived))
    }

    #[inline]
    pub fn lane_of(&self, item: Queued<'_>) -> Lane {
        dispatch!(&self.order, lane_of(item))
    }

    #[inline]
    fn place_of(&self, item: Queued<'_>) -> Place {
        Place { lane: self.lane_of(item), queue: item.state().queue() }
    }

    /// Queues an item that has just entered its table, as the newest of a queue, which is `queue` unless the order
    /// has another.
    pub fn enqueue(&mut self, mut item: Entered<'_>, queue: QueueKind) {
        let OrderEntry { place, .. } = self.enter(&mut item, queue);
        self.queue_newest(item, place);
    }

    /// Queues an item that was carried here from another class, in `queue`, where its age belongs.
    pub fn enqueue_carried(&mut self, mut item: Entered<'_>, queue: QueueKind) {
        let OrderEntry { place, rank, .. } = self.enter(&mut item, queue);
        if rank.is_some() {
            // Ranks of two classes do not compare: it is ranked as new.
            return self.queue_newest(item, place);
        }
        let size_bytes = self.count_entering(item.item().without_value());
        let token = self.pages.token_mut();
        change(&mut self.lanes, place, |list| {
            list.insert_by_age(token, item, place.queue, size_bytes)
        });
        self.balance_after(place);
    }

    /// Queues the copy of a queued item in its place; both are of one size. `Some`: nobody pins the old one.
    pub fn replace(&mut self, old: Removed, new: Entered<'_>) -> Option<Remains> {
        let item = old.queued(self.pages.token()).expect("a queued item is replaced");
        let place = self.place_of(item);
        let token = self.pages.token_mut();
        change(&mut self.lanes, place, |list| list.take_place(token, old, new))
    }

    /// Ranks an item that is to enter `queue`, and makes room for it.
    fn enter(&mut self, item: &mut Entered<'_>, queue: QueueKind) -> OrderEntry {
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

    fn displace(&mut self, displaced: Move) {
        self.apply(displaced);
        // The next to enter will displace this one.
        if let Some(next) = self.lanes.queue(displaced.from).tail_address() {
            self.pages.token().memory().prefetch_item(next);
        }
    }

    fn queue_newest(&mut self, item: Entered<'_>, place: Place) {
        let size_bytes = self.count_entering(item.item().without_value());
        let token = self.pages.token_mut();
        change(&mut self.lanes, place, |list| list.push_head(token, item, place.queue, size_bytes));
        self.note_tail(place.lane);
        self.balance_after(place);
    }

    fn count_entering(&mut self, item: Queued<'_>) -> u64 {
        let size_bytes = item.counted_size_bytes();
        self.sizes.add(size_bytes);
        self.costs.add(item.cost());
        size_bytes
    }

    fn balance_after(&mut self, entered: Place) {
        if entered.queue != QueueKind::Cold {
            let _: bool = self.balance(entered.lane, &[QueueKind::Hot, QueueKind::Warm], None);
        }
    }

    /// Looks at the tails of every lane once; moves what is over its share of the lane or too old. Returns
    /// whether anything moved.
    pub fn balance_all(&mut self, now: Ticks) -> bool {
        let queues = [QueueKind::Cold, QueueKind::Hot, QueueKind::Warm];
        let (mut from, mut has_moved) = (Lane::FIRST, false);
        while let Some(lane) = self.lanes.next_from(from) {
            has_moved |= self.balance(lane, &queues, Some(now));
            from = Lane(lane.0 + 1);
        }
        has_moved
    }

    #[inline]
    fn balance(&mut self, lane: Lane, queues: &[QueueKind], now: Option<Ticks>) -> bool {
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

    /// A hit, where hits act: the item goes where it then belongs.
    pub fn hit(&mut self, entry: &mut Entry<'_>) {
        if !entry.item().state().queued() {
            return;
        }
        let (order, view) = self.order_and_view();
        let hit = dispatch!(order, hit(&view, entry.item().without_value()));
        let (to, is_counted) = match hit {
            Hit::Stay => return,
            Hit::Rank(rank) => return entry.meta_right(self.pages.token_mut()).set_rank(rank),
            Hit::Enter(to, is_counted) => (to, is_counted),
        };
        // The rank may decide about the lane: the old one is read before it changes.
        let from = self.place_of(entry.item().without_value());
        if let Some(rank) = to.rank {
            entry.meta_right(self.pages.token_mut()).set_rank(rank);
        }
        if let Some(displaced) = to.displaced {
            self.displace(displaced);
        }
        let size_bytes = entry.item().counted_size_bytes();
        self.shift(from, to.place, size_bytes, |list, token| {
            Some(list.take_entry(token, entry, size_bytes))
        });
        if is_counted {
            self.count_move(from, to.place);
        }
    }

    /// Notes that the last item of a queue is evicted.
    pub fn note_evicted(&mut self, place: Place, now: Ticks) {
        let (order, view) = self.order_and_view();
        if let Some(item) = view.tail(place) {
            dispatch!(order, note_evicted(&view, item, now));
        }
    }

    /// Ends an item that has left its table: out of its queue if it is in one, and unlinked. `Some`: nobody
    /// pins it, so the caller frees it.
    pub fn unlink(&mut self, item: Removed) -> Option<Remains> {
        let Some(queued) = item.queued(self.pages.token()) else {
            return item.unlink(self.pages.token().memory());
        };
        let place = self.place_of(queued);
        let size_bytes = self.count_leaving(queued.counted_size_bytes(), queued.cost());
        let token = self.pages.token_mut();
        let left = change(&mut self.lanes, place, |list| list.unlink(token, item, size_bytes));
        self.note_tail(place.lane);
        left
    }

    /// Takes the last item of a queue out and pins it, so that it can be removed without this lock.
    pub fn detach_tail(&mut self, place: Place) -> Option<Pin> {
        let item = self.tail(place)?;
        let size_bytes = self.count_leaving(item.counted_size_bytes(), item.cost());
        let token = self.pages.token_mut();
        let pin = change(&mut self.lanes, place, |list| list.detach_tail(token, size_bytes));
        self.note_tail(place.lane);
        pin
    }

    /// Takes a pinned item out of its queue, and pins it once more.
    pub fn detach_pinned(&mut self, pin: &Pin) -> Pin {
        let item = self.pages.token().queued_pinned(pin).expect("the item is queued here");
        let place = self.place_of(item);
        let size_bytes = self.count_leaving(item.counted_size_bytes(), item.cost());
        let token = self.pages.token_mut();
        let pin = change(&mut self.lanes, place, |list| list.detach_pinned(token, pin, size_bytes));
        self.note_tail(place.lane);
        pin
    }

    fn count_leaving(&mut self, size_bytes: u64, cost: Option<Cost>) -> u64 {
        self.sizes.remove(size_bytes);
        self.costs.remove(cost);
        size_bytes
    }

    /// Makes a move that the order wants.
    pub(super) fn apply(&mut self, Move { from, to, is_counted }: Move) {
        let Some(tail) = self.tail(from) else { return };
        let size_bytes = tail.counted_size_bytes();
        self.shift(from, to, size_bytes, |list, token| list.take_tail(token, size_bytes));
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

    /// Moves a queued item of this size, which `take` takes out, to the head of another queue, or of its own.
    #[inline]
    fn shift(
        &mut self,
        from: Place,
        to: Place,
        size_bytes: u64,
        take: impl for<'c> FnOnce(&mut List, &'c mut ClassToken) -> Option<Unqueued<'c>>,
    ) {
        let ClassState { lanes, pages, .. } = self;
        let token = pages.token_mut();
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

    #[inline]
    fn note_tail(&mut self, lane: Lane) {
        let (order, view) = self.order_and_view();
        dispatch!(order, note_tail(&view, lane));
    }
}

/// Changes a queue of these lanes.
#[inline]
fn change<R>(lanes: &mut Lanes, place: Place, change: impl FnOnce(&mut List) -> R) -> R {
    let queue = lanes.queue_mut(place);
    let was_empty = queue.count() == 0;
    let changed = change(queue);
    let is_empty = queue.count() == 0;
    if was_empty != is_empty {
        lanes.note_use(place, !is_empty);
    }
    changed
}

/// How many items a step of a walk looks at.
const LOOKS_MAX: usize = 64;

/// What a step of a search came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VictimStep<T = Place> {
    /// The queue whose last item is to be evicted: it is unpinned and still queued.
    Found(T),
    /// None yet: the class may be unlocked before the next step.
    Further,
    /// The class has no item that could be evicted.
    Nothing,
}

/// A search for a victim, step by step.
#[derive(Debug, Default)]
pub struct VictimSearch {
    /// Whether the order has been asked: its candidate is pinned, or there is none.
    is_walking: bool,
    /// The lane that is being walked, and those before it that were passed.
    lane: Option<Lane>,
    /// Queues of it that were passed as a whole, of [`COLDEST_FIRST`].
    queues_passed: usize,
    /// Pinned items of the next queue that were passed.
    items_passed: u64,
}

impl VictimSearch {
    pub fn step(&mut self, class: &mut ClassState, now: Ticks) -> VictimStep {
        if !self.is_walking {
            match class.choose_victim(now) {
                VictimStep::Nothing => self.is_walking = true,
                step => return step,
            }
        }
        for _ in 0..LOOKS_MAX {
            let from = self.lane.unwrap_or_default();
            let Some(lane) = class.lanes.next_from(from) else {
                return VictimStep::Nothing;
            };
            if self.lane != Some(lane) {
                (self.lane, self.queues_passed, self.items_passed) = (Some(lane), 0, 0);
            }
            let Some(&queue) = COLDEST_FIRST.get(self.queues_passed) else {
                (self.lane, self.queues_passed) = (Some(Lane(lane.0 + 1)), 0);
                continue;
            };
            let place = Place { lane, queue };
            match class.tail(place) {
                Some(tail) if self.items_passed < class.lanes.queue(place).count() => {
                    if tail.is_unpinned() {
                        return VictimStep::Found(place);
                    }
                    class.counters.tail_pinned += 1;
                    class.apply(Move::within(lane, queue, queue));
                    self.items_passed += 1;
                }
                _ => (self.queues_passed, self.items_passed) = (self.queues_passed + 1, 0),
            }
        }
        VictimStep::Further
    }
}

impl ClassState {
    #[inline]
    pub fn tail(&self, place: Place) -> Option<Queued<'_>> {
        self.lanes.queue(place).tail(self.pages.token())
    }

    /// Where the search for a victim begins: the coldest item but for pins and hits.
    pub fn coldest(&self, now: Ticks) -> Option<Queued<'_>> {
        self.tail(dispatch!(&self.order, coldest(&self.view(), now))?)
    }

    /// The item that the order gives up, after the moves that come before; `Nothing` if it is pinned, too.
    fn choose_victim(&mut self, now: Ticks) -> VictimStep {
        self.note_costs();
        let mut moves = 0;
        loop {
            let (order, view) = self.order_and_view();
            match dispatch!(order, victim(&view, moves, now)) {
                Victim::Evict(place) => {
                    let is_unpinned = self.tail(place).is_some_and(Queued::is_unpinned);
                    return if is_unpinned {
                        VictimStep::Found(place)
                    } else {
                        VictimStep::Nothing
                    };
                }
                Victim::Move(step) => self.apply(step),
                Victim::Further => return VictimStep::Further,
                Victim::Nothing => return VictimStep::Nothing,
            }
            moves += 1;
        }
    }

    fn note_costs(&mut self) {
        let are_apart = dispatch!(&self.order, costs_are_apart(&self.view()));
        if self.costs_are_apart.load(Relaxed) != are_apart {
            self.costs_are_apart.store(are_apart, Relaxed);
        }
    }
}
