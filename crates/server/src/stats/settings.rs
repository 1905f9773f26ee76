//! `stats settings`: the settings, with what commands have changed since the start.

use super::Rows;
use crate::config::{Running, report};
use crate::context::WorkerContext;

pub(super) fn write(worker: &WorkerContext<'_>, rows: &mut Rows<'_>) {
    let shared = worker.shared;
    let engine = shared.engine;
    let running = Running {
        settings: shared.settings,
        tunables: &shared.tunables,
        lru: engine.lru(),
        memory_limit_bytes: engine.page_stats().limit * engine.config().page_size_bytes as u64,
        detail_enabled: shared.counts_prefixes(),
    };
    for (name, value) in report(&running) {
        rows.row(name, value);
    }
    rows.end();
}
