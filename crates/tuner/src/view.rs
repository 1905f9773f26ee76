//! The conversion of the engine's statistics to a snapshot for policies.

use crate::work::turnovers;
use slabwise_base::Now;
use slabwise_engine::{ClassStats, Engine, OwnedPage};
use slabwise_policy::{ClassSnapshot, PageSnapshot, Snapshot};
use slabwise_profile::RecentGets;

/// Takes a snapshot of the engine for policies. The snapshot has no profiles.
pub fn snapshot(engine: &Engine, now: Now) -> Snapshot {
    let pages = engine.page_stats();
    // The engine drains the pages of retired classes without a policy.
    let current = engine.class_stats(now).into_iter().filter(|stats| !stats.retired);
    let classes = current.filter_map(|stats| Some((stats.class?, stats)));
    let classes =
        classes.map(|(class, stats)| (class, stats.oldest_tail_work().unwrap_or(0), stats));
    let classes = classes.map(|(class, tail_age_work, stats)| ClassSnapshot {
        class,
        chunk_size_bytes: stats.chunk_size_bytes,
        chunks_per_page: stats.chunks_per_page,
        pages: stats.pages,
        used_chunks: stats.used_chunks,
        free_chunks: stats.free_chunks,
        evicted: stats.counters.evicted - stats.counters.evicted_by_mover,
        // If an item is allocated in a larger class, its own class had no memory.
        out_of_memory: stats.counters.out_of_memory + stats.counters.allocated_in_larger_class,
        tail_age_work,
        tail_age_seconds: engine.age_seconds(tail_age_work, now),
        hits: stats.of_number(ClassStats::reported_hits),
        sets: stats.of_number(|it| it.sets),
        inserted: stats.of_number(|it| it.inserted),
        costs_known: stats.of_number(|it| it.costs_known),
        cost_paid: stats.of_number(|it| it.cost_paid),
        cost_saved: stats.of_number(|it| it.cost_saved),
        cost_held: stats.cost_held,
    });
    Snapshot {
        now: now.ticks,
        turnovers: turnovers(engine),
        pages_free: pages.free,
        memory_full: pages.memory_full(),
        classes: classes.collect(),
        gets: engine.gets_ever(),
        misses: engine.misses_ever(),
        pages: Vec::new(),
        profiles: Vec::new(),
        recent: RecentGets::default(),
    }
}

/// Returns all pages that classes own, except a page that is moving.
pub(crate) fn pages(engine: &Engine) -> Vec<PageSnapshot> {
    let page = |owned: OwnedPage| PageSnapshot {
        page: owned.id,
        class: owned.class,
        accessed_at: owned.accessed_at,
    };
    engine.owned_pages().into_iter().map(page).collect()
}
