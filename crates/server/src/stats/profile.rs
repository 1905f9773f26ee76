//! `stats profile`: the miss-ratio curve of each class, the predicted miss ratio of the cache with other amounts of
//! memory, and the memory and processor time that profiling uses. memcached has no such command.

use super::{StatsContext, StatsRows};

use slabwise_policy::{ClassProfile, ClassSnapshot};
use slabwise_tuner::{ProfileReport, ProfilingStats};

/// The memory sizes at which the miss-ratio curve of a class is shown, in percent of the class's current memory.
const CURVE_PERCENTS: [u64; 12] = [12, 25, 50, 75, 90, 100, 110, 125, 150, 200, 300, 400];

/// Writes the rows of `stats profile`.
pub(super) fn write(context: StatsContext<'_>, rows: &mut StatsRows<'_>) {
    let shared = context.shared;
    let report = shared.tuner_status.read().profile;
    rows.add("profile", if report.is_some() { "on" } else { "off" });
    if let Some(report) = report {
        let counts = shared.counters.read().since(&shared.baseline().connections);
        write_overhead(&report.stats, counts.profile_cpu_nanos, rows);
        write_cache(&report, rows);
        for (class, profile) in report.snapshot.classes.iter().zip(&report.snapshot.profiles) {
            if profile.curve.references() > 0.0 {
                write_class(class, profile, rows);
            }
        }
    }
    rows.end();
}

/// Writes the rows about the sample, and about the memory and the processor time of profiling.
fn write_overhead(stats: &ProfilingStats, cpu_nanos: u64, rows: &mut StatsRows<'_>) {
    rows.add("sample_rate", format_args!("{:.6}", stats.rate));
    rows.add("keys", stats.keys);
    rows.add("keys_max", stats.keys_max);
    rows.add("accesses", stats.accesses);
    rows.add("accesses_dropped", stats.accesses_dropped);
    rows.add("bytes", stats.size_bytes);
    rows.add("cpu_us", cpu_nanos / 1_000);
    rows.add("hit_time_us", format_args!("{:.3}", stats.hit_time_us));
}

/// Writes the miss ratio according to the curves with the current partition, and the predicted miss ratio with other
/// amounts of memory.
fn write_cache(report: &ProfileReport, rows: &mut StatsRows<'_>) {
    let snapshot = &report.snapshot;
    let classes = || snapshot.classes.iter().zip(&snapshot.profiles);
    let references: f64 = classes().map(|(_, profile)| profile.curve.references()).sum();
    let misses = classes().map(|(class, profile)| profile.curve.misses(chunks(class)));
    let misses: f64 = misses.sum();
    let unstored = snapshot.recent.unstored;
    rows.add("references", format_args!("{references:.0}"));
    rows.add("unstored_gets", format_args!("{unstored:.0}"));
    rows.add("miss_ratio", ratio(misses + unstored, references + unstored));
    for point in &report.what_if {
        let name = format_args!("what_if:{}", point.memory_percent);
        rows.add(name, format_args!("{:.6}", point.miss_ratio));
        let bounds = [("low", point.miss_ratio_low), ("high", point.miss_ratio_high)];
        for (bound, miss_ratio) in bounds {
            let name = format_args!("what_if_{bound}:{}", point.memory_percent);
            rows.add(name, format_args!("{miss_ratio:.6}"));
        }
    }
}

/// Writes the rows of a class.
fn write_class(class: &ClassSnapshot, profile: &ClassProfile, rows: &mut StatsRows<'_>) {
    let (curve, chunks) = (&profile.curve, chunks(class));
    let chunks_per_page = class.chunks_per_page as u64;
    let misses = curve.misses(chunks);
    let number = class.class.wire();
    let mut row = |name: &str, value: String| rows.add(format_args!("{number}:{name}"), value);
    row("chunks", chunks.to_string());
    row("references", format!("{:.0}", curve.references()));
    row("miss_ratio", ratio(misses, curve.references()));
    row("hits_of_next_page", format!("{:.1}", misses - curve.misses(chunks + chunks_per_page)));
    let fewer = chunks.saturating_sub(chunks_per_page);
    row("hits_of_last_page", format!("{:.1}", curve.misses(fewer) - misses));
    row("misses_by_eviction", format!("{:.0}", profile.misses_by_eviction));
    row("miss_time_us", format!("{:.0}", profile.miss_time_us));
    // The percentages of a class without pages refer to one page.
    let current = chunks.max(chunks_per_page);
    for percent in CURVE_PERCENTS {
        let misses = curve.misses(current * percent / 100);
        row(&format!("curve:{percent}"), ratio(misses, curve.references()));
    }
}

/// Returns the number of chunks on the pages of a class.
fn chunks(class: &ClassSnapshot) -> u64 {
    class.pages * class.chunks_per_page as u64
}

/// Formats the miss ratio of a number of references, which is 0 if there are no references.
fn ratio(misses: f64, references: f64) -> String {
    format!("{:.6}", if references > 0.0 { misses / references } else { 0.0 })
}
