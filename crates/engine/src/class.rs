//! A class: its pages, their free chunks and its queues, under one lock.
//!
//! Laws (under the lock): `used + free == pages * chunks_per_page` over owned and draining pages; every
//! queued item is linked; an item is queued in the class of its chunk, a chained one in the class with
//! the largest chunks; each list law of `page_table.rs` and `queues`.

use crate::config::{EvictionKind, LruConfig};
use crate::mem::{ChunkAddress, OwnedChunk, QueueKind, State};
use crate::memory::Memory;
use crate::page_table::PageState;
use crate::queues::{Demotion, Queue, balance};
use slabwise_base::sync::{Mutex, MutexGuard, lock};
use slabwise_base::{ClassId, PageId, Ticks};

/// What happened to the items of a class since the start or the last reset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassCounters {
    /// Items evicted.
    pub evicted: u64,
    /// Of these, those that had an expiry.
    pub evicted_nonzero: u64,
    /// Seconds since the last access of the item evicted last.
    pub evicted_age_seconds: u64,
    /// Evicted items that were never hit.
    pub evicted_unfetched: u64,
    /// Evicted items that were hit lately.
    pub evicted_active: u64,
    /// Allocations that failed.
    pub out_of_memory: u64,
    /// Allocations that went to a larger class because this one owned nothing.
    pub homeless: u64,
    /// Expired or flushed items removed at a tail.
    pub reclaimed: u64,
    /// Of these, those that were never hit.
    pub expired_unfetched: u64,
    /// Expired or flushed items that the crawler removed.
    pub crawler_reclaimed: u64,
    /// Items that the crawler looked at.
    pub crawler_items_checked: u64,
    /// Tails that could not be evicted because they were pinned.
    pub tail_pinned: u64,
    /// Items moved to the cold queue.
    pub moves_to_cold: u64,
    /// Items moved to the warm queue.
    pub moves_to_warm: u64,
    /// Items moved to the head of their own queue.
    pub moves_within_lru: u64,
    /// Ended items that an allocation took the place of.
    pub direct_reclaims: u64,
}

impl ClassCounters {
    /// Adds another class's counters.
    pub(crate) fn add(&mut self, other: &ClassCounters) {
        self.evicted += other.evicted;
        self.evicted_nonzero += other.evicted_nonzero;
        self.evicted_age_seconds = self.evicted_age_seconds.max(other.evicted_age_seconds);
        self.evicted_unfetched += other.evicted_unfetched;
        self.evicted_active += other.evicted_active;
        self.out_of_memory += other.out_of_memory;
        self.homeless += other.homeless;
        self.reclaimed += other.reclaimed;
        self.expired_unfetched += other.expired_unfetched;
        self.crawler_reclaimed += other.crawler_reclaimed;
        self.crawler_items_checked += other.crawler_items_checked;
        self.tail_pinned += other.tail_pinned;
        self.moves_to_cold += other.moves_to_cold;
        self.moves_to_warm += other.moves_to_warm;
        self.moves_within_lru += other.moves_within_lru;
        self.direct_reclaims += other.direct_reclaims;
    }
}

/// What a class's lock protects.
#[derive(Debug)]
pub struct ClassState {
    id: ClassId,
    chunk_size_bytes: usize,
    chunks_per_page: u32,
    /// Owned and draining pages.
    page_count: u32,
    /// Chunks in use, those on draining pages included.
    used_count: u64,
    partial: Option<PageId>,
    queues: [Queue; 4],
    eviction: EvictionKind,
    lru: LruConfig,
    /// Counters of this class.
    pub counters: ClassCounters,
}

/// A class and its lock, on lines of its own.
#[derive(Debug)]
#[repr(align(128))]
pub struct Class {
    state: Mutex<ClassState>,
}

impl Class {
    /// A class without pages.
    pub fn new(
        id: ClassId,
        chunk_size_bytes: usize,
        page_size_bytes: usize,
        eviction: EvictionKind,
        lru: LruConfig,
    ) -> Class {
        let state = ClassState {
            id,
            chunk_size_bytes,
            chunks_per_page: (page_size_bytes / chunk_size_bytes) as u32,
            page_count: 0,
            used_count: 0,
            partial: None,
            queues: Default::default(),
            eviction,
            lru,
            counters: ClassCounters::default(),
        };
        Class { state: Mutex::new(state) }
    }

    /// Locks the class.
    pub fn lock(&self) -> MutexGuard<'_, ClassState> {
        lock(&self.state)
    }
}

impl ClassState {
    /// Its id.
    pub fn id(&self) -> ClassId {
        self.id
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

    /// Chunks not in use, those on draining pages included.
    pub fn free_count(&self) -> u64 {
        u64::from(self.page_count) * u64::from(self.chunks_per_page) - self.used_count
    }

    /// The head of the list of pages with a free chunk.
    pub fn partial(&self) -> Option<PageId> {
        self.partial
    }

    /// One of its queues.
    pub fn queue(&self, kind: QueueKind) -> &Queue {
        &self.queues[kind.index()]
    }

    /// One of its queues, to change.
    pub fn queue_mut(&mut self, kind: QueueKind) -> &mut Queue {
        &mut self.queues[kind.index()]
    }

    /// Counted bytes in all its queues.
    pub fn item_bytes(&self) -> u64 {
        self.queues.iter().map(Queue::bytes).sum()
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
        self.eviction = eviction;
        self.lru = lru;
    }

    /// Takes an empty page from the pool's hands.
    pub fn adopt(&mut self, memory: &Memory, page: PageId) {
        memory.pages.page(page).assign(Some(self.id));
        memory.pages.push_partial(&mut self.partial, page);
        self.page_count += 1;
    }

    /// Takes a free chunk: the one freed last on the page touched last, else one never used.
    pub fn take_free(&mut self, memory: &Memory) -> Option<OwnedChunk> {
        let id = self.partial?;
        let page = memory.pages.page(id);
        let address = match page.free_head() {
            Some(slot) => {
                let address = memory.chunk_at(id, slot, self.chunk_size_bytes);
                page.set_free_head(memory.header(address).free_next());
                address
            }
            None => {
                let slot = page.fresh();
                page.set_fresh(slot + 1);
                memory.chunk_at(id, slot, self.chunk_size_bytes)
            }
        };
        page.set_used(page.used() + 1);
        self.used_count += 1;
        if page.free_head().is_none() && page.fresh() == self.chunks_per_page {
            memory.pages.remove_partial(&mut self.partial, id);
        }
        // Until the holder writes the item's own state, the chunk must not read as free: a mover would
        // take it for empty.
        memory.header(address).state().store(State::IN_HAND);
        Some(OwnedChunk::claim(address))
    }

    /// Gives a chunk back to its page; a draining page keeps it out of use.
    pub fn give_free(&mut self, memory: &Memory, chunk: OwnedChunk) {
        let address = chunk.surrender();
        let id = memory.page_of(address);
        let page = memory.pages.page(id);
        memory.header(address).state().store(State::FREE);
        let was_full = page.used() == self.chunks_per_page;
        page.set_used(page.used() - 1);
        self.used_count -= 1;
        self.list_free(memory, address);
        if was_full && page.state() == PageState::Owned {
            memory.pages.push_partial(&mut self.partial, id);
        }
    }

    fn list_free(&self, memory: &Memory, address: ChunkAddress) {
        let page = memory.page_entry(address);
        memory.header(address).set_free_next(page.free_head());
        page.set_free_head(Some(memory.slot_of(address, self.chunk_size_bytes)));
    }

    /// Takes a page out of service: from here on it hands out nothing.
    pub fn begin_drain(&mut self, memory: &Memory, id: PageId) {
        let page = memory.pages.page(id);
        if page.used() < self.chunks_per_page {
            memory.pages.remove_partial(&mut self.partial, id);
        }
        page.set_draining(true);
    }

    /// Puts a draining page back into service.
    pub fn abort_drain(&mut self, memory: &Memory, id: PageId) {
        let page = memory.pages.page(id);
        page.set_draining(false);
        if page.used() < self.chunks_per_page {
            memory.pages.push_partial(&mut self.partial, id);
        }
    }

    /// Parts with a draining page that is empty.
    pub fn finish_drain(&mut self, memory: &Memory, id: PageId) {
        memory.pages.page(id).assign(None);
        self.page_count -= 1;
    }

    /// The queue that a new item enters.
    pub fn queue_for_new(&self, short_lived: bool) -> QueueKind {
        match self.eviction {
            EvictionKind::Lru => QueueKind::Cold,
            EvictionKind::Segmented if short_lived => QueueKind::Temp,
            EvictionKind::Segmented => QueueKind::Hot,
        }
    }

    /// Publishes an item: linked, the newest of `queue`.
    pub fn enqueue(&mut self, memory: &Memory, address: ChunkAddress, queue: QueueKind) {
        self.queue_mut(queue).push_head(memory, address);
        memory.header(address).state().publish(queue);
        if queue != QueueKind::Cold {
            let _: Demotion = balance(self, memory, None);
        }
    }

    /// Ends a linked item: out of its queue if it is in one, and unlinked. True: nobody pins it, so the
    /// caller frees it.
    pub fn unlink(&mut self, memory: &Memory, address: ChunkAddress) -> bool {
        let word = memory.header(address).state();
        let state = word.load();
        if state.queued() {
            self.queue_mut(state.queue()).remove(memory, address);
        }
        word.unlink()
    }

    /// Takes a queued item out of its queue and pins it, so that it can be removed without this lock.
    pub fn detach(&mut self, memory: &Memory, address: ChunkAddress) {
        let word = memory.header(address).state();
        self.queue_mut(word.load().queue()).remove(memory, address);
        word.detach();
    }

    /// Moves a queued item to the head of another queue, or of its own.
    pub fn requeue(&mut self, memory: &Memory, address: ChunkAddress, queue: QueueKind) {
        let word = memory.header(address).state();
        let from = word.load().queue();
        self.queue_mut(from).remove(memory, address);
        self.queue_mut(queue).push_head(memory, address);
        word.requeue(queue);
        match queue {
            QueueKind::Cold => self.counters.moves_to_cold += 1,
            _ if from == queue => self.counters.moves_within_lru += 1,
            _ => self.counters.moves_to_warm += 1,
        }
    }

    /// The age of a queue's tail, in ticks.
    pub fn tail_age(&self, memory: &Memory, queue: QueueKind, now: Ticks) -> Option<u32> {
        let tail = self.queue(queue).tail()?;
        Some(memory.header(tail).time().age_at(now))
    }
}
