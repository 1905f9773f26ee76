//! `stats items` and `stats slabs`: statistics of each class.

use super::{StatsContext, StatsRows};

use slabwise_engine::ClassStats;

// The index of each LRU queue in the arrays of `ClassStats`.
const HOT: usize = 0;
const WARM: usize = 1;
const COLD: usize = 2;
const TEMPORARY: usize = 3;

/// The names of `stats items` that memcached shows only if the LRU maintainer is enabled, separated by spaces.
const MAINTAINER_NAMES: &str = "number_hot number_warm number_cold age_hot age_warm \
    evicted_active moves_to_cold moves_to_warm moves_within_lru direct_reclaims hits_to_hot \
    hits_to_warm hits_to_cold hits_to_temp";

/// The name and the value of a statistic.
type Row = (&'static str, u64);

/// Returns each class's number in memcached's protocol, and its statistics since the last `stats reset`.
fn classes(context: StatsContext<'_>) -> impl Iterator<Item = (u32, ClassStats)> {
    let baseline = context.shared.baseline();
    let numbered = move |stats: ClassStats| Some((stats.class?.wire(), baseline.since(&stats)));
    context.shared.engine.class_stats(context.now).into_iter().filter_map(numbered)
}

/// Writes the rows of `stats items`. Omits classes without items.
pub(super) fn write_items(context: StatsContext<'_>, rows: &mut StatsRows<'_>) {
    let has_maintainer = context.shared.settings.lru_maintainer;
    let has_temporary_queue = context.shared.engine.lru().temporary_ttl.is_some();
    for (number, stats) in classes(context) {
        if stats.items.iter().sum::<u64>() == 0 {
            continue;
        }
        for (name, value) in item_rows(context, &stats) {
            let is_shown = match name {
                "number_temp" => has_maintainer && has_temporary_queue,
                name => has_maintainer || !MAINTAINER_NAMES.split(' ').any(|it| it == name),
            };
            if is_shown {
                rows.add(format_args!("items:{number}:{name}"), value);
            }
        }
    }
    rows.end();
}

/// Returns the rows of a class in `stats items`, in memcached's order. Statistics without a meaning in slabwise are 0.
fn item_rows(context: StatsContext<'_>, stats: &ClassStats) -> [Row; 29] {
    let engine = context.shared.engine;
    let seconds = |age_work: u32| u64::from(engine.age_seconds(age_work, context.now));
    let age = |queue: usize| stats.tail_age_work[queue].map_or(0, seconds);
    let counters = &stats.counters;
    [
        ("number", stats.items.iter().sum()),
        ("number_hot", stats.items[HOT]),
        ("number_warm", stats.items[WARM]),
        ("number_cold", stats.items[COLD]),
        ("number_temp", stats.items[TEMPORARY]),
        ("age_hot", age(HOT)),
        ("age_warm", age(WARM)),
        ("age", age(COLD)),
        ("mem_requested", stats.item_bytes),
        ("evicted", counters.evicted),
        ("evicted_nonzero", counters.evicted_nonzero),
        ("evicted_time", if counters.evicted > 0 { counters.evicted_age_seconds } else { 0 }),
        ("outofmemory", counters.out_of_memory),
        ("tailrepairs", 0),
        ("reclaimed", counters.reclaimed),
        ("expired_unfetched", counters.expired_unfetched),
        ("evicted_unfetched", counters.evicted_unfetched),
        ("evicted_active", counters.evicted_active),
        ("crawler_reclaimed", counters.crawler_reclaimed),
        ("crawler_items_checked", counters.crawler_items_checked),
        ("lrutail_reflocked", counters.tail_pinned),
        ("moves_to_cold", counters.moves_to_cold),
        ("moves_to_warm", counters.moves_to_warm),
        ("moves_within_lru", counters.moves_within_lru),
        ("direct_reclaims", counters.direct_reclaims),
        ("hits_to_hot", stats.hits_to[HOT]),
        ("hits_to_warm", stats.hits_to[WARM]),
        ("hits_to_cold", stats.hits_to[COLD]),
        ("hits_to_temp", stats.hits_to[TEMPORARY]),
    ]
}

/// Writes the rows of `stats slabs`. Omits classes without pages.
pub(super) fn write_slabs(context: StatsContext<'_>, rows: &mut StatsRows<'_>) {
    let mut classes_with_pages = 0;
    for (number, stats) in classes(context) {
        if stats.pages == 0 {
            continue;
        }
        classes_with_pages += 1;
        for (name, value) in slab_rows(&stats) {
            rows.add(format_args!("{number}:{name}"), value);
        }
        if stats.retired {
            rows.add(format_args!("{number}:retired"), 1);
        }
    }
    let engine = context.shared.engine;
    let page_size_bytes = engine.config().page_size_bytes as u64;
    rows.add("active_slabs", classes_with_pages);
    rows.add("total_malloced", engine.page_stats().held * page_size_bytes);
    rows.end();
}

/// Returns the rows of a class in `stats slabs`, in memcached's order. Statistics without a meaning in slabwise are 0.
fn slab_rows(stats: &ClassStats) -> [Row; 15] {
    [
        ("chunk_size", stats.chunk_size_bytes as u64),
        ("chunks_per_page", stats.chunks_per_page as u64),
        ("total_pages", stats.pages),
        ("total_chunks", stats.pages * stats.chunks_per_page as u64),
        ("used_chunks", stats.used_chunks),
        ("free_chunks", stats.free_chunks),
        ("free_chunks_end", 0),
        ("get_hits", stats.hits_to.iter().sum()),
        ("cmd_set", stats.sets),
        ("delete_hits", stats.delete_hits),
        ("incr_hits", stats.incr_hits),
        ("decr_hits", stats.decr_hits),
        ("cas_hits", stats.cas_hits),
        ("cas_badval", stats.cas_badval),
        ("touch_hits", stats.touch_hits),
    ]
}
