//! A class: its pages, their free chunks and its queues, under one lock.
//!
//! Chained items have queues of their own: those of [`CHAINED`], a class without chunks. So which item of
//! theirs leaves next does not depend on the class table, whose classes hold their heads and bodies.
//!
//! There is a class for every number that a table may use. Which of them stand in the present table, and
//! with which chunk size, changes while the cache serves: `class_change.rs`.
//!
//! Laws (under the lock): `used + free == pages * chunks_per_page` over owned and draining pages; every
//! queued item is linked; an item is queued in the class of its chunk, a chained one in `CHAINED`; each
//! list law of `page_table.rs` and `queues`.

mod chunks;
mod costs;
mod drain;
mod ranked;
mod sizes;

use crate::config::{EngineConfig, EvictionKind, LruConfig};
use crate::counters::ClassCounters;
use crate::mem::{ChunkAddress, OwnedChunk, Pin, QueueKind, ReadProof};
use crate::memory::Memory;
use crate::queues::{Bands, Demotion, Lane, Lanes, Queue, Ranking, are_apart, balance, coldest};
use crate::size_map::Choice;
pub use costs::ItemCosts;
pub use sizes::ItemSizes;
use slabwise_base::sync::{Mutex, MutexGuard, lock};
use slabwise_base::{ClassId, Cost, PageId, Ticks};
use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The class that chained items are queued in. No table reaches its number, and no page is ever its own.
pub const CHAINED: ClassId = ClassId(ClassId::NUMBERS as u8);

/// Numbers of classes, [`CHAINED`] included.
pub const CLASS_NUMBERS: usize = ClassId::NUMBERS + 1;

/// Numbers that classes of a table may have.
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
    id: ClassId,
    standing: Standing,
    /// Changes only while the class owns no page; 0 as long as its number was never used.
    chunk_size_bytes: usize,
    chunks_per_page: u32,
    /// Owned and draining pages.
    page_count: u32,
    /// Pages that it ever took.
    pages_taken: u64,
    /// Chunks in use, those on draining pages included.
    used_count: u64,
    partial: Option<PageId>,
    lanes: Lanes,
    /// Of what is in them.
    sizes: ItemSizes,
    costs: ItemCosts,
    ranking: Ranking,
    bands: Bands,
    /// [`Class::tells_apart`].
    tells_apart: Arc<AtomicBool>,
    /// What tells its items apart.
    kind: EvictionKind,
    /// The order in force, which may change.
    eviction: EvictionKind,
    lru: LruConfig,
    /// Counters of this class, since the last reset.
    pub counters: ClassCounters,
    /// What they had come to at resets, in all.
    counters_before: ClassCounters,
}

/// A class and its lock, on lines of its own.
#[derive(Debug)]
#[repr(align(128))]
pub struct Class {
    state: Mutex<ClassState>,
    tells_apart: Arc<AtomicBool>,
}

impl Class {
    /// A class without pages, for nothing yet.
    pub fn vacant(id: ClassId, config: &EngineConfig) -> Class {
        let EngineConfig { eviction, lru, ranking, .. } = *config;
        let tells_apart = Arc::new(AtomicBool::new(false));
        let state = ClassState {
            id,
            standing: Standing::Vacant,
            chunk_size_bytes: 0,
            chunks_per_page: 0,
            page_count: 0,
            pages_taken: 0,
            used_count: 0,
            partial: None,
            lanes: Lanes::default(),
            sizes: ItemSizes::default(),
            costs: ItemCosts::default(),
            ranking: Ranking::new(ranking),
            bands: Bands::default(),
            tells_apart: Arc::clone(&tells_apart),
            kind: eviction,
            eviction: eviction.within_lanes(),
            lru,
            counters: ClassCounters::default(),
            counters_before: ClassCounters::default(),
        };
        Class { state: Mutex::new(state), tells_apart }
    }

    /// Whether the costs of its items were far apart when it last gave one up. A hint.
    #[inline]
    pub fn tells_apart(&self) -> bool {
        self.tells_apart.load(Relaxed)
    }

    /// Locks the class.
    pub fn lock(&self) -> MutexGuard<'_, ClassState> {
        lock(&self.state)
    }
}

impl ClassState {
    /// Begins to count at zero again.
    pub fn reset_counters(&mut self) {
        self.counters_before.add(&std::mem::take(&mut self.counters));
    }

    /// The counters as if there had been no reset.
    pub fn counters_ever(&self) -> ClassCounters {
        let mut counters = self.counters_before.clone();
        counters.add(&self.counters);
        counters
    }

    /// Both, which it forgets: its number will stand for another class.
    pub fn take_counters(&mut self) -> (ClassCounters, ClassCounters) {
        let ever = self.counters_ever();
        self.counters_before = ClassCounters::default();
        (std::mem::take(&mut self.counters), ever)
    }

    /// Its id.
    pub fn id(&self) -> ClassId {
        self.id
    }

    /// What its number stands for.
    pub fn standing(&self) -> Standing {
        self.standing
    }

    /// Whether it takes what was meant for it when the table was read.
    #[inline(always)]
    pub fn accepts(&self, choice: Choice) -> bool {
        self.standing == Standing::Present && self.chunk_size_bytes == choice.chunk_size_bytes
    }

    /// Lets a vacant number stand for a class of the table.
    pub fn establish(&mut self, chunk_size_bytes: usize, page_size_bytes: usize) {
        assert_eq!(self.standing, Standing::Vacant, "only a vacant number stands for a new class");
        assert_eq!(self.page_count, 0, "a vacant number owns no page");
        self.chunk_size_bytes = chunk_size_bytes;
        self.chunks_per_page = (page_size_bytes / chunk_size_bytes) as u32;
        self.sizes = ItemSizes::default();
        self.ranking = Ranking::new(self.ranking.config);
        self.bands = Bands::default();
        self.standing = Standing::Present;
    }

    /// Takes the class out of the table.
    pub fn retire(&mut self) {
        assert_eq!(self.standing, Standing::Present, "only a class of the table is retired");
        self.standing = if self.page_count == 0 { Standing::Vacant } else { Standing::Retired };
    }

    /// Takes a retired class into the table again.
    pub fn revive(&mut self) {
        assert_eq!(self.standing, Standing::Retired, "only a retired class is revived");
        self.standing = Standing::Present;
    }

    /// Bytes a chunk.
    pub fn chunk_size_bytes(&self) -> usize {
        self.chunk_size_bytes
    }

    /// Chunks a page.
    pub fn chunks_per_page(&self) -> u32 {
        self.chunks_per_page
    }

    /// Pages it owns, draining ones included.
    pub fn page_count(&self) -> u32 {
        self.page_count
    }

    /// Chunks in use.
    pub fn used_count(&self) -> u64 {
        self.used_count
    }

    /// Chunks in use that hold no item of its queues: heads and bodies of chained items, and what is in
    /// somebody's hand.
    pub fn unqueued_count(&self) -> u64 {
        self.used_count - QueueKind::ALL.map(|kind| self.lanes.count(kind)).iter().sum::<u64>()
    }

    /// Chunks not in use, those on draining pages included.
    pub fn free_count(&self) -> u64 {
        u64::from(self.page_count) * u64::from(self.chunks_per_page) - self.used_count
    }

    /// The head of the list of pages with a free chunk.
    pub fn partial(&self) -> Option<PageId> {
        self.partial
    }

    /// Its queues.
    pub fn lanes(&self) -> &Lanes {
        &self.lanes
    }

    /// The sizes of what is in its queues.
    pub fn sizes(&self) -> &ItemSizes {
        &self.sizes
    }

    /// Sets a queue that is linked already.
    pub fn restore_queue(&mut self, memory: &Memory, place: (Lane, QueueKind), queue: Queue) {
        self.lanes.change(place.0, place.1, |empty| *empty = queue);
        self.note_tail(memory, place.0);
    }

    /// Counts an item of a restored queue.
    pub fn count_restored(&mut self, size_bytes: u64, cost: Option<Cost>) {
        self.sizes.add(size_bytes);
        self.costs.add(cost);
    }

    /// What is known of its bands of costs.
    pub fn bands(&self) -> &Bands {
        &self.bands
    }

    /// The same, to change.
    pub fn bands_mut(&mut self) -> &mut Bands {
        &mut self.bands
    }

    /// Notes whether its items' costs are far apart.
    pub fn note_lanes(&mut self) {
        let are_apart = are_apart(self);
        if self.tells_apart.load(Relaxed) != are_apart {
            self.tells_apart.store(are_apart, Relaxed);
        }
    }

    /// What the items in its queues cost.
    pub fn costs(&self) -> ItemCosts {
        self.costs
    }

    /// Units that what is in its queues costs to recompute, as far as that is known.
    pub fn cost_held(&self) -> u64 {
        self.costs.units
    }

    /// The mean cost of those whose cost is known, in units; at least 1.
    pub fn cost_mean(&self) -> u64 {
        (self.costs.units / self.costs.count.max(1)).max(1)
    }

    /// Counted bytes in all its queues.
    pub fn item_bytes(&self) -> u64 {
        QueueKind::ALL.map(|kind| self.lanes.bytes(kind)).iter().sum()
    }

    /// The order in which items leave.
    pub fn eviction(&self) -> EvictionKind {
        self.eviction
    }

    /// The segmented LRU's limits.
    pub fn lru(&self) -> &LruConfig {
        &self.lru
    }

    /// Changes the order and the limits; items move to their new places as they are met.
    pub fn set_order(&mut self, eviction: EvictionKind, lru: LruConfig) {
        self.eviction = eviction.within_lanes();
        self.lru = lru;
    }

    /// The queue that a new item enters.
    pub fn queue_for_new(&self, short_lived: bool) -> QueueKind {
        match self.eviction {
            EvictionKind::Lru => QueueKind::Cold,
            EvictionKind::Segmented if short_lived => QueueKind::Temp,
            _ => QueueKind::Hot,
        }
    }

    /// Counted bytes of an item that is in its queues, or enters or leaves them.
    pub fn counted_size_of(&self, memory: &Memory, address: ChunkAddress) -> u64 {
        memory.counted_size_of(address, ReadProof::under_class(self))
    }

    /// Publishes an item: linked, the newest of `queue`.
    pub fn enqueue(
        &mut self,
        memory: &Memory,
        mut chunk: OwnedChunk,
        queue: QueueKind,
    ) -> ChunkAddress {
        let (lane, queue) = self.place_entering(memory, &mut chunk, queue);
        let size_bytes = self.count_entering(memory, chunk.address());
        self.put_in(memory, chunk.address(), (lane, queue), size_bytes);
        let address = memory.arena.publish(chunk, queue);
        self.balance_after(memory, lane, queue);
        address
    }

    /// Publishes an item that was carried here from another class, in `queue`, where its age belongs.
    pub fn enqueue_carried(&mut self, memory: &Memory, mut chunk: OwnedChunk, queue: QueueKind) {
        if self.kind.goes_by_rank() {
            // Ranks of two classes do not compare: it is ranked as new.
            self.enqueue(memory, chunk, queue);
            return;
        }
        let (lane, queue) = self.place_entering(memory, &mut chunk, queue);
        let size_bytes = self.count_entering(memory, chunk.address());
        let address = chunk.address();
        self.lanes.change(lane, queue, |q| q.insert_by_age(memory, address, size_bytes));
        memory.arena.publish(chunk, queue);
        self.balance_after(memory, lane, queue);
    }

    /// Publishes the copy of a queued item in its place; both are of one size.
    pub fn replace(&mut self, memory: &Memory, old: ChunkAddress, chunk: OwnedChunk) {
        let (lane, queue) = (self.lane_of(memory, old), memory.header(old).state().load().queue());
        self.lanes.change(lane, queue, |q| q.replace(memory, old, chunk.address()));
        memory.arena.publish(chunk, queue);
    }

    fn balance_after(&mut self, memory: &Memory, lane: Lane, entered: QueueKind) {
        if entered != QueueKind::Cold && self.eviction.balances() {
            let _: Demotion = balance(self, memory, lane, None);
        }
    }

    fn count_entering(&mut self, memory: &Memory, address: ChunkAddress) -> u64 {
        let size_bytes = self.counted_size_of(memory, address);
        self.sizes.add(size_bytes);
        self.costs.add(memory.cost(address, ReadProof::under_class(self)));
        size_bytes
    }

    /// Takes a queued item out of its queue.
    fn take_out(&mut self, memory: &Memory, address: ChunkAddress, queue: QueueKind) {
        let size_bytes = self.counted_size_of(memory, address);
        self.take_from(memory, address, (self.lane_of(memory, address), queue), size_bytes);
        self.sizes.remove(size_bytes);
        self.costs.remove(memory.cost(address, ReadProof::under_class(self)));
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

    /// Moves a queued item to the head of another queue of its lane, or of its own. Returns the one it left.
    pub fn relink(
        &mut self,
        memory: &Memory,
        address: ChunkAddress,
        queue: QueueKind,
    ) -> QueueKind {
        let lane = self.lane_of(memory, address);
        self.move_from(memory, address, lane, (lane, queue))
    }

    /// The same, counted.
    pub fn requeue(&mut self, memory: &Memory, address: ChunkAddress, queue: QueueKind) {
        match self.relink(memory, address, queue) {
            from if from == queue => self.counters.moves_within_lru += 1,
            _ if queue == QueueKind::Cold => self.counters.moves_to_cold += 1,
            _ => self.counters.moves_to_warm += 1,
        }
    }

    /// The age of a queue's tail, in ticks; of several lanes' the oldest.
    pub fn tail_age(&self, memory: &Memory, queue: QueueKind, now: Ticks) -> Option<u32> {
        let tails = self.lanes.all().filter_map(|lane| self.lanes.queue(lane, queue).tail());
        tails.map(|tail| memory.header(tail).time().age_at(now)).max()
    }

    /// The age of the oldest of its tails, in ticks.
    pub fn oldest_tail_age(&self, memory: &Memory, now: Ticks) -> Option<u32> {
        QueueKind::ALL.into_iter().filter_map(|kind| self.tail_age(memory, kind, now)).max()
    }

    /// How cold the item is that the search for a victim looks at first: its age, and among equals the
    /// older store is colder. `None`: the class has no item.
    pub fn coldness(&self, memory: &Memory, now: Ticks) -> Option<Coldness> {
        let header = memory.header(coldest(self, memory, now)?);
        Some(Coldness { age_ticks: header.time().age_at(now), cas: Reverse(header.cas()) })
    }
}
