//! Adds the rows of all trials: the values of each variant, the comparisons of variants over all memory limits, and the
//! ranks of the variants.

use super::findings::{BOUND, Findings};
use super::memory;
use super::setup::{PoliciesSetup, Report, Variant};
use crate::result::{Measure, Outcome, format_number, maximum, mean, measures, minimum};
use crate::trial::curves::WORKING_SET_POINTS;
use crate::trial::run::{Run, value_len_max};
use crate::trial::run_record::{
    MEAN, PAGES, PAGES_STEADY, RunRecord, STEADY, add_at_target, add_fewer_gets, add_gets,
    add_mover_counts, add_response_series, add_series, add_steady, steady,
};
use crate::trial::setup::{EarlierSetup, scaled};
use std::collections::BTreeSet;

measures! {
    WORKING_SET: "working_set_items", "working-set size", "items", WithRun;
    TAIL_AGES: "tail_age_difference", "difference of the classes' tail ages from their mean, at the end", "%", Fixed;
    HITS: "hits", "requests that hit", "requests", WithRun;
    MEAN_TIME: "mean_response_time", "mean response time", "us", Fixed;
    STEADY_TIME: "steady_response_time", "steady mean response time", "us", Fixed;
    STRETCH: "stretch_miss_ratio", "miss ratio of a stretch", "%", Fixed;
    FEWER_IN_STRETCH: "fewer_misses_stretch", "fewer misses in a stretch", "%", Fixed;
    RANK: "rank", "rank by misses, of the policies that the source compares; 1 for the fewest", "", Fixed;
    RANK_STEADY_AT: "rank_steady_since", "rank by requests until the miss ratio is steady, of variants that save misses; 1 for the fewest", "", Fixed;
    MOVING: "requests_moving", "requests from the decision to the last page", "requests", WithRun;
    REACHED: "potential_reached", "reduction of misses, relative to the reduction of the bound", "%", Fixed;
    FEWER: "fewer_misses", "fewer misses, steady", "%", Fixed;
    FEWER_MIN: "fewer_misses_min", "fewer misses, minimum over memory sizes", "%", Fixed;
    FEWER_MAX: "fewer_misses_max", "fewer misses, maximum over memory sizes", "%", Fixed;
    FEWER_AT: "fewer_misses_at", "fewer misses, steady, at one memory size", "%", Fixed;
    LESS_TIME_AT: "less_time_at", "less response time, steady, at one memory size", "%", Fixed;
    LESS_TIME: "less_time", "less response time, steady", "%", Fixed;
    LESS_TIME_MIN: "less_time_min", "less response time, minimum over memory sizes", "%", Fixed;
    LESS_TIME_MAX: "less_time_max", "less response time, maximum over memory sizes", "%", Fixed;
}

/// Name of the policy that moves no page. The steady ranks order the variants by their misses relative to the ranked
/// variant with this policy.
const CONTROL: &str = "none";

/// Adds the conditions of all runs to the outcome.
pub fn describe(outcome: &mut Outcome, setup: &PoliciesSetup, runs: &[&Run<'_>]) {
    let Some(run) = runs.first() else { return };
    let config = run.engine_config();
    let (scale, sizes) = (run.scale, config.classes.sizes());
    let bytes = |count: usize| format!("{} bytes", format_number(count as f64));
    let requests = scaled(setup.workload.requests, scale) as f64;
    outcome.add_setup(
        "workload",
        format!("{}, {} requests", setup.workload.name, format_number(requests)),
    );
    if scale != 1.0 {
        let text = format!("{scale} times the published requests, keys and memory");
        outcome.add_setup("scale", text);
    }
    for (name, value) in &setup.chosen {
        outcome.add_setup(name, value);
    }
    if let Some(EarlierSetup { value_factor, memory_share }) = setup.earlier {
        let percent = memory_share * 100.0;
        let text = format!(
            "other keys, whose values are {value_factor} times as long and which are never requested, fill {percent} % \
             of the memory; the variants `from empty` start with an empty cache"
        );
        outcome.add_setup("start", text);
    }
    let limits =
        setup.limits_mib().iter().map(|mib| format_number(*mib as f64 * scale)).collect::<Vec<_>>();
    outcome.add_setup("memory", format!("{} MiB", limits.join(", ")));
    let page_sizes: BTreeSet<usize> =
        runs.iter().map(|run| run.engine_config().page_size_bytes).collect();
    // The first run has the smallest memory and the smallest pages. Larger pages have more sizes of chunks.
    let remark_of_smallest =
        if page_sizes.len() > 1 { "; at the smallest memory, more at the others" } else { "" };
    let is_smaller = config.page_size_bytes < setup.cache.page_size_kib << 10;
    let remark = if is_smaller { "; at this scale, smaller than published" } else { "" };
    let shown: Vec<String> = page_sizes.iter().map(|&size| bytes(size)).collect();
    outcome.add_setup("page size", shown.join(", ") + remark);
    match sizes {
        [first, .., last] if sizes.len() > 8 => {
            let count = sizes.len();
            let text = format!("{count} sizes, from {first} to {last} bytes{remark_of_smallest}");
            outcome.add_setup("chunk sizes", text);
        }
        _ => outcome.add_setup("chunk sizes", format!("{sizes:?} bytes{remark_of_smallest}")),
    }
    let longest = bytes(value_len_max(&config) as usize);
    outcome.add_setup("longest value", format!("cut to {longest}{remark_of_smallest}"));
    outcome.add_setup("rate", setup.time.rate_text());
    let visit = setup.visit_ns.map_or_else(|| "in the rows".to_owned(), |ns| format!("{ns} ns"));
    outcome.add_setup("time of a visit to a chunk", visit);
    let (from, to) = setup.steady.at(scale);
    let stretch =
        format!("requests {} to {}", format_number(from as f64), format_number(to as f64));
    outcome.add_setup("steady stretch", stretch);
    if setup.report.contains(&Report::ResponseTime) {
        outcome.add_setup("response times", setup.response.text());
    }
    if !setup.class_names.is_empty() {
        let text = format!(
            "the smallest number of items whose hit ratio is at most {WORKING_SET_POINTS} percentage points below that of \
             an unlimited cache; the paper gives no limit"
        );
        outcome.add_setup("working-set size", text);
    }
    if let Some(divide) = &setup.divide {
        let trained = format_number((divide.training_requests as f64 * scale).round());
        let text = format!("by exact curves of the {trained} requests before each decision");
        outcome.add_setup("oracle allocations", text);
    }
}

/// Adds the rows and series of all trials, comparisons and ranks.
pub fn add(outcome: &mut Outcome, setup: &PoliciesSetup, findings: &Findings<'_>) {
    for (name, &size) in setup.class_names.iter().zip(&findings.working_sets) {
        outcome.add(WORKING_SET, name, Ok(size as f64));
    }
    let limits = setup.limits_mib();
    let several = limits.len() > 1;
    for &limit in &limits {
        for variant in &setup.variants {
            let Some(finding) = findings.trial(&variant.name, limit) else { continue };
            let name = row_name(&variant.name, several.then_some(limit));
            match &finding.record {
                Ok(record) => add_record(outcome, setup, &name, record),
                Err(reason) => outcome.add(MEAN, &name, Err(reason.clone())),
            }
        }
        if let Some(bound) = findings.bounds.get(&limit) {
            let name = row_name(BOUND, several.then_some(limit));
            outcome.add(STEADY, &name, Ok(bound.miss_ratio * 100.0));
            if setup.report.contains(&Report::ResponseTime) {
                outcome.add(STEADY_TIME, &name, Ok(bound.response_us));
            }
        }
    }
    for pair in &setup.against {
        add_against(outcome, findings, pair);
        if several {
            memory::add_less_memory(outcome, findings, pair);
        }
    }
    if several {
        memory::add_series(outcome, findings);
    }
    let has_control_policy = |variant: &&Variant| variant.policy.as_deref() == Some(CONTROL);
    let controls = setup.variants.iter().filter(has_control_policy);
    let controls: Vec<&str> = controls.map(|variant| variant.name.as_str()).collect();
    for [variant, other] in &setup.against {
        if setup.bound && variant != BOUND && controls.contains(&other.as_str()) {
            add_reached(outcome, findings, [variant, other]);
        }
    }
    let is_ranked = |name: &&str| setup.rank_among.iter().any(|ranked| ranked == name);
    let control = controls.iter().copied().find(is_ranked).unwrap_or(CONTROL);
    let additional_misses = |name: &str| Ok(-mean(&findings.fewer_misses([name, control])?));
    add_ranks(outcome, setup, RANK, "steady", additional_misses);
    if setup.report.contains(&Report::SteadySince) {
        let tolerance = setup.steady_tolerance_points / 100.0;
        let limit = limits[0];
        // Variants whose miss ratio never becomes steady, or that hardly reduce the misses, have the last rank.
        let since = |name: &str| {
            let [of_control, of_variant] = [control, name].map(|it| findings.steady_of(it, limit));
            let reduces = of_control?.miss_ratio - of_variant?.miss_ratio > tolerance;
            let since = steady(findings.record_of(name, limit)?, tolerance).since;
            Ok(since.filter(|_| reduces).map_or(f64::MAX, |at| at as f64))
        };
        add_ranks(outcome, setup, RANK_STEADY_AT, "steady", since);
    }
    for stretch in &setup.stretches {
        let (from, to) = stretch.at(outcome.scale);
        let record = |name: &str| findings.record_of(name, limits[0]);
        let ratio = |name: &str| Ok(record(name)?.miss_ratio_between(from, to));
        add_ranks(outcome, setup, RANK, &stretch.name, ratio);
    }
}

/// Returns the text that identifies a row: the variant, and the memory limit if `limit_mib` is given.
fn row_name(variant: &str, limit_mib: Option<u64>) -> String {
    limit_mib.map_or_else(|| variant.to_owned(), |limit| format!("{variant}, {limit} MiB"))
}

/// Adds the rows that the set-up requests, and the series of a trial.
fn add_record(outcome: &mut Outcome, setup: &PoliciesSetup, name: &str, record: &RunRecord) {
    let (from, to) = setup.steady.at(outcome.scale);
    for report in &setup.report {
        match report {
            Report::Hits => {
                let hits = record.requests - record.misses.iter().sum::<u64>();
                outcome.add(HITS, name, Ok(hits as f64));
            }
            Report::MissRatio => {
                let steady = record.miss_ratio_between(from, to) * 100.0;
                outcome.add_all(name, [(MEAN, record.miss_ratio() * 100.0), (STEADY, steady)]);
            }
            Report::SteadySince => {
                let steady = steady(record, setup.steady_tolerance_points / 100.0);
                add_steady(outcome, name, record, &steady);
            }
            Report::ResponseTime => {
                let mean = record.response_us_between(0, record.requests);
                let steady = record.response_us_between(from, to);
                outcome.add_all(name, [(MEAN_TIME, mean), (STEADY_TIME, steady)]);
            }
            Report::Pages => {
                let steady = record.pages_moved_between(from, to) as f64;
                let moved = record.counts.moved as f64;
                let difference = record.tail_age_difference * 100.0;
                let rows = [(PAGES, moved), (PAGES_STEADY, steady), (TAIL_AGES, difference)];
                outcome.add_all(name, rows);
            }
            Report::Moves => {
                if record.partition.is_some() {
                    add_at_target(outcome, name, record);
                    let moving = record.at_target.map(|at| (at - record.changed_at) as f64);
                    let why_missing = || "not all pages arrived in this run".to_owned();
                    outcome.add(MOVING, name, moving.ok_or_else(why_missing));
                    add_gets(outcome, name, record);
                } else {
                    let mut arrived = record.page_moves.iter().filter(|found| found.arrived);
                    let moves =
                        arrived.next().map(|first| (first, arrived.next_back().unwrap_or(first)));
                    let moving = moves.map(|(first, last)| (last.ended - first.began) as f64);
                    let why_missing = || "no page arrived".to_owned();
                    outcome.add(MOVING, name, moving.ok_or_else(why_missing));
                    add_gets(outcome, name, record);
                }
                add_mover_counts(outcome, name, &record.counts);
            }
        }
    }
    for stretch in &setup.stretches {
        let (from, to) = stretch.at(outcome.scale);
        let ratio = record.miss_ratio_between(from, to) * 100.0;
        outcome.add(STRETCH, &format!("{name}, {}", stretch.name), Ok(ratio));
    }
    add_series(outcome, name, record);
    if setup.report.contains(&Report::ResponseTime) {
        add_response_series(outcome, name, record);
    }
}

/// Adds the rows with the reduction of misses, and of the response time if requested, of one variant compared with
/// another variant.
fn add_against(outcome: &mut Outcome, findings: &Findings<'_>, [variant, other]: &[String; 2]) {
    let (name, pair) = (format!("{variant} against {other}"), [variant.as_str(), other.as_str()]);
    let setup = findings.setup;
    let limits = setup.limits_mib();
    let fewer = [FEWER, FEWER_MIN, FEWER_MAX, FEWER_AT];
    add_reductions(outcome, fewer, &name, &limits, findings.fewer_misses(pair));
    for &limit in &limits {
        let records = pair.map(|name| findings.record_of(name, limit));
        let [Ok(record), Ok(other)] = records else { continue };
        if setup.report.contains(&Report::Moves) {
            add_fewer_gets(outcome, &name, [record, other]);
        }
        for stretch in &setup.stretches {
            let (from, to) = stretch.at(outcome.scale);
            let [of_run, of_other] = [record, other].map(|it| it.miss_ratio_between(from, to));
            let reduction = (1.0 - of_run / of_other.max(f64::MIN_POSITIVE)) * 100.0;
            outcome.add(FEWER_IN_STRETCH, &format!("{name}, {}", stretch.name), Ok(reduction));
        }
    }
    if !setup.report.contains(&Report::ResponseTime) {
        return;
    }
    let less_time = [LESS_TIME, LESS_TIME_MIN, LESS_TIME_MAX, LESS_TIME_AT];
    let found = findings.reduction(pair, |steady| steady.response_us);
    add_reductions(outcome, less_time, &name, &limits, found);
    for hit_us in &setup.other_hit_us {
        let added_us = hit_us - setup.response.hit_us;
        let found = findings.reduction(pair, |steady| steady.response_us_with(added_us));
        let name = format!("{name}, hit of {hit_us} us");
        add_reductions(outcome, less_time, &name, &limits, found);
    }
}

/// Adds the rows of a reduction: the mean over the memory limits, and if there are several limits the minimum, the
/// maximum and the reduction at each limit. `found` has the reduction at each of the limits.
fn add_reductions(
    outcome: &mut Outcome,
    [of_mean, of_minimum, of_maximum, at_limit]: [Measure; 4],
    name: &str,
    limits: &[u64],
    found: Result<Vec<f64>, String>,
) {
    outcome.add(of_mean, name, found.clone().map(|found| mean(&found)));
    if limits.len() > 1 {
        outcome.add(of_minimum, name, found.clone().map(|found| minimum(&found)));
        outcome.add(of_maximum, name, found.clone().map(|found| maximum(&found)));
        for (&limit, reduction) in limits.iter().zip(found.into_iter().flatten()) {
            outcome.add(at_limit, &row_name(name, Some(limit)), Ok(reduction));
        }
    }
}

/// Adds the row with the reduction of misses of a variant, in percent of the reduction of misses of the bound.
fn add_reached(outcome: &mut Outcome, findings: &Findings<'_>, [variant, other]: [&str; 2]) {
    let reduction = |variant| findings.fewer_misses([variant, other]);
    let reached = reduction(variant).and_then(|of_variant| match mean(&reduction(BOUND)?) {
        bound if bound > 0.0 => Ok(mean(&of_variant) / bound * 100.0),
        _ => Err(format!("the bound does not have fewer misses than {other}")),
    });
    outcome.add(REACHED, &format!("{variant} against {other}"), reached);
}

/// Adds the rows with the ranks of the variants in one stretch. The rank of a variant is 1 plus the number of ranked
/// variants for which `value` returns a lower value.
fn add_ranks(
    outcome: &mut Outcome,
    setup: &PoliciesSetup,
    measure: Measure,
    stretch: &str,
    value: impl Fn(&str) -> Result<f64, String>,
) {
    let values: Result<Vec<f64>, String> =
        setup.rank_among.iter().map(|name| value(name)).collect();
    for (index, name) in setup.rank_among.iter().enumerate() {
        let rank = values.clone().map(|values| {
            1.0 + values.iter().filter(|&&other| other < values[index]).count() as f64
        });
        outcome.add(measure, &format!("{name}, {stretch}"), rank);
    }
}
