//! The set-up, and the keys of a run: what each costs, how long its value is, and in what order they are asked for.
//!
//! Invariants: what a key costs has nothing to do with how often it is asked for; all of it follows from the seed.

use crate::trial::setup::{CacheSetup, TimeSetup, eviction};
use serde::Deserialize;
use slabwise_base::random::mix;
use slabwise_base::{Cost, Random};
use slabwise_engine::EvictionKind;
use slabwise_replay::workload::{CostMix, Op, Request, Zipf};
use std::collections::BTreeMap;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CostSetup {
    /// Independent runs: the asked seed and those that follow it.
    pub seeds: u64,
    /// What is chosen where the paper leaves it open, by name.
    #[serde(default)]
    pub chosen: BTreeMap<String, String>,
    pub skew: f64,
    pub mixes: Vec<CostMix>,
    pub value_lens: [u32; 3],
    pub answer: CostAnswerSetup,
    /// Memory, and how many keys there are beside it.
    pub settings: Vec<Setting>,
    /// What is compared; all others are held against the first, but for those that name another.
    pub variants: Vec<Variant>,
    /// The same costs for all keys, or none.
    pub equal: EqualSetup,
    /// What the mover is charged for a visit to a chunk, in nanoseconds.
    pub visit_ns: f64,
    pub cache: CacheSetup,
    pub time: TimeSetup,
}

/// How long answers take, in microseconds (the thesis, section 5.5.1).
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CostAnswerSetup {
    pub hit_us: f64,
    pub miss_us_a_unit: f64,
}

/// Memory, and keys and requests beside it, at scale 1.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setting {
    pub name: String,
    pub memory_mib: u64,
    /// What the first variant is to hit, in percent: there are as many keys as make it so.
    pub hit_ratio: f64,
    /// Whether memory never fills: only keys that are asked for the first time miss.
    #[serde(default)]
    pub never_fills: bool,
    pub warm_up_requests: u64,
    pub requests: u64,
    /// How many ranks are drawn, which are then hashed to the keys, as YCSB has it; none for one a key.
    pub ranks: Option<u64>,
    #[serde(default)]
    pub in_sweep: bool,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    pub name: String,
    #[serde(deserialize_with = "eviction")]
    pub eviction: EvictionKind,
    /// The highest cost, where `reserved` weights its ranks by it; else they are sums.
    pub cost_max: Option<u32>,
    pub policy: String,
    #[serde(default)]
    pub options: BTreeMap<String, String>,
    /// What it is held against, beside the first one.
    pub against: Option<String>,
    #[serde(default)]
    pub in_sweep: bool,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EqualSetup {
    pub setting: String,
    pub mix: CostMix,
    pub units: u32,
    pub variant: String,
    /// One that is told none.
    pub without: Variant,
}

impl CostSetup {
    pub fn first(&self) -> &Variant {
        &self.variants[0]
    }

    pub fn variant(&self, name: &str) -> Option<&Variant> {
        self.variants.iter().find(|variant| variant.name == name)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pricing {
    /// By the mix.
    Mixed,
    Equal(u32),
    /// By the mix; but nobody tells the cache.
    Untold,
}

pub struct Population {
    pub seed: u64,
    /// By the place of the key, which is its rank where nothing is hashed.
    costs: Vec<Cost>,
    value_lens: [u32; CostMix::GROUP_COUNT],
}

impl Population {
    pub fn new(setup: &CostSetup, mix: CostMix, keys: u64, seed: u64) -> Population {
        let costs = (0..keys).map(|place| mix.cost_of(key(place, seed), seed)).collect();
        Population { seed, costs, value_lens: setup.value_lens }
    }

    pub fn keys(&self) -> u64 {
        self.costs.len() as u64
    }

    pub fn cost(&self, place: u64) -> Cost {
        self.costs[place as usize]
    }

    pub fn request(&self, place: u64) -> Request {
        let cost = self.cost(place);
        let value_len = self.value_lens[CostMix::group(cost)];
        Request { key: key(place, self.seed), value_len, op: Op::Get, cost: Some(cost) }
    }
}

/// Keys in the order of their places would lie side by side.
fn key(place: u64, seed: u64) -> u64 {
    mix(place ^ mix(seed))
}

/// The place that a rank of a setting with so many keys asks for.
pub fn place_of(rank: u64, setting: &Setting, keys: u64) -> u64 {
    setting.ranks.map_or(rank, |_| mix(rank) % keys)
}

/// The places that a setting with so many keys asks for, without an end.
pub fn places<'s>(
    setup: &'s CostSetup,
    setting: &'s Setting,
    keys: u64,
    seed: u64,
) -> impl FnMut() -> u64 + use<'s> {
    let mut ranks = Zipf::new(setting.ranks.unwrap_or(keys), setup.skew, Random::new(mix(seed)));
    move || place_of(ranks.next_key(), setting, keys)
}
