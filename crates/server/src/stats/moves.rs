//! `stats moves`: what the page mover counts, and its last moves. memcached has no such table.

use super::Rows;
use slabwise_base::ClassId;
use slabwise_engine::{Engine, MoveOutcome, MoveRecord};
use std::time::Duration;

pub(super) fn write(engine: &Engine, rows: &mut Rows<'_>) {
    let counters = engine.mover_counters();
    let records = engine.move_log();
    for (name, value) in [
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
        ("last_moves", records.len() as u64),
    ] {
        rows.row(name, value);
    }
    let busy: Duration = records.iter().map(|record| record.duration).sum();
    if !busy.is_zero() {
        let pages = records.len() as f64 / busy.as_secs_f64();
        rows.row("last_moves_per_busy_second", format_args!("{pages:.1}"));
    }
    for (number, record) in records.iter().enumerate() {
        write_record(number, record, rows);
    }
    rows.end();
}

fn write_record(number: usize, record: &MoveRecord, rows: &mut Rows<'_>) {
    // The pool has number 0 on the wire.
    let receiver = record.receiver.map_or(0, ClassId::wire);
    let outcome = match record.outcome {
        MoveOutcome::Moved => "moved",
        MoveOutcome::GivenUp => "given_up",
    };
    let mut row = |name: &str, value: &dyn std::fmt::Display| {
        rows.row(format_args!("{number}:{name}"), value);
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
