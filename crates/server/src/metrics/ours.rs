//! The metrics of slabwise that no memcached has. Counters count since the start of the server.

use super::families::{Families, Labels, Metric};
use crate::shared::COMMAND_NAMES;
use crate::stats::StatsContext;
use slabwise_engine::ClassStats;
use slabwise_policy::{ClassProfile, ClassSnapshot};
use slabwise_tuner::{PlanRecord, ProfileReport};

const PAGE_SIZE: Metric = Metric::gauge("slabwise_page_size_bytes", "The size of a page.");
const PAGES: Metric = Metric::gauge(
    "slabwise_pages",
    "Pages by state. class: owned by a class; pool: free, with memory; unused: not taken from the system.",
);
const MOVES: Metric = Metric::counter(
    "slabwise_page_moves_total",
    "Page moves by outcome: moved, or given_up because a chunk could not be emptied. Moves without a plan count too: of \
     retired classes, for stores that found no chunk, and by commands.",
);
const MOVED_ITEMS: Metric = Metric::counter(
    "slabwise_page_move_items_total",
    "Items on moving pages by outcome: rescued to another page, or evicted.",
);
const BACKGROUND_CPU: Metric = Metric::counter(
    "slabwise_background_cpu_seconds_total",
    "Processor time of the mover, and of the profiler with the computation of plans.",
);
const BACKGROUND_STEPS: Metric = Metric::counter(
    "slabwise_background_steps_total",
    "Steps of the background threads tuner and lru-maintainer. A thread that runs makes a step at least every ten \
     minutes.",
);
const PLANNED_MOVES: Metric = Metric::counter(
    "slabwise_planned_page_moves_total",
    "Page moves that the page policy planned; the label is its name.",
);
const PLAN_PREDICTED: Metric = Metric::gauge(
    "slabwise_last_plan_predicted_miss_ratio",
    "Predicted miss ratio before and after the last plan.",
);
const PLAN_MEASURED: Metric = Metric::gauge(
    "slabwise_last_plan_measured_miss_ratio",
    "Measured miss ratio before and after the last plan, over at most 100,000 gets each.",
);
const PREDICTED: Metric = Metric::gauge(
    "slabwise_predicted_miss_ratio",
    "Predicted miss ratio if the present memory were multiplied by the factor of the label.",
);
const PREDICTED_LOW: Metric = Metric::gauge(
    "slabwise_predicted_miss_ratio_low",
    "Lower end of the error band of slabwise_predicted_miss_ratio.",
);
const PREDICTED_HIGH: Metric = Metric::gauge(
    "slabwise_predicted_miss_ratio_high",
    "Upper end of the error band of slabwise_predicted_miss_ratio.",
);
const PROFILED: Metric = Metric::counter(
    "slabwise_profile_accesses_total",
    "Accesses to sampled keys: counted, or dropped because they arrived too fast.",
);
const SAMPLING: Metric = Metric::gauge("slabwise_profile_sampling_ratio", "Share of keys sampled.");
const MEMORY: Metric = Metric::gauge(
    "slabwise_memory_bytes",
    "Memory whose size clients determine, in addition to items, by its use.",
);
const MEMORY_LIMIT: Metric =
    Metric::gauge("slabwise_memory_limit_bytes", "The limit of slabwise_memory_bytes by its use.");
const MODEL: Metric = Metric::gauge(
    "slabwise_memory_model_bytes",
    "The maximum of each part of the process's memory. The part items is the memory limit (-m).",
);
const RESIDENT: Metric =
    Metric::gauge("slabwise_resident_bytes", "Resident memory of the process.");
const REFUSALS: Metric = Metric::counter(
    "slabwise_refusals_total",
    "Refusals that protect the memory: uploads (silent_upload, upload_timeout) and connections (slow_reader).",
);
const LOCK_TAKEN: Metric = Metric::counter(
    "slabwise_lock_taken_total",
    "Locks that threads have taken, by lock: a stripe of the index, a class, the page pool, or the mover.",
);
const LOCK_CONTENDED: Metric = Metric::counter(
    "slabwise_lock_contended_total",
    "Locks for which a thread had to wait, because another thread held them.",
);
const LOCK_WAIT: Metric =
    Metric::counter("slabwise_lock_wait_seconds_total", "Time that threads waited for locks.");
const DURATION: Metric = Metric::histogram(
    "slabwise_request_duration_seconds",
    "Time from the receive call of a request to the send call of its reply, in one of 64 rounds of the connections: so the \
     count is not the number of requests. A pipelined request counts with the time of all requests that were read with it.",
);
const SLAB_TAKEN: Metric =
    Metric::counter("slabwise_slab_pages_taken_total", "Pages that the class received.");
const SLAB_RELEASED: Metric =
    Metric::counter("slabwise_slab_pages_released_total", "Pages that the class gave away.");
const SLAB_RETIRED: Metric = Metric::gauge(
    "slabwise_slab_retired",
    "1 if the class left the class table, and its items move to other classes.",
);
const SLAB_LOST: Metric = Metric::gauge(
    "slabwise_slab_lost_bytes",
    "Memory of the class without content. inside_chunks: chunks larger than their items; free_chunks: chunks without \
     items; page_ends: the ends of pages, which are smaller than a chunk.",
);
const SLAB_MISS_RATIO: Metric = Metric::gauge(
    "slabwise_slab_predicted_miss_ratio",
    "Miss ratio of the keys of the class according to its curve, with its present pages.",
);
const SLAB_NEXT_PAGE: Metric = Metric::gauge(
    "slabwise_slab_next_page_hit_ratio",
    "Share of all gets that would hit in addition if the class had one more page, according to its curve.",
);
const SLAB_LAST_PAGE: Metric = Metric::gauge(
    "slabwise_slab_last_page_hit_ratio",
    "Share of all gets that would miss in addition if the class had one page less, according to its curve.",
);

/// Adds the metrics. Those of classes are left out if `has_classes` is false.
pub(super) fn add(context: StatsContext<'_>, has_classes: bool, families: &mut Families) {
    add_pages(context, families);
    add_tuning(context, families);
    add_memory(context, families);
    add_locks(context, families);
    add_durations(context, families);
    let report = context.shared.tuner_status.read().profile;
    if let Some(report) = &report {
        add_profile(report, has_classes, families);
    }
    if has_classes {
        let page_size_bytes = context.shared.engine.config().page_size_bytes as u64;
        for class in context.shared.engine.class_stats(context.now) {
            add_class(&class, page_size_bytes, families);
        }
    }
}

fn add_pages(context: StatsContext<'_>, families: &mut Families) {
    let engine = context.shared.engine;
    let pages = engine.page_stats();
    families.add(PAGE_SIZE, &[], engine.config().page_size_bytes as f64);
    for (state, count) in [
        ("class", pages.held.saturating_sub(pages.free)),
        ("pool", pages.free),
        ("unused", pages.limit_for_items.saturating_sub(pages.held)),
    ] {
        families.add(PAGES, &[("state", state)], count as f64);
    }
    let mover = engine.mover_counters();
    for (outcome, count) in [("moved", mover.moved), ("given_up", mover.aborted)] {
        families.add(MOVES, &[("outcome", outcome)], count as f64);
    }
    for (outcome, count) in [("rescued", mover.carried()), ("evicted", mover.evicted)] {
        families.add(MOVED_ITEMS, &[("outcome", outcome)], count as f64);
    }
}

/// Adds the metrics of the background threads, and of the page policy and its last plan.
fn add_tuning(context: StatsContext<'_>, families: &mut Families) {
    let shared = context.shared;
    let counts = shared.counters.read();
    for (work, nanos) in [("mover", counts.mover_cpu_nanos), ("profiler", counts.profile_cpu_nanos)]
    {
        families.add(BACKGROUND_CPU, &[("work", work)], nanos as f64 / 1e9);
    }
    if shared.settings.lru_maintainer {
        let labels: Labels<'_> = &[("thread", "lru-maintainer")];
        families.add(BACKGROUND_STEPS, labels, counts.maintainer_steps as f64);
    }
    if shared.settings.runs_tuner() {
        families.add(BACKGROUND_STEPS, &[("thread", "tuner")], counts.tuner_steps as f64);
    }
    let report = shared.tuner_status.read();
    let policy: Labels<'_> = &[("policy", report.page_policy)];
    families.add(PLANNED_MOVES, policy, report.moves_planned as f64);
    if let Some(plan) = &report.last_plan {
        add_plan(plan, families);
    }
}

fn add_plan(plan: &PlanRecord, families: &mut Families) {
    if let Some(predicted) = plan.predicted {
        for (time, misses) in
            [("before", predicted.misses_before), ("after", predicted.misses_after)]
        {
            families.add(PLAN_PREDICTED, &[("time", time)], misses / 1_000.0);
        }
    }
    for (time, effect) in [("before", plan.before), ("after", plan.after)] {
        if effect.gets > 0 {
            let ratio = effect.misses_per_thousand() / 1_000.0;
            families.add(PLAN_MEASURED, &[("time", time)], ratio);
        }
    }
}

fn add_memory(context: StatsContext<'_>, families: &mut Families) {
    let shared = context.shared;
    let (uploads, replies) = (shared.uploads.stats(), shared.replies.stats());
    let (watcher_bytes, watcher_bytes_max) = shared.watch.buffer_bytes();
    for (used_for, bytes, bytes_max) in [
        ("uploads", uploads.admitted_bytes, uploads.budget_bytes),
        ("replies", replies.buffered_bytes, replies.buffered_bytes_max),
        ("pinned_values", replies.pinned_bytes, replies.pinned_bytes_max),
        ("watchers", watcher_bytes as u64, watcher_bytes_max as u64),
    ] {
        families.add(MEMORY, &[("use", used_for)], bytes as f64);
        families.add(MEMORY_LIMIT, &[("use", used_for)], bytes_max as f64);
    }
    for (reason, count) in [
        ("silent_upload", uploads.counts.refused_silent),
        ("upload_timeout", uploads.counts.refused_timeout),
        ("slow_reader", replies.counts.disconnected),
    ] {
        families.add(REFUSALS, &[("reason", reason)], count as f64);
    }
    let model = context.memory_model();
    families.add(MODEL, &[("part", "items")], model.items_bytes() as f64);
    for part in model.parts() {
        families.add(MODEL, &[("part", part.name)], part.bytes_max as f64);
    }
    if let Some(bytes) = shared.resident_bytes() {
        families.add(RESIDENT, &[], bytes as f64);
    }
}

fn add_locks(context: StatsContext<'_>, families: &mut Families) {
    for locks in context.shared.engine.lock_stats() {
        let (labels, total) = ([("lock", locks.kind.name())], locks.total());
        families.add(LOCK_TAKEN, &labels, total.taken as f64);
        families.add(LOCK_CONTENDED, &labels, total.contended as f64);
        families.add(LOCK_WAIT, &labels, total.wait_nanos as f64 / 1e9);
    }
}

fn add_durations(context: StatsContext<'_>, families: &mut Families) {
    let Some(durations) = context.shared.durations() else { return };
    for (command, counts) in COMMAND_NAMES.iter().zip(&durations) {
        let sum = counts.sum_nanos as f64 / 1e9;
        families.add_histogram(DURATION, &[("command", command)], counts.ranges(), sum);
    }
}

/// Adds the predictions from the curves.
fn add_profile(report: &ProfileReport, has_classes: bool, families: &mut Families) {
    let stats = &report.stats;
    families.add(SAMPLING, &[], stats.rate);
    for (outcome, count) in [("counted", stats.accesses), ("dropped", stats.accesses_dropped)] {
        families.add(PROFILED, &[("outcome", outcome)], count as f64);
    }
    for point in &report.what_if {
        let factor = point.memory_percent as f64 / 100.0;
        let labels = [("memory_factor", &*factor.to_string())];
        families.add(PREDICTED, &labels, point.miss_ratio);
        families.add(PREDICTED_LOW, &labels, point.miss_ratio_low);
        families.add(PREDICTED_HIGH, &labels, point.miss_ratio_high);
    }
    let snapshot = &report.snapshot;
    let gets = snapshot.profiled_gets();
    if !has_classes || gets <= 0.0 {
        return;
    }
    for (class, profile) in snapshot.classes.iter().zip(&snapshot.profiles) {
        if profile.curve.references() > 0.0 {
            add_curve(class, profile, gets, families);
        }
    }
}

/// Adds what the curve of a class predicts for one page more and one less. `gets` is the number of gets of all classes
/// in the profile.
fn add_curve(class: &ClassSnapshot, profile: &ClassProfile, gets: f64, families: &mut Families) {
    let number = class.class.wire().to_string();
    let labels: Labels<'_> = &[("slab", &number)];
    let (curve, chunks_per_page) = (&profile.curve, class.chunks_per_page as u64);
    let chunks = class.pages * chunks_per_page;
    let misses = curve.misses(chunks);
    let fewer = curve.misses(chunks.saturating_sub(chunks_per_page));
    families.add(SLAB_MISS_RATIO, labels, misses / curve.references());
    families.add(SLAB_NEXT_PAGE, labels, (misses - curve.misses(chunks + chunks_per_page)) / gets);
    families.add(SLAB_LAST_PAGE, labels, (fewer - misses) / gets);
}

/// Adds the page moves and the waste of a class, unless it never had a page.
fn add_class(class: &ClassStats, page_size_bytes: u64, families: &mut Families) {
    let Some(id) = class.class else { return };
    if class.pages == 0 && class.counters.pages_taken == 0 {
        return;
    }
    let number = id.wire().to_string();
    let labels: Labels<'_> = &[("slab", &number)];
    families.add(SLAB_TAKEN, labels, class.counters.pages_taken as f64);
    families.add(SLAB_RELEASED, labels, class.counters.pages_released as f64);
    families.add(SLAB_RETIRED, labels, f64::from(u8::from(class.retired)));
    let waste = class.waste(page_size_bytes);
    for (reason, bytes) in [
        ("inside_chunks", waste.inside_chunks_bytes),
        ("free_chunks", waste.free_chunks_bytes),
        ("page_ends", waste.page_ends_bytes),
    ] {
        families.add(SLAB_LOST, &[labels[0], ("reason", reason)], bytes as f64);
    }
}
