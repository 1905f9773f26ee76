//! A class: its pages, their free chunks and its queues, under one lock.
//!
//! A [`Class`] exists for every class number that a class table may use. `space/change.rs` changes which classes are in
//! the current table, and their chunk sizes.
//!
//! All chained items are in the queues of [`CHAINED`], a class without chunks. So the order in which chained items are
//! evicted does not change when a new class table changes the classes of their heads and bodies.
//!
//! The order of a class (`evict`) is the state of its eviction kind. The order reads the queues and decides which item
//! is evicted or moved. The class then evicts or moves the item (`class/queues.rs`).
//!
//! Invariants while the lock is held:
//!
//! - `used + free == pages * chunks_per_page`, where `pages` includes draining pages.
//! - An item in a queue is linked.
//! - The queues of a class hold only items on pages that the class owns. The queues of `CHAINED` hold only chained
//!   items.
//! - The invariants of the lists in `heap.rs` and `mem/list.rs`.

mod queues;
mod spare_limits;

use crate::counted_lock::{CountedGuard, CountedLock, LockCounts};
use crate::evict::{
    ClassOrder, ItemCosts, ItemSizes, Lanes, Order, Position, QueueSplit, Segments, dispatch,
};
use crate::heap::ClassChoice;
use crate::heap::Pages;
pub use crate::layout::{CHAINED, CLASS_NUMBERS, TABLE_NUMBERS};
use crate::mem::{
    Broken, ClassToken, List, OwnedChunk, PageImage, QueueKind, Restore, Takeover, UnusedPage,
};
use crate::stats::ClassCounters;
use slabwise_base::density::Densities;
use slabwise_base::{ClassId, PageId, Seconds, WorkTime};
pub use spare_limits::SpareLimits;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The status of a class.
///
/// ```text
///   VACANT --establish--> PRESENT --retire--> RETIRED --the last page leaves--> VACANT
///     ^                     | ^                  |
///     '------ no page ------' '----- revive -----'
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClassStatus {
    /// The class is in no class table and owns no page. So its chunk size may change.
    Vacant,
    /// The class is in the current class table.
    Present,
    /// The class is only in an earlier class table. It receives no items and no pages, and its pages are drained.
    Retired,
}

/// The result of one step of a search for the next item to evict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VictimStep<T = Position> {
    /// The item to evict is at this position. It has no pins and is still in its queue.
    Found(T),
    /// The search needs another step. The caller may unlock the class before this step.
    Continue,
    /// The class has no item that can be evicted now.
    Nothing,
}

/// The data that the lock of a class protects.
#[derive(Debug)]
pub struct ClassState {
    /// The pages of the class and their free chunks.
    pub pages: Pages,
    status: ClassStatus,
    /// The queues of the class.
    pub lanes: Lanes,
    /// Statistics of the sizes of the items in the queues.
    pub sizes: ItemSizes,
    /// Statistics of the costs of the items in the queues.
    pub costs: ItemCosts,
    /// The state of the eviction kind for this class.
    order: ClassOrder,
    /// The rules for the hot, warm and cold queues. After a switch to exact LRU order, an item moves to COLD only when
    /// it reaches a tail or is hit.
    segments: Segments,
    /// The limits of spare chunks of all classes. This class sets its own.
    spare_limits: Arc<SpareLimits>,
    /// The value that [`Class::costs_differ_widely`] returns.
    costs_differ_widely: Arc<AtomicBool>,
    /// The second in which `counters.evicted_age_seconds` was last set.
    pub evicted_age_set_at: Seconds,
    /// Counters since the start. If several classes have had this number one after the other, the counters are sums
    /// over these classes.
    pub counters: ClassCounters,
}

/// A class and its lock. Two classes are never in the same cache line, to avoid false sharing.
#[derive(Debug)]
#[repr(align(128))]
pub struct Class {
    state: CountedLock<ClassState>,
    /// The value that [`Class::costs_differ_widely`] returns. The [`ClassState`] shares this value, and changes it
    /// under the lock.
    costs_differ_widely: Arc<AtomicBool>,
}

impl Class {
    /// Returns a vacant class.
    pub fn vacant(
        token: ClassToken,
        order: ClassOrder,
        segments: Segments,
        spare_limits: Arc<SpareLimits>,
    ) -> Class {
        let costs_differ_widely = Arc::new(AtomicBool::new(false));
        let state = ClassState {
            pages: Pages::new(token),
            status: ClassStatus::Vacant,
            lanes: Lanes::default(),
            sizes: ItemSizes::default(),
            costs: ItemCosts::default(),
            order,
            segments,
            spare_limits,
            costs_differ_widely: Arc::clone(&costs_differ_widely),
            evicted_age_set_at: Seconds::default(),
            counters: ClassCounters::default(),
        };
        Class { state: CountedLock::new(state), costs_differ_widely }
    }

    /// Returns true if the costs of the class's items differed so widely at its last eviction that every hit should
    /// mark its item as active. The answer may be out of date, because this function does not lock the class.
    #[inline]
    pub fn costs_differ_widely(&self) -> bool {
        self.costs_differ_widely.load(Relaxed)
    }

    #[inline]
    pub fn lock(&self) -> CountedGuard<'_, ClassState> {
        self.state.lock()
    }

    /// Locks the class without counting this, for statistics and for a new engine.
    pub fn lock_uncounted(&self) -> CountedGuard<'_, ClassState> {
        self.state.lock_uncounted()
    }

    /// Returns the counts of the lock.
    pub fn lock_counts(&self) -> LockCounts {
        self.state.counts()
    }
}

impl ClassState {
    pub fn id(&self) -> ClassId {
        self.pages.token.class()
    }

    pub fn status(&self) -> ClassStatus {
        self.status
    }

    /// Returns true if the class is in the current table and has the chunk size that it had when `choice` was made.
    #[inline(always)]
    pub fn accepts(&self, choice: ClassChoice) -> bool {
        self.status == ClassStatus::Present && self.chunk_size_bytes() == choice.chunk_size_bytes
    }

    /// Marks a vacant class as one of the current table, with this chunk size.
    pub fn establish(&mut self, chunk_size_bytes: usize) {
        assert_eq!(self.status, ClassStatus::Vacant, "a class that is established is vacant");
        self.pages.token.set_chunk_size(chunk_size_bytes);
        self.sizes = ItemSizes::default();
        dispatch!(&mut self.order, forget());
        self.status = ClassStatus::Present;
    }

    /// Marks the class as one that is not in the current table any more. The class becomes retired, or vacant if it
    /// owns no page.
    pub fn retire(&mut self) {
        assert_eq!(self.status, ClassStatus::Present, "a class that is retired is in the table");
        self.status = if self.pages.token.page_count() == 0 {
            ClassStatus::Vacant
        } else {
            ClassStatus::Retired
        };
        self.limit_spares();
    }

    /// Marks a retired class as one of the current table.
    pub fn revive(&mut self) {
        assert_eq!(self.status, ClassStatus::Retired, "a class that is revived is retired");
        self.status = ClassStatus::Present;
        self.limit_spares();
    }

    /// Makes a class of the current table the owner of an unused page. Returns the page's id.
    pub fn adopt(&mut self, page: UnusedPage) -> PageId {
        assert_eq!(self.status, ClassStatus::Present, "a class that takes a page is in the table");
        let id = self.pages.adopt(page);
        self.counters.pages_taken += 1;
        self.limit_spares();
        id
    }

    /// Begins to restore a page that the class owned before the restart.
    pub fn begin_restore(&mut self, restore: &mut Restore, page: UnusedPage) {
        self.pages.begin_restore(restore, page);
        self.limit_spares();
    }

    /// Makes the class the owner of a page that it owned in another process.
    pub fn resume_page(
        &mut self,
        takeover: &mut Takeover,
        page: UnusedPage,
        image: PageImage,
    ) -> Result<(), Broken> {
        self.pages.resume(takeover, page, image)?;
        self.limit_spares();
        Ok(())
    }

    /// Releases a draining page. A retired class becomes vacant with its last page. Panics if a chunk of the page is in
    /// use.
    pub fn release_page(&mut self, id: PageId) -> UnusedPage {
        let page = self.pages.release_page(id);
        self.note_released();
        page
    }

    /// Frees `chunks` and releases their page. A retired class becomes vacant with its last page. Panics if any other
    /// chunk of the page is in use.
    pub fn release_page_with(&mut self, id: PageId, chunks: Vec<OwnedChunk>) -> UnusedPage {
        let page = self.pages.release_page_with(id, chunks);
        self.note_released();
        page
    }

    /// Counts a released page. Marks a retired class as vacant if it owns no page, and limits the spare chunks to the
    /// chunks that are left.
    fn note_released(&mut self) {
        self.counters.pages_released += 1;
        if self.pages.token.page_count() == 0 && self.status == ClassStatus::Retired {
            self.status = ClassStatus::Vacant;
        }
        self.limit_spares();
    }

    /// Sets the limit of spare chunks. Nothing is spare in exact LRU order, and in a class that is not in the table.
    fn limit_spares(&self) {
        let may_be_spare = self.status == ClassStatus::Present && !self.segments.is_exact;
        let chunk_count = if may_be_spare { self.pages.chunk_count() } else { 0 };
        self.spare_limits.set(self.id(), self.chunk_size_bytes(), chunk_count);
    }

    /// Changes the rules for the hot, warm and cold queues.
    pub fn set_segments(&mut self, segments: Segments) {
        self.segments = segments;
        self.limit_spares();
    }

    /// True if the class is in exact LRU order.
    pub fn is_exact(&self) -> bool {
        self.segments.is_exact
    }

    #[inline]
    pub fn chunk_size_bytes(&self) -> usize {
        self.pages.token.chunk_size_bytes()
    }

    /// Returns the number of chunks in use that hold no item of the class's queues. These are heads and bodies of
    /// chained items, unpublished chunks, and items that were removed from their queue.
    pub fn unqueued_count(&self) -> u64 {
        self.pages.used_count()
            - QueueKind::ALL.map(|kind| self.lanes.count(kind)).iter().sum::<u64>()
    }

    /// Returns the sum of the sizes of the items in the class's queues, in bytes.
    pub fn item_bytes(&self) -> u64 {
        QueueKind::ALL.map(|kind| self.lanes.bytes(kind)).iter().sum()
    }

    /// Returns the inflation of the order, or 0 if the order has none.
    pub fn inflation(&self) -> u32 {
        dispatch!(&self.order, inflation())
    }

    /// Divides the queue of the class in two, if the eviction kind can divide it.
    pub fn divide_queue(&mut self, split: QueueSplit) {
        dispatch!(&mut self.order, divide(split));
    }

    /// Returns the part of the order's state that a stop saves for the next start.
    pub fn saved_order(&self) -> [u32; 3] {
        dispatch!(&self.order, saved())
    }

    /// Restores the part of the order's state that [`ClassState::saved_order`] returned before a restart.
    pub fn restore_order(&mut self, saved: [u32; 3]) {
        dispatch!(&mut self.order, restore(saved));
    }

    /// Sets the hit densities and the mean of the known costs of all classes, for an order that ranks items by them.
    pub fn set_densities(&mut self, densities: &Arc<Densities>, mean_cost_units: Option<u64>) {
        dispatch!(&mut self.order, set_densities(densities, mean_cost_units));
    }

    /// Returns the tail age of a kind of queue, in units of the work clock: the largest tail age in any lane. If the
    /// order does not evict from tails, returns its estimate of the age at which it evicts the next item. Returns
    /// `None` if the class has no item in queues of this kind.
    pub fn tail_age(&self, queue: QueueKind, now: WorkTime) -> Option<u32> {
        if self.lanes.count(queue) == 0 {
            return None;
        }
        if let Some(age) = dispatch!(&self.order, eviction_age(&self.view(), now)) {
            return Some(age);
        }
        let tail = |list: &List| list.tail(&self.pages.token);
        let tails = self.lanes.queues(queue).filter_map(tail);
        tails.map(|tail| tail.time().age_at(now)).max()
    }

    /// Returns the largest tail age of all queues, in units of the work clock, or `None` if the class has no queued item.
    pub fn oldest_tail_age(&self, now: WorkTime) -> Option<u32> {
        QueueKind::ALL.into_iter().filter_map(|kind| self.tail_age(kind, now)).max()
    }
}
