//! A class: its pages, their free chunks and its queues, under one lock.
//!
//! Chained items have queues of their own: those of [`CHAINED`], a class without chunks. So which item of
//! theirs leaves next does not depend on the class table, whose classes hold their heads and bodies.
//!
//! There is a class for every number that a table may use. Which of them stand in the present table, and
//! with which chunk size, changes while the cache serves: `space/change.rs`.
//!
//! Which item leaves next is the matter of the class's order (`evict`): the class shows it the queues and
//! applies what it answers.
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

/// What a class's number stands for at the moment.
///
/// ```text
///   VACANT --establish--> PRESENT --retire--> RETIRED --the last page leaves--> VACANT
///     ^                     | ^                  |
///     '------ no page ------' '----- revive -----'
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// For nothing: it owns no page, and may get another chunk size.
    Vacant,
    /// For a class of the present table.
    Present,
    /// For a class of an earlier table, whose pages drain: it takes no item and no page.
    Retired,
}

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

/// What a class's lock protects.
#[derive(Debug)]
pub struct ClassState {
    /// Its pages, and its token.
    pub pages: Pages,
    standing: Standing,
    pub lanes: Lanes,
    /// Of what is in them.
    pub sizes: ItemSizes,
    pub costs: ItemCosts,
    order: ClassOrder,
    /// The rules in force for hot, warm and cold; items move to their new places as they are met.
    pub segments: Segments,
    /// [`Class::costs_are_apart`].
    costs_are_apart: Arc<AtomicBool>,
    /// What its number has counted, for all its classes.
    pub counters: ClassCounters,
}

/// A class and its lock, on lines of its own.
#[derive(Debug)]
#[repr(align(128))]
pub struct Class {
    state: Mutex<ClassState>,
    costs_are_apart: Arc<AtomicBool>,
}

impl Class {
    /// A class without pages, for nothing yet.
    pub fn vacant(token: ClassToken, order: ClassOrder, segments: Segments) -> Class {
        let costs_are_apart = Arc::new(AtomicBool::new(false));
        let state = ClassState {
            pages: Pages::new(token),
            standing: Standing::Vacant,
            lanes: Lanes::default(),
            sizes: ItemSizes::default(),
            costs: ItemCosts::default(),
            order,
            segments,
            costs_are_apart: Arc::clone(&costs_are_apart),
            counters: ClassCounters::default(),
        };
        Class { state: Mutex::new(state), costs_are_apart }
    }

    /// Whether the costs of its items were far apart when it last gave one up. A hint.
    #[inline]
    pub fn costs_are_apart(&self) -> bool {
        self.costs_are_apart.load(Relaxed)
    }

    pub fn lock(&self) -> MutexGuard<'_, ClassState> {
        lock(&self.state)
    }
}

impl ClassState {
    pub fn id(&self) -> ClassId {
        self.pages.token.class()
    }

    pub fn standing(&self) -> Standing {
        self.standing
    }

    /// Whether it takes what was meant for it when the table was read.
    #[inline(always)]
    pub fn accepts(&self, choice: Choice) -> bool {
        self.standing == Standing::Present && self.chunk_size_bytes() == choice.chunk_size_bytes
    }

    /// Lets a vacant number stand for a class of the table.
    pub fn establish(&mut self, chunk_size_bytes: usize) {
        assert_eq!(self.standing, Standing::Vacant, "only a vacant number stands for a new class");
        self.pages.token.set_chunk_size(chunk_size_bytes);
        self.sizes = ItemSizes::default();
        dispatch!(&mut self.order, forget());
        self.standing = Standing::Present;
    }

    /// Takes the class out of the table.
    pub fn retire(&mut self) {
        assert_eq!(self.standing, Standing::Present, "only a class of the table is retired");
        self.standing =
            if self.pages.token.page_count() == 0 { Standing::Vacant } else { Standing::Retired };
    }

    /// Takes a retired class into the table again.
    pub fn revive(&mut self) {
        assert_eq!(self.standing, Standing::Retired, "only a retired class is revived");
        self.standing = Standing::Present;
    }

    /// Takes an empty page. The class is one of the present table.
    pub fn adopt(&mut self, page: UnusedPage) -> PageId {
        assert_eq!(self.standing, Standing::Present, "only a class of the table gets a page");
        self.pages.adopt(page)
    }

    /// Parts with a draining page that is empty.
    pub fn part_with(&mut self, id: PageId) -> UnusedPage {
        let page = self.pages.part_with(id);
        self.note_parting();
        page
    }

    pub fn part_with_cut(&mut self, id: PageId, chunks: Vec<OwnedChunk>) -> UnusedPage {
        let page = self.pages.part_with_cut(id, chunks);
        self.note_parting();
        page
    }

    fn note_parting(&mut self) {
        if self.pages.token.page_count() == 0 && self.standing == Standing::Retired {
            self.standing = Standing::Vacant;
        }
    }

    #[inline]
    pub fn chunk_size_bytes(&self) -> usize {
        self.pages.token.chunk_size_bytes()
    }

    /// Chunks in use that hold no item of its queues: heads and bodies of chained items, and chunks that are
    /// owned.
    pub fn unqueued_count(&self) -> u64 {
        self.pages.used_count()
            - QueueKind::ALL.map(|kind| self.lanes.count(kind)).iter().sum::<u64>()
    }

    /// Counted bytes in all its queues.
    pub fn item_bytes(&self) -> u64 {
        QueueKind::ALL.map(|kind| self.lanes.bytes(kind)).iter().sum()
    }

    /// What a restart keeps of its order.
    pub fn saved_order(&self) -> [u32; 3] {
        dispatch!(&self.order, saved())
    }

    /// Continues its order from what a restart kept.
    pub fn restore_order(&mut self, saved: [u32; 3]) {
        dispatch!(&mut self.order, restore(saved));
    }

    /// The age of a queue's tail, in ticks; of several lanes' the oldest.
    pub fn tail_age(&self, queue: QueueKind, now: Ticks) -> Option<u32> {
        let tail = |list: &List| list.tail(&self.pages.token);
        let tails = self.lanes.queues(queue).filter_map(tail);
        tails.map(|tail| tail.time().age_at(now)).max()
    }

    /// The age of the oldest of its tails, in ticks.
    pub fn oldest_tail_age(&self, now: Ticks) -> Option<u32> {
        QueueKind::ALL.into_iter().filter_map(|kind| self.tail_age(kind, now)).max()
    }

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
        let token = &mut self.pages.token;
        change(&mut self.lanes, place, |list| {
            list.insert_by_age(token, item, place.queue, size_bytes)
        });
        self.balance_after(place);
    }

    /// Queues the copy of a queued item in its place; both are of one size. `Some`: nobody pins the old one.
    pub fn replace(&mut self, old: Removed, new: Entered<'_>) -> Option<Remains> {
        let item = old.queued(&self.pages.token).expect("a queued item is replaced");
        let place = self.place_of(item);
        let token = &mut self.pages.token;
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
            Hit::Rank(rank) => return entry.meta_right(&mut self.pages.token).set_rank(rank),
            Hit::Enter(to, is_counted) => (to, is_counted),
        };
        // The rank may decide about the lane: the old one is read before it changes.
        let from = self.place_of(entry.item().without_value());
        if let Some(rank) = to.rank {
            entry.meta_right(&mut self.pages.token).set_rank(rank);
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
        let Some(queued) = item.queued(&self.pages.token) else {
            return item.unlink(self.pages.token.memory());
        };
        let place = self.place_of(queued);
        let counted = (queued.counted_size_bytes(), queued.cost());
        self.take_out(place, counted, |list, token, size_bytes| {
            list.unlink(token, item, size_bytes)
        })
    }

    /// Takes the last item of a queue out and pins it, so that it can be removed without this lock.
    pub fn detach_tail(&mut self, place: Place) -> Option<Pin> {
        let item = self.tail(place)?;
        let counted = (item.counted_size_bytes(), item.cost());
        self.take_out(place, counted, List::detach_tail)
    }

    /// Takes a pinned item out of its queue, and pins it once more.
    pub fn detach_pinned(&mut self, pin: &Pin) -> Pin {
        let item = self.pages.token.queued_pinned(pin).expect("the item is queued here");
        let (place, counted) = (self.place_of(item), (item.counted_size_bytes(), item.cost()));
        self.take_out(place, counted, |list, token, size_bytes| {
            list.detach_pinned(token, pin, size_bytes)
        })
    }

    /// Lets an item of this size and cost, which `take` takes out, leave its queue.
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

    /// Makes a move that the order wants.
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

    /// Where the search for a victim begins: the coldest item but for pins and hits.
    pub fn coldest(&self, now: Ticks) -> Option<Queued<'_>> {
        self.tail(dispatch!(&self.order, coldest(&self.view(), now))?)
    }

    /// The item that the order gives up, after the moves that come before; `Nothing` if it is pinned, too.
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
