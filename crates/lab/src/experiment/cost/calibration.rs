//! How many keys there are: as many as make the first variant hit what its setting says.
//!
//! Where items are evicted, Che's approximation of an LRU gives a first number, the first variant is run with it, and
//! what the approximation was off by is allowed for in the next; where nothing is, counting tells it.

use super::popularity::{Popularity, keys_for};
use super::population::{Population, Pricing};
use super::setup::{CostSetup, Setting};
use super::trial::{Trial, bytes_of_pages, bytes_taken, engine_config};
use crate::trial::error::ExperimentError;
use crate::trial::setup::scaled;
use slabwise_replay::workload::CostMix;

/// The most runs for one number of keys.
const RUNS_MAX: usize = 4;
/// How near is near enough, in percentage points.
const NEAR_POINTS: f64 = 0.02;
/// No more is foretold: a hit ratio of 1 takes no key at all.
const FORETOLD_MAX: f64 = 0.999;

pub fn keys(
    setup: &CostSetup,
    setting: &Setting,
    mix: CostMix,
    scale: f64,
    seed: u64,
) -> Result<u64, ExperimentError> {
    let target = setting.hit_ratio / 100.0;
    let popularity = |keys| Popularity::new(keys, setup.skew, setting.ranks);
    if setting.never_fills {
        let [after, requests] =
            [setting.warm_up_requests, setting.requests].map(|count| scaled(count, scale));
        return Ok(keys_for(target, |keys| popularity(keys).known_ratio(after, requests)));
    }
    let room = room(setup, setting, mix, scale, seed);
    let (mut off, mut keys) = (0.0, 0);
    for _ in 0..RUNS_MAX {
        let foretold = (target + off).min(FORETOLD_MAX);
        keys = keys_for(foretold, |keys| popularity(keys).lru_hit_ratio(room));
        let population = Population::new(setup, mix, keys, seed);
        let (variant, pricing) = (setup.first(), Pricing::Untold);
        let trial = Trial { setup, setting, variant, population: &population, pricing, scale };
        let tally = trial.go()?.map_err(ExperimentError::Option)?;
        let missing = target - tally.hit_percent() / 100.0;
        if missing.abs() * 100.0 < NEAR_POINTS {
            break;
        }
        off += missing;
    }
    Ok(keys)
}

/// How many items of this mix there is room for, each size as often as its keys.
fn room(setup: &CostSetup, setting: &Setting, mix: CostMix, scale: f64, seed: u64) -> f64 {
    let config = engine_config(setup, setting, scale, seed);
    let groups = setup.value_lens.into_iter().zip(mix.shares_percent());
    let bytes = groups.map(|(len, percent)| bytes_taken(&config, len) * f64::from(percent) / 100.0);
    bytes_of_pages(&config) / bytes.sum::<f64>()
}
