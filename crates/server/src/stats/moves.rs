//! `stats moves`: the counts of the mover since the last `stats reset`, and its last page moves.
//!
//! `stats plan`: the page policy, and its last plan with page moves: the reason, the predicted effect on misses and the
//! measured effect. memcached has neither command.

use super::{StatsContext, StatsRows};

use slabwise_base::{ClassId, Ticks};
use slabwise_engine::{MoveOutcome, MoveRecord};
use slabwise_tuner::PlanRecord;

/// Writes the rows of `stats moves`.
pub(super) fn write(context: StatsContext<'_>, rows: &mut StatsRows<'_>) {
    let engine = context.shared.engine;
    let baseline = context.shared.baseline();
    let counters = engine.mover_counters().since(&baseline.engine.mover);
    let records = engine.move_log();
    let cpu_nanos = context.shared.counters.read().since(&baseline.connections).mover_cpu_nanos;
    rows.add_all([
        ("moved", counters.moved),
        ("given_up", counters.aborted),
        ("chunks_visited", counters.visits),
        ("items_locked", counters.locked),
        ("items_pinned", counters.pinned),
        ("items_unlinked", counters.unlinked),
        ("chunks_reallocated", counters.reallocated),
        ("items_rescued", counters.rescued),
        ("bodies_rescued", counters.bodies_rescued),
        ("items_evicted", counters.evicted),
        ("cpu_us", cpu_nanos / 1_000),
        (
            "moved_per_cpu_second",
            (u128::from(counters.moved) * 1_000_000_000 / u128::from(cpu_nanos.max(1))) as u64,
        ),
        ("last_moves", records.len() as u64),
    ]);
    for (number, record) in records.iter().enumerate() {
        write_record(number, record, rows);
    }
    rows.end();
}

/// Writes the rows of one page move. `number` is the position of the move in the log, counted from 0.
fn write_record(number: usize, record: &MoveRecord, rows: &mut StatsRows<'_>) {
    // The receiver 0 means the page pool.
    let receiver = record.receiver.map_or(0, ClassId::wire);
    let outcome = match record.outcome {
        MoveOutcome::Moved => "moved",
        MoveOutcome::GivenUp => "given_up",
    };
    let mut row = |name: &str, value: &dyn std::fmt::Display| {
        rows.add(format_args!("{number}:{name}"), value);
    };
    row("victim", &record.victim.wire());
    row("receiver", &receiver);
    row("reason", &record.reason);
    row("outcome", &outcome);
    row("chunks", &record.chunks);
    row("rescued", &record.rescued);
    row("evicted", &record.evicted);
    row("gets", &record.gets);
    row("duration_us", &record.duration.as_micros());
}

/// Writes the rows of `stats plan`.
pub(super) fn write_plan(context: StatsContext<'_>, rows: &mut StatsRows<'_>) {
    let report = context.shared.tuner_status.read();
    rows.add("page_policy", report.page_policy);
    rows.add("moves_planned", report.moves_planned);
    if let Some(last) = &report.last_plan {
        write_plan_record(last, context.now.ticks, rows);
    }
    rows.end();
}

/// Writes the rows of the last plan with page moves.
fn write_plan_record(plan: &PlanRecord, now: Ticks, rows: &mut StatsRows<'_>) {
    rows.add("last:age", plan.at.age_at(now) / Ticks::PER_SECOND);
    rows.add("last:reason", plan.reason);
    rows.add("last:moves", plan.moves);
    rows.add("last:moves_begun", plan.started);
    rows.add("last:moves_refused", plan.refused);
    if let Some(predicted) = plan.predicted {
        rows.add("last:predicted_before", format_misses_per_thousand(predicted.misses_before));
        rows.add("last:predicted_after", format_misses_per_thousand(predicted.misses_after));
    }
    for (name, effect) in [("before", plan.before), ("after", plan.after)] {
        rows.add(
            format_args!("last:measured_{name}"),
            format_misses_per_thousand(effect.misses_per_thousand()),
        );
        rows.add(format_args!("last:measured_{name}_gets"), effect.gets);
    }
}

/// Formats a number of misses per thousand gets.
fn format_misses_per_thousand(misses: f64) -> String {
    format!("{misses:.3}")
}
