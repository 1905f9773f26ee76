//! The set-up of the cost experiments, and the keys of a run with their costs, value lengths and requests.
//!
//! Invariants:
//! - The cost of a key is independent of the popularity of the key.
//! - The seed determines all keys, costs, value lengths and requests.

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
    /// Choices that the source leaves open: pairs of a name and a text for the reader of the results.
    #[serde(default)]
    pub chosen: BTreeMap<String, String>,
    /// Exponent of the Zipf distribution of the requests.
    pub skew: f64,
    pub mixes: Vec<CostMix>,
    /// Value lengths in bytes of the keys with low, middle and high costs.
    pub value_lens: [u32; 3],
    pub response: CostResponseSetup,
    pub settings: Vec<Setting>,
    /// The variants. All variants are compared with the first.
    pub variants: Vec<Variant>,
    /// The runs in which all keys have the same cost. `None`: there are no such runs.
    pub equal: Option<EqualSetup>,
    /// The horizontal axis of the curves of the settings in the sweep.
    #[serde(default)]
    pub sweep_by: SweepBy,
    /// Virtual time of a visit of the mover to a chunk.
    pub visit_ns: f64,
    pub cache: CacheSetup,
    /// The virtual time at scale 1. A run multiplies the rate by its scale.
    pub time: TimeSetup,
}

/// The quantity by which the settings of a sweep differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SweepBy {
    #[default]
    HitRatio,
    Memory,
}

/// Response times (section 5.5.1 of the thesis).
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CostResponseSetup {
    /// Response time of a hit.
    pub hit_us: f64,
    /// Response time of a miss, per unit of the key's cost.
    pub miss_us_per_unit: f64,
}

/// Memory, number of keys and number of requests, at scale 1.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setting {
    pub name: String,
    /// Memory limit.
    pub memory_mib: u64,
    /// Hit ratio of the first variant in percent. The calibration computes the number of keys from this ratio.
    pub hit_ratio: f64,
    /// True if the memory never becomes full, so that only first references miss.
    #[serde(default)]
    pub never_fills: bool,
    /// Number of requests before the measured requests.
    pub warm_up_requests: u64,
    /// Number of measured requests.
    pub requests: u64,
    /// If given, requests draw from this number of ranks, which are hashed to the keys, as in YCSB. If `None`, each key
    /// has one rank.
    pub ranks: Option<u64>,
    /// True if the setting is part of the sweep. Only variants of the sweep run in such a setting.
    #[serde(default)]
    pub in_sweep: bool,
    /// Names of the variants that run in the setting. Empty: all variants run.
    #[serde(default)]
    pub variants: Vec<String>,
    /// Number of gets, and of sets, whose processor time is measured after the measured requests.
    #[serde(default)]
    pub timed_operations: u64,
}

/// An eviction kind with a page policy.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    pub name: String,
    #[serde(deserialize_with = "eviction")]
    pub eviction: EvictionKind,
    /// For the eviction kind `reserved`, the highest cost in its formula of the rank `ReservedRank::Weighted`. If
    /// `None`, the formula is `ReservedRank::Sum`.
    pub cost_max: Option<u32>,
    /// For the eviction kind `reserved`, the size of the reserved queue in percent of the chunks. If `None`, the size is
    /// the engine's default.
    pub reserved_percent: Option<u32>,
    /// For the eviction kind `reserved`, true if only hits of items in the reserved queue give ranks
    /// (`RankedHits::InReserved`).
    #[serde(default)]
    pub ranks_in_reserved: bool,
    /// Name of the page policy.
    pub policy: String,
    /// Options of the page policy.
    #[serde(default)]
    pub options: BTreeMap<String, String>,
    /// Name of a variant with which this variant is compared, in addition to the first variant.
    pub against: Option<String>,
    /// True if the variant also runs in the settings of the sweep.
    #[serde(default)]
    pub in_sweep: bool,
}

impl Variant {
    /// True if the page policy moves pages.
    pub fn moves_pages(&self) -> bool {
        self.policy != "none"
    }
}

/// The runs that check that equal costs do not change the misses.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EqualSetup {
    /// Name of the setting.
    pub setting: String,
    pub mix: CostMix,
    /// Cost of every key.
    pub units: u32,
    /// Name of the variant that gets the costs.
    pub variant: String,
    /// A variant that ignores costs.
    pub without: Variant,
}

impl CostSetup {
    /// Returns the variant with which all variants are compared.
    pub fn first(&self) -> &Variant {
        &self.variants[0]
    }

    pub fn variant(&self, name: &str) -> Option<&Variant> {
        self.variants.iter().find(|variant| variant.name == name)
    }

    /// Returns the variants with which a variant is compared: the first one, and that of [`Variant::against`].
    pub fn compared_with(&self, variant: &Variant) -> Vec<&Variant> {
        let against = variant.against.as_ref().and_then(|name| self.variant(name));
        let others = [Some(self.first()), against].into_iter().flatten();
        others.filter(|other| other.name != variant.name).collect()
    }
}

/// The costs of keys, and whether the client supplies them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pricing {
    /// The mix determines the costs, and the client supplies them.
    Mixed,
    /// All keys have this cost, and the client supplies it.
    Equal(u32),
    /// The mix determines the costs, but the client does not supply them.
    NotSupplied,
}

/// The keys of a run. A key is identified by its index, from 0.
pub struct Population {
    pub seed: u64,
    /// The cost of each key. The index of a key is its popularity rank, except in a setting with hashed ranks.
    costs: Vec<Cost>,
    /// Value length in bytes of each group of costs.
    value_lens: [u32; CostMix::GROUP_COUNT],
}

impl Population {
    /// Assigns costs of a mix to `keys` keys.
    pub fn new(setup: &CostSetup, mix: CostMix, keys: u64, seed: u64) -> Population {
        let costs = (0..keys).map(|index| mix.cost_of(key(index, seed), seed)).collect();
        Population { seed, costs, value_lens: setup.value_lens }
    }

    /// Returns the number of keys.
    pub fn keys(&self) -> u64 {
        self.costs.len() as u64
    }

    pub fn cost(&self, index: u64) -> Cost {
        self.costs[index as usize]
    }

    /// Returns a get of the key with this index.
    pub fn request(&self, index: u64) -> Request {
        let cost = self.cost(index);
        let value_len = self.value_lens[CostMix::group(cost)];
        Request { key: key(index, self.seed), value_len, op: Op::Get, cost: Some(cost) }
    }

    /// Returns a set of the key with this index among the keys that no request of [`Population::request`] uses. The key
    /// has the cost and the value length of the key with this index in the population.
    pub fn set_of_other_key(&self, index: u64) -> Request {
        let request = self.request(index % self.keys());
        Request { key: key(self.keys() + index, self.seed), op: Op::Set, ..request }
    }
}

/// Returns the key with this index. The index is hashed, so that the keys are spread evenly over all 64-bit numbers.
fn key(index: u64, seed: u64) -> u64 {
    mix(index ^ mix(seed))
}

/// Returns the index of the key that a popularity rank requests, in a setting with this number of keys.
pub fn key_index_of(rank: u64, setting: &Setting, keys: u64) -> u64 {
    setting.ranks.map_or(rank, |_| mix(rank) % keys)
}

/// Returns a generator that returns the index of the next requested key, without end.
pub fn key_indices<'s>(
    setup: &'s CostSetup,
    setting: &'s Setting,
    keys: u64,
    seed: u64,
) -> impl FnMut() -> u64 + use<'s> {
    let mut ranks = Zipf::new(setting.ranks.unwrap_or(keys), setup.skew, Random::new(mix(seed)));
    move || key_index_of(ranks.next_key(), setting, keys)
}
