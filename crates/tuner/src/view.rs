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
        evicted: stats.counters.evicted,
        // An item that had to live in a larger class is a call for a page just as well.
        out_of_memory: stats.counters.out_of_memory + stats.counters.homeless,
        tail_age_ticks: oldest_tail(&stats),
        hits: stats.of_number(ClassStats::shown_hits),
        sets: stats.of_number(|it| it.sets),
        inserted: stats.of_number(|it| it.inserted),
        costs_told: stats.of_number(|it| it.costs_told),
        cost_paid: stats.of_number(|it| it.cost_paid),
        cost_saved: stats.of_number(|it| it.cost_saved),
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
