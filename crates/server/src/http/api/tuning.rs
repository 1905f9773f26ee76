//! `/api/v1/what-if`: predictions for more and less memory. `/api/v1/plans`: the page moves and their reasons.
//! `/api/v1/sizes`: the class table.

use crate::stats::StatsContext;
use serde::Serialize;
use slabwise_base::{ClassId, Ticks};
use slabwise_engine::MoveOutcome;
use slabwise_policy::sizes::Loss;
use slabwise_tuner::{Effect, PlanRecord};

/// The maximum number of item sizes in the histogram.
const SIZES_MAX: usize = 256;

#[derive(Serialize)]
pub(super) struct WhatIf {
    memory_limit_bytes: u64,
    /// The share of keys that are profiled.
    sampling_ratio: f64,
    /// The number of recent gets from which the predictions are computed.
    gets: f64,
    points: Vec<WhatIfPoint>,
}

#[derive(Serialize)]
struct WhatIfPoint {
    memory_percent: u64,
    miss_ratio: f64,
    miss_ratio_low: f64,
    miss_ratio_high: f64,
}

/// Returns `None` if keys are not profiled.
pub(super) fn what_if(context: StatsContext<'_>) -> Option<WhatIf> {
    let report = context.shared.tuner_status.read().profile?;
    let point = |point: &slabwise_policy::partition::WhatIf| WhatIfPoint {
        memory_percent: point.memory_percent,
        miss_ratio: point.miss_ratio,
        miss_ratio_low: point.miss_ratio_low,
        miss_ratio_high: point.miss_ratio_high,
    };
    Some(WhatIf {
        memory_limit_bytes: context.shared.engine.stats(context.now).memory_limit_bytes,
        sampling_ratio: report.stats.rate,
        gets: report.snapshot.profiled_gets(),
        points: report.what_if.iter().map(point).collect(),
    })
}

#[derive(Serialize)]
pub(super) struct Plans {
    page_policy: &'static str,
    moves_planned: u64,
    /// The last plans with page moves, newest first.
    plans: Vec<PlanEntry>,
    /// The last page moves, newest first.
    moves: Vec<MoveEntry>,
}

/// A plan, or a series of plans for one reason.
#[derive(Serialize)]
struct PlanEntry {
    age_seconds: u32,
    reason: &'static str,
    moves: usize,
    moves_begun: usize,
    moves_refused: usize,
    /// `None` if the policy makes no prediction.
    predicted_miss_ratio_before: Option<f64>,
    predicted_miss_ratio_after: Option<f64>,
    /// `None` if there were no gets.
    measured_miss_ratio_before: Option<f64>,
    measured_miss_ratio_after: Option<f64>,
    measured_gets_after: u64,
}

#[derive(Serialize)]
struct MoveEntry {
    age_seconds: u32,
    from_class: u32,
    /// 0 for the page pool.
    to_class: u32,
    reason: &'static str,
    is_moved: bool,
    items_rescued: u64,
    items_evicted: u64,
    duration_us: u64,
}

pub(super) fn plans(context: StatsContext<'_>) -> Plans {
    let report = context.shared.tuner_status.read();
    let age_seconds = |at: Ticks| at.age_at(context.now.ticks) / Ticks::PER_SECOND;
    let plans = report.older_plans.iter().chain(&report.last_plan).rev();
    let moves = context.shared.engine.move_log().into_iter().rev();
    Plans {
        page_policy: report.page_policy,
        moves_planned: report.moves_planned,
        plans: plans.map(|plan| plan_entry(plan, age_seconds(plan.at))).collect(),
        moves: moves
            .map(|record| MoveEntry {
                age_seconds: age_seconds(record.ended_at),
                from_class: record.victim.wire(),
                to_class: record.receiver.map_or(0, ClassId::wire),
                reason: record.reason,
                is_moved: record.outcome == MoveOutcome::Moved,
                items_rescued: record.rescued,
                items_evicted: record.evicted,
                duration_us: record.duration.as_micros() as u64,
            })
            .collect(),
    }
}

fn plan_entry(plan: &PlanRecord, age_seconds: u32) -> PlanEntry {
    let measured =
        |effect: Effect| (effect.gets > 0).then(|| effect.misses_per_thousand() / 1_000.0);
    PlanEntry {
        age_seconds,
        reason: plan.reason,
        moves: plan.moves,
        moves_begun: plan.started,
        moves_refused: plan.refused,
        predicted_miss_ratio_before: plan.predicted.map(|it| it.misses_before / 1_000.0),
        predicted_miss_ratio_after: plan.predicted.map(|it| it.misses_after / 1_000.0),
        measured_miss_ratio_before: measured(plan.before),
        measured_miss_ratio_after: measured(plan.after),
        measured_gets_after: plan.after.gets,
    }
}

#[derive(Serialize)]
pub(super) struct Sizes {
    is_learned: bool,
    /// The chunk sizes at the start of the server, before any learning.
    first_table_bytes: Vec<u32>,
    table_bytes: Vec<u32>,
    /// The number of changes of the table since the start.
    changes: u64,
    last_change_age_seconds: Option<u32>,
    /// What the server waits for before it changes the table again.
    waits_for: Option<String>,
    /// The waste of the current table and of the best one; `None` before the first evaluation.
    current_waste: Option<Waste>,
    best_waste: Option<Waste>,
    /// The number of items by size.
    items: Vec<SizeCount>,
}

/// The waste of a class table in bytes. Each wasted byte counts with the value of memory for the items of its class.
#[derive(Serialize)]
struct Waste {
    inside_chunks_bytes: f64,
    page_ends_bytes: f64,
    chains_bytes: f64,
}

#[derive(Serialize)]
struct SizeCount {
    size_bytes_max: usize,
    items: u64,
}

pub(super) fn sizes(context: StatsContext<'_>) -> Sizes {
    let shared = context.shared;
    let is_learned = shared.tunables().set_learns_classes;
    let report = shared.tuner_status.read().sizes.filter(|_| is_learned);
    let best = report.as_ref().and_then(|report| report.best.as_ref());
    let age_seconds = |at: Ticks| at.age_at(context.now.ticks) / Ticks::PER_SECOND;
    let histogram = shared.engine.item_sizes();
    let bins: Vec<SizeCount> = histogram
        .bins()
        .map(|bin| SizeCount { size_bytes_max: bin.size_bytes, items: bin.items })
        .collect();
    Sizes {
        is_learned,
        first_table_bytes: shared.settings.engine.classes.sizes().to_vec(),
        table_bytes: shared.engine.class_table().sizes().to_vec(),
        changes: report.as_ref().map_or(0, |report| report.changes),
        last_change_age_seconds: report.as_ref().and_then(|it| it.changed_at).map(age_seconds),
        waits_for: report.as_ref().and_then(|it| Some(it.waiting.as_ref()?.to_string())),
        current_waste: best.map(|best| waste(&best.current_loss)),
        best_waste: best.map(|best| waste(&best.new_loss)),
        items: merged(bins),
    }
}

fn waste(loss: &Loss) -> Waste {
    Waste {
        inside_chunks_bytes: loss.inside_bytes,
        page_ends_bytes: loss.page_end_bytes,
        chains_bytes: loss.chained_bytes,
    }
}

/// Merges adjacent sizes, so that there are at most [`SIZES_MAX`].
fn merged(sizes: Vec<SizeCount>) -> Vec<SizeCount> {
    let group_len = sizes.len().div_ceil(SIZES_MAX).max(1);
    let merge = |group: &[SizeCount]| SizeCount {
        size_bytes_max: group.last().map_or(0, |last| last.size_bytes_max),
        items: group.iter().map(|size| size.items).sum(),
    };
    sizes.chunks(group_len).map(merge).collect()
}
