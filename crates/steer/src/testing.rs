//! Counters for the tests of this crate.

use slabwise_base::ClassId;
use slabwise_observer::counters::{ClassCounters, Counters, ProcessIdentity, QueueCounters};
use slabwise_policy::ClassSnapshot;

/// The size of a page in these counters, in bytes.
pub const PAGE_SIZE_BYTES: usize = 1 << 20;

/// Returns the counters of a full cache with classes of these chunk sizes in bytes and numbers of pages.
pub fn counters(classes: &[(usize, u64)]) -> Counters {
    let class = |(index, &(chunk_size_bytes, pages)): (usize, &(usize, u64))| {
        let per_page = PAGE_SIZE_BYTES / chunk_size_bytes;
        let chunks = pages * per_page as u64;
        let shown = ClassSnapshot {
            pages,
            used_chunks: chunks,
            ..ClassSnapshot::empty(ClassId(index as u8), chunk_size_bytes, per_page)
        };
        let cold = QueueCounters { items: chunks / 2, hits: 0 };
        ClassCounters { shown, items: chunks, cold, ..ClassCounters::default() }
    };
    let pages: u64 = classes.iter().map(|(_, pages)| pages).sum();
    Counters {
        process: ProcessIdentity { pid: 7, started_at_seconds: 1_000 },
        memory_limit_bytes: pages * PAGE_SIZE_BYTES as u64,
        allocated_bytes: pages * PAGE_SIZE_BYTES as u64,
        classes: classes.iter().enumerate().map(class).collect(),
        ..Counters::default()
    }
}

/// Adds requests to a class: hits, stores (as many of which evicted an item) and hits of the queue COLD.
pub fn request(counters: &mut Counters, class: usize, hits: u64, misses: u64, cold_hits: u64) {
    counters.gets += hits + misses;
    counters.misses += misses;
    let class = &mut counters.classes[class];
    class.shown.hits += hits;
    class.shown.sets += misses;
    class.shown.evicted += misses;
    class.cold.hits += cold_hits;
}

/// Moves a page between two classes, as the server would, and fills it.
pub fn move_page(counters: &mut Counters, victim: usize, receiver: usize) {
    counters.pages_moved += 1;
    for (class, pages) in [(victim, -1), (receiver, 1)] {
        let shown = &mut counters.classes[class].shown;
        shown.pages = shown.pages.saturating_add_signed(pages);
        shown.used_chunks = shown.pages * shown.chunks_per_page as u64;
    }
}
