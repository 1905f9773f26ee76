//! `stats sizes`: a histogram of item sizes. As in memcached, a row contains the items of a range of 32 bytes.
//!
//! `stats sizes_plan`: the current class table, the best class table for the items in the cache, the waste of both
//! tables in bytes, and the reason why the best table does not replace the current table yet. memcached has no such
//! command.

use super::{StatsContext, StatsRows};
use crate::admin::commands::slab_sizes;

use slabwise_base::Ticks;
use slabwise_engine::Engine;
use slabwise_policy::sizes::Loss;
use slabwise_tuner::SizesReport;
use std::collections::BTreeMap;

/// The range of item sizes in a row of `stats sizes`, in bytes.
const BIN_BYTES: usize = 32;

/// Writes the rows of `stats sizes`.
pub(super) fn write(engine: &Engine, rows: &mut StatsRows<'_>) {
    let mut bins = BTreeMap::new();
    let size_bytes_max = engine.config().item_size_bytes_max as usize;
    for bin in engine.item_sizes().bins() {
        // The largest size of a bin of the engine's histogram may be above the maximum size of an item.
        let size_bytes = bin.size_bytes.min(size_bytes_max).next_multiple_of(BIN_BYTES);
        *bins.entry(size_bytes).or_insert(0) += bin.items;
    }
    rows.add_all(bins);
    rows.end();
}

/// Writes the rows of `stats sizes_plan`.
pub(super) fn write_plan(context: StatsContext<'_>, rows: &mut StatsRows<'_>) {
    let shared = context.shared;
    let is_learned = shared.tunables().set_learns_classes;
    rows.add("classes", if is_learned { "learned" } else { "fixed" });
    rows.add("current", slab_sizes(shared.engine.class_table().sizes()));
    if let Some(report) = shared.tuner_status.read().sizes.filter(|_| is_learned) {
        write_report(&report, context.now.ticks, rows);
    }
    rows.end();
}

/// Writes the rows about the learning of class tables.
fn write_report(report: &SizesReport, now: Ticks, rows: &mut StatsRows<'_>) {
    let seconds_since = |at: Ticks| at.age_at(now) / Ticks::PER_SECOND;
    rows.add("changes", report.changes);
    if let Some(at) = report.changed_at {
        rows.add("last_change:age", seconds_since(at));
    }
    rows.add("evaluation:age", seconds_since(report.at));
    rows.add("evaluation:items", report.items);
    rows.add("evaluation:item_bytes", report.item_bytes);
    match &report.waiting {
        Some(waiting) => rows.add("evaluation:waits_for", waiting),
        None => rows.add("evaluation:waits_for", "nothing: the table has changed"),
    }
    let Some(best) = &report.best else { return };
    rows.add("evaluation:best", slab_sizes(&best.table));
    rows.add("evaluation:moved_bytes", format_args!("{:.0}", best.moved_bytes));
    for (table, classes, loss) in [
        ("current", best.current_classes, &best.current_loss),
        ("best", best.new_classes, &best.new_loss),
    ] {
        rows.add(format_args!("{table}:classes_used"), classes);
        write_loss(table, loss, rows);
    }
}

/// Writes the waste of a class table, in bytes. Each wasted byte is weighted by the value of memory for the items of
/// its class.
fn write_loss(table: &str, loss: &Loss, rows: &mut StatsRows<'_>) {
    let mut row = |name: &str, bytes: f64| {
        rows.add(format_args!("{table}:{name}"), format_args!("{bytes:.0}"));
    };
    row("lost_inside_chunks", loss.inside_bytes);
    row("lost_at_page_ends", loss.page_end_bytes);
    row("lost_in_chains", loss.chained_bytes);
    row("lost", loss.total_bytes());
}
