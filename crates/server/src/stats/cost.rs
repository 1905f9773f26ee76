//! `stats cost`: the cost that hits saved, the cost of items that were stored after misses, and the cost of the items
//! in the cache, in total, for each class and for each key prefix. memcached has no such command.

use super::{StatsContext, StatsRows};

use slabwise_engine::ClassStats;
use slabwise_protocol::text::{CostWire, write_percent_encoded};

/// The maximum number of prefixes that are shown. They are the prefixes with the highest costs.
const PREFIXES_MAX: usize = 100;

/// Writes the rows of `stats cost`.
pub(super) fn write(context: StatsContext<'_>, rows: &mut StatsRows<'_>) {
    let (shared, now) = (context.shared, context.now);
    let baseline = shared.baseline();
    let accepts_costs = shared.settings.cost_wire == CostWire::On;
    rows.add("cost_wire", if accepts_costs { "on" } else { "off" });
    rows.add("cost", if shared.measured_costs.is_some() { "measured" } else { "client" });
    if let Some(measured) = &shared.measured_costs {
        let counted = measured.counts();
        let counts = counted.counts.since(&baseline.timed_misses);
        rows.add("misses_timed", counts.timed);
        rows.add("misses_stored_late", counts.late);
        rows.add("misses_forgotten", counts.forgotten);
        rows.add("misses_answered", counts.answered);
        rows.add("misses_waiting", counted.waiting);
        rows.add("measuring_bytes", counted.size_bytes);
    }
    rows.add_all(cost_rows(&shared.engine.stats(now).total.since(&baseline.engine.total)));
    for class in shared.engine.class_stats(now) {
        let class = baseline.since(&class);
        let (Some(id), true) = (class.class, class.inserted > 0 || class.cost_held > 0) else {
            continue;
        };
        for (name, value) in cost_rows(&class) {
            rows.add(format_args!("{}:{name}", id.wire()), value);
        }
    }
    for (prefix, counts) in shared.prefixes.costliest(PREFIXES_MAX) {
        // A prefix can contain any byte, because meta commands accept keys in base64.
        let mut text = Vec::new();
        write_percent_encoded(&mut text, &prefix);
        let prefix = String::from_utf8_lossy(&text);
        rows.add(format_args!("prefix:{prefix}:cost_saved"), counts.cost_saved);
        rows.add(format_args!("prefix:{prefix}:cost_paid"), counts.cost_paid);
    }
    rows.end();
}

/// Returns the rows about costs of a class or of the whole cache.
fn cost_rows(stats: &ClassStats) -> [(&'static str, String); 6] {
    let mean = stats.cost_paid as f64 / stats.costs_known.max(1) as f64;
    [
        ("inserted", stats.inserted.to_string()),
        ("costs_known", stats.costs_known.to_string()),
        ("cost_saved", stats.cost_saved.to_string()),
        ("cost_paid", stats.cost_paid.to_string()),
        ("mean_cost_paid", format!("{mean:.2}")),
        ("cost_held", stats.cost_held.to_string()),
    ]
}
