//! Runs `cost` at a tiny scale.

use super::population::{CostSetup, Population, Pricing, Setting};
use super::trial::{
    Tally, Trial, bytes_taken, calibrated_keys, engine_config, policy, units_a_request,
};
use crate::experiment::{Experiment, Job};
use crate::registry;
use crate::result::{Outcome, Row, Spec};
use slabwise_replay::workload::CostMix;

const SEED: u64 = 7;
const SCALE: f64 = 0.02;
/// The largest number of bytes that an eviction adds to an item.
const SPARE_BYTES: usize = 16;

fn setup(name: &str) -> (Spec, CostSetup) {
    let (spec, mut setup) = registry::parsed::<CostSetup>(name);
    // The scale does not shorten the virtual time, so the rate is higher here, and there are fewer requests.
    setup.time.operations_per_second *= 10.0;
    for setting in &mut setup.settings {
        setting.requests /= 2;
    }
    (spec, setup)
}

fn setting<'s>(setup: &'s CostSetup, name: &str) -> &'s Setting {
    setup.settings.iter().find(|setting| setting.name == name).expect("it is there")
}

fn found(outcome: &Outcome, measure: &str, variant: &str) -> f64 {
    let is_it = |row: &&Row| row.measure == measure && row.variant == variant;
    let row = outcome.rows.iter().find(is_it).unwrap_or_else(|| panic!("{measure}, {variant}"));
    row.ours.unwrap_or_else(|| panic!("{measure}, {variant}: {:?}", row.note))
}

/// Runs a variant of a setting with a mix and a number of keys.
fn run(
    setup: &CostSetup,
    name: &str,
    variant: &str,
    mix: CostMix,
    keys: u64,
    pricing: Pricing,
) -> Tally {
    let (setting, variant) = (setting(setup, name), setup.variant(variant).expect("it is there"));
    let population = Population::new(setup, mix, keys, SEED);
    let trial = Trial { setup, setting, variant, population: &population, pricing, scale: SCALE };
    let tally = trial.run().unwrap_or_else(|error| panic!("{error}"));
    tally.unwrap_or_else(|why| panic!("{}: {why}", variant.name))
}

#[test]
fn files_name_only_known_variants_and_policies() {
    for name in ["cost-single", "cost-multi"] {
        let (_, setup) = setup(name);
        for variant in setup.variants.iter().chain([&setup.equal.without]) {
            let name = &variant.name;
            assert!(policy(variant).is_ok(), "{name}: {:?}", policy(variant));
            assert!(variant.against.as_ref().is_none_or(|other| setup.variant(other).is_some()));
        }
        assert!(setup.variant(&setup.equal.variant).is_some());
        setting(&setup, &setup.equal.setting);
    }
}

#[test]
fn every_eviction_holds_the_same_number_of_items() {
    for name in ["cost-single", "cost-multi"] {
        let (_, setup) = setup(name);
        for setting in &setup.settings {
            let config = engine_config(&setup, setting, 1.0, SEED);
            for len in setup.value_lens {
                let longer = bytes_taken(&config, len + SPARE_BYTES as u32);
                assert_eq!(bytes_taken(&config, len), longer, "{name}, {len} bytes");
            }
        }
    }
}

#[test]
fn the_number_of_keys_gives_the_hit_ratio() {
    let (_, mut setup) = setup("cost-multi");
    let mix = CostMix::Tpcw;
    for ranks in [None, Some(10_000_000_000)] {
        setup.settings[0].ranks = ranks;
        let small = &setup.settings[0];
        let keys = calibrated_keys(&setup, small, mix, SCALE, SEED).expect("a number");
        let tally = run(&setup, &small.name, "lru", mix, keys, Pricing::NotSupplied);
        let off = tally.hit_percent() - small.hit_ratio;
        assert!(off.abs() < 0.5, "{ranks:?}, seed {SEED}: {keys} keys, {tally:?}");
        assert!(tally.is_full);
    }
}

#[test]
fn a_cache_that_never_fills_misses_only_first_requests() {
    let (_, setup) = setup("cost-single");
    let large = setting(&setup, "large");
    let keys = calibrated_keys(&setup, large, CostMix::Rubis, SCALE, SEED).expect("a number");
    let tallies = ["lru", "ours"]
        .map(|variant| run(&setup, "large", variant, CostMix::Rubis, keys, Pricing::Mixed));
    assert!(!tallies[0].is_full);
    assert_eq!(tallies[0], tallies[1]);
    assert!((tallies[0].hit_percent() - 95.0).abs() < 0.5, "seed {SEED}: {tallies:?}");
}

#[test]
fn a_run_is_determined_by_its_seed_and_adds_up() {
    let (_, setup) = setup("cost-multi");
    let tally = || run(&setup, "95 %", "ours", CostMix::Baseline, 1_500, Pricing::Mixed);
    let tally = (tally(), tally());
    assert_eq!(tally.0, tally.1);
    let tally = tally.0;
    assert_eq!(tally.misses_by_group.iter().sum::<u64>(), tally.misses);
    let (hits, misses) = ((tally.requests - tally.misses) as f64, tally.units_missed as f64);
    let us = (hits * 222.0 + misses * 44.4) / tally.requests as f64;
    assert!((tally.answer_us(&setup) - us).abs() < 1e-9);
}

/// A miss of the least cost takes twice as long as a hit (the thesis, section 5.5.1).
#[test]
fn response_times_are_those_of_the_thesis() {
    let (_, setup) = setup("cost-single");
    let of = |misses, units_missed| {
        Tally { requests: 1, misses, units_missed, ..Tally::default() }.answer_us(&setup)
    };
    assert_eq!([of(0, 0), of(1, 10)], [222.0, 444.0]);
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
    /// The bound is an expectation, and the cost of a run varies by chance.
    const CHANCE: f64 = 0.9;
    let (_, setup) = setup("cost-single");
    let small = setting(&setup, "small");
    let population = Population::new(&setup, CostMix::Tpcw, 5_000, SEED);
    let bound = units_a_request(&setup, small, &population, SCALE);
    let costs = setup.variants.iter().map(|variant| {
        let tally = run(&setup, "small", &variant.name, CostMix::Tpcw, 5_000, Pricing::Mixed);
        (&variant.name, tally.units_a_request())
    });
    let costs: Vec<_> = costs.collect();
    assert!(
        bound > 0.0 && costs.iter().all(|(_, cost)| *cost > bound * CHANCE),
        "{bound} {costs:?}"
    );
}

#[test]
fn cost_bands_cost_less_than_an_lru() {
    let (spec, mut setup) = setup("cost-multi");
    setup.variants.retain(|variant| ["lru", "ours"].contains(&variant.name.as_str()));
    setup.settings.truncate(1);
    setup.seeds = 2;
    let outcome = setup.run(&Job::of(&spec, SCALE, SEED));
    let outcome = outcome.unwrap_or_else(|error| panic!("{error}"));
    let text = outcome.text();
    assert!(outcome.unexplained().is_empty(), "{text}");
    // A small cache profiles few keys; at the size of the file the reduction is larger.
    for (mix, least) in [("BASELINE", 25.0), ("RUBIS", 15.0), ("TPCW", 40.0)] {
        let less = found(&outcome, "less_cost", &format!("small, {mix}, ours"));
        assert!(less > least, "seed {SEED}: {text}");
    }
    assert!(found(&outcome, "least_less_cost", "ours") > 0.0, "seed {SEED}: {text}");
    let against = "all cost the same, against no costs, segmented + marginal";
    assert!(found(&outcome, "more_misses", against) <= 0.0, "seed {SEED}: {text}");
}

#[test]
fn a_sweep_has_a_curve_per_mix_and_variant() {
    let (spec, mut setup) = setup("cost-single");
    setup.variants.retain(|variant| ["lru", "ours"].contains(&variant.name.as_str()));
    setup.settings.retain(|setting| ["small", "80 %", "95 %"].contains(&setting.name.as_str()));
    setup.seeds = 1;
    let outcome = setup.run(&Job::of(&spec, SCALE, SEED));
    let outcome = outcome.unwrap_or_else(|error| panic!("{error}"));
    let curves = outcome.series.iter().map(|series| (series.variant.as_str(), series.x.len()));
    let curves: Vec<_> = curves.collect();
    assert_eq!(curves.len(), 3 * 2, "{curves:?}");
    assert!(curves.contains(&("TPCW, ours", 2)) && curves.contains(&("RUBIS, bound", 2)));
}
