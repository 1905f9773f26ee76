//! `stats plan`: the page policy in force, and the last plan that moves pages: why it was made, what it was to
//! bring, and what came of it. memcached has no such table.

use super::Rows;
use crate::context::WorkerContext;
use slabwise_base::Ticks;
use slabwise_tuner::PlanRecord;

pub(super) fn write(worker: &WorkerContext<'_>, rows: &mut Rows<'_>) {
    let shown = worker.shared.board.read();
    rows.row("page_policy", shown.page_policy);
    rows.row("moves_planned", shown.moves_planned);
    if let Some(last) = &shown.last_plan {
        write_record(last, worker.now.ticks, rows);
    }
    rows.end();
}

fn write_record(plan: &PlanRecord, now: Ticks, rows: &mut Rows<'_>) {
    rows.row("last:age", plan.at.age_at(now) / Ticks::PER_SECOND);
    rows.row("last:reason", plan.reason);
    rows.row("last:moves", plan.moves);
    rows.row("last:moves_begun", plan.begun);
    rows.row("last:moves_refused", plan.refused);
    if let Some(predicted) = plan.predicted {
        rows.row("last:predicted_before", per_thousand(predicted.misses_before));
        rows.row("last:predicted_after", per_thousand(predicted.misses_after));
    }
    for (name, effect) in [("before", plan.before), ("after", plan.after)] {
        rows.row(format_args!("last:measured_{name}"), per_thousand(effect.misses_per_thousand()));
        rows.row(format_args!("last:measured_{name}_gets"), effect.gets);
    }
}

fn per_thousand(misses: f64) -> String {
    format!("{misses:.3}")
}
