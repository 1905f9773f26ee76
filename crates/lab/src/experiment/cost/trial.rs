//! Runs a variant on a population in virtual time, calibrates the number of keys, and computes the bound.
//!
//! ```text
//!   stores of the most popular keys --> warm-up --> measured requests: hits, misses and their cost
//!   (none if the memory never fills)
//! ```
//!
//! *Calibration.* The number of keys is chosen so that the first variant has the hit ratio of the setting. If items are
//! evicted, the first estimate uses Che's approximation of an LRU: a key is cached if it was requested within the
//! characteristic time, which is the time in which the number of different requested keys reaches the capacity. Then
//! the first variant runs with this number of keys, and the next estimate corrects the error of the hit ratio. If no
//! item is evicted, a key is cached if it was requested before.
//! Source: Che, Tung, Wang: Hierarchical Web Caching Systems: Modeling, Design and Experimental Results, IEEE JSAC
//! 20(7), 2002, section III.
//!
//! *Bound.* The bound is the cost of the misses of an oracle that knows the popularity of every key. The oracle caches
//! the keys with the highest product of request probability and cost, divided by their bytes. Requests are independent
//! of each other, so no eviction policy has a lower cost in the long run.

use super::population::{
    CostSetup, Population, Pricing, Setting, Variant, key_index_of, key_indices,
};
use crate::trial::curves::BESIDE_VALUE_BYTES;
use crate::trial::error::ExperimentError;
use crate::trial::execute::{profiling_options, tuner};
use crate::trial::setup::scaled;
use crate::vtime::{Access, Cache, Maintainer, Rate, RunningTuner, VisitCost};
use slabwise_base::{Clock, Cost};
use slabwise_engine::{Engine, EngineConfig, ReservedRank};
use slabwise_policy::PagePolicy;
use slabwise_replay::workload::{CostMix, Request};
use std::sync::Arc;
use std::time::Duration;

/// Number of keys that are stored before the warm-up, divided by the number of the smallest items that fit into the
/// memory.
const PRELOADED: f64 = 1.2;

/// The conditions of a run.
#[derive(Clone, Copy)]
pub struct Trial<'s> {
    pub setup: &'s CostSetup,
    pub setting: &'s Setting,
    pub variant: &'s Variant,
    pub population: &'s Population,
    pub pricing: Pricing,
    pub scale: f64,
}

/// The result of a run: totals of the measured requests. Costs are in units.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tally {
    /// Number of gets.
    pub requests: u64,
    /// Number of gets that missed.
    pub misses: u64,
    /// Sum of the costs of the keys of all gets.
    pub units_requested: u64,
    /// Sum of the costs of the keys of all misses.
    pub units_missed: u64,
    /// Number of misses of each group of costs: low, middle and high.
    pub misses_by_group: [u64; CostMix::GROUP_COUNT],
    /// Number of pages that moved since the start of the run.
    pub pages_moved: u64,
    /// True if the memory was full at the end of the run.
    pub is_full: bool,
}

impl Tally {
    pub fn hit_percent(&self) -> f64 {
        (1.0 - self.misses as f64 / self.requests.max(1) as f64) * 100.0
    }

    /// Returns the cost of all misses divided by the number of requests.
    pub fn units_per_request(&self) -> f64 {
        self.units_missed as f64 / self.requests.max(1) as f64
    }

    /// Returns the cost of all misses, in percent of the cost of all requests.
    pub fn recomputed_percent(&self) -> f64 {
        self.units_missed as f64 / self.units_requested.max(1) as f64 * 100.0
    }

    /// Returns the mean response time of a request in microseconds.
    pub fn response_us(&self, setup: &CostSetup) -> f64 {
        let hits = (self.requests - self.misses) as f64;
        let us = hits * setup.response.hit_us
            + self.units_missed as f64 * setup.response.miss_us_per_unit;
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

/// Creates the page policy of a variant, or returns an error text.
pub fn policy(variant: &Variant) -> Result<PagePolicy, String> {
    let options = variant.options.iter();
    let options: Vec<_> = options.map(|(name, value)| (name.as_str(), value.as_str())).collect();
    PagePolicy::with_options(&variant.policy, &options).map_err(|error| error.to_string())
}

/// Returns the engine's configuration in a setting, except for the eviction kind.
pub fn engine_config(setup: &CostSetup, setting: &Setting, scale: f64, seed: u64) -> EngineConfig {
    setup.cache.engine_config_of(setting.memory_mib, scale, seed)
}

/// Returns the bytes of memory that an item with a value of this length takes: the size of a page divided by the number
/// of its chunks.
pub fn bytes_taken(config: &EngineConfig, value_len: u32) -> f64 {
    let class = config.classes.class_for(BESIDE_VALUE_BYTES + value_len as usize);
    let class =
        class.unwrap_or_else(|| panic!("the class table has a chunk for {value_len} bytes"));
    let chunks = config.page_size_bytes / config.classes.chunk_size_bytes(class);
    config.page_size_bytes as f64 / chunks as f64
}

/// Returns the memory limit, rounded down to whole pages.
pub fn bytes_of_pages(config: &EngineConfig) -> f64 {
    let page_size_bytes = config.page_size_bytes as u64;
    (config.memory_limit_bytes / page_size_bytes * page_size_bytes) as f64
}

impl Trial<'_> {
    /// Runs the variant. The inner error is the reason why this variant cannot be run.
    pub fn run(&self) -> Result<Result<Tally, String>, ExperimentError> {
        let policy = match policy(self.variant) {
            Ok(policy) => policy,
            Err(reason) => return Ok(Err(reason)),
        };
        let seed = self.population.seed;
        let config = engine_config(self.setup, self.setting, self.scale, seed);
        let mut config = EngineConfig { eviction: self.variant.eviction, ..config };
        let weighted = |cost_max| ReservedRank::Weighted { cost_max };
        config.eviction_options.reserved.rank =
            self.variant.cost_max.map_or(ReservedRank::Sum, weighted);
        let engine = Engine::new(config)?;
        let response_clock = Arc::new(Clock::manual());
        let profiling = profiling_options(engine.config().memory_limit_bytes);
        let hit_us = Some(self.setup.response.hit_us);
        let tuner = tuner(&engine, policy, profiling, &response_clock, hit_us);
        let visit = VisitCost::new(self.setup.visit_ns)?;
        Ok(Ok(TrialRun {
            trial: self,
            // The scale multiplies the number of requests and the rate. So a run has the same virtual time at every
            // scale.
            rate: Rate::new(self.setup.time.operations_per_second * self.scale),
            cache: Cache::new(&engine),
            maintainer: Maintainer::new(&engine),
            tuner: RunningTuner::new(&engine, tuner, visit),
            response_clock: &response_clock,
            operations: 0,
            tally: Tally::default(),
        }
        .run(&engine)))
    }
}

/// A run in progress.
struct TrialRun<'t, 'e> {
    trial: &'t Trial<'t>,
    rate: Rate,
    cache: Cache<'e>,
    maintainer: Maintainer<'e>,
    tuner: RunningTuner<'e>,
    /// Advances by the response time of each request. The profiler reads this clock.
    response_clock: &'t Clock,
    /// Number of operations so far, which determines the virtual time.
    operations: u64,
    tally: Tally,
}

impl TrialRun<'_, '_> {
    fn run(mut self, engine: &Engine) -> Tally {
        let Trial { setup, setting, population, scale, .. } = *self.trial;
        if !setting.never_fills {
            let config = engine.config();
            let [smallest, ..] = setup.value_lens.map(|len| bytes_taken(config, len));
            let items_max = bytes_of_pages(config) / smallest * PRELOADED;
            let stored = population.keys().min(items_max as u64);
            // The most popular key is requested last.
            self.request_all((0..stored).rev());
        }
        let mut next = key_indices(setup, setting, population.keys(), population.seed);
        self.request_all((0..scaled(setting.warm_up_requests, scale)).map(|_| next()));
        self.tally = Tally::default();
        self.request_all((0..scaled(setting.requests, scale)).map(|_| next()));
        self.tally.pages_moved = engine.mover_counters().moved;
        self.tally.is_full = engine.page_stats().memory_full();
        self.tally
    }

    /// Requests the keys with these indices.
    fn request_all(&mut self, key_indices: impl Iterator<Item = u64>) {
        let mut requests = key_indices.map(|index| self.trial.population.request(index));
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
        self.tuner.work_until(self.rate.nanos_at(self.operations));
        let now = self.rate.now_at(self.operations);
        let mixed = request.cost.expect("every request of a population has a cost");
        let (cost, supplied) = match self.trial.pricing {
            Pricing::Mixed => (mixed, Some(mixed)),
            Pricing::Equal(units) => (Cost::from_units(units), Some(Cost::from_units(units))),
            Pricing::NotSupplied => (mixed, None),
        };
        let access = self.cache.look_up(request, now);
        let response = &self.trial.setup.response;
        let us = match access {
            Access::Miss => f64::from(cost.units()) * response.miss_us_per_unit,
            Access::Hit | Access::Other => response.hit_us,
        };
        self.response_clock.advance(Duration::from_nanos((us * 1e3) as u64));
        if access == Access::Miss {
            self.cache.store(request, supplied, now);
        }
        self.tally.count(access, cost);
        self.operations += access.operations();
    }
}

/// If ranks are hashed, the bound computes only the keys of the most popular ranks: this number of ranks per key. It
/// distributes the probability of the other ranks evenly over all keys.
const ASSIGNED_RANKS_PER_KEY: u64 = 8;

/// Returns the bound: the lowest possible mean cost of the misses per request, in units.
pub fn bound_units_per_request(
    setup: &CostSetup,
    setting: &Setting,
    population: &Population,
    scale: f64,
) -> f64 {
    let config = engine_config(setup, setting, scale, population.seed);
    let probabilities = probabilities(setup, setting, population.keys());
    let mut keys: Vec<(f64, f64)> = (0..population.keys())
        .map(|index| {
            let bytes = bytes_taken(&config, population.request(index).value_len);
            (probabilities[index as usize] * f64::from(population.cost(index).units()), bytes)
        })
        .collect();
    // The keys with the highest expected cost per byte are first.
    keys.sort_by(|(cost, bytes), (other_cost, other_bytes)| {
        (other_cost / other_bytes).total_cmp(&(cost / bytes))
    });
    let mut left = bytes_of_pages(&config);
    let missed = keys.iter().filter(|(_, bytes)| {
        left -= bytes;
        left < 0.0
    });
    missed.map(|(cost, _)| cost).sum()
}

/// Returns the request probability of each key, by the index of the key.
fn probabilities(setup: &CostSetup, setting: &Setting, keys: u64) -> Vec<f64> {
    let ranks = setting.ranks.unwrap_or(keys);
    let assigned = ranks.min(keys * ASSIGNED_RANKS_PER_KEY);
    let weight = |rank: u64| ((rank + 1) as f64).powf(-setup.skew);
    let mut probabilities = vec![0.0; keys as usize];
    for rank in 0..assigned {
        probabilities[key_index_of(rank, setting, keys) as usize] += weight(rank);
    }
    // An integral approximates the sum of the other ranks.
    let power = 1.0 - setup.skew;
    let rest = ((ranks as f64).powf(power) - (assigned as f64).powf(power)) / power;
    let rest_per_key = if ranks > assigned { rest / keys as f64 } else { 0.0 };
    let sum: f64 = probabilities.iter().sum::<f64>() + rest_per_key * keys as f64;
    let normalize = |probability: &mut f64| *probability = (*probability + rest_per_key) / sum;
    probabilities.iter_mut().for_each(normalize);
    probabilities
}

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
