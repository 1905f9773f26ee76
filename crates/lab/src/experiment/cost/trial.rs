//! Runs a variant on a population in virtual time, and computes the bound.
//!
//! ```text
//!   stores of the most popular keys --> warm-up --> measured requests: hits, misses and their cost
//!   (none if the memory never fills)
//! ```
//!
//! *Bound.* The bound is the cost of the misses of an oracle that knows the popularity of every key. The oracle caches
//! the keys with the highest product of request probability and cost, divided by their bytes. Requests are independent
//! of each other, so no eviction policy has a lower cost in the long run.

use super::population::{
    CostSetup, Population, Pricing, Setting, Variant, key_index_of, key_indices,
};
use super::tally::{OperationTimes, Tally};
use crate::trial::curves::BESIDE_VALUE_BYTES;
use crate::trial::error::ExperimentError;
use crate::trial::execute::{profiling_options, tuner};
use crate::trial::setup::scaled;
use crate::vtime::{
    Access, Cache, Maintainer, Rate, RunningTuner, VisitCost, median, thread_cpu_nanos,
};
use slabwise_base::{Clock, Cost, Now};
use slabwise_engine::{Engine, EngineConfig, HugePages, RankedHits, ReservedRank};
use slabwise_policy::PagePolicy;
use slabwise_replay::workload::Request;
use std::sync::Arc;
use std::time::Duration;

/// Number of keys that are stored before the warm-up, divided by the number of the smallest items that fit into the
/// memory.
const PRELOADED: f64 = 1.2;

/// Number of operations in a batch whose processor time is measured.
const TIMED_BATCH: usize = 1_024;

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

/// Creates the page policy of a variant, or returns an error text.
pub fn policy(variant: &Variant) -> Result<PagePolicy, String> {
    let options = variant.options.iter();
    let options: Vec<_> = options.map(|(name, value)| (name.as_str(), value.as_str())).collect();
    PagePolicy::with_options(&variant.policy, &options).map_err(|error| error.to_string())
}

/// Returns the engine's configuration in a setting, except for the eviction kind.
pub fn engine_config(setup: &CostSetup, setting: &Setting, scale: f64, seed: u64) -> EngineConfig {
    let config = setup.cache.engine_config_of(setting.memory_mib, scale, seed);
    // In a large cache, most lookups read memory that is in no cache of the processor. With huge pages they take less
    // time.
    EngineConfig { huge_pages: HugePages::Requested, ..config }
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
        let reserved = &mut config.eviction_options.reserved;
        reserved.percent = self.variant.reserved_percent.unwrap_or(reserved.percent);
        if self.variant.ranks_in_reserved {
            reserved.ranked_hits = RankedHits::InReserved;
        }
        let weighted = |cost_max| ReservedRank::Weighted { cost_max };
        reserved.rank = self.variant.cost_max.map_or(ReservedRank::Sum, weighted);
        let engine = Engine::new(config)?;
        let response_clock = Arc::new(Clock::manual());
        let profiling = profiling_options(engine.config().memory_limit_bytes);
        let hit_us = Some(self.setup.response.hit_us);
        let tuner = tuner(&engine, policy, profiling, &response_clock, hit_us);
        let visit = VisitCost::new(self.setup.visit_ns)?;
        // The scale multiplies the number of requests and the rate. So a run has the same virtual time at every scale.
        let rate = Rate::new(self.setup.time.operations_per_second * self.scale);
        Ok(Ok(TrialRun {
            trial: self,
            rate,
            cache: Cache::new(&engine),
            maintainer: Maintainer::new(&engine),
            tuner: RunningTuner::new(&engine, tuner, visit, rate),
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
        let before = inflation_and_evictions(engine);
        self.request_all((0..scaled(setting.requests, scale)).map(|_| next()));
        self.tally.inflation_per_replacement =
            inflation_per_replacement(before, inflation_and_evictions(engine), engine);
        self.tally.pages_moved = engine.mover_counters().moved;
        self.tally.is_full = engine.page_stats().memory_full();
        if setting.timed_operations > 0 {
            self.tally.times = Some(self.times(setting.timed_operations, &mut next));
        }
        self.tally
    }

    /// Measures gets of the next keys, and then sets of keys that have no item.
    fn times(&mut self, operations: u64, next: &mut impl FnMut() -> u64) -> OperationTimes {
        let now = self.rate.now_at(self.operations);
        let population = self.trial.population;
        let gets = (0..operations).map(|_| population.request(next()));
        let get_nanos = self.time_each(gets, |cache, get| {
            cache.look_up(get, now);
        });
        let sets = (0..operations).map(|index| population.set_of_other_key(index));
        let set_nanos = self.time_each(sets, |cache, set| cache.store(set, set.cost, now));
        OperationTimes { get_nanos, set_nanos }
    }

    /// Executes the requests, and returns the processor time of a request: the median over batches of requests.
    fn time_each(
        &mut self,
        mut requests: impl Iterator<Item = Request>,
        execute: impl Fn(&mut Cache<'_>, &Request),
    ) -> f64 {
        let mut nanos = Vec::new();
        loop {
            // The requests are generated in advance, because the time to generate them does not count.
            let batch: Vec<Request> = requests.by_ref().take(TIMED_BATCH).collect();
            if batch.is_empty() {
                return median(nanos);
            }
            let started = thread_cpu_nanos();
            for requests in batch.chunks(Cache::BATCH_MAX) {
                self.cache.prefetch(requests);
                requests.iter().for_each(|request| execute(&mut self.cache, request));
            }
            nanos.push((thread_cpu_nanos() - started) / batch.len() as f64);
        }
    }

    /// Requests the keys with these indices.
    fn request_all(&mut self, key_indices: impl Iterator<Item = u64>) {
        let mut key_indices = key_indices.fuse();
        let (mut indices, mut batch) = (Vec::new(), Vec::new());
        loop {
            // First draws all keys and then reads their costs, so that the processor reads several costs at a time.
            indices.clear();
            indices.extend(key_indices.by_ref().take(Cache::BATCH_MAX));
            batch.clear();
            batch.extend(indices.iter().map(|&index| self.trial.population.request(index)));
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

/// Returns the inflation of the first class, and the number of its evictions.
fn inflation_and_evictions(engine: &Engine) -> [u64; 2] {
    let stats = engine.class_stats(Now::from_nanos(0));
    let Some(class) = stats.first().and_then(|stats| stats.class) else { return [0, 0] };
    [u64::from(engine.inflation(class)), stats[0].counters.evicted]
}

/// Returns the growth of the inflation of the first class between two moments, divided by the number of times that all
/// items of the class were replaced in this time. 0 if nothing was evicted.
fn inflation_per_replacement(before: [u64; 2], after: [u64; 2], engine: &Engine) -> f64 {
    let stats = engine.class_stats(Now::from_nanos(0));
    let chunks = stats.first().map_or(0, |stats| stats.used_chunks + stats.free_chunks);
    let evictions = (after[1] - before[1]) as f64;
    // The inflation wraps around at 2^32.
    let growth = f64::from((after[0] as u32).wrapping_sub(before[0] as u32));
    if evictions > 0.0 { growth * chunks as f64 / evictions } else { 0.0 }
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
