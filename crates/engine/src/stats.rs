//! Readings for people and policies: plain structs, summed when asked for.

use crate::class::{CHAINED, Class, ClassState, Standing};
use crate::counters::{ClassCounters, HandleCounters};
use crate::engine::Engine;
use crate::mem::QueueKind;
use crate::memory::Memory;
use crate::mover::MoverCounters;
use slabwise_base::sync::lock;
use slabwise_base::{ClassId, Now, SizeHistogram};
use std::sync::Arc;

/// The whole cache at a moment. Counters count since the start, and are sums over all handles.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EngineStats {
    /// Items in the cache.
    pub items: u64,
    /// Items ever stored.
    pub items_total: u64,
    /// Counted bytes of the items: header, key and value.
    pub bytes: u64,
    /// The memory limit in bytes.
    pub memory_limit_bytes: u64,
    /// Bytes a page.
    pub page_size_bytes: u64,
    /// Pages that hold memory.
    pub pages: u64,
    /// Of these, pages that no class owns.
    pub pages_free: u64,
    /// Heap bytes of the index.
    pub index_bytes: u64,
    /// Buckets of the index.
    pub index_buckets: u64,
    /// What the mover did.
    pub mover: MoverCounters,
    /// Whether a page is being moved.
    pub mover_running: bool,
    /// Gets that found nothing.
    pub get_misses: u64,
    /// Look-ups of any kind that found an expired item.
    pub get_expired: u64,
    /// Look-ups of any kind that found a flushed item.
    pub get_flushed: u64,
    /// Touches, of `gat` too.
    pub touches: u64,
    /// Touches that found nothing.
    pub touch_misses: u64,
    /// Gets that were to touch what they found, and found nothing; of `gat` only.
    pub gat_misses: u64,
    /// Deletes that found nothing.
    pub delete_misses: u64,
    /// Increments that found nothing.
    pub incr_misses: u64,
    /// Decrements that found nothing.
    pub decr_misses: u64,
    /// Compare-and-swaps that found nothing.
    pub cas_misses: u64,
    /// Stores refused because the item was too large.
    pub store_too_large: u64,
    /// Stores refused because there was no memory.
    pub store_no_memory: u64,
    /// The sum over all classes.
    pub total: ClassStats,
}

/// Where the pages are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageStats {
    /// Pages that hold memory.
    pub held: u64,
    /// Of these, pages that no class owns.
    pub free: u64,
    /// Pages that the limit allows.
    pub limit: u64,
    /// Of these, pages that items may take.
    pub limit_for_items: u64,
}

impl PageStats {
    /// Whether every page that the limit allows holds memory.
    pub fn memory_full(&self) -> bool {
        self.held >= self.limit_for_items
    }
}

/// One class at a moment, or the sum over all.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClassStats {
    /// Which class; `None` in a sum.
    pub class: Option<ClassId>,
    /// Whether it is in the table no more, and drains.
    pub retired: bool,
    /// Bytes a chunk; 0 in a sum.
    pub chunk_size_bytes: usize,
    /// Chunks a page; 0 in a sum.
    pub chunks_per_page: usize,
    /// Pages, a draining one included.
    pub pages: u64,
    /// Chunks in use.
    pub used_chunks: u64,
    /// Chunks not in use.
    pub free_chunks: u64,
    /// Counted bytes of its items.
    pub item_bytes: u64,
    /// Units that its items cost to recompute, as far as that is known.
    pub cost_held: u64,
    /// Items by queue: hot, warm, cold, temp.
    pub items: [u64; 4],
    /// The age of each queue's tail in ticks, in a sum the oldest's; `None` for an empty queue.
    pub tail_age_ticks: [Option<u32>; 4],
    /// What happened to its items without a client asking.
    pub counters: ClassCounters,
    /// Gets that hit and did not touch, by the queue the item was in.
    pub hits_to: [u64; 4],
    /// Stores tried.
    pub sets: u64,
    /// Deletes that hit.
    pub delete_hits: u64,
    /// Increments that hit.
    pub incr_hits: u64,
    /// Decrements that hit.
    pub decr_hits: u64,
    /// Compare-and-swaps that stored.
    pub cas_hits: u64,
    /// Compare-and-swaps that met another value.
    pub cas_badval: u64,
    /// Touches that hit, those that were gets included.
    pub touch_hits: u64,
    /// Gets that touched what they found.
    pub gat_hits: u64,
    /// Gets that count as hits and are no use of an item that was there: they leave no mark, or vivified.
    pub unshown_hits: u64,
    /// Stores under keys that held nothing.
    pub inserted: u64,
    /// Of these, those that told a cost.
    pub costs_told: u64,
    /// Units that what they stored costs to recompute, as far as that is known.
    pub cost_paid: u64,
    /// Units that what gets hit costs to recompute, as far as that is known.
    pub cost_saved: u64,
    /// What its number had counted for earlier classes, which is no part of the counts above. A class's number
    /// is its own for as long as this is the same allocation.
    pub before: Option<Arc<ClassStats>>,
}

impl ClassStats {
    /// Gets that hit and did not touch.
    pub fn get_hits(&self) -> u64 {
        self.hits_to.iter().sum()
    }

    /// Gets that hit: those, and only those, that are shown to an observer of accesses as hits of the class
    /// ([`AccessKind::Hit`](crate::AccessKind::Hit)) where all keys are in the sample. One under way may be
    /// missing.
    pub fn shown_hits(&self) -> u64 {
        (self.get_hits() + self.gat_hits).saturating_sub(self.unshown_hits)
    }

    /// A count, with what its number counted for earlier classes.
    pub fn of_number(&self, count: impl Fn(&ClassStats) -> u64) -> u64 {
        count(self) + self.before.as_deref().map_or(0, count)
    }

    /// What a number has counted for all its classes.
    pub(crate) fn counted(state: &ClassState, registry: &[Arc<HandleCounters>]) -> ClassStats {
        let mut stats = ClassStats { counters: state.counters, ..ClassStats::default() };
        registry.iter().for_each(|handle| stats.add_tallies(handle.class(state.id())));
        stats
    }

    /// Adds what a class holds, and what happened in it.
    fn add_state(&mut self, state: &ClassState, memory: &Memory, now: Now) {
        self.pages += u64::from(state.page_count());
        self.used_chunks += state.used_count();
        self.free_chunks += state.free_count();
        self.item_bytes += state.item_bytes();
        self.cost_held += state.cost_held();
        self.counters += &state.counters;
        for kind in QueueKind::ALL {
            self.items[kind.index()] += state.lanes().count(kind);
            let age = &mut self.tail_age_ticks[kind.index()];
            *age = (*age).max(state.tail_age(memory, kind, now.ticks));
        }
    }
}

impl Engine {
    /// The whole cache.
    pub fn stats(&self, now: Now) -> EngineStats {
        let mut stats = EngineStats::default();
        {
            let registry = lock(&self.registry);
            for class in self.queueing_classes() {
                self.add_class(&mut stats.total, class, &registry, now);
            }
            registry.iter().for_each(|handle| stats.add_tallies(handle));
        }
        stats.items = stats.total.items.iter().sum();
        stats.bytes = stats.total.item_bytes;
        stats.page_size_bytes = self.config.page_size_bytes as u64;
        self.index.for_each_stripe(|table| stats.index_buckets += table.bucket_count() as u64);
        stats.index_bytes = self.index.size_bytes();
        let pages = self.page_stats();
        (stats.pages, stats.pages_free) = (pages.held, pages.free);
        stats.memory_limit_bytes = pages.limit * stats.page_size_bytes;
        let mover = lock(&self.mover);
        (stats.mover, stats.mover_running) = (mover.counters, mover.is_running());
        stats
    }

    /// Gets of all handles since the start, those that touched included; cheap.
    pub fn gets_ever(&self) -> u64 {
        lock(&self.registry).iter().map(|handle| handle.gets()).sum()
    }

    /// Of these, those that missed; a get that vivified counts as a hit.
    pub fn misses_ever(&self) -> u64 {
        lock(&self.registry).iter().map(|handle| handle.misses()).sum()
    }

    /// Items that all handles have stored since the start.
    pub fn stores_ever(&self) -> u64 {
        lock(&self.registry).iter().map(|handle| handle.items_total.get()).sum()
    }

    /// Evictions, and stores that found no memory in their class, since the start.
    pub fn evictions_ever(&self) -> u64 {
        let calls = |class: &Class| {
            let counters = class.lock().counters;
            counters.evicted + counters.out_of_memory + counters.homeless
        };
        self.queueing_classes().map(calls).sum()
    }

    /// Where the pages are; cheap.
    pub fn page_stats(&self) -> PageStats {
        let pool = lock(&self.pool);
        PageStats {
            held: u64::from(pool.allocated()),
            free: u64::from(pool.free_count()),
            limit: u64::from(pool.limit()),
            limit_for_items: u64::from(pool.limit_for_items()),
        }
    }

    /// Every class of the table, and every retired one that still has pages, smallest chunks first. Chained
    /// items are shown in the last, as memcached shows them.
    pub fn class_stats(&self, now: Now) -> Vec<ClassStats> {
        let tables = lock(&self.tables);
        let registry = lock(&self.registry);
        let read = |(id, chunk_size_bytes, standing): (ClassId, usize, Standing)| {
            let mut stats = ClassStats {
                class: Some(id),
                retired: standing == Standing::Retired,
                chunk_size_bytes,
                chunks_per_page: self.config.page_size_bytes / chunk_size_bytes,
                ..ClassStats::default()
            };
            self.add_class(&mut stats, self.class(id), &registry, now);
            if id == self.largest {
                self.add_class(&mut stats, self.class(CHAINED), &registry, now);
            }
            if let Some(before) = tables.counted_before.get(&id) {
                stats = ClassStats { before: Some(Arc::clone(before)), ..stats.minus(before) };
            }
            stats
        };
        self.standing_classes().into_iter().map(read).collect()
    }

    /// How many items there are of which counted size, chained ones included.
    pub fn item_sizes(&self) -> SizeHistogram {
        let mut histogram = SizeHistogram::default();
        self.queueing_classes().for_each(|class| class.lock().sizes().add_to(&mut histogram));
        histogram
    }

    fn add_class(
        &self,
        stats: &mut ClassStats,
        class: &Class,
        registry: &[Arc<HandleCounters>],
        now: Now,
    ) {
        let state = class.lock();
        stats.add_state(&state, &self.memory, now);
        registry.iter().for_each(|handle| stats.add_tallies(handle.class(state.id())));
    }
}
