//! Adds the rows of all trials: the variants, their comparisons over memory sizes, and their ranks.

use super::setup::{PoliciesSetup, Report, Variant};
use crate::result::{Outcome, least, mean, measures, most, number};
use crate::trial::curves::Bound;
use crate::trial::run::{Run, value_len_max};
use crate::trial::run_record::{
    MEAN, PAGES, PAGES_STEADY, RunRecord, STEADY, add_at_target, add_gets, add_mover_counts,
    add_series, add_steady, steady,
};
use crate::trial::setup::scaled;
use std::collections::{BTreeMap, BTreeSet};

pub struct Finding<'s> {
    pub variant: &'s Variant,
    pub memory_mib: u64,
    pub record: Result<RunRecord, String>,
}

pub const BOUND: &str = "bound";

pub struct Findings<'s> {
    pub setup: &'s PoliciesSetup,
    pub scale: f64,
    pub trials: Vec<Finding<'s>>,
    /// The bounds by memory limit in MiB.
    pub bounds: BTreeMap<u64, Bound>,
}

impl Findings<'_> {
    pub fn trial(&self, variant: &str, limit_mib: u64) -> Option<&Finding<'_>> {
        let is_it =
            |found: &&Finding<'_>| found.variant.name == variant && found.memory_mib == limit_mib;
        self.trials.iter().find(is_it)
    }

    pub fn record_of(&self, variant: &str, limit_mib: u64) -> Result<&RunRecord, String> {
        let found = self.trial(variant, limit_mib);
        let found = found.ok_or_else(|| format!("unknown variant {variant}"))?;
        found.record.as_ref().map_err(String::clone)
    }

    /// The miss ratio and the response time of a variant in the steady stretch under one memory limit.
    fn steady_of(&self, variant: &str, limit_mib: u64) -> Result<[f64; 2], String> {
        if variant == BOUND {
            let bound = self.bounds.get(&limit_mib);
            let bound = bound.ok_or_else(|| "the bound was not computed".to_owned())?;
            return Ok([bound.miss_ratio, bound.answer_us]);
        }
        let record = self.record_of(variant, limit_mib)?;
        let (from, to) = self.setup.steady.at(self.scale);
        Ok([record.miss_ratio_between(from, to), record.answer_us_between(from, to)])
    }

    /// The reduction of misses (place 0) or response time (place 1) of a variant compared with another in the steady
    /// stretch, in percent, for every memory limit.
    pub fn less(&self, [variant, other]: [&str; 2], place: usize) -> Result<Vec<f64>, String> {
        let less = self.setup.limits_mib().into_iter().map(|limit| {
            let ours = self.steady_of(variant, limit)?[place];
            match self.steady_of(other, limit)?[place] {
                others if others > 0.0 => Ok((1.0 - ours / others) * 100.0),
                _ => Err(format!("{other} has no misses")),
            }
        });
        less.collect()
    }
}

measures! {
    HITS: "hits", "requests that hit", "requests", WithRun;
    MEAN_TIME: "mean_answer_time", "mean response time", "us", Fixed;
    STEADY_TIME: "steady_answer_time", "steady mean response time", "us", Fixed;
    STRETCH: "stretch_miss_ratio", "miss ratio of a stretch", "%", Fixed;
    RANK: "rank", "rank by misses, 1 for the fewest", "", Fixed;
    MOVING: "requests_moving", "from the decision to the last page", "requests", WithRun;
    REACHED: "potential_reached", "part of the bound's reduction of misses", "%", Fixed;
    FEWER: "fewer_misses", "fewer misses, steady", "%", Fixed;
    FEWER_LEAST: "fewer_misses_least", "fewer misses, minimum over memory sizes", "%", Fixed;
    FEWER_MOST: "fewer_misses_most", "fewer misses, maximum over memory sizes", "%", Fixed;
    LESS_TIME: "less_time", "less response time, steady", "%", Fixed;
    LESS_TIME_LEAST: "less_time_least", "less response time, minimum over memory sizes", "%", Fixed;
    LESS_TIME_MOST: "less_time_most", "less response time, maximum over memory sizes", "%", Fixed;
}

/// The policy that moves no page, and the name of the variant with which steady ranks compare misses.
const CONTROL: &str = "none";

pub fn describe(outcome: &mut Outcome, setup: &PoliciesSetup, runs: &[&Run<'_>]) {
    let Some(run) = runs.first() else { return };
    let config = run.engine_config();
    let (scale, sizes) = (run.scale, config.classes.sizes());
    let bytes = |count: usize| format!("{} bytes", number(count as f64));
    let requests = scaled(setup.workload.requests, scale) as f64;
    outcome.choose("workload", format!("{}, {} requests", setup.workload.name, number(requests)));
    if scale != 1.0 {
        let text = format!("{scale} times the published requests, keys and memory");
        outcome.choose("scale", text);
    }
    for (name, value) in &setup.chosen {
        outcome.choose(name, value);
    }
    if let Some(earlier) = setup.earlier {
        let times = earlier.value_factor;
        let text = format!("memory is full of other keys with values {times} times as long");
        outcome.choose("start", text);
    }
    let limits =
        setup.limits_mib().iter().map(|mib| number(*mib as f64 * scale)).collect::<Vec<_>>();
    outcome.choose("memory", format!("{} MiB", limits.join(", ")));
    let page_sizes: BTreeSet<usize> =
        runs.iter().map(|run| run.engine_config().page_size_bytes).collect();
    let is_smaller = config.page_size_bytes < setup.cache.page_size_kib << 10;
    let why = if is_smaller { ", smaller than published at this scale" } else { "" };
    let shown: Vec<String> = page_sizes.iter().map(|&size| bytes(size)).collect();
    outcome.choose("page size", shown.join(", ") + why);
    match sizes {
        [first, .., last] if sizes.len() > 8 => {
            let count = sizes.len();
            outcome.choose("chunk sizes", format!("{count}, from {first} to {last} bytes"));
        }
        _ => outcome.choose("chunk sizes", format!("{sizes:?} bytes")),
    }
    outcome.choose("longest value", format!("cut to {}", bytes(value_len_max(&config) as usize)));
    outcome.choose("rate", setup.time.rate_text());
    outcome.choose("a visit to a chunk", format!("{} ns", setup.visit_ns));
    let (from, to) = setup.steady.at(scale);
    let stretch = format!("requests {} to {}", number(from as f64), number(to as f64));
    outcome.choose("steady", stretch);
    if setup.report.contains(&Report::AnswerTime) {
        outcome.choose("response times", setup.answer.text());
    }
    if let Some(divide) = &setup.divide {
        let trained = number((divide.training_requests as f64 * scale).round());
        let text = format!("by exact curves of the {trained} requests before each decision");
        outcome.choose("oracle allocations", text);
    }
}

pub fn add(outcome: &mut Outcome, setup: &PoliciesSetup, findings: &Findings<'_>) {
    let limits = setup.limits_mib();
    let several = limits.len() > 1;
    for &limit in &limits {
        for variant in &setup.variants {
            let Some(finding) = findings.trial(&variant.name, limit) else { continue };
            let name = row_name(&variant.name, several.then_some(limit));
            match &finding.record {
                Ok(record) => add_record(outcome, setup, &name, record),
                Err(why) => outcome.add(MEAN, &name, Err(why.clone())),
            }
        }
        if let Some(bound) = findings.bounds.get(&limit) {
            let name = row_name(BOUND, several.then_some(limit));
            outcome.add(STEADY, &name, Ok(bound.miss_ratio * 100.0));
            if setup.report.contains(&Report::AnswerTime) {
                outcome.add(STEADY_TIME, &name, Ok(bound.answer_us));
            }
        }
    }
    for pair in &setup.against {
        add_against(outcome, findings, pair);
    }
    let controls =
        setup.variants.iter().filter(|variant| variant.policy.as_deref() == Some(CONTROL));
    let controls: Vec<&str> = controls.map(|variant| variant.name.as_str()).collect();
    for [variant, other] in &setup.against {
        if setup.bound && variant != BOUND && controls.contains(&other.as_str()) {
            add_reached(outcome, findings, [variant, other]);
        }
    }
    let more = |name: &str| Ok(-mean(&findings.less([name, CONTROL], 0)?));
    add_ranks(outcome, setup, "steady", more);
    for stretch in &setup.stretches {
        let (from, to) = stretch.at(outcome.scale);
        let record = |name: &str| findings.record_of(name, limits[0]);
        let ratio = |name: &str| Ok(record(name)?.miss_ratio_between(from, to));
        add_ranks(outcome, setup, &stretch.name, ratio);
    }
}

fn row_name(variant: &str, limit_mib: Option<u64>) -> String {
    limit_mib.map_or_else(|| variant.to_owned(), |limit| format!("{variant}, {limit} MiB"))
}

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
            Report::AnswerTime => {
                let mean = record.answer_us_between(0, record.requests);
                let steady = record.answer_us_between(from, to);
                outcome.add_all(name, [(MEAN_TIME, mean), (STEADY_TIME, steady)]);
            }
            Report::Pages => {
                let steady = record.pages_moved_between(from, to) as f64;
                let moved = record.counts.moved as f64;
                outcome.add_all(name, [(PAGES, moved), (PAGES_STEADY, steady)]);
            }
            Report::Moves => {
                if record.partition.is_some() {
                    add_at_target(outcome, name, record);
                    let moving = record.at_target.map(|at| (at - record.changed_at) as f64);
                    outcome.add(MOVING, name, moving.ok_or_else(|| "not all arrived".to_owned()));
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
}

/// Adds the reduction of misses and response time of one variant compared with the other: the mean over the memory
/// limits, and the range if there are several.
fn add_against(outcome: &mut Outcome, findings: &Findings<'_>, [variant, other]: &[String; 2]) {
    let name = format!("{variant} against {other}");
    let setup = findings.setup;
    let times = setup.report.contains(&Report::AnswerTime);
    let measures = [[FEWER, FEWER_LEAST, FEWER_MOST], [LESS_TIME, LESS_TIME_LEAST, LESS_TIME_MOST]];
    for (place, [of_mean, of_least, of_most]) in
        measures.into_iter().take(1 + usize::from(times)).enumerate()
    {
        let found = findings.less([variant, other], place);
        outcome.add(of_mean, &name, found.clone().map(|found| mean(&found)));
        if setup.limits_mib().len() > 1 {
            outcome.add(of_least, &name, found.clone().map(|found| least(&found)));
            outcome.add(of_most, &name, found.map(|found| most(&found)));
        }
    }
}

/// Adds the reduction of misses of a variant in percent of that of the bound.
fn add_reached(outcome: &mut Outcome, findings: &Findings<'_>, [variant, other]: [&str; 2]) {
    let less = |variant| findings.less([variant, other], 0);
    let reached = less(variant).and_then(|ours| match mean(&less(BOUND)?) {
        bound if bound > 0.0 => Ok(mean(&ours) / bound * 100.0),
        _ => Err(format!("the bound does not have fewer misses than {other}")),
    });
    outcome.add(REACHED, &format!("{variant} against {other}"), reached);
}

/// Adds the ranks in one stretch: 1 plus the number of ranked variants with a lower value.
fn add_ranks(
    outcome: &mut Outcome,
    setup: &PoliciesSetup,
    stretch: &str,
    of: impl Fn(&str) -> Result<f64, String>,
) {
    let all: Result<Vec<f64>, String> = setup.rank_among.iter().map(|name| of(name)).collect();
    for (place, name) in setup.rank_among.iter().enumerate() {
        let rank = all
            .clone()
            .map(|all| 1.0 + all.iter().filter(|&&other| other < all[place]).count() as f64);
        outcome.add(RANK, &format!("{name}, {stretch}"), rank);
    }
}
