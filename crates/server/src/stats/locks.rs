//! `stats locks`: how often threads took the locks of the cache since the last `stats reset`, and how long they waited
//! for them. memcached has no such command.

use super::{StatsContext, StatsRows};

/// Writes the rows of `stats locks`.
pub(super) fn write(context: StatsContext<'_>, rows: &mut StatsRows<'_>) {
    let baseline = context.shared.baseline();
    let mut earlier = baseline.locks.iter();
    for locks in context.shared.engine.lock_stats() {
        let locks = locks.since(earlier.next());
        let (total, busiest) = (locks.total(), locks.busiest());
        for (name, value) in [
            ("locks", locks.used_count() as u64),
            ("taken", total.taken),
            ("contended", total.contended),
            ("wait_ns", total.wait_nanos),
            ("busiest_taken", busiest.taken),
            ("busiest_contended", busiest.contended),
            ("busiest_wait_ns", busiest.wait_nanos),
        ] {
            rows.add(format_args!("{}:{name}", locks.kind.name()), value);
        }
    }
    rows.end();
}
