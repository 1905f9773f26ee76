//! One variant on one population: the engine on virtual time, a tuner beside it; how many keys there are, and the least
//! that misses could cost.
//!
//! ```text
//!   the hottest keys, coldest first --> warm-up --> judged requests: hits, misses and what they cost
//!   (none where memory never fills)
//! ```
//!
//! There are as many keys as make the first variant hit what its setting says. Where items are evicted, Che's
//! approximation of an LRU gives a first number (a key is there if it was asked for within the characteristic time, in
//! which as many different keys are asked for as there is room for), the first variant is run with it, and the next number
//! allows for the error; where nothing is evicted, a key is there if it was asked for before.
//! Source: Che, Tung, Wang: Hierarchical Web Caching Systems: Modeling, Design and Experimental Results, IEEE JSAC 20(7),
//! 2002, section III.
//!
//! The bound knows how often every key is asked for: memory always holds the keys whose chance times cost is highest for
//! the bytes they take. Requests are independent draws, so no eviction does better in the long run.

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
    pub fn go(&self) -> Result<Result<Tally, String>, ExperimentError> {
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
        let mut next = places(setup, setting, population.keys(), population.seed);
        self.ask((0..scaled(setting.warm_up_requests, scale)).map(|_| next()));
        self.tally = Tally::default();
        self.ask((0..scaled(setting.requests, scale)).map(|_| next()));
        self.tally.pages_moved = engine.mover_counters().moved;
        self.tally.is_full = engine.page_stats().memory_full();
        self.tally
    }

    fn ask(&mut self, places: impl Iterator<Item = u64>) {
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
            self.cache.bring_in(request, told, now);
        }
        self.tally.count(access, cost);
        self.operations += access.operations();
    }
}

/// Of ranks that are hashed, so many times the keys are followed to their keys; the others fall on all alike.
const FOLLOWED: u64 = 8;

pub fn units_a_request(
    setup: &CostSetup,
    setting: &Setting,
    population: &Population,
    scale: f64,
) -> f64 {
    let config = engine_config(setup, setting, scale, population.seed);
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

const HEAD_RANKS: u64 = 1_000;
/// How much later the next group of ranks begins.
const GROUP_GROWTH: f64 = 1.02;
const KEYS_MAX: f64 = 1e9;
const TIME_MAX: f64 = 1e12;
/// Times that an interval is halved, by factors: what is left of it is less than a key.
const HALVINGS: usize = 40;

/// So many keys, each asked for with this chance.
#[derive(Clone, Copy, Debug)]
struct Group {
    keys: f64,
    chance: f64,
}

#[derive(Clone, Debug)]
pub struct Popularity {
    groups: Vec<Group>,
}

impl Popularity {
    /// Zipf's law with this exponent over so many keys; or over so many ranks, hashed to the keys.
    pub fn new(keys: u64, skew: f64, ranks: Option<u64>) -> Popularity {
        let mut groups = groups(ranks.map_or(keys, |ranks| ranks.max(keys)), skew);
        // What lies behind the keys' own ranks falls on all of them alike.
        let (mut head, mut spread, mut at) = (Vec::new(), 0.0, 0.0);
        for group in groups.drain(..) {
            let own = (keys as f64 - at).clamp(0.0, group.keys);
            at += group.keys;
            spread += (group.keys - own) * group.chance / keys as f64;
            if own > 0.0 {
                head.push(Group { keys: own, ..group });
            }
        }
        head.iter_mut().for_each(|group| group.chance += spread);
        Popularity { groups: head }
    }

    fn sum(&self, of_key: impl Fn(f64) -> f64) -> f64 {
        self.groups.iter().map(|group| group.keys * of_key(group.chance)).sum()
    }

    /// What an LRU with room for so many keys hits, by Che's approximation.
    pub fn lru_hit_ratio(&self, room: f64) -> f64 {
        let known_within = |time: f64| self.sum(|chance| -(-chance * time).exp_m1());
        let time = largest(TIME_MAX, |time| known_within(time) < room);
        1.0 - self.sum(|chance| chance * (-chance * time).exp())
    }

    /// What hits after so many requests, in so many, if nothing ever leaves.
    pub fn known_ratio(&self, after: u64, requests: u64) -> f64 {
        let (after, requests) = (after as f64, requests as f64);
        let met_first = |chance: f64| (-chance * after).exp() * -(-chance * requests).exp_m1();
        1.0 - self.sum(met_first) / requests.max(1.0)
    }
}

/// The ranks `1..=ranks` in groups, the chances of all of them adding up to 1.
fn groups(ranks: u64, skew: f64) -> Vec<Group> {
    let mut groups = Vec::new();
    let mut from = 1;
    while from <= ranks {
        let next = if from < HEAD_RANKS { from + 1 } else { (from as f64 * GROUP_GROWTH) as u64 };
        let next = next.min(ranks + 1);
        let middle = f64::midpoint(from as f64, (next - 1) as f64);
        groups.push(Group { keys: (next - from) as f64, chance: middle.powf(-skew) });
        from = next;
    }
    let sum: f64 = groups.iter().map(|group| group.keys * group.chance).sum();
    groups.iter_mut().for_each(|group| group.chance /= sum);
    groups
}

/// The most keys for which `hit_ratio` is at least `target`; it must fall as keys get more.
pub fn keys_for(target: f64, hit_ratio: impl Fn(u64) -> f64) -> u64 {
    largest(KEYS_MAX, |keys| hit_ratio(keys as u64) >= target) as u64
}

/// The largest number from 1 to `most` that is small, as all below it are.
fn largest(most: f64, is_small: impl Fn(f64) -> bool) -> f64 {
    let (mut low, mut high) = (1.0f64, most);
    for _ in 0..HALVINGS {
        let middle = (low * high).sqrt();
        if is_small(middle) { low = middle } else { high = middle }
    }
    low
}

const RUNS_MAX: usize = 4;
const NEAR_POINTS: f64 = 0.02;
/// No more is foretold: a hit ratio of 1 takes no key at all.
const FORETOLD_MAX: f64 = 0.999;

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

#[cfg(test)]
mod tests {
    use super::{Popularity, keys_for};
    use crate::exact_lru::ExactLru;
    use slabwise_base::Random;
    use slabwise_replay::workload::Zipf;
    use std::collections::HashSet;

    #[test]
    fn an_lru_hits_as_foretold() {
        const ROOM: u64 = 2_000;
        let keys =
            keys_for(0.9, |keys| Popularity::new(keys, 0.99, None).lru_hit_ratio(ROOM as f64));
        let mut zipf = Zipf::new(keys, 0.99, Random::new(5));
        let mut lru = ExactLru::new(ROOM);
        let mut misses =
            |requests| (0..requests).filter(|_| lru.access(zipf.next_key(), 1).is_miss()).count();
        misses(100_000);
        let ratio = 1.0 - misses(200_000) as f64 / 200_000.0;
        assert!((ratio - 0.9).abs() < 0.004, "seed 5: {keys} keys, {ratio}");
    }

    #[test]
    fn first_requests_come_as_foretold() {
        let known = |keys| Popularity::new(keys, 0.99, None).known_ratio(20_000, 100_000);
        let keys = keys_for(0.95, known);
        let mut zipf = Zipf::new(keys, 0.99, Random::new(6));
        let mut known: HashSet<u64> = HashSet::new();
        known.extend((0..20_000).map(|_| zipf.next_key()));
        let first = (0..100_000).filter(|_| known.insert(zipf.next_key())).count();
        let ratio = 1.0 - first as f64 / 100_000.0;
        assert!((ratio - 0.95).abs() < 0.003, "seed 6: {keys} keys, {ratio}");
    }

    #[test]
    fn ranks_behind_the_keys_fall_on_all_of_them() {
        let own = Popularity::new(5_000, 0.99, None);
        let hashed = Popularity::new(5_000, 0.99, Some(10_000_000_000));
        for popularity in [&own, &hashed] {
            let (keys, all) = (popularity.sum(|_| 1.0), popularity.sum(|chance| chance));
            assert!((keys - 5_000.0).abs() < 1e-6 && (all - 1.0).abs() < 1e-9, "{keys} {all}");
        }
        assert!(hashed.lru_hit_ratio(2_000.0) < own.lru_hit_ratio(2_000.0));
    }
}
