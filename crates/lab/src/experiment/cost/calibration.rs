//! Calibrates the number of keys of a setting.
//!
//! The number of keys is chosen so that the first variant has the hit ratio of the setting. If items are
//! evicted, the first estimate uses Che's approximation of an LRU: a key is cached if it was requested within the
//! characteristic time, which is the time in which the number of different requested keys reaches the capacity. Then
//! the first variant runs with this number of keys and with all requests of the setting, because the hit ratio of a
//! large cache changes for as long as it is measured. The next estimate corrects the error of the hit ratio. If no
//! item is evicted, a key is cached if it was requested before.
//! Source: Che, Tung, Wang: Hierarchical Web Caching Systems: Modeling, Design and Experimental Results, IEEE JSAC
//! 20(7), 2002, section III.

use super::population::{CostSetup, Population, Pricing, Setting};
use super::trial::{Trial, bytes_of_pages, bytes_taken, engine_config};
use crate::trial::error::ExperimentError;
use crate::trial::setup::scaled;
use slabwise_replay::workload::CostMix;

/// Each of the first ranks is a group of its own. Later groups have several ranks.
const SINGLE_RANKS: u64 = 1_000;
/// The first rank of a later group, divided by the first rank of the group before it.
const GROUP_GROWTH: f64 = 1.02;
/// Upper limit of the search for a number of keys.
const KEYS_MAX: f64 = 1e9;
/// Upper limit of the search for the characteristic time, in requests.
const TIME_MAX: f64 = 1e12;
/// Number of bisections of a search. In a search for a number of keys, the last interval is smaller than one key.
const BISECTIONS: usize = 40;

/// Keys with about the same popularity.
#[derive(Clone, Copy, Debug)]
struct Group {
    /// Number of keys.
    keys: f64,
    /// Probability that a request is for a certain key of the group.
    probability: f64,
}

/// The popularity of all keys.
#[derive(Clone, Debug)]
pub struct Popularity {
    groups: Vec<Group>,
}

impl Popularity {
    /// Returns a Zipf distribution with the exponent `skew` over `keys` keys. If `ranks` is given, the distribution is
    /// over this number of ranks, which are hashed to the keys.
    pub fn new(keys: u64, skew: f64, ranks: Option<u64>) -> Popularity {
        let groups = groups(ranks.map_or(keys, |ranks| ranks.max(keys)), skew);
        // The first ranks have a key each. The probability of the other ranks is distributed evenly over all keys.
        let (mut of_keys, mut rest_per_key, mut ranks_before) = (Vec::new(), 0.0, 0.0);
        for group in groups {
            let with_key = (keys as f64 - ranks_before).clamp(0.0, group.keys);
            ranks_before += group.keys;
            rest_per_key += (group.keys - with_key) * group.probability / keys as f64;
            if with_key > 0.0 {
                of_keys.push(Group { keys: with_key, ..group });
            }
        }
        of_keys.iter_mut().for_each(|group| group.probability += rest_per_key);
        Popularity { groups: of_keys }
    }

    /// Returns the sum of `of_key(probability)` over all keys.
    fn sum(&self, of_key: impl Fn(f64) -> f64) -> f64 {
        self.groups.iter().map(|group| group.keys * of_key(group.probability)).sum()
    }

    /// Returns the hit ratio of an LRU with a capacity of `capacity` keys, by Che's approximation.
    pub fn lru_hit_ratio(&self, capacity: f64) -> f64 {
        let keys_within = |time: f64| self.sum(|probability| -(-probability * time).exp_m1());
        let time = largest(TIME_MAX, |time| keys_within(time) < capacity);
        1.0 - self.sum(|probability| probability * (-probability * time).exp())
    }

    /// Returns the hit ratio of `requests` requests that follow `earlier` other requests, if no item is evicted.
    pub fn hit_ratio_without_eviction(&self, earlier: u64, requests: u64) -> f64 {
        let (earlier, requests) = (earlier as f64, requests as f64);
        let first_references =
            |probability: f64| (-probability * earlier).exp() * -(-probability * requests).exp_m1();
        1.0 - self.sum(first_references) / requests.max(1.0)
    }
}

/// Divides the ranks `1..=ranks` into groups. The probabilities of all ranks add up to 1.
fn groups(ranks: u64, skew: f64) -> Vec<Group> {
    let mut groups = Vec::new();
    let mut from = 1;
    while from <= ranks {
        let next = if from < SINGLE_RANKS { from + 1 } else { (from as f64 * GROUP_GROWTH) as u64 };
        let next = next.min(ranks + 1);
        let middle = f64::midpoint(from as f64, (next - 1) as f64);
        groups.push(Group { keys: (next - from) as f64, probability: middle.powf(-skew) });
        from = next;
    }
    let sum: f64 = groups.iter().map(|group| group.keys * group.probability).sum();
    groups.iter_mut().for_each(|group| group.probability /= sum);
    groups
}

/// Returns the largest number of keys for which `hit_ratio` returns at least `target`. The hit ratio must fall with the
/// number of keys.
pub fn keys_for(target: f64, hit_ratio: impl Fn(u64) -> f64) -> u64 {
    largest(KEYS_MAX, |keys| hit_ratio(keys as u64) >= target) as u64
}

/// Returns the largest number from 1 to `limit` for which `is_small` returns true. If `is_small` returns true for a
/// number, it must return true for all smaller numbers.
fn largest(limit: f64, is_small: impl Fn(f64) -> bool) -> f64 {
    let (mut low, mut high) = (1.0f64, limit);
    for _ in 0..BISECTIONS {
        let middle = (low * high).sqrt();
        if is_small(middle) { low = middle } else { high = middle }
    }
    low
}

/// Largest number of runs of a calibration.
const RUNS_MAX: usize = 4;
/// A calibration ends if the hit ratio differs by less than this number of percentage points from the hit ratio of the
/// setting.
const TOLERANCE_POINTS: f64 = 0.02;
/// Largest hit ratio for which a number of keys is computed. A hit ratio of 1 is impossible with any number of keys.
const PREDICTED_MAX: f64 = 0.999;

/// Returns the number of keys with which the first variant has the hit ratio of the setting.
pub fn calibrated_keys(
    setup: &CostSetup,
    setting: &Setting,
    mix: CostMix,
    scale: f64,
    seed: u64,
) -> Result<u64, ExperimentError> {
    let target = setting.hit_ratio / 100.0;
    let popularity = |keys| Popularity::new(keys, setup.skew, setting.ranks);
    if setting.never_fills {
        let [earlier, requests] =
            [setting.warm_up_requests, setting.requests].map(|count| scaled(count, scale));
        let hit_ratio = |keys| popularity(keys).hit_ratio_without_eviction(earlier, requests);
        return Ok(keys_for(target, hit_ratio));
    }
    let capacity = capacity(setup, setting, mix, scale, seed);
    let (mut correction, mut keys) = (0.0, 0);
    for _ in 0..RUNS_MAX {
        let predicted = (target + correction).min(PREDICTED_MAX);
        keys = keys_for(predicted, |keys| popularity(keys).lru_hit_ratio(capacity));
        let population = Population::new(setup, mix, keys, seed);
        let (variant, pricing) = (setup.first(), Pricing::NotSupplied);
        let setting = &Setting { timed_operations: 0, ..setting.clone() };
        let trial = Trial { setup, setting, variant, population: &population, pricing, scale };
        let tally = trial.run()?.map_err(ExperimentError::Option)?;
        let error = target - tally.hit_percent() / 100.0;
        if error.abs() * 100.0 < TOLERANCE_POINTS {
            break;
        }
        correction += error;
    }
    Ok(keys)
}

/// Returns the number of items that the memory holds, if the items have the sizes of the mix in the proportions of the
/// mix.
fn capacity(setup: &CostSetup, setting: &Setting, mix: CostMix, scale: f64, seed: u64) -> f64 {
    let config = engine_config(setup, setting, scale, seed);
    let groups = setup.value_lens.into_iter().zip(mix.shares_percent());
    let bytes = groups.map(|(len, percent)| bytes_taken(&config, len) * f64::from(percent) / 100.0);
    bytes_of_pages(&config) / bytes.sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::{Popularity, keys_for};
    use crate::exact_lru::ExactLru;
    use slabwise_base::Random;
    use slabwise_replay::workload::Zipf;
    use std::collections::HashSet;

    #[test]
    fn an_lru_has_the_predicted_hit_ratio() {
        const CAPACITY: u64 = 2_000;
        let keys =
            keys_for(0.9, |keys| Popularity::new(keys, 0.99, None).lru_hit_ratio(CAPACITY as f64));
        let mut zipf = Zipf::new(keys, 0.99, Random::new(5));
        let mut lru = ExactLru::new(CAPACITY);
        let mut misses =
            |requests| (0..requests).filter(|_| lru.access(zipf.next_key(), 1).is_miss()).count();
        misses(100_000);
        let ratio = 1.0 - misses(200_000) as f64 / 200_000.0;
        assert!(
            (ratio - 0.9).abs() < 0.004,
            "seed 5, {keys} keys: hit ratio {ratio}, predicted 0.9"
        );
    }

    #[test]
    fn without_eviction_a_cache_has_the_predicted_hit_ratio() {
        let hit_ratio =
            |keys| Popularity::new(keys, 0.99, None).hit_ratio_without_eviction(20_000, 100_000);
        let keys = keys_for(0.95, hit_ratio);
        let mut zipf = Zipf::new(keys, 0.99, Random::new(6));
        let mut cached: HashSet<u64> = HashSet::new();
        cached.extend((0..20_000).map(|_| zipf.next_key()));
        let misses = (0..100_000).filter(|_| cached.insert(zipf.next_key())).count();
        let ratio = 1.0 - misses as f64 / 100_000.0;
        let context = format!("seed 6, {keys} keys: hit ratio {ratio}, predicted 0.95");
        assert!((ratio - 0.95).abs() < 0.003, "{context}");
    }

    #[test]
    fn with_hashed_ranks_the_probabilities_add_up_to_1_and_an_lru_has_fewer_hits() {
        let direct = Popularity::new(5_000, 0.99, None);
        let hashed = Popularity::new(5_000, 0.99, Some(10_000_000_000));
        for popularity in [&direct, &hashed] {
            let (keys, sum) = (popularity.sum(|_| 1.0), popularity.sum(|probability| probability));
            let context = format!("{keys} keys with a sum of probabilities of {sum}");
            assert!((keys - 5_000.0).abs() < 1e-6 && (sum - 1.0).abs() < 1e-9, "{context}");
        }
        assert!(hashed.lru_hit_ratio(2_000.0) < direct.lru_hit_ratio(2_000.0));
    }
}
