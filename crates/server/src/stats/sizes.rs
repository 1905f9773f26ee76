//! `stats sizes`: how many items there are by size, in memcached's steps.
//!
//! `stats sizes_plan`: the class table in force, the best one for the items in the cache, what either loses, and why
//! the table stays as it is. memcached has no such table.

use super::Rows;
use crate::admin::commands::slab_sizes;
use crate::shared::WorkerContext;
use slabwise_base::Ticks;
use slabwise_engine::Engine;
use slabwise_policy::sizes::Loss;
use slabwise_tuner::SizesReport;
use std::collections::BTreeMap;

const SIZE_STEP_BYTES: usize = 32;

pub(super) fn write(engine: &Engine, rows: &mut Rows<'_>) {
    let mut steps = BTreeMap::new();
    let size_bytes_max = engine.config().item_size_bytes_max as usize;
    for bar in engine.item_sizes().bars() {
        // A bar's largest size may be larger than any item.
        let size_bytes = bar.size_bytes.min(size_bytes_max).next_multiple_of(SIZE_STEP_BYTES);
        *steps.entry(size_bytes).or_insert(0) += bar.items;
    }
    rows.all(steps);
    rows.end();
}

pub(super) fn write_plan(worker: &WorkerContext<'_>, rows: &mut Rows<'_>) {
    let shared = worker.shared;
    let is_learned = shared.tunables().learn_classes;
    rows.row("classes", if is_learned { "learned" } else { "fixed" });
    rows.row("present", slab_sizes(shared.engine.class_table().sizes()));
    if let Some(report) = shared.board.read().sizes.filter(|_| is_learned) {
        write_report(&report, worker.now.ticks, rows);
    }
    rows.end();
}

fn write_report(report: &SizesReport, now: Ticks, rows: &mut Rows<'_>) {
    let seconds_since = |at: Ticks| at.age_at(now) / Ticks::PER_SECOND;
    rows.row("changes", report.changes);
    if let Some(at) = report.changed_at {
        rows.row("last_change:age", seconds_since(at));
    }
    rows.row("look:age", seconds_since(report.at));
    rows.row("look:items", report.items);
    rows.row("look:item_bytes", report.item_bytes);
    match &report.waiting {
        Some(waiting) => rows.row("look:waits_for", waiting),
        None => rows.row("look:waits_for", "nothing: the table was changed"),
    }
    let Some(best) = &report.best else { return };
    rows.row("look:best", slab_sizes(&best.table));
    rows.row("look:moved_bytes", format_args!("{:.0}", best.moved_bytes));
    for (when, classes, loss) in
        [("now", best.classes_now, &best.loss_now), ("then", best.classes_then, &best.loss_then)]
    {
        rows.row(format_args!("{when}:classes_used"), classes);
        write_loss(when, loss, rows);
    }
}

/// Bytes, each times what it is worth.
fn write_loss(when: &str, loss: &Loss, rows: &mut Rows<'_>) {
    let mut row = |name: &str, bytes: f64| {
        rows.row(format_args!("{when}:{name}"), format_args!("{bytes:.0}"));
    };
    row("lost_inside_chunks", loss.inside_bytes);
    row("lost_at_page_ends", loss.page_end_bytes);
    row("lost_in_chains", loss.chained_bytes);
    row("lost", loss.total_bytes());
}
