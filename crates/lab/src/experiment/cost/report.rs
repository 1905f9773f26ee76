//! Adds the rows of all trials. The value of a row is the mean over the seeds, and its note has the minimum and the
//! maximum.

use super::population::{CostSetup, Pricing, Setting, SweepBy, Variant};
use super::tally::Tally;
use crate::result::{Measure, Outcome, format_number, mean, measures};
use slabwise_replay::workload::CostMix;

/// A setting with a cost mix.
pub struct Case<'s> {
    pub setting: &'s Setting,
    pub mix: CostMix,
    /// The calibrated number of keys.
    pub keys: u64,
}

/// The results of a variant in a case.
pub struct Row<'s> {
    pub variant: &'s Variant,
    pub pricing: Pricing,
    /// The result of each seed, or the reason why the variant could not be run.
    pub tallies: Result<Vec<Tally>, String>,
}

impl Row<'_> {
    /// Returns one value per seed. `value` computes the value from the result of a seed.
    pub fn values(&self, value: impl Fn(&Tally) -> f64) -> Option<Vec<f64>> {
        Some(self.tallies.as_ref().ok()?.iter().map(value).collect())
    }
}

/// The results of a case.
pub struct Finding<'s> {
    pub case: Case<'s>,
    /// The results of each variant.
    pub rows: Vec<Row<'s>>,
    /// For each seed, the lowest possible cost of all misses, divided by the number of requests. `None` if no item is
    /// evicted.
    pub bounds: Vec<Option<f64>>,
}

/// Returns the name of a mix in rows.
pub fn mix_name(mix: CostMix) -> String {
    mix.name().to_uppercase()
}

impl Finding<'_> {
    pub fn row(&self, variant: &Variant) -> Option<&Row<'_>> {
        self.rows.iter().find(|row| row.variant.name == variant.name)
    }

    /// Returns one value of a variant per seed.
    pub fn values(&self, variant: &Variant, value: impl Fn(&Tally) -> f64) -> Option<Vec<f64>> {
        self.row(variant)?.values(value)
    }

    /// Returns the reduction of a value of the first variant compared with the second variant, in percent, for each
    /// seed.
    pub fn reduction(
        &self,
        pair: [&Variant; 2],
        value: impl Fn(&Tally) -> f64,
    ) -> Option<Vec<f64>> {
        let [values, others] = pair.map(|variant| self.values(variant, &value));
        let pairs = values?.into_iter().zip(others?);
        Some(pairs.map(|(value, other)| reduction_percent(value, other)).collect())
    }

    /// Returns the reduction of the recomputation cost of a variant compared with another variant, in percent, for each
    /// seed.
    pub fn cost_reduction(&self, variant: &Variant, other: &Variant) -> Option<Vec<f64>> {
        self.reduction([variant, other], Tally::units_per_request)
    }

    /// Returns the text that identifies a row of this case: the setting, the mix and `variant`.
    pub fn name(&self, variant: &str) -> String {
        let Case { setting, mix, .. } = &self.case;
        format!("{}, {}, {variant}", setting.name, mix_name(*mix))
    }
}

/// Returns the reduction of `value` compared with `other`, in percent. Returns 0 if `other` is 0.
pub fn reduction_percent(value: f64, other: f64) -> f64 {
    if other > 0.0 { (1.0 - value / other) * 100.0 } else { 0.0 }
}

measures! {
    KEYS: "keys", "keys", "keys", WithRun;
    HIT: "hit_ratio", "hit ratio", "%", Fixed;
    LATENCY: "access_latency", "mean access latency", "us", Fixed;
    LATENCY_P99: "access_latency_p99", "99th percentile of the access latency", "us", Fixed;
    RECOMPUTED: "cost_ratio", "recomputed part of the cost of all gets", "%", Fixed;
    LESS_COST: "less_cost", "less recomputation cost", "%", Fixed;
    LESS_LATENCY: "less_latency", "less access latency", "%", Fixed;
    LESS_LATENCY_P99: "less_latency_p99", "less access latency, 99th percentile", "%", Fixed;
    GET: "get_latency", "latency of a get; in the lab, its processor time", "us", Fixed;
    SET: "set_latency", "latency of a set; in the lab, its processor time", "us", Fixed;
    MORE_GET: "more_get_latency", "more latency of a get", "%", Fixed;
    MORE_SET: "more_set_latency", "more latency of a set", "%", Fixed;
    INFLATION: "inflation", "inflation while all items are replaced once", "units", Fixed;
    MOVED: "pages_moved", "pages moved", "pages", WithRun;
    LESS_COST_MIN: "less_cost_min", "less recomputation cost, minimum of all runs", "%", Fixed;
    MISSES: "misses", "misses", "requests", WithRun;
    MORE_MISSES: "more_misses", "more misses than without costs", "%", Fixed;
}

// Labels in the variants of rows.
const BOUND: &str = "bound";
const ALL_MIXES: &str = "mean of mixes";
const HIGHEST_MIX: &str = "highest of the mixes";

/// The percentile of the rows about tail latency.
const TAIL_PERCENT: f64 = 99.0;

/// A value of a result.
type Value<'v> = &'v dyn Fn(&Tally) -> f64;

/// A reduction that has rows, with the value that is reduced.
type Reduced = (Measure, Box<dyn Fn(&Tally) -> f64>);

/// Returns the reductions that have rows in a setting. A setting of a sweep has only the first.
fn reduced_in(setup: &CostSetup, setting: &Setting) -> Vec<Reduced> {
    let response = setup.response;
    let all: [Reduced; 3] = [
        (LESS_COST, Box::new(Tally::units_per_request)),
        (LESS_LATENCY, Box::new(move |tally| tally.response_us(&response))),
        (
            LESS_LATENCY_P99,
            Box::new(move |tally| tally.response_percentile_us(&response, TAIL_PERCENT)),
        ),
    ];
    all.into_iter().take(if setting.in_sweep { 1 } else { usize::MAX }).collect()
}

/// Adds the conditions of all runs to the outcome.
pub fn describe(outcome: &mut Outcome, setup: &CostSetup, scale: f64) {
    if scale != 1.0 {
        let text = format!("{scale} times the requests, keys and memory of the file");
        outcome.add_setup("scale", text);
    }
    for setting in &setup.settings {
        let mib = format_number(setting.memory_mib as f64 * scale);
        let [warm_up, requests] = [setting.warm_up_requests, setting.requests]
            .map(|requests| format_number((requests as f64 * scale).round()));
        let hit_ratio = format_number(setting.hit_ratio);
        let first = &setup.first().name;
        let text = format!(
            "{mib} MiB; the number of keys gives {first} a hit ratio of {hit_ratio} %; {requests} requests after a \
             warm-up of {warm_up}"
        );
        let remark = if setting.never_fills { "; the memory never becomes full" } else { "" };
        let ranks = setting.ranks.map_or_else(String::new, |ranks| {
            format!("; {} ranks are hashed to the keys", format_number(ranks as f64))
        });
        outcome.add_setup(&setting.name, text + remark + &ranks);
    }
    let (hit, unit) = (setup.response.hit_us, setup.response.miss_us_per_unit);
    outcome.add_setup(
        "access latency",
        format!("a hit {hit} us, a miss {unit} us per unit of its cost"),
    );
    outcome.add_setup("keys", format!("Zipf {}; costs are independent of popularity", setup.skew));
    let [low, middle, high] = setup.value_lens;
    let text = format!("{low}, {middle} and {high} bytes for keys with low, middle and high costs");
    outcome.add_setup("values", text);
    let rate = setup.time.operations_per_second * scale;
    outcome.add_setup("rate", format!("{} gets and sets per second", format_number(rate)));
    for (name, value) in &setup.chosen {
        outcome.add_setup(name, value);
    }
}

/// Adds the rows and series of all cases, and of the runs with equal costs.
pub fn add(
    outcome: &mut Outcome,
    setup: &CostSetup,
    scale: f64,
    found: &[Finding<'_>],
    equal: &[Row<'_>],
) {
    for finding in found {
        add_finding(outcome, setup, finding);
    }
    for setting in &setup.settings {
        let of_setting: Vec<&Finding<'_>> =
            found.iter().filter(|finding| finding.case.setting.name == setting.name).collect();
        for variant in &setup.variants[1..] {
            for other in setup.compared_with(variant) {
                add_all_mixes(outcome, setup, setting, &of_setting, [variant, other]);
            }
        }
    }
    for variant in &setup.variants[1..] {
        let reductions =
            found.iter().filter_map(|finding| finding.cost_reduction(variant, setup.first()));
        let minimum = reductions.flatten().min_by(f64::total_cmp);
        let missing = || why_missing(found, variant);
        outcome.add(LESS_COST_MIN, &variant.name, minimum.ok_or_else(missing));
        if minimum.is_some() {
            outcome.note_last_row(
                "minimum over all settings and mixes; a negative value is a higher cost",
            );
        }
    }
    add_equal(outcome, equal);
    add_sweep(outcome, setup, scale, found);
}

/// Returns the reason why a variant has no results.
fn why_missing(found: &[Finding<'_>], variant: &Variant) -> String {
    let reason =
        found.iter().find_map(|finding| finding.row(variant)?.tallies.as_ref().err().cloned());
    reason.unwrap_or_else(|| "no setting runs this variant".to_owned())
}

/// Adds the rows of a case.
fn add_finding(outcome: &mut Outcome, setup: &CostSetup, finding: &Finding<'_>) {
    let Case { setting, mix, keys } = &finding.case;
    let case_name = format!("{}, {}", setting.name, mix_name(*mix));
    outcome.add(KEYS, &case_name, Ok(*keys as f64));
    let first = setup.first();
    for Row { variant, tallies, .. } in &finding.rows {
        let name = finding.name(&variant.name);
        let tallies = match tallies {
            Ok(tallies) => tallies,
            Err(reason) => {
                outcome.add(LESS_COST, &name, Err(reason.clone()));
                continue;
            }
        };
        let mut add = |measure, value: &dyn Fn(&Tally) -> f64| {
            let values: Vec<f64> = tallies.iter().map(value).collect();
            outcome.add_mean(measure, &name, &values);
        };
        add(HIT, &Tally::hit_percent);
        if !setting.in_sweep {
            add(LATENCY, &|tally| tally.response_us(&setup.response));
            add(LATENCY_P99, &|tally| tally.response_percentile_us(&setup.response, TAIL_PERCENT));
            add(RECOMPUTED, &|tally| tally.recomputed_percent());
        }
        if tallies.iter().any(|tally| tally.inflation_per_replacement > 0.0) {
            add(INFLATION, &|tally| tally.inflation_per_replacement);
        }
        if variant.moves_pages() && !setting.in_sweep {
            add(MOVED, &|tally| tally.pages_moved as f64);
        }
        let is_unexpected = |tally: &Tally| tally.is_full == setting.never_fills;
        if tallies.iter().any(is_unexpected) {
            let text = if setting.never_fills {
                "not as intended: the memory became full"
            } else {
                "not as intended: the memory did not become full"
            };
            outcome.note_last_row(text);
        }
        add_times(outcome, finding, variant, first);
        for other in setup.compared_with(variant) {
            add_reductions(outcome, setup, finding, [variant, other]);
        }
    }
    if let Some(reductions) = bound_reduction(setup, finding) {
        outcome.add_mean(LESS_COST, &finding.name(BOUND), &reductions);
    }
}

/// Adds the rows with the reductions of recomputation cost and access latency of a variant compared with another
/// variant.
fn add_reductions(
    outcome: &mut Outcome,
    setup: &CostSetup,
    finding: &Finding<'_>,
    pair: [&Variant; 2],
) {
    let name = finding.name(&pair_name(setup, pair));
    for (measure, value) in reduced_in(setup, finding.case.setting) {
        if let Some(reductions) = finding.reduction(pair, value) {
            outcome.add_mean(measure, &name, &reductions);
        }
    }
}

/// Returns the name of a comparison in rows. The first variant, with which all are compared, is not named.
fn pair_name(setup: &CostSetup, [variant, other]: [&Variant; 2]) -> String {
    match other.name == setup.first().name {
        true => variant.name.clone(),
        false => format!("{} against {}", variant.name, other.name),
    }
}

/// Adds the rows with the processor times of a get and a set, if they were measured.
fn add_times(outcome: &mut Outcome, finding: &Finding<'_>, variant: &Variant, first: &Variant) {
    let nanos_of = |variant, value: Value<'_>| finding.values(variant, value);
    let values: [(Measure, Measure, Value<'_>); 2] = [
        (GET, MORE_GET, &|tally| tally.times.map_or(0.0, |times| times.get_nanos)),
        (SET, MORE_SET, &|tally| tally.times.map_or(0.0, |times| times.set_nanos)),
    ];
    for (measure, more_measure, value) in values {
        let (Some(nanos), Some(others)) = (nanos_of(variant, value), nanos_of(first, value)) else {
            continue;
        };
        if finding.case.setting.timed_operations == 0 {
            continue;
        }
        let name = finding.name(&variant.name);
        let micros: Vec<f64> = nanos.iter().map(|nanos| nanos / 1e3).collect();
        outcome.add_mean(measure, &name, &micros);
        if variant.name != first.name {
            let more = nanos.iter().zip(&others);
            let more = more.map(|(nanos, other)| -reduction_percent(*nanos, *other));
            outcome.add_mean(more_measure, &name, &more.collect::<Vec<_>>());
        }
    }
}

/// Returns the reduction of the recomputation cost of the bound compared with the first variant, in percent, for each
/// seed.
fn bound_reduction(setup: &CostSetup, finding: &Finding<'_>) -> Option<Vec<f64>> {
    let bounds: Option<Vec<f64>> = finding.bounds.iter().copied().collect();
    let first = finding.values(setup.first(), Tally::units_per_request)?;
    let pairs = bounds?.into_iter().zip(first);
    Some(pairs.map(|(bound, first)| reduction_percent(bound, first)).collect())
}

/// Adds the rows with the reductions of a variant compared with another in a setting, over all mixes: the mean, and the
/// highest reduction of a mix.
fn add_all_mixes(
    outcome: &mut Outcome,
    setup: &CostSetup,
    setting: &Setting,
    found: &[&Finding<'_>],
    pair: [&Variant; 2],
) {
    let pair_name = pair_name(setup, pair);
    for (measure, value) in reduced_in(setup, setting) {
        let reductions = found.iter().map(|finding| finding.reduction(pair, &value));
        let Some(reductions) = reductions.collect::<Option<Vec<Vec<f64>>>>() else { continue };
        let seeds = reductions.iter().map(Vec::len).min().unwrap_or(0);
        let mean_of_seed =
            |seed: usize| mean(&reductions.iter().map(|of_mix| of_mix[seed]).collect::<Vec<_>>());
        let by_seed: Vec<f64> = (0..seeds).map(mean_of_seed).collect();
        let name = format!("{}, {ALL_MIXES}, {pair_name}", setting.name);
        outcome.add_mean(measure, &name, &by_seed);
        let highest = reductions.iter().map(|of_mix| mean(of_mix)).max_by(f64::total_cmp);
        if let Some(highest) = highest {
            let name = format!("{}, {HIGHEST_MIX}, {pair_name}", setting.name);
            outcome.add(measure, &name, Ok(highest));
        }
    }
}

/// Adds the rows of the runs that should have the same misses. The first run is the run with equal costs.
fn add_equal(outcome: &mut Outcome, equal: &[Row<'_>]) {
    let misses = |row: &Row<'_>| row.values(|tally| tally.misses as f64);
    let [with_costs, others @ ..] = equal else { return };
    for row in equal {
        let costs = match row.pricing {
            Pricing::Equal(units) => format!("all keys cost {units}"),
            Pricing::Mixed | Pricing::NotSupplied => "no costs".to_owned(),
        };
        let name = format!("{costs}, {}", row.variant.name);
        match (misses(row), &row.tallies) {
            (Some(values), _) => outcome.add_mean(MISSES, &name, &values),
            (None, Err(reason)) => outcome.add(MISSES, &name, Err(reason.clone())),
            (None, Ok(_)) => {}
        }
    }
    for row in others {
        let Some((misses, others)) = misses(with_costs).zip(misses(row)) else { continue };
        let pairs = misses.iter().zip(&others);
        let more = pairs.map(|(misses, other)| -reduction_percent(*misses, *other));
        let name = format!("all keys cost the same, against no costs, {}", row.variant.name);
        outcome.add_mean(MORE_MISSES, &name, &more.collect::<Vec<_>>());
    }
}

/// Adds a series for each mix and each variant of the sweep: the reduction of the recomputation cost, over the hit ratio
/// of the first variant or over the memory.
fn add_sweep(outcome: &mut Outcome, setup: &CostSetup, scale: f64, found: &[Finding<'_>]) {
    let x_unit = match setup.sweep_by {
        SweepBy::HitRatio => "hit ratio of the first variant, %",
        SweepBy::Memory => "memory, MiB",
    };
    type Reduction<'r> = dyn Fn(&Finding<'_>) -> Option<Vec<f64>> + 'r;
    let mut add = |mix: CostMix, name: &str, reduction: &Reduction<'_>| {
        let points = found.iter().filter(|finding| {
            let setting = finding.case.setting;
            setting.in_sweep && setting.ranks.is_none() && finding.case.mix == mix
        });
        let points = points.filter_map(|finding| {
            let x = match setup.sweep_by {
                SweepBy::HitRatio => mean(&finding.values(setup.first(), Tally::hit_percent)?),
                SweepBy::Memory => finding.case.setting.memory_mib as f64 * scale,
            };
            Some((x, mean(&reduction(finding)?)))
        });
        let points: Vec<(f64, f64)> = points.collect();
        if !points.is_empty() {
            let variant = format!("{}, {name}", mix_name(mix));
            outcome.add_series("less recomputation cost", variant, [x_unit, "%"], points);
        }
    };
    for &mix in &setup.mixes {
        for variant in setup.variants[1..].iter().filter(|variant| variant.in_sweep) {
            add(mix, &variant.name, &|finding| finding.cost_reduction(variant, setup.first()));
        }
        add(mix, BOUND, &|finding| bound_reduction(setup, finding));
    }
}
