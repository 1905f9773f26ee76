//! The set-up of `cost`, and the keys of a run with their costs, value lengths and order of requests.
//!
//! Invariants: the cost of a key is independent of its popularity; everything is determined by the seed.

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
    /// The number of independent runs, which use the given seed and those that follow it.
    pub seeds: u64,
    /// Choices that the paper leaves open, by name.
    #[serde(default)]
    pub chosen: BTreeMap<String, String>,
    pub skew: f64,
    pub mixes: Vec<CostMix>,
    pub value_lens: [u32; 3],
    pub answer: CostAnswerSetup,
    pub settings: Vec<Setting>,
    /// The variants; all others are compared with the first.
    pub variants: Vec<Variant>,
    /// The runs in which all keys have the same cost.
    pub equal: EqualSetup,
    /// The cost of the mover's visit to a chunk in nanoseconds.
    pub visit_ns: f64,
    pub cache: CacheSetup,
    pub time: TimeSetup,
}

/// Response times in microseconds (section 5.5.1 of the thesis).
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CostAnswerSetup {
    pub hit_us: f64,
    pub miss_us_per_unit: f64,
}

/// Memory, keys and requests, at scale 1.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setting {
    pub name: String,
    pub memory_mib: u64,
    /// The hit ratio of the first variant in percent, which determines the number of keys.
    pub hit_ratio: f64,
    /// True if memory never fills, so that only first requests miss.
    #[serde(default)]
    pub never_fills: bool,
    pub warm_up_requests: u64,
    pub requests: u64,
    /// The number of ranks that are hashed to the keys, as in YCSB; none for one rank per key.
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
    /// The highest cost, for `reserved` with weighted ranks; none for ranks that are sums.
    pub cost_max: Option<u32>,
    pub policy: String,
    #[serde(default)]
    pub options: BTreeMap<String, String>,
    /// A variant with which this is compared, in addition to the first.
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
    /// A variant that ignores costs.
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

/// The costs of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pricing {
    /// The mix determines the costs.
    Mixed,
    /// All keys have this cost.
    Equal(u32),
    /// The mix determines the costs, but the client does not supply them.
    NotSupplied,
}

pub struct Population {
    pub seed: u64,
    /// Costs by the place of the key, which is its rank unless ranks are hashed.
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

/// The key at a place; hashed, because consecutive numbers would not be spread.
fn key(place: u64, seed: u64) -> u64 {
    mix(place ^ mix(seed))
}

/// The place of the key that a rank requests in a setting with this number of keys.
pub fn place_of(rank: u64, setting: &Setting, keys: u64) -> u64 {
    setting.ranks.map_or(rank, |_| mix(rank) % keys)
}

/// Returns an endless generator of requested places in a setting with this number of keys.
pub fn places<'s>(
    setup: &'s CostSetup,
    setting: &'s Setting,
    keys: u64,
    seed: u64,
) -> impl FnMut() -> u64 + use<'s> {
    let mut ranks = Zipf::new(setting.ranks.unwrap_or(keys), setup.skew, Random::new(mix(seed)));
    move || place_of(ranks.next_key(), setting, keys)
}
