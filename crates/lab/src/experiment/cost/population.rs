//! The keys of a run: what each costs, how long its value is, and in what order they are asked for.
//!
//! Laws: what a key costs has nothing to do with how often it is asked for; all of it follows from the seed.

use super::setup::{CostSetup, Setting};
use slabwise_base::random::mix;
use slabwise_base::{Cost, Random};
use slabwise_replay::workload::{CostMix, Op, Request, Zipf};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pricing {
    /// By the mix.
    Mixed,
    Equal(u32),
    /// By the mix; but nobody tells the cache.
    Untold,
}

pub struct Population {
    seed: u64,
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

    pub fn seed(&self) -> u64 {
        self.seed
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
