//! Runs `cost-single` and `cost-multi` at a small scale.

use super::calibration::calibrated_keys;
use super::population::{CostSetup, Population, Pricing, Setting, Variant};
use super::tally::Tally;
use super::trial::{Trial, bound_units_per_request, bytes_taken, engine_config, policy};
use crate::experiment::{Experiment, Job};
use crate::registry;
use crate::result::{Draw, Outcome, Row, Spec};
use slabwise_replay::workload::CostMix;

const FILES: [&str; 5] =
    ["cost-single", "cost-multi", "cost-single-published", "cost-multi-published", "cost-reserved"];
const SEED: u64 = 7;
const SCALE: f64 = 0.02;
/// The largest number of bytes that an eviction kind adds to an item.
const ADDED_BYTES_MAX: usize = 16;

/// Returns the set-up of an experiment with half of the measured requests, and with a tenth of the virtual time per
/// request. Without this change, a run at a small scale has as much virtual time as a run at scale 1.
fn setup(name: &str) -> (Spec, CostSetup) {
    let (spec, mut setup) = registry::parsed::<CostSetup>(name);
    setup.time.operations_per_second *= 10.0;
    for setting in &mut setup.settings {
        setting.requests /= 2;
    }
    (spec, setup)
}

fn setting<'s>(setup: &'s CostSetup, name: &str) -> &'s Setting {
    let setting = setup.settings.iter().find(|setting| setting.name == name);
    setting.unwrap_or_else(|| panic!("the set-up has the setting {name}"))
}

fn variant<'s>(setup: &'s CostSetup, name: &str) -> &'s Variant {
    setup.variant(name).unwrap_or_else(|| panic!("the set-up has the variant {name}"))
}

/// Returns our value of a measure and a variant. Panics if there is none.
fn found(outcome: &Outcome, measure: &str, variant: &str) -> f64 {
    let is_match = |row: &&Row| row.measure == measure && row.variant == variant;
    let row = outcome.rows.iter().find(is_match);
    let row = row.unwrap_or_else(|| panic!("the outcome has a row for {measure}, {variant}"));
    row.ours.unwrap_or_else(|| panic!("{measure}, {variant} has a value, not: {:?}", row.note))
}

/// Runs a variant in a setting, both given by their names.
fn run(
    setup: &CostSetup,
    setting_name: &str,
    variant_name: &str,
    mix: CostMix,
    keys: u64,
    pricing: Pricing,
) -> Tally {
    let (setting, variant) = (setting(setup, setting_name), variant(setup, variant_name));
    let population = Population::new(setup, mix, keys, SEED);
    let trial = Trial { setup, setting, variant, population: &population, pricing, scale: SCALE };
    let tally = trial.run().unwrap_or_else(|error| panic!("{error}"));
    tally.unwrap_or_else(|reason| panic!("the variant {variant_name} runs: {reason}"))
}

#[test]
fn files_contain_only_known_variants_and_policies() {
    for name in FILES {
        let (_, setup) = setup(name);
        let without = setup.equal.iter().map(|equal| &equal.without);
        for variant in setup.variants.iter().chain(without) {
            let name = &variant.name;
            assert!(policy(variant).is_ok(), "{name}: {:?}", policy(variant));
            assert!(variant.against.as_ref().is_none_or(|other| setup.variant(other).is_some()));
        }
        if let Some(equal) = &setup.equal {
            assert!(setup.variant(&equal.variant).is_some());
            setting(&setup, &equal.setting);
        }
        for (of, name) in
            setup.settings.iter().flat_map(|of| of.variants.iter().map(move |it| (of, it)))
        {
            assert!(setup.variant(name).is_some(), "setting {}: unknown variant {name}", of.name);
        }
    }
}

#[test]
fn every_eviction_kind_holds_the_same_number_of_items() {
    for name in FILES {
        let (_, setup) = setup(name);
        for setting in &setup.settings {
            let config = engine_config(&setup, setting, 1.0, SEED);
            for len in setup.value_lens {
                let longer = bytes_taken(&config, len + ADDED_BYTES_MAX as u32);
                assert_eq!(bytes_taken(&config, len), longer, "{name}, {len} bytes");
            }
        }
    }
}

#[test]
fn the_calibrated_number_of_keys_leads_to_the_hit_ratio_of_the_setting() {
    let (_, mut setup) = setup("cost-multi");
    let mix = CostMix::Tpcw;
    for ranks in [None, Some(10_000_000_000)] {
        setup.settings[0].ranks = ranks;
        let small = &setup.settings[0];
        let keys = calibrated_keys(&setup, small, mix, SCALE, SEED);
        let keys = keys.expect("the calibration succeeds");
        let tally = run(&setup, &small.name, "lru", mix, keys, Pricing::NotSupplied);
        let error = tally.hit_percent() - small.hit_ratio;
        assert!(error.abs() < 0.5, "{ranks:?} ranks, seed {SEED}: {keys} keys, {tally:?}");
        assert!(tally.is_full, "the memory is full at the end of the run");
    }
}

#[test]
fn in_a_cache_that_never_fills_all_variants_have_the_same_misses() {
    let (_, mut setup) = setup("cost-single-published");
    setup.settings.iter_mut().for_each(|setting| setting.timed_operations = 0);
    let large = setting(&setup, "large");
    let keys = calibrated_keys(&setup, large, CostMix::Rubis, SCALE, SEED);
    let keys = keys.expect("the calibration succeeds");
    let tallies = ["lru", "ours"]
        .map(|variant| run(&setup, "large", variant, CostMix::Rubis, keys, Pricing::Mixed));
    assert!(!tallies[0].is_full);
    assert_eq!(tallies[0], tallies[1]);
    assert!((tallies[0].hit_percent() - 95.0).abs() < 0.5, "seed {SEED}: {tallies:?}");
}

#[test]
fn two_runs_with_the_same_seed_are_equal_and_the_totals_are_consistent() {
    let (_, setup) = setup("cost-multi");
    let run = || run(&setup, "95 %", "ours", CostMix::Baseline, 1_500, Pricing::Mixed);
    let (tally, second) = (run(), run());
    assert_eq!(tally, second);
    assert_eq!(tally.misses_by_units.iter().sum::<u64>(), tally.misses);
    let (hits, misses) = ((tally.requests - tally.misses) as f64, tally.units_missed as f64);
    let us = (hits * 222.0 + misses * 44.4) / tally.requests as f64;
    assert!((tally.response_us(&setup.response) - us).abs() < 1e-9);
}

#[test]
fn equal_costs_do_not_change_the_misses() {
    for name in ["cost-single", "cost-multi"] {
        let (_, setup) = setup(name);
        let run = |pricing| run(&setup, "small", "ours", CostMix::Baseline, 5_000, pricing).misses;
        assert_eq!(run(Pricing::Equal(100)), run(Pricing::NotSupplied), "{name}, seed {SEED}");
    }
}

#[test]
fn no_variant_costs_less_than_the_bound() {
    /// The bound is an expected value. The cost of a run varies by chance, and may be as low as this fraction of the
    /// bound.
    const TOLERANCE: f64 = 0.9;
    let (_, setup) = setup("cost-single");
    let small = setting(&setup, "small");
    let population = Population::new(&setup, CostMix::Tpcw, 5_000, SEED);
    let bound = bound_units_per_request(&setup, small, &population, SCALE);
    let costs = setup.variants.iter().map(|variant| {
        let tally = run(&setup, "small", &variant.name, CostMix::Tpcw, 5_000, Pricing::Mixed);
        (&variant.name, tally.units_per_request())
    });
    let costs: Vec<_> = costs.collect();
    let is_above = costs.iter().all(|(_, cost)| *cost > bound * TOLERANCE);
    assert!(bound > 0.0 && is_above, "cost per request: bound {bound}, variants {costs:?}");
}

#[test]
fn the_default_has_a_lower_recomputation_cost_than_an_lru() {
    let (spec, mut setup) = setup("cost-multi");
    setup.variants.retain(|variant| ["lru", "ours", "cost_bands"].contains(&variant.name.as_str()));
    setup.settings.truncate(1);
    let outcome = setup.run(&Job::of(&spec, SCALE, SEED));
    let outcome = outcome.unwrap_or_else(|error| panic!("{error}"));
    let text = outcome.text();
    // At this scale the profiler has few keys, so the reductions are smaller than at scale 1.
    for (mix, minimum) in [("BASELINE", 25.0), ("RUBIS", 15.0), ("TPCW", 40.0)] {
        let reduction = found(&outcome, "less_cost", &format!("small, {mix}, ours"));
        assert!(reduction > minimum, "{mix}, seed {SEED}: {text}");
    }
    assert!(found(&outcome, "less_cost_min", "ours") > 0.0, "seed {SEED}: {text}");
    let against = "all keys cost the same, against no costs, segmented + marginal";
    assert!(found(&outcome, "more_misses", against) <= 0.0, "seed {SEED}: {text}");
}

#[test]
fn the_sweep_has_a_curve_for_each_mix_and_variant() {
    let (spec, mut setup) = setup("cost-single");
    setup.variants.retain(|variant| ["lru", "ours", "cost_bands"].contains(&variant.name.as_str()));
    setup.settings.retain(|setting| ["small", "80 %", "95 %"].contains(&setting.name.as_str()));
    let outcome = setup.run(&Job::of(&spec, SCALE, SEED));
    let outcome = outcome.unwrap_or_else(|error| panic!("{error}"));
    let curves = outcome.series.iter().map(|series| (series.variant.as_str(), series.x.len()));
    let curves: Vec<_> = curves.collect();
    assert_eq!(curves.len(), 3 * 3, "{curves:?}");
    assert!(curves.contains(&("TPCW, ours", 2)) && curves.contains(&("RUBIS, bound", 2)));
}

#[test]
fn the_published_experiments_have_a_value_for_every_published_value_and_bar() {
    for name in ["cost-single-published", "cost-multi-published"] {
        let (spec, mut setup) = setup(name);
        for setting in &mut setup.settings {
            setting.timed_operations /= 100;
        }
        let outcome = setup.run(&Job::of(&spec, 0.0005, SEED));
        let outcome = outcome.unwrap_or_else(|error| panic!("{error}"));
        assert!(outcome.rows.iter().all(|row| row.ours.is_some()), "{name}: {}", outcome.text());
        for figure in &spec.figures {
            let Draw::Bars(measure) = &figure.draw else { panic!("{name} has only bars") };
            for variant in &figure.variants {
                found(&outcome, measure, &format!("{}{variant}", figure.within));
            }
        }
    }
}

#[test]
fn processor_times_of_gets_and_sets_are_measured_after_the_run() {
    let (_, mut setup) = setup("cost-single-published");
    let timed =
        |setup: &CostSetup| run(setup, "large", "lru", CostMix::Baseline, 5_000, Pricing::Mixed);
    let with_times = timed(&setup);
    let times = with_times.times.expect("the setting measures times");
    assert!(times.get_nanos > 0.0 && times.set_nanos > 0.0, "{times:?}");
    setup.settings.iter_mut().for_each(|setting| setting.timed_operations = 0);
    assert_eq!(timed(&setup), Tally { times: None, ..with_times }, "the other results are equal");
}

/// If every hit gives its item a new rank, the inflation outgrows the costs, and the reserved queue saves less.
#[test]
fn the_reserved_queue_saves_more_if_only_its_own_hits_give_ranks() {
    let (_, setup) = setup("cost-reserved");
    let keys = calibrated_keys(&setup, setting(&setup, "256 MiB"), CostMix::Tpcw, SCALE, SEED);
    let keys = keys.expect("the calibration succeeds");
    let of = |name| run(&setup, "256 MiB", name, CostMix::Tpcw, keys, Pricing::Mixed);
    let [lru, all, own] = ["lru", "reserved", "reserved, ranks in reserved"].map(of);
    assert_eq!(lru.inflation_per_replacement, 0.0);
    let [all_inflation, own_inflation] = [&all, &own].map(|tally| tally.inflation_per_replacement);
    assert!(own_inflation > 0.0 && all_inflation > 2.0 * own_inflation, "{all:?}\n{own:?}");
    let [lru, all, own] = [lru, all, own].map(|tally| tally.units_per_request());
    assert!(own < all && own < lru, "cost per request: lru {lru}, all hits {all}, own hits {own}");
}
