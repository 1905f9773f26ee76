//! The least that misses could cost who knows how often every key is asked for: memory always holds the keys whose
//! chance times cost is highest for the bytes they take.
//!
//! Requests here are drawn independently of one another, so that no eviction does better in the long run, unless it
//! knew the requests to come.

use super::population::{Population, place_of};
use super::setup::{CostSetup, Setting};
use super::trial::{bytes_of_pages, bytes_taken, engine_config};

/// Of ranks that are hashed, so many times the keys are followed to their keys; the others fall on all alike.
const FOLLOWED: u64 = 8;

/// Units that a request would cost, on average.
pub fn units_a_request(
    setup: &CostSetup,
    setting: &Setting,
    population: &Population,
    scale: f64,
) -> f64 {
    let config = engine_config(setup, setting, scale, population.seed());
    let chances = chances(setup, setting, population.keys());
    let mut keys: Vec<(f64, f64)> = (0..population.keys())
        .map(|place| {
            let bytes = bytes_taken(&config, population.request(place).value_len);
            (chances[place as usize] * f64::from(population.cost(place).units()), bytes)
        })
        .collect();
    keys.sort_by(|(worth, bytes), (other_worth, other_bytes)| {
        (other_worth / other_bytes).total_cmp(&(worth / bytes))
    });
    let mut left = bytes_of_pages(&config);
    let out = keys.iter().filter(|(_, bytes)| {
        left -= bytes;
        left < 0.0
    });
    out.map(|(worth, _)| worth).sum()
}

/// By place, how likely a request is one for its key.
fn chances(setup: &CostSetup, setting: &Setting, keys: u64) -> Vec<f64> {
    let ranks = setting.ranks.unwrap_or(keys);
    let followed = ranks.min(keys * FOLLOWED);
    let weight = |rank: u64| ((rank + 1) as f64).powf(-setup.skew);
    let mut chances = vec![0.0; keys as usize];
    for rank in 0..followed {
        chances[place_of(rank, setting, keys) as usize] += weight(rank);
    }
    // The sum of what lies behind, as an integral.
    let power = 1.0 - setup.skew;
    let behind = ((ranks as f64).powf(power) - (followed as f64).powf(power)) / power;
    let spread = if ranks > followed { behind / keys as f64 } else { 0.0 };
    let sum: f64 = chances.iter().sum::<f64>() + spread * keys as f64;
    chances.iter_mut().for_each(|chance| *chance = (*chance + spread) / sum);
    chances
}
