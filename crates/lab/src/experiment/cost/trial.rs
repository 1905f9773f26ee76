//! One variant on one population: the engine on virtual time, a tuner beside it.
//!
//! ```text
//!   the hottest keys, coldest first --> warm-up --> judged requests: hits, misses and what they cost
//!   (none where memory never fills)
//! ```

use super::population::{Population, Pricing, places};
use super::setup::{CostSetup, Setting, Variant};
use crate::trial::divider::{profiling_options, tuner};
use crate::trial::error::ExperimentError;
use crate::trial::exact_curves::BESIDE_VALUE_BYTES;
use crate::trial::setup::scaled;
use crate::vtime::{Access, Cache, Maintainer, Rate, Tuned, VisitCost};
use slabwise_base::{Clock, Cost};
use slabwise_engine::{Engine, EngineConfig, ReservedRank};
use slabwise_policy::PagePolicy;
use slabwise_replay::workload::{CostMix, Request};
use std::sync::Arc;
use std::time::Duration;

/// The keys stored before the warm-up, by how many there is room for.
const STORED_BEFORE: f64 = 1.2;

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
    pub units_asked: u64,
    pub units_missed: u64,
    /// Misses by the group of their cost.
    pub misses_by_group: [u64; CostMix::GROUP_COUNT],
    pub pages_moved: u64,
    pub is_full: bool,
}

impl Tally {
    /// Hits of all requests, in percent.
    pub fn hit_percent(&self) -> f64 {
        (1.0 - self.misses as f64 / self.requests.max(1) as f64) * 100.0
    }

    pub fn units_a_request(&self) -> f64 {
        self.units_missed as f64 / self.requests.max(1) as f64
    }

    /// Of the units that were asked for, those that missed, in percent.
    pub fn paid_percent(&self) -> f64 {
        self.units_missed as f64 / self.units_asked.max(1) as f64 * 100.0
    }

    pub fn answer_us(&self, setup: &CostSetup) -> f64 {
        let hits = (self.requests - self.misses) as f64;
        let us =
            hits * setup.answer.hit_us + self.units_missed as f64 * setup.answer.miss_us_a_unit;
        us / self.requests.max(1) as f64
    }

    fn count(&mut self, access: Access, cost: Cost) {
        let units = u64::from(cost.units());
        self.requests += 1;
        self.units_asked += units;
        if access == Access::Miss {
            self.misses += 1;
            self.units_missed += units;
            self.misses_by_group[CostMix::group(cost)] += 1;
        }
    }
}

/// The page policy of a variant; why there is none.
pub fn policy(variant: &Variant) -> Result<PagePolicy, String> {
    let options = variant.options.iter();
    let options: Vec<_> = options.map(|(name, value)| (name.as_str(), value.as_str())).collect();
    PagePolicy::with_options(&variant.policy, &options).map_err(|error| error.to_string())
}

pub fn engine_config(setup: &CostSetup, setting: &Setting, scale: f64, seed: u64) -> EngineConfig {
    setup.cache.engine_config_of(setting.memory_mib, scale, seed)
}

/// The bytes of memory that an item takes with a value of so many, its share of a page's end included.
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
    /// Runs it; why it cannot be.
    pub fn go(&self) -> Result<Result<Tally, String>, ExperimentError> {
        let policy = match policy(self.variant) {
            Ok(policy) => policy,
            Err(why) => return Ok(Err(why)),
        };
        let seed = self.population.seed();
        let config = engine_config(self.setup, self.setting, self.scale, seed);
        let reserved_rank = self
            .variant
            .cost_max
            .map_or(ReservedRank::Sum, |cost_max| ReservedRank::Weighted { cost_max });
        let mut config = EngineConfig { eviction: self.variant.eviction, ..config };
        config.eviction_options.reserved.rank = reserved_rank;
        let engine = Engine::new(config)?;
        let dates = Arc::new(Clock::manual());
        let profiling = profiling_options(engine.config().memory_limit_bytes);
        let mut tuner = tuner(&engine, policy, profiling, &dates, seed);
        if let Some(profiling) = tuner.profiling_mut() {
            profiling.set_hit_time_us(self.setup.answer.hit_us);
        }
        let visit = VisitCost::new(self.setup.visit_ns)?;
        Ok(Ok(Going {
            trial: self,
            // Seconds are as many at every scale.
            rate: Rate::new(self.setup.time.operations_per_second * self.scale),
            cache: Cache::new(&engine),
            maintainer: Maintainer::new(&engine),
            tuned: Tuned::new(&engine, tuner, visit),
            dates: &dates,
            operations: 0,
            tally: Tally::default(),
        }
        .run_to_its_end(&engine)))
    }
}

struct Going<'t, 'e> {
    trial: &'t Trial<'t>,
    rate: Rate,
    cache: Cache<'e>,
    maintainer: Maintainer<'e>,
    tuned: Tuned<'e>,
    dates: &'t Clock,
    operations: u64,
    tally: Tally,
}

impl Going<'_, '_> {
    fn run_to_its_end(mut self, engine: &Engine) -> Tally {
        let Trial { setup, setting, population, scale, .. } = *self.trial;
        if !setting.never_fills {
            let config = engine.config();
            let [least, ..] = setup.value_lens.map(|len| bytes_taken(config, len));
            let room = bytes_of_pages(config) / least * STORED_BEFORE;
            let stored = population.keys().min(room as u64);
            self.ask((0..stored).rev());
        }
        let mut next = places(setup, setting, population.keys(), population.seed());
        self.ask((0..scaled(setting.warm_up_requests, scale)).map(|_| next()));
        self.tally = Tally::default();
        self.ask((0..scaled(setting.requests, scale)).map(|_| next()));
        self.tally.pages_moved = engine.mover_counters().moved;
        self.tally.is_full = engine.page_stats().memory_full();
        self.tally
    }

    fn ask(&mut self, mut places: impl Iterator<Item = u64>) {
        let population = self.trial.population;
        let (mut requests, mut costs) = (Vec::new(), Vec::new());
        loop {
            requests.clear();
            costs.clear();
            for place in places.by_ref().take(Cache::BATCH_MAX) {
                requests.push(population.request(place));
                costs.push(population.cost(place));
            }
            if requests.is_empty() {
                return;
            }
            self.cache.prefetch(&requests);
            self.maintainer.work_until(self.rate.nanos_at(self.operations));
            for (request, cost) in requests.iter().zip(&costs) {
                self.request(request, *cost);
            }
        }
    }

    fn request(&mut self, request: &Request, drawn: Cost) {
        self.tuned.work_until(self.rate.nanos_at(self.operations));
        let now = self.rate.now_at(self.operations);
        let (cost, told) = match self.trial.pricing {
            Pricing::Mixed => (drawn, Some(drawn)),
            Pricing::Equal(units) => (Cost::from_units(units), Some(Cost::from_units(units))),
            Pricing::Untold => (drawn, None),
        };
        let access = self.cache.look_up(request, now);
        let answer = &self.trial.setup.answer;
        let us = match access {
            Access::Miss => f64::from(cost.units()) * answer.miss_us_a_unit,
            Access::Hit | Access::Other => answer.hit_us,
        };
        self.dates.advance(Duration::from_nanos((us * 1e3) as u64));
        if access == Access::Miss {
            self.cache.bring_in_at(request, told, now);
        }
        self.tally.count(access, cost);
        self.operations += access.operations();
    }
}
