//! Runs one variant on one population in virtual time, calibrates the number of keys, and computes the bound.
//!
//! ```text
//!   the hottest keys, coldest first --> warm-up --> measured requests: hits, misses and their cost
//!   (none if memory never fills)
//! ```
//!
//! The number of keys is chosen so that the first variant has the hit ratio of its setting. If items are evicted, Che's
//! approximation of an LRU gives the first estimate: a key is resident if it was requested within the characteristic time,
//! in which the number of different requested keys equals the capacity. Then the first variant runs with this number of
//! keys, and the next estimate corrects the error. If no item is evicted, a key is resident if it was requested before.
//! Source: Che, Tung, Wang: Hierarchical Web Caching Systems: Modeling, Design and Experimental Results, IEEE JSAC 20(7),
//! 2002, section III.
//!
//! The bound is an oracle that knows the popularity of every key. It always holds the keys with the highest product of
//! request probability and cost per byte. Requests are independent, so no eviction costs less in the long run.

use super::population::{CostSetup, Population, Pricing, Setting, Variant, place_of, places};
use crate::trial::curves::BESIDE_VALUE_BYTES;
use crate::trial::error::ExperimentError;
use crate::trial::execute::{profiling_options, tuner};
use crate::trial::setup::scaled;
use crate::vtime::{Access, Cache, Maintainer, Rate, Tuned, VisitCost};
use slabwise_base::{Clock, Cost};
use slabwise_engine::{Engine, EngineConfig, ReservedRank};
use slabwise_policy::PagePolicy;
use slabwise_replay::workload::{CostMix, Request};
use std::sync::Arc;
use std::time::Duration;

/// The number of keys stored before the warm-up, relative to the capacity.
const PRELOADED: f64 = 1.2;

#[derive(Clone, Copy)]
pub struct Trial<'s> {
    pub setup: &'s CostSetup,
    pub setting: &'s Setting,
    pub variant: &'s Variant,
    pub population: &'s Population,
    pub pricing: Pricing,
    pub scale: f64,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tally {
    pub requests: u64,
    pub misses: u64,
    pub units_requested: u64,
    pub units_missed: u64,
    pub misses_by_group: [u64; CostMix::GROUP_COUNT],
    pub pages_moved: u64,
    pub is_full: bool,
}

impl Tally {
    pub fn hit_percent(&self) -> f64 {
        (1.0 - self.misses as f64 / self.requests.max(1) as f64) * 100.0
    }

    pub fn units_a_request(&self) -> f64 {
        self.units_missed as f64 / self.requests.max(1) as f64
    }

    /// The cost of the misses in percent of the cost of all requests.
    pub fn recomputed_percent(&self) -> f64 {
        self.units_missed as f64 / self.units_requested.max(1) as f64 * 100.0
    }

    pub fn answer_us(&self, setup: &CostSetup) -> f64 {
        let hits = (self.requests - self.misses) as f64;
        let us =
            hits * setup.answer.hit_us + self.units_missed as f64 * setup.answer.miss_us_per_unit;
        us / self.requests.max(1) as f64
    }

    fn count(&mut self, access: Access, cost: Cost) {
        let units = u64::from(cost.units());
        self.requests += 1;
        self.units_requested += units;
        if access == Access::Miss {
            self.misses += 1;
            self.units_missed += units;
            self.misses_by_group[CostMix::group(cost)] += 1;
        }
    }
}

pub fn policy(variant: &Variant) -> Result<PagePolicy, String> {
    let options = variant.options.iter();
    let options: Vec<_> = options.map(|(name, value)| (name.as_str(), value.as_str())).collect();
    PagePolicy::with_options(&variant.policy, &options).map_err(|error| error.to_string())
}

pub fn engine_config(setup: &CostSetup, setting: &Setting, scale: f64, seed: u64) -> EngineConfig {
    setup.cache.engine_config_of(setting.memory_mib, scale, seed)
}

/// The bytes of memory that an item with a value of this length takes, including its part of the end of a page.
pub fn bytes_taken(config: &EngineConfig, value_len: u32) -> f64 {
    let class = config.classes.class_for(BESIDE_VALUE_BYTES + value_len as usize);
    let class = class.unwrap_or_else(|| panic!("a value of {value_len} bytes has a class"));
    let chunks = config.page_size_bytes / config.classes.chunk_size_bytes(class);
    config.page_size_bytes as f64 / chunks as f64
}

pub fn bytes_of_pages(config: &EngineConfig) -> f64 {
    let page_size_bytes = config.page_size_bytes as u64;
    (config.memory_limit_bytes / page_size_bytes * page_size_bytes) as f64
}

impl Trial<'_> {
    pub fn run(&self) -> Result<Result<Tally, String>, ExperimentError> {
        let policy = match policy(self.variant) {
            Ok(policy) => policy,
            Err(why) => return Ok(Err(why)),
        };
        let seed = self.population.seed;
        let config = engine_config(self.setup, self.setting, self.scale, seed);
        let mut config = EngineConfig { eviction: self.variant.eviction, ..config };
        let weighted = |cost_max| ReservedRank::Weighted { cost_max };
        config.eviction_options.reserved.rank =
            self.variant.cost_max.map_or(ReservedRank::Sum, weighted);
        let engine = Engine::new(config)?;
        let dates = Arc::new(Clock::manual());
        let profiling = profiling_options(engine.config().memory_limit_bytes);
        let hit_us = Some(self.setup.answer.hit_us);
        let tuner = tuner(&engine, policy, profiling, &dates, hit_us);
        let visit = VisitCost::new(self.setup.visit_ns)?;
        Ok(Ok(TrialRun {
            trial: self,
            // The virtual time is the same at every scale.
            rate: Rate::new(self.setup.time.operations_per_second * self.scale),
            cache: Cache::new(&engine),
            maintainer: Maintainer::new(&engine),
            tuned: Tuned::new(&engine, tuner, visit),
            dates: &dates,
            operations: 0,
            tally: Tally::default(),
        }
        .run(&engine)))
    }
}

struct TrialRun<'t, 'e> {
    trial: &'t Trial<'t>,
    rate: Rate,
    cache: Cache<'e>,
    maintainer: Maintainer<'e>,
    tuned: Tuned<'e>,
    dates: &'t Clock,
    operations: u64,
    tally: Tally,
}

impl TrialRun<'_, '_> {
    fn run(mut self, engine: &Engine) -> Tally {
        let Trial { setup, setting, population, scale, .. } = *self.trial;
        if !setting.never_fills {
            let config = engine.config();
            let [least, ..] = setup.value_lens.map(|len| bytes_taken(config, len));
            let items_max = bytes_of_pages(config) / least * PRELOADED;
            let stored = population.keys().min(items_max as u64);
            self.request_all((0..stored).rev());
        }
        let mut next = places(setup, setting, population.keys(), population.seed);
        self.request_all((0..scaled(setting.warm_up_requests, scale)).map(|_| next()));
        self.tally = Tally::default();
        self.request_all((0..scaled(setting.requests, scale)).map(|_| next()));
        self.tally.pages_moved = engine.mover_counters().moved;
        self.tally.is_full = engine.page_stats().memory_full();
        self.tally
    }

    fn request_all(&mut self, places: impl Iterator<Item = u64>) {
        let mut requests = places.map(|place| self.trial.population.request(place));
        loop {
            let batch: Vec<Request> = requests.by_ref().take(Cache::BATCH_MAX).collect();
            if batch.is_empty() {
                return;
            }
            self.cache.prefetch(&batch);
            self.maintainer.work_until(self.rate.nanos_at(self.operations));
            batch.iter().for_each(|request| self.request(request));
        }
    }

    fn request(&mut self, request: &Request) {
        self.tuned.work_until(self.rate.nanos_at(self.operations));
        let now = self.rate.now_at(self.operations);
        let drawn = request.cost.expect("every key has a cost");
        let (cost, supplied) = match self.trial.pricing {
            Pricing::Mixed => (drawn, Some(drawn)),
            Pricing::Equal(units) => (Cost::from_units(units), Some(Cost::from_units(units))),
            Pricing::NotSupplied => (drawn, None),
        };
        let access = self.cache.look_up(request, now);
        let answer = &self.trial.setup.answer;
        let us = match access {
            Access::Miss => f64::from(cost.units()) * answer.miss_us_per_unit,
            Access::Hit | Access::Other => answer.hit_us,
        };
        self.dates.advance(Duration::from_nanos((us * 1e3) as u64));
        if access == Access::Miss {
            self.cache.store(request, supplied, now);
        }
        self.tally.count(access, cost);
        self.operations += access.operations();
    }
}

/// If ranks are hashed, this number of ranks per key is assigned individually; the others are spread evenly.
const ASSIGNED: u64 = 8;

pub fn units_a_request(
    setup: &CostSetup,
    setting: &Setting,
    population: &Population,
    scale: f64,
) -> f64 {
    let config = engine_config(setup, setting, scale, population.seed);
    let probabilities = probabilities(setup, setting, population.keys());
    let mut keys: Vec<(f64, f64)> = (0..population.keys())
        .map(|place| {
            let bytes = bytes_taken(&config, population.request(place).value_len);
            (probabilities[place as usize] * f64::from(population.cost(place).units()), bytes)
        })
        .collect();
    keys.sort_by(|(worth, bytes), (other_worth, other_bytes)| {
        (other_worth / other_bytes).total_cmp(&(worth / bytes))
    });
    let mut left = bytes_of_pages(&config);
    let missed = keys.iter().filter(|(_, bytes)| {
        left -= bytes;
        left < 0.0
    });
    missed.map(|(worth, _)| worth).sum()
}

fn probabilities(setup: &CostSetup, setting: &Setting, keys: u64) -> Vec<f64> {
    let ranks = setting.ranks.unwrap_or(keys);
    let assigned = ranks.min(keys * ASSIGNED);
    let weight = |rank: u64| ((rank + 1) as f64).powf(-setup.skew);
    let mut probabilities = vec![0.0; keys as usize];
    for rank in 0..assigned {
        probabilities[place_of(rank, setting, keys) as usize] += weight(rank);
    }
    // An integral approximates the sum of the other ranks.
    let power = 1.0 - setup.skew;
    let rest = ((ranks as f64).powf(power) - (assigned as f64).powf(power)) / power;
    let spread = if ranks > assigned { rest / keys as f64 } else { 0.0 };
    let sum: f64 = probabilities.iter().sum::<f64>() + spread * keys as f64;
    probabilities.iter_mut().for_each(|probability| *probability = (*probability + spread) / sum);
    probabilities
}

const HEAD_RANKS: u64 = 1_000;
/// The ratio of the first ranks of consecutive groups.
const GROUP_GROWTH: f64 = 1.02;
const KEYS_MAX: f64 = 1e9;
const TIME_MAX: f64 = 1e12;
/// The number of bisections, after which an interval is smaller than a key.
const BISECTIONS: usize = 40;

#[derive(Clone, Copy, Debug)]
struct Group {
    keys: f64,
    probability: f64,
}

#[derive(Clone, Debug)]
pub struct Popularity {
    groups: Vec<Group>,
}

impl Popularity {
    /// A Zipf distribution with this exponent over the keys, or over `ranks` ranks that are hashed to the keys.
    pub fn new(keys: u64, skew: f64, ranks: Option<u64>) -> Popularity {
        let mut groups = groups(ranks.map_or(keys, |ranks| ranks.max(keys)), skew);
        // Ranks above the number of keys are spread evenly over the keys.
        let (mut head, mut spread, mut at) = (Vec::new(), 0.0, 0.0);
        for group in groups.drain(..) {
            let own = (keys as f64 - at).clamp(0.0, group.keys);
            at += group.keys;
            spread += (group.keys - own) * group.probability / keys as f64;
            if own > 0.0 {
                head.push(Group { keys: own, ..group });
            }
        }
        head.iter_mut().for_each(|group| group.probability += spread);
        Popularity { groups: head }
    }

    fn sum(&self, of_key: impl Fn(f64) -> f64) -> f64 {
        self.groups.iter().map(|group| group.keys * of_key(group.probability)).sum()
    }

    /// The hit ratio of an LRU that holds `capacity` keys, by Che's approximation.
    pub fn lru_hit_ratio(&self, capacity: f64) -> f64 {
        let keys_within = |time: f64| self.sum(|probability| -(-probability * time).exp_m1());
        let time = largest(TIME_MAX, |time| keys_within(time) < capacity);
        1.0 - self.sum(|probability| probability * (-probability * time).exp())
    }

    /// The hit ratio of `requests` requests after `after` others, without eviction.
    pub fn hit_ratio_without_eviction(&self, after: u64, requests: u64) -> f64 {
        let (after, requests) = (after as f64, requests as f64);
        let first_requests =
            |probability: f64| (-probability * after).exp() * -(-probability * requests).exp_m1();
        1.0 - self.sum(first_requests) / requests.max(1.0)
    }
}

/// Groups the ranks `1..=ranks`; the probabilities of all ranks add up to 1.
fn groups(ranks: u64, skew: f64) -> Vec<Group> {
    let mut groups = Vec::new();
    let mut from = 1;
    while from <= ranks {
        let next = if from < HEAD_RANKS { from + 1 } else { (from as f64 * GROUP_GROWTH) as u64 };
        let next = next.min(ranks + 1);
        let middle = f64::midpoint(from as f64, (next - 1) as f64);
        groups.push(Group { keys: (next - from) as f64, probability: middle.powf(-skew) });
        from = next;
    }
    let sum: f64 = groups.iter().map(|group| group.keys * group.probability).sum();
    groups.iter_mut().for_each(|group| group.probability /= sum);
    groups
}

/// The largest number of keys for which `hit_ratio` is at least `target`; it must fall with the number of keys.
pub fn keys_for(target: f64, hit_ratio: impl Fn(u64) -> f64) -> u64 {
    largest(KEYS_MAX, |keys| hit_ratio(keys as u64) >= target) as u64
}

/// The largest number from 1 to `most` for which `is_small` holds; it must hold for all smaller ones.
fn largest(most: f64, is_small: impl Fn(f64) -> bool) -> f64 {
    let (mut low, mut high) = (1.0f64, most);
    for _ in 0..BISECTIONS {
        let middle = (low * high).sqrt();
        if is_small(middle) { low = middle } else { high = middle }
    }
    low
}

const RUNS_MAX: usize = 4;
const NEAR_POINTS: f64 = 0.02;
/// The largest predicted hit ratio, because a hit ratio of 1 is impossible with any key.
const PREDICTED_MAX: f64 = 0.999;

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
        let [after, requests] =
            [setting.warm_up_requests, setting.requests].map(|count| scaled(count, scale));
        let hit_ratio = |keys| popularity(keys).hit_ratio_without_eviction(after, requests);
        return Ok(keys_for(target, hit_ratio));
    }
    let capacity = capacity(setup, setting, mix, scale, seed);
    let (mut correction, mut keys) = (0.0, 0);
    for _ in 0..RUNS_MAX {
        let predicted = (target + correction).min(PREDICTED_MAX);
        keys = keys_for(predicted, |keys| popularity(keys).lru_hit_ratio(capacity));
        let population = Population::new(setup, mix, keys, seed);
        let (variant, pricing) = (setup.first(), Pricing::NotSupplied);
        let trial = Trial { setup, setting, variant, population: &population, pricing, scale };
        let tally = trial.run()?.map_err(ExperimentError::Option)?;
        let error = target - tally.hit_percent() / 100.0;
        if error.abs() * 100.0 < NEAR_POINTS {
            break;
        }
        correction += error;
    }
    Ok(keys)
}

/// The number of items of this mix that the memory holds, with the proportions of sizes of the mix.
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
        assert!((ratio - 0.9).abs() < 0.004, "seed 5: {keys} keys, {ratio}");
    }

    #[test]
    fn without_eviction_the_hit_ratio_is_the_predicted_one() {
        let hit_ratio =
            |keys| Popularity::new(keys, 0.99, None).hit_ratio_without_eviction(20_000, 100_000);
        let keys = keys_for(0.95, hit_ratio);
        let mut zipf = Zipf::new(keys, 0.99, Random::new(6));
        let mut known: HashSet<u64> = HashSet::new();
        known.extend((0..20_000).map(|_| zipf.next_key()));
        let first = (0..100_000).filter(|_| known.insert(zipf.next_key())).count();
        let ratio = 1.0 - first as f64 / 100_000.0;
        assert!((ratio - 0.95).abs() < 0.003, "seed 6: {keys} keys, {ratio}");
    }

    #[test]
    fn ranks_above_the_number_of_keys_are_spread_evenly() {
        let own = Popularity::new(5_000, 0.99, None);
        let hashed = Popularity::new(5_000, 0.99, Some(10_000_000_000));
        for popularity in [&own, &hashed] {
            let (keys, all) = (popularity.sum(|_| 1.0), popularity.sum(|probability| probability));
            assert!((keys - 5_000.0).abs() < 1e-6 && (all - 1.0).abs() < 1e-9, "{keys} {all}");
        }
        assert!(hashed.lru_hit_ratio(2_000.0) < own.lru_hit_ratio(2_000.0));
    }
}
