//! Adds the rows of all trials: means over seeds, with their minimum and maximum.

use super::population::{CostSetup, Pricing, Setting, Variant};
use super::trial::Tally;
use crate::result::{Outcome, mean, measures, number};
use slabwise_replay::workload::CostMix;

pub struct Case<'s> {
    pub setting: &'s Setting,
    pub mix: CostMix,
    pub keys: u64,
}

pub struct Row<'s> {
    pub variant: &'s Variant,
    pub pricing: Pricing,
    pub tallies: Result<Vec<Tally>, String>,
}

impl Row<'_> {
    pub fn figures(&self, figure: impl Fn(&Tally) -> f64) -> Option<Vec<f64>> {
        Some(self.tallies.as_ref().ok()?.iter().map(figure).collect())
    }
}

pub struct Finding<'s> {
    pub case: Case<'s>,
    pub rows: Vec<Row<'s>>,
    /// The bound of the mean cost of a request, by seed; none if no item is evicted.
    pub bounds: Vec<Option<f64>>,
}

pub fn mix_name(mix: CostMix) -> String {
    mix.name().to_uppercase()
}

impl Finding<'_> {
    pub fn row(&self, variant: &Variant) -> Option<&Row<'_>> {
        self.rows.iter().find(|row| row.variant.name == variant.name)
    }

    pub fn figures(&self, variant: &Variant, figure: impl Fn(&Tally) -> f64) -> Option<Vec<f64>> {
        self.row(variant)?.figures(figure)
    }

    pub fn less(&self, pair: [&Variant; 2], figure: impl Fn(&Tally) -> f64) -> Option<Vec<f64>> {
        let [figures, others] = pair.map(|variant| self.figures(variant, &figure));
        let pairs = figures?.into_iter().zip(others?);
        Some(pairs.map(|(figure, other)| less_percent(figure, other)).collect())
    }

    pub fn less_cost(&self, variant: &Variant, other: &Variant) -> Option<Vec<f64>> {
        self.less([variant, other], Tally::units_a_request)
    }

    pub fn name(&self, of: &str) -> String {
        let Case { setting, mix, .. } = &self.case;
        format!("{}, {}, {of}", setting.name, mix_name(*mix))
    }
}

pub fn less_percent(figure: f64, other: f64) -> f64 {
    if other > 0.0 { (1.0 - figure / other) * 100.0 } else { 0.0 }
}

measures! {
    KEYS: "keys", "keys", "keys", WithRun;
    HIT: "hit_ratio", "hit ratio", "%", Fixed;
    LATENCY: "access_latency", "mean access latency", "us", Fixed;
    RECOMPUTED: "cost_ratio", "recomputed part of the cost of all gets", "%", Fixed;
    LESS_COST: "less_cost", "less recomputation cost", "%", Fixed;
    LESS_LATENCY: "less_latency", "less access latency", "%", Fixed;
    MOVED: "pages_moved", "pages moved", "pages", WithRun;
    LEAST: "least_less_cost", "less recomputation cost, minimum of all runs", "%", Fixed;
    MISSES: "misses", "misses", "requests", WithRun;
    MORE_MISSES: "more_misses", "more misses than without costs", "%", Fixed;
}

const BOUND: &str = "bound";
const ALL_MIXES: &str = "mean of mixes";

pub fn describe(outcome: &mut Outcome, setup: &CostSetup, scale: f64, seeds: &[u64]) {
    if scale != 1.0 {
        let text = format!("{scale} times the requests, keys and memory of the file");
        outcome.choose("scale", text);
    }
    outcome.choose("seeds", format!("{seeds:?}: means, with minimum and maximum"));
    for setting in &setup.settings {
        let mib = number(setting.memory_mib as f64 * scale);
        let [warm_up, requests] = [setting.warm_up_requests, setting.requests]
            .map(|requests| number((requests as f64 * scale).round()));
        let hit_ratio = number(setting.hit_ratio);
        let first = &setup.first().name;
        let text = format!(
            "{mib} MiB; the number of keys gives {first} a hit ratio of {hit_ratio} %; {requests} requests after a \
             warm-up of {warm_up}"
        );
        let why = if setting.never_fills { "; memory never fills" } else { "" };
        let ranks = setting.ranks.map_or_else(String::new, |ranks| {
            format!("; {} ranks are hashed to the keys", number(ranks as f64))
        });
        outcome.choose(&setting.name, text + why + &ranks);
    }
    let (hit, unit) = (setup.answer.hit_us, setup.answer.miss_us_per_unit);
    outcome
        .choose("access latency", format!("a hit {hit} us, a miss {unit} us per unit of its cost"));
    outcome.choose("keys", format!("Zipf {}; costs are independent of popularity", setup.skew));
    outcome.choose("values", format!("{:?} bytes by the group of the cost", setup.value_lens));
    let rate = setup.time.operations_per_second * scale;
    outcome.choose("rate", format!("{} gets and sets per second", number(rate)));
    for (name, value) in &setup.chosen {
        outcome.choose(name, value);
    }
}

pub fn add(outcome: &mut Outcome, setup: &CostSetup, found: &[Finding<'_>], equal: &[Row<'_>]) {
    for finding in found {
        add_finding(outcome, setup, finding);
    }
    for setting in &setup.settings {
        let of_setting: Vec<&Finding<'_>> =
            found.iter().filter(|finding| finding.case.setting.name == setting.name).collect();
        for variant in &setup.variants {
            add_mean_of_mixes(outcome, setup, &setting.name, &of_setting, variant);
        }
    }
    for variant in &setup.variants[1..] {
        let less = found.iter().filter_map(|finding| finding.less_cost(variant, setup.first()));
        let least = less.flatten().min_by(f64::total_cmp);
        let missing = || why_missing(found, variant);
        outcome.add(LEAST, &variant.name, least.ok_or_else(missing));
        if least.is_some() {
            outcome.note("over all settings, mixes and seeds; a negative value is a higher cost");
        }
    }
    add_equal(outcome, equal);
    add_sweep(outcome, setup, found);
}

fn why_missing(found: &[Finding<'_>], variant: &Variant) -> String {
    let why =
        found.iter().find_map(|finding| finding.row(variant)?.tallies.as_ref().err().cloned());
    why.unwrap_or_else(|| "not run".to_owned())
}

fn add_finding(outcome: &mut Outcome, setup: &CostSetup, finding: &Finding<'_>) {
    let Case { setting, mix, keys } = &finding.case;
    let case_name = format!("{}, {}", setting.name, mix_name(*mix));
    outcome.add(KEYS, &case_name, Ok(*keys as f64));
    let first = setup.first();
    for Row { variant, tallies, .. } in &finding.rows {
        let name = finding.name(&variant.name);
        let tallies = match tallies {
            Ok(tallies) => tallies,
            Err(why) => {
                outcome.add(LESS_COST, &name, Err(why.clone()));
                continue;
            }
        };
        let mut add = |measure, figure: &dyn Fn(&Tally) -> f64| {
            let figures: Vec<f64> = tallies.iter().map(figure).collect();
            outcome.add_mean(measure, &name, &figures);
        };
        add(HIT, &Tally::hit_percent);
        if !setting.in_sweep {
            add(LATENCY, &|tally| tally.answer_us(setup));
            add(RECOMPUTED, &|tally| tally.recomputed_percent());
        }
        if tallies.iter().any(|tally| tally.pages_moved > 0) && !setting.in_sweep {
            add(MOVED, &|tally| tally.pages_moved as f64);
        }
        let is_off = |tally: &Tally| tally.is_full == setting.never_fills;
        if tallies.iter().any(is_off) {
            let text = if setting.never_fills { "memory filled" } else { "memory never filled" };
            outcome.note(text);
        }
        let others = [Some(first), variant.against.as_ref().and_then(|name| setup.variant(name))];
        for other in others.into_iter().flatten().filter(|other| other.name != variant.name) {
            add_less(outcome, setup, finding, [variant, other]);
        }
    }
    if let Some(less) = bound_less(setup, finding) {
        outcome.add_mean(LESS_COST, &finding.name(BOUND), &less);
    }
}

fn add_less(outcome: &mut Outcome, setup: &CostSetup, finding: &Finding<'_>, pair: [&Variant; 2]) {
    let [variant, other] = pair;
    let name = finding.name(&match other.name == setup.first().name {
        true => variant.name.clone(),
        false => format!("{} against {}", variant.name, other.name),
    });
    if let Some(less) = finding.less_cost(variant, other) {
        outcome.add_mean(LESS_COST, &name, &less);
    }
    if finding.case.setting.in_sweep {
        return;
    }
    if let Some(less) = finding.less(pair, |tally| tally.answer_us(setup)) {
        outcome.add_mean(LESS_LATENCY, &name, &less);
    }
}

/// The reduction of the recomputation cost of the bound compared with the first variant, in percent, by seed.
fn bound_less(setup: &CostSetup, finding: &Finding<'_>) -> Option<Vec<f64>> {
    let bounds: Option<Vec<f64>> = finding.bounds.iter().copied().collect();
    let first = finding.figures(setup.first(), Tally::units_a_request)?;
    Some(bounds?.into_iter().zip(first).map(|(bound, first)| less_percent(bound, first)).collect())
}

fn add_mean_of_mixes(
    outcome: &mut Outcome,
    setup: &CostSetup,
    setting: &str,
    found: &[&Finding<'_>],
    variant: &Variant,
) {
    if variant.name == setup.first().name {
        return;
    }
    let less = found.iter().map(|finding| finding.less_cost(variant, setup.first()));
    if let Some(less) = less.collect::<Option<Vec<_>>>() {
        let by_seed = (0..less.iter().map(Vec::len).min().unwrap_or(0))
            .map(|seed| mean(&less.iter().map(|less| less[seed]).collect::<Vec<_>>()));
        let name = format!("{setting}, {ALL_MIXES}, {}", variant.name);
        outcome.add_mean(LESS_COST, &name, &by_seed.collect::<Vec<_>>());
    }
}

fn add_equal(outcome: &mut Outcome, equal: &[Row<'_>]) {
    let misses = |row: &Row<'_>| row.figures(|tally| tally.misses as f64);
    let [with_costs, others @ ..] = equal else { return };
    for row in equal {
        let costs = match row.pricing {
            Pricing::Equal(units) => format!("all cost {units}"),
            Pricing::Mixed | Pricing::NotSupplied => "no costs".to_owned(),
        };
        let name = format!("{costs}, {}", row.variant.name);
        match (misses(row), &row.tallies) {
            (Some(figures), _) => outcome.add_mean(MISSES, &name, &figures),
            (None, Err(why)) => outcome.add(MISSES, &name, Err(why.clone())),
            (None, Ok(_)) => {}
        }
    }
    for row in others {
        let Some((misses, others)) = misses(with_costs).zip(misses(row)) else { continue };
        let more = misses.iter().zip(&others).map(|(misses, other)| -less_percent(*misses, *other));
        let name = format!("all cost the same, against no costs, {}", row.variant.name);
        outcome.add_mean(MORE_MISSES, &name, &more.collect::<Vec<_>>());
    }
}

/// Adds a series per mix and variant: the reduction of the recomputation cost by the hit ratio of the first variant.
fn add_sweep(outcome: &mut Outcome, setup: &CostSetup, found: &[Finding<'_>]) {
    let mut add = |mix: CostMix, of: &str, less: &dyn Fn(&Finding<'_>) -> Option<Vec<f64>>| {
        let points = found.iter().filter(|finding| {
            let setting = finding.case.setting;
            setting.in_sweep && setting.ranks.is_none() && finding.case.mix == mix
        });
        let points = points.filter_map(|finding| {
            let hits = finding.figures(setup.first(), Tally::hit_percent)?;
            Some((mean(&hits), mean(&less(finding)?)))
        });
        let points: Vec<(f64, f64)> = points.collect();
        if !points.is_empty() {
            let variant = format!("{}, {of}", mix_name(mix));
            let units = ["hit ratio of the first variant, %", "%"];
            outcome.draw("less recomputation cost", variant, units, points);
        }
    };
    for &mix in &setup.mixes {
        for variant in setup.variants[1..].iter().filter(|variant| variant.in_sweep) {
            add(mix, &variant.name, &|finding| finding.less_cost(variant, setup.first()));
        }
        add(mix, BOUND, &|finding| bound_less(setup, finding));
    }
}
