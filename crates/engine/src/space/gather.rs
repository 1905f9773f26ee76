//! Gathering the statistics: sums over all handles, classes and pages, when they are asked for.

use super::shared::Space;
use crate::class::{CHAINED, Class, ClassState, Standing};
use crate::mem::QueueKind;
use crate::stats::{ClassStats, EngineStats, HandleCounters, PageStats};
use slabwise_base::sync::lock;
use slabwise_base::{ClassId, Now, SizeHistogram};
use std::sync::Arc;

impl Space {
    /// The whole cache, but for the mover.
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
        self.index
            .for_each_stripe(|stripe| stats.index_buckets += stripe.table().bucket_count() as u64);
        stats.index_bytes = self.index.size_bytes();
        let pages = self.page_stats();
        (stats.pages, stats.pages_free) = (pages.held, pages.free);
        stats.memory_limit_bytes = pages.limit * stats.page_size_bytes;
        stats
    }

    /// Gets that missed since the start; a get that vivified counts as a hit.
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
        self.queueing_classes().for_each(|class| class.lock().sizes.add_to(&mut histogram));
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
        add_state(stats, &state, now);
        registry.iter().for_each(|handle| stats.add_tallies(handle.class(state.id())));
    }
}

pub fn counted(state: &ClassState, registry: &[Arc<HandleCounters>]) -> ClassStats {
    let mut stats = ClassStats { counters: state.counters, ..ClassStats::default() };
    registry.iter().for_each(|handle| stats.add_tallies(handle.class(state.id())));
    stats
}

/// Adds what a class holds, and what happened in it.
fn add_state(stats: &mut ClassStats, state: &ClassState, now: Now) {
    stats.pages += u64::from(state.page_count());
    stats.used_chunks += state.pages.used_count();
    stats.free_chunks += state.pages.free_count();
    stats.item_bytes += state.item_bytes();
    stats.cost_held += state.costs.units;
    stats.counters += &state.counters;
    for kind in QueueKind::ALL {
        stats.items[kind.index()] += state.lanes().count(kind);
        let age = &mut stats.tail_age_ticks[kind.index()];
        *age = (*age).max(state.tail_age(kind, now.ticks));
    }
}
