//! A class: its pages, their free chunks and its queues, under one lock.
//!
//! Chained items are queued in [`CHAINED`], a class without chunks: the classes that hold their heads and
//! bodies change with the class table, but the order in which chained items are evicted does not.
//!
//! There is a class for every number that a table may use. `space/change.rs` changes which of them are in the
//! current table, and their chunk sizes.
//!
//! The class's order (`evict`) chooses the item to evict: it reads the queues, and the class applies its
//! decisions.
//!
//! Invariants (under the lock): `used + free == pages * chunks_per_page` over owned and draining pages; every
//! queued item is linked; an item is queued in the class of its chunk, a chained one in `CHAINED`; the
//! invariants of the lists in `heap.rs` and `mem/list.rs`.

use crate::evict::{
    ClassOrder, Entry as OrderEntry, Hit, ItemCosts, ItemSizes, Lane, Lanes, Move, Order, Place,
    Segments, Victim, View, dispatch,
};
use crate::heap::Choice;
use crate::heap::Pages;
use crate::layout::ChunkAddress;
pub use crate::layout::{CHAINED, CLASS_NUMBERS};
use crate::mem::{
    Broken, ClassToken, Entered, Entry, List, OwnedChunk, Pin, QueueKind, Queued, Remains, Removed,
    Restore, Unqueued, UnusedPage,
};
use crate::stats::ClassCounters;
use slabwise_base::sync::{Mutex, MutexGuard, lock};
use slabwise_base::{ClassId, Cost, PageId, Ticks};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

pub const TABLE_NUMBERS: usize = if cfg!(loom) { 4 } else { ClassId::NUMBERS };

/// The state of a class number.
///
/// ```text
///   VACANT --establish--> PRESENT --retire--> RETIRED --the last page leaves--> VACANT
///     ^                     | ^                  |
///     '------ no page ------' '----- revive -----'
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClassStatus {
    /// Unused: the class owns no page, and its chunk size may change.
    Vacant,
    /// In the current table.
    Present,
    /// In an earlier table only: its pages drain, and it accepts no item and no page.
    Retired,
}

/// The result of one step of a search for a victim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VictimStep<T = Place> {
    /// The victim is the last item of this queue; it is unpinned and still queued.
    Found(T),
    /// The search continues; the class may be unlocked before the next step.
    Continue,
    /// The class has no item that can be evicted.
    Nothing,
}

/// The data that a class's lock protects.
#[derive(Debug)]
pub struct ClassState {
    pub pages: Pages,
    status: ClassStatus,
    pub lanes: Lanes,
    pub sizes: ItemSizes,
    pub costs: ItemCosts,
    order: ClassOrder,
    /// The limits of hot, warm and cold. After a change, an item moves when it reaches a tail or is hit.
    pub segments: Segments,
    /// [`Class::costs_differ_widely`].
    costs_differ_widely: Arc<AtomicBool>,
    /// Counters of all classes that have had this number.
    pub counters: ClassCounters,
}

/// A class and its lock, aligned to cache lines of its own.
#[derive(Debug)]
#[repr(align(128))]
pub struct Class {
    state: Mutex<ClassState>,
    costs_differ_widely: Arc<AtomicBool>,
}

impl Class {
    pub fn vacant(token: ClassToken, order: ClassOrder, segments: Segments) -> Class {
        let costs_differ_widely = Arc::new(AtomicBool::new(false));
        let state = ClassState {
            pages: Pages::new(token),
            status: ClassStatus::Vacant,
            lanes: Lanes::default(),
            sizes: ItemSizes::default(),
            costs: ItemCosts::default(),
            order,
            segments,
            costs_differ_widely: Arc::clone(&costs_differ_widely),
            counters: ClassCounters::default(),
        };
        Class { state: Mutex::new(state), costs_differ_widely }
    }

    /// True if the costs of its items differed widely at its last eviction. A hint.
    #[inline]
    pub fn costs_differ_widely(&self) -> bool {
        self.costs_differ_widely.load(Relaxed)
    }

    pub fn lock(&self) -> MutexGuard<'_, ClassState> {
        lock(&self.state)
    }
}

impl ClassState {
    pub fn id(&self) -> ClassId {
        self.pages.token.class()
    }

    pub fn status(&self) -> ClassStatus {
        self.status
    }

    /// True if the class is still the one that `choice` was read for.
    #[inline(always)]
    pub fn accepts(&self, choice: Choice) -> bool {
        self.status == ClassStatus::Present && self.chunk_size_bytes() == choice.chunk_size_bytes
    }

    /// Adds a vacant class to the table, with this chunk size.
    pub fn establish(&mut self, chunk_size_bytes: usize) {
        assert_eq!(self.status, ClassStatus::Vacant, "only a vacant number can get a new class");
        self.pages.token.set_chunk_size(chunk_size_bytes);
        self.sizes = ItemSizes::default();
        dispatch!(&mut self.order, forget());
        self.status = ClassStatus::Present;
    }

    /// Removes the class from the table.
    pub fn retire(&mut self) {
        assert_eq!(self.status, ClassStatus::Present, "only a class of the table can be retired");
        self.status = if self.pages.token.page_count() == 0 {
            ClassStatus::Vacant
        } else {
            ClassStatus::Retired
        };
    }

    /// Returns a retired class to the table.
    pub fn revive(&mut self) {
        assert_eq!(self.status, ClassStatus::Retired, "only a retired class can be revived");
        self.status = ClassStatus::Present;
    }

    /// Adds an empty page to a class of the current table.
    pub fn adopt(&mut self, page: UnusedPage) -> PageId {
        assert_eq!(self.status, ClassStatus::Present, "only a class of the table can get a page");
        self.pages.adopt(page)
    }

    /// Releases a draining page that is empty.
    pub fn release_page(&mut self, id: PageId) -> UnusedPage {
        let page = self.pages.release_page(id);
        self.vacate_without_pages();
        page
    }

    /// Releases a page all of whose used chunks are `chunks`.
    pub fn release_page_with(&mut self, id: PageId, chunks: Vec<OwnedChunk>) -> UnusedPage {
        let page = self.pages.release_page_with(id, chunks);
        self.vacate_without_pages();
        page
    }

    fn vacate_without_pages(&mut self) {
        if self.pages.token.page_count() == 0 && self.status == ClassStatus::Retired {
            self.status = ClassStatus::Vacant;
        }
    }

    #[inline]
    pub fn chunk_size_bytes(&self) -> usize {
        self.pages.token.chunk_size_bytes()
    }

    /// The number of used chunks that hold no queued item: heads and bodies of chained items, and unpublished
    /// chunks.
    pub fn unqueued_count(&self) -> u64 {
        self.pages.used_count()
            - QueueKind::ALL.map(|kind| self.lanes.count(kind)).iter().sum::<u64>()
    }

    /// The counted bytes of all its queued items.
    pub fn item_bytes(&self) -> u64 {
        QueueKind::ALL.map(|kind| self.lanes.bytes(kind)).iter().sum()
    }

    /// The state of its order that survives a restart.
    pub fn saved_order(&self) -> [u32; 3] {
        dispatch!(&self.order, saved())
    }

    /// Restores the state of its order after a restart.
    pub fn restore_order(&mut self, saved: [u32; 3]) {
        dispatch!(&mut self.order, restore(saved));
    }

    /// The age of a queue's tail, in ticks; the oldest of all lanes.
    pub fn tail_age(&self, queue: QueueKind, now: Ticks) -> Option<u32> {
        let tail = |list: &List| list.tail(&self.pages.token);
        let tails = self.lanes.queues(queue).filter_map(tail);
        tails.map(|tail| tail.time().age_at(now)).max()
    }

    /// The age of the oldest of its tails, in ticks.
    pub fn oldest_tail_age(&self, now: Ticks) -> Option<u32> {
        QueueKind::ALL.into_iter().filter_map(|kind| self.tail_age(kind, now)).max()
    }

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

    /// Restores a queue of an earlier process, beginning at its tail; returns the number of its items.
    pub fn restore_queue(
        &mut self,
        restore: &mut Restore,
        place: Place,
        tail: Option<ChunkAddress>,
    ) -> Result<u64, Broken> {
        let ClassState { order, sizes, costs, pages, .. } = self;
        let list = restore.list(&mut pages.token, (tail, place.queue), |item| {
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

    /// Queues an item that was just added to the index, as the newest of `queue` unless the order chooses
    /// another queue.
    pub fn enqueue(&mut self, mut item: Entered<'_>, queue: QueueKind) {
        let OrderEntry { place, .. } = self.enter(&mut item, queue);
        self.queue_newest(item, place);
    }

    /// Queues an item that was moved here from another class, in `queue`, by its age.
    pub fn enqueue_carried(&mut self, mut item: Entered<'_>, queue: QueueKind) {
        let OrderEntry { place, rank, .. } = self.enter(&mut item, queue);
        if rank.is_some() {
            // Ranks of different classes are not comparable, so it is ranked as a new item.
            return self.queue_newest(item, place);
        }
        let size_bytes = self.count_entering(item.item().without_value());
        let token = &mut self.pages.token;
        change(&mut self.lanes, place, |list| {
            list.insert_by_age(token, item, place.queue, size_bytes)
        });
        self.balance_after(place);
    }

    /// Replaces a queued item by its copy, which has the same size. `Some`: the old item is unpinned.
    pub fn replace(&mut self, old: Removed, new: Entered<'_>) -> Option<Remains> {
        let item = old.queued(&self.pages.token).expect("the replaced item is queued");
        let place = self.place_of(item);
        let token = &mut self.pages.token;
        change(&mut self.lanes, place, |list| list.take_place(token, old, new))
    }

    /// Ranks an item that is to enter `queue`, and moves the item that it displaces.
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
        // The next item that enters will displace this one.
        if let Some(next) = self.lanes.queue(displaced.from).tail_address() {
            self.pages.token.memory().prefetch_item(next);
        }
    }

    fn queue_newest(&mut self, item: Entered<'_>, place: Place) {
        let size_bytes = self.count_entering(item.item().without_value());
        let token = &mut self.pages.token;
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

    /// Checks the tails of every lane once, and moves items that are too old or beyond their queue's share.
    /// Returns true if an item moved.
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

    /// Reorders an item after a hit, in eviction kinds where a hit does that.
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
        // The lane may depend on the rank, so it is read before the rank changes.
        let from = self.place_of(entry.item().without_value());
        if let Some(rank) = to.rank {
            entry.meta_access(&mut self.pages.token).set_rank(rank);
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

    /// Reports to the order that the last item of a queue is evicted.
    pub fn note_evicted(&mut self, place: Place, now: Ticks) {
        let (order, view) = self.order_and_view();
        if let Some(item) = view.tail(place) {
            dispatch!(order, note_evicted(&view, item, now));
        }
    }

    /// Unlinks an item that was removed from the index, and removes it from its queue if it is in one. `Some`: it
    /// is unpinned, and the caller frees it.
    pub fn unlink(&mut self, item: Removed) -> Option<Remains> {
        let Some(queued) = item.queued(&self.pages.token) else {
            return item.unlink(self.pages.token.memory());
        };
        let place = self.place_of(queued);
        let counted = (queued.counted_size_bytes(), queued.cost());
        self.take_out(place, counted, |list, token, size_bytes| {
            list.unlink(token, item, size_bytes)
        })
    }

    /// Removes the last item from a queue and pins it, so that it can be unlinked without this lock.
    pub fn detach_tail(&mut self, place: Place) -> Option<Pin> {
        let item = self.tail(place)?;
        let counted = (item.counted_size_bytes(), item.cost());
        self.take_out(place, counted, List::detach_tail)
    }

    /// Removes a pinned item from its queue, and pins it once more.
    pub fn detach_pinned(&mut self, pin: &Pin) -> Pin {
        let item = self.pages.token.queued_pinned(pin).expect("the item is queued here");
        let (place, counted) = (self.place_of(item), (item.counted_size_bytes(), item.cost()));
        self.take_out(place, counted, |list, token, size_bytes| {
            list.detach_pinned(token, pin, size_bytes)
        })
    }

    /// Removes an item of this size and cost from its queue by calling `take`.
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

    /// Makes a move that the order decided on.
    pub fn apply(&mut self, Move { from, to, is_counted }: Move) {
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

    /// Moves a queued item of this size, which `take` removes, to the head of another queue or of its own.
    #[inline]
    fn shift(
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

    #[inline]
    fn note_tail(&mut self, lane: Lane) {
        let (order, view) = self.order_and_view();
        dispatch!(order, note_tail(&view, lane));
    }

    #[inline]
    pub fn tail(&self, place: Place) -> Option<Queued<'_>> {
        self.lanes.queue(place).tail(&self.pages.token)
    }

    /// The item with which the search for a victim begins: the coldest, apart from pins and hits.
    pub fn coldest(&self, now: Ticks) -> Option<Queued<'_>> {
        self.tail(dispatch!(&self.order, coldest(&self.view(), now))?)
    }

    /// Makes the moves that the order requires first, and returns its victim; `Nothing` also if that is pinned.
    pub fn choose_victim(&mut self, now: Ticks) -> VictimStep {
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
                Victim::Continue => return VictimStep::Continue,
                Victim::Nothing => return VictimStep::Nothing,
            }
            moves += 1;
        }
    }

    fn note_costs(&mut self) {
        let differ = dispatch!(&self.order, costs_differ_widely(&self.view()));
        if self.costs_differ_widely.load(Relaxed) != differ {
            self.costs_differ_widely.store(differ, Relaxed);
        }
    }
}

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
