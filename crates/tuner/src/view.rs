//! What policies are shown.

use slabwise_base::Now;
use slabwise_engine::{ClassStats, Engine};
use slabwise_policy::{ClassSnapshot, Snapshot};

/// The engine as a policy sees it, without profiles.
pub fn snapshot(engine: &Engine, now: Now) -> Snapshot {
    let pages = engine.page_stats();
    // A retired class's pages leave by themselves.
    let present = engine.class_stats(now).into_iter().filter(|stats| !stats.retired);
    let classes = present.filter_map(|stats| Some((stats.class?, stats)));
    let classes = classes.map(|(class, stats)| ClassSnapshot {
        class,
        chunk_size_bytes: stats.chunk_size_bytes,
        chunks_per_page: stats.chunks_per_page,
        pages: stats.pages,
        used_chunks: stats.used_chunks,
        free_chunks: stats.free_chunks,
        evicted: stats.counters_ever.evicted,
        // An item that had to live in a larger class is a call for a page just as well.
        out_of_memory: stats.counters_ever.out_of_memory + stats.counters_ever.homeless,
        tail_age_ticks: oldest_tail(&stats),
        hits: stats.hits_ever,
        sets: stats.sets_ever,
        inserted: stats.inserted_ever,
        costs_told: stats.costs_told_ever,
        cost_paid: stats.cost_paid_ever,
        cost_saved: stats.cost_saved_ever,
        cost_held: stats.cost_held,
    });
    Snapshot {
        now: now.ticks,
        pages_free: pages.free,
        memory_full: pages.memory_full(),
        classes: classes.collect(),
        gets: engine.gets_ever(),
        misses: engine.misses_ever(),
        profiles: Vec::new(),
        unstored_gets: 0.0,
    }
}

/// The age of the item that the class would give up next: the cold tail's, or where that queue is
/// empty the oldest of the others.
fn oldest_tail(stats: &ClassStats) -> u32 {
    let [hot, warm, cold, temp] = stats.tail_age_ticks;
    cold.or(hot.max(warm).max(temp)).unwrap_or(0)
}
