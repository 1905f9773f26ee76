//! `stats memory`: the memory whose size clients determine, besides the items: how much is used, the limits, and the
//! refusals; and the maximum of each part of the process's memory. memcached has no such command.

use super::{StatsContext, StatsRows};

/// Writes the rows of `stats memory`.
pub(super) fn write(context: StatsContext<'_>, rows: &mut StatsRows<'_>) {
    let shared = context.shared;
    let baseline = shared.baseline();
    let uploads = shared.uploads.stats();
    let counts = uploads.counts.since(&baseline.uploads);
    rows.add_all([
        ("uploads", uploads.admitted as u64),
        ("upload_bytes", uploads.admitted_bytes),
        ("upload_limit_bytes", uploads.budget_bytes),
        ("uploads_waiting", uploads.waiting as u64),
        ("upload_waits", counts.waited),
        ("upload_refused_silent", counts.refused_silent),
        ("upload_refused_timeout", counts.refused_timeout),
    ]);
    let replies = shared.replies.stats();
    let counts = replies.counts.since(&baseline.replies);
    rows.add_all([
        ("reply_bytes", replies.buffered_bytes),
        ("reply_limit_bytes", replies.buffered_bytes_max),
        ("pinned_bytes", replies.pinned_bytes),
        ("pinned_limit_bytes", replies.pinned_bytes_max),
        ("gets_waiting", replies.waiting),
        ("get_waits", counts.waits),
        ("slow_readers_closed", counts.disconnected),
    ]);
    let (watcher_bytes, watcher_bytes_max) = shared.watch.buffer_bytes();
    let counts = shared.watch.counts();
    rows.add("watcher_bytes", watcher_bytes);
    rows.add("watcher_limit_bytes", watcher_bytes_max);
    rows.add("watcher_lines_dropped", counts.skipped);
    let model = context.memory_model();
    for part in model.parts() {
        rows.add(format_args!("model_{}_bytes", part.name), part.bytes_max);
    }
    rows.add("model_total_bytes", model.total_bytes());
    rows.end();
}
