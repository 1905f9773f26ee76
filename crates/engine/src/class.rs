//! A class: its pages, their free chunks and its queues, under one lock.
//!
//! Chained items have queues of their own: those of [`CHAINED`], a class without chunks. So which item of
//! theirs leaves next does not depend on the class table, whose classes hold their heads and bodies.
//!
//! There is a class for every number that a table may use. Which of them stand in the present table, and
//! with which chunk size, changes while the cache serves: `space/change.rs`.
//!
//! Which item leaves next is the matter of the class's order (`evict`): the class shows it the queues and
//! applies what it answers (`class/queues.rs`).
//!
//! Invariants (under the lock): `used + free == pages * chunks_per_page` over owned and draining pages; every
//! queued item is linked; an item is queued in the class of its chunk, a chained one in `CHAINED`; the
//! invariants of the lists in `heap.rs` and `mem/list.rs`.

mod queues;

use crate::counters::ClassCounters;
use crate::evict::{ClassOrder, ItemCosts, Lanes, Order, Segments, dispatch};
use crate::heap::Pages;
pub use crate::layout::{CHAINED, CLASS_NUMBERS};
use crate::mem::{ClassToken, List, OwnedChunk, QueueKind, UnusedPage};
use crate::size_map::Choice;
pub use queues::{VictimSearch, VictimStep};
use slabwise_base::size_histogram::bucket_of;
use slabwise_base::sync::{Mutex, MutexGuard, lock};
use slabwise_base::{ClassId, PageId, SizeHistogram, Ticks};
use std::cmp::Reverse;
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

/// How cold an item is; greater is colder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Coldness {
    age_ticks: u32,
    cas: Reverse<u64>,
}

/// What a class's lock protects.
#[derive(Debug)]
pub struct ClassState {
    /// Its pages, and its token.
    pub pages: Pages,
    standing: Standing,
    lanes: Lanes,
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

// The queues of a class are reached through its state alone.
impl ClassState {
    pub fn id(&self) -> ClassId {
        self.pages.class()
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
        self.pages.token_mut().set_chunk_size(chunk_size_bytes);
        self.sizes = ItemSizes::default();
        dispatch!(&mut self.order, forget());
        self.standing = Standing::Present;
    }

    /// Takes the class out of the table.
    pub fn retire(&mut self) {
        assert_eq!(self.standing, Standing::Present, "only a class of the table is retired");
        self.standing = if self.page_count() == 0 { Standing::Vacant } else { Standing::Retired };
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
        if self.page_count() == 0 && self.standing == Standing::Retired {
            self.standing = Standing::Vacant;
        }
    }

    #[inline]
    pub fn chunk_size_bytes(&self) -> usize {
        self.pages.chunk_size_bytes()
    }

    /// Pages it owns, draining ones included.
    pub fn page_count(&self) -> u32 {
        self.pages.count()
    }

    /// Chunks in use that hold no item of its queues: heads and bodies of chained items, and chunks that are
    /// owned.
    pub fn unqueued_count(&self) -> u64 {
        self.pages.used_count()
            - QueueKind::ALL.map(|kind| self.lanes.count(kind)).iter().sum::<u64>()
    }

    pub fn lanes(&self) -> &Lanes {
        &self.lanes
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
        let tail = |list: &List| list.tail(self.pages.token());
        let tails = self.lanes.queues(queue).filter_map(tail);
        tails.map(|tail| tail.time().age_at(now)).max()
    }

    /// The age of the oldest of its tails, in ticks.
    pub fn oldest_tail_age(&self, now: Ticks) -> Option<u32> {
        QueueKind::ALL.into_iter().filter_map(|kind| self.tail_age(kind, now)).max()
    }

    /// How cold the item is that the search for a victim looks at first: its age, and among equals the
    /// older store is colder. `None`: the class has no item.
    pub fn coldness(&self, now: Ticks) -> Option<Coldness> {
        let item = self.coldest(now)?;
        Some(Coldness { age_ticks: item.time().age_at(now), cas: Reverse(item.cas()) })
    }
}

/// Items by bucket of [`slabwise_base::size_histogram`]. Those of a class lie close together, just below its chunk
/// size, so what is counted of all of them takes little more than one histogram.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ItemSizes {
    /// The bucket that `items` begins with.
    first: usize,
    items: Vec<u64>,
}

impl ItemSizes {
    /// Counts an item that enters the queues.
    #[inline]
    pub fn add(&mut self, size_bytes: u64) {
        let bucket = bucket_of(size_bytes as usize);
        match self.items.get_mut(bucket.wrapping_sub(self.first)) {
            Some(items) => *items += 1,
            None => *self.grown(bucket) += 1,
        }
    }

    /// Counts one that leaves them, of the same size as it came with.
    #[inline]
    pub fn remove(&mut self, size_bytes: u64) {
        self.items[bucket_of(size_bytes as usize) - self.first] -= 1;
    }

    #[cold]
    fn grown(&mut self, bucket: usize) -> &mut u64 {
        if self.items.is_empty() {
            self.first = bucket;
        }
        if bucket < self.first {
            let before = std::iter::repeat_n(0, self.first - bucket);
            self.items.splice(..0, before);
            self.first = bucket;
        }
        let index = bucket - self.first;
        if index >= self.items.len() {
            self.items.resize(index + 1, 0);
        }
        &mut self.items[index]
    }

    pub fn add_to(&self, histogram: &mut SizeHistogram) {
        for (index, &items) in self.items.iter().enumerate() {
            histogram.add_to_bucket(self.first + index, items);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ItemSizes;
    use slabwise_base::{Random, SizeHistogram};

    #[test]
    fn it_counts_as_a_histogram_does() {
        let seed = 7;
        let mut random = Random::new(seed);
        let (mut sizes, mut present, mut expected) =
            (ItemSizes::default(), Vec::new(), SizeHistogram::default());
        for _ in 0..10_000 {
            let size_bytes = 100 + random.below(10_000);
            sizes.add(size_bytes);
            present.push(size_bytes);
            if random.below(3) == 0 {
                let gone = present.swap_remove(random.below(present.len() as u64) as usize);
                sizes.remove(gone);
            }
        }
        present.iter().for_each(|&size_bytes| expected.add(size_bytes as usize, 1));
        let mut found = SizeHistogram::default();
        sizes.add_to(&mut found);
        assert!(found.bars().eq(expected.bars()), "seed {seed}");
    }
}
