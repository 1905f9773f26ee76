//! The law that gives a key its cost: three groups, and Zipf's law inside each.
//!
//! | mix | 10 to 30 units | 120 to 180 | 350 to 450 |
//! |---|---|---|---|
//! | `baseline` | 80 % of the keys | 15 % | 5 % |
//! | `rubis` | 20 % | 75 % | 5 % |
//! | `tpcw` | 50 % | 25 % | 25 % |
//!
//! A group's lowest cost is its most frequent one, with the exponent 0.99.
//!
//! Sources: Coelho, "Study and optimization of the memory management in Memcached", 2018, section 5.3.1, after Li and
//! Cox, "GD-Wheel", EuroSys 2015; the exponent and the order within a group are those of YCSB's `zipfian`,
//! which the thesis drew with.
//!
//! Invariant: a key's cost depends on the key and the seed alone, and on neither its popularity nor its length.

use slabwise_base::Cost;
use slabwise_base::random::{mix, unit};
use std::ops::RangeInclusive;
use std::sync::LazyLock;

const GROUPS: [RangeInclusive<u32>; CostMix::GROUP_COUNT] = [10..=30, 120..=180, 350..=450];
const SKEW: f64 = 0.99;
/// Keeps costs apart from the lengths that follow from the same key and seed.
const SALT: u64 = 0x636f_7374_206d_6978;

/// By group: the share of its keys that cost at most so much, from its lowest cost on.
static SHARES_UP_TO: LazyLock<[Vec<f64>; CostMix::GROUP_COUNT]> = LazyLock::new(|| {
    GROUPS.map(|units| {
        let weights = (1..=units.count()).map(|rank| (rank as f64).powf(-SKEW));
        let total: f64 = weights.clone().sum();
        let sums = weights.scan(0.0, |sum, weight| {
            *sum += weight / total;
            Some(*sum)
        });
        sums.collect()
    })
});

/// How costs are dealt out to keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CostMix {
    /// Most keys are cheap.
    Baseline,
    /// Most are in the middle.
    Rubis,
    /// A quarter is dear.
    Tpcw,
}

impl CostMix {
    /// How many groups of costs there are.
    pub const GROUP_COUNT: usize = 3;

    #[cfg(test)]
    pub(crate) const ALL: [CostMix; 3] = [CostMix::Baseline, CostMix::Rubis, CostMix::Tpcw];

    /// What the command line and experiments call it.
    pub fn name(self) -> &'static str {
        match self {
            CostMix::Baseline => "baseline",
            CostMix::Rubis => "rubis",
            CostMix::Tpcw => "tpcw",
        }
    }

    /// The share of the keys in each group, in percent.
    pub fn shares_percent(self) -> [u32; CostMix::GROUP_COUNT] {
        match self {
            CostMix::Baseline => [80, 15, 5],
            CostMix::Rubis => [20, 75, 5],
            CostMix::Tpcw => [50, 25, 25],
        }
    }

    /// The cost of a key, by its number or its hash.
    pub fn cost_of(self, key: u64, seed: u64) -> Cost {
        let drawn = mix(key ^ mix(seed ^ SALT));
        let mut percent = unit(drawn) * 100.0;
        let mut group = 0;
        for share in self.shares_percent().map(f64::from) {
            if percent < share || group == CostMix::GROUP_COUNT - 1 {
                break;
            }
            percent -= share;
            group += 1;
        }
        let shares_up_to = &SHARES_UP_TO[group];
        let at = unit(mix(drawn ^ SALT));
        let rank = shares_up_to.partition_point(|&end| end <= at).min(shares_up_to.len() - 1);
        Cost::from_units(GROUPS[group].start() + rank as u32)
    }

    /// The group of a cost: 0 cheap, 1 in the middle, 2 dear. A cost between two groups belongs to the lower.
    pub fn group(cost: Cost) -> usize {
        let starts = GROUPS[1..].iter().map(|units| *units.start());
        starts.filter(|&start| cost.units() >= start).count()
    }
}

#[cfg(test)]
mod tests {
    use super::{CostMix, GROUPS, SHARES_UP_TO};
    use slabwise_base::Cost;

    const KEYS: u64 = 200_000;

    #[test]
    fn keys_are_dealt_out_in_the_published_shares() {
        for mix in CostMix::ALL {
            let mut keys = [0u64; CostMix::GROUP_COUNT];
            for key in 0..KEYS {
                let cost = mix.cost_of(key, 5);
                let group = CostMix::group(cost);
                assert!(GROUPS[group].contains(&cost.units()), "seed 5, key {key}: {cost:?}");
                keys[group] += 1;
            }
            for (count, share) in keys.into_iter().zip(mix.shares_percent()) {
                let found = count as f64 / KEYS as f64 * 100.0;
                assert!((found - f64::from(share)).abs() < 0.5, "seed 5, {mix:?}: {keys:?}");
            }
        }
    }

    #[test]
    fn a_groups_costs_follow_zipfs_law() {
        let dear = (0..KEYS).map(|key| CostMix::Tpcw.cost_of(key, 9).units()).filter(|&u| u >= 350);
        let dear: Vec<u32> = dear.collect();
        let share =
            |units| dear.iter().filter(|&&drawn| drawn == units).count() as f64 / dear.len() as f64;
        let lowest = SHARES_UP_TO[2][0];
        assert!((share(350) - lowest).abs() < 0.01, "seed 9: {} for {lowest}", share(350));
        let tenth = lowest * 10f64.powf(-0.99);
        assert!((share(359) - tenth).abs() < 0.005, "seed 9: {} for {tenth}", share(359));
        assert!(dear.contains(&450), "seed 9: the range is whole");
    }

    #[test]
    fn a_cost_follows_from_key_and_seed() {
        let of = |seed| (0..100).map(|key| CostMix::Rubis.cost_of(key, seed)).collect::<Vec<_>>();
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
    }

    #[test]
    fn every_cost_has_a_group() {
        for (units, group) in [(0, 0), (30, 0), (119, 0), (120, 1), (349, 1), (350, 2), (9_999, 2)]
        {
            assert_eq!(CostMix::group(Cost::from_units(units)), group, "{units} units");
        }
    }
}
