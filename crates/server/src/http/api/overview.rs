//! `/api/v1/overview`: the server, its memory, and its counts since the start.

use crate::stats::StatsContext;
use serde::Serialize;

#[derive(Serialize)]
pub(super) struct Overview {
    version: &'static str,
    process_id: u32,
    uptime_seconds: u64,
    time_seconds: u64,
    threads: usize,
    eviction: &'static str,
    page_policy: &'static str,
    learns_classes: bool,
    memory_limit_bytes: u64,
    page_size_bytes: u64,
    held_bytes: u64,
    item_bytes: u64,
    resident_bytes: Option<u64>,
    /// The maximum memory of the process according to the memory model.
    model_bytes: u64,
    items: u64,
    gets: u64,
    get_hits: u64,
    sets: u64,
    evictions: u64,
    page_moves: u64,
    connections: u64,
    connections_max: u32,
    refused_stores: u64,
}

pub(super) fn overview(context: StatsContext<'_>) -> Overview {
    let shared = context.shared;
    let stats = shared.engine.stats(context.now);
    let hits = stats.total.get_hits();
    let start = slabwise_base::Seconds::START;
    Overview {
        version: env!("CARGO_PKG_VERSION"),
        process_id: std::process::id(),
        uptime_seconds: u64::from(context.now.seconds.0 - start.0),
        time_seconds: shared.unix_seconds(context.now.seconds),
        threads: shared.settings.threads,
        eviction: shared.engine.config().eviction.name(),
        page_policy: shared.tuner_status.read().page_policy,
        learns_classes: shared.tunables().set_learns_classes,
        memory_limit_bytes: stats.memory_limit_bytes,
        page_size_bytes: stats.page_size_bytes,
        held_bytes: stats.pages * stats.page_size_bytes,
        item_bytes: stats.bytes,
        resident_bytes: shared.resident_bytes(),
        model_bytes: context.memory_model().total_bytes(),
        items: stats.items,
        gets: hits + stats.get_misses,
        get_hits: hits,
        sets: stats.total.sets,
        evictions: stats.total.counters.evicted,
        page_moves: stats.mover.moved,
        connections: shared.open_connections(),
        connections_max: shared.settings.connections_max,
        refused_stores: stats.store_no_memory + stats.store_too_large,
    }
}
