//! Distributions of costs over keys. Each key belongs to one of three groups, and its cost is drawn from the range of
//! the group with a Zipf distribution. The table shows the share of the keys in each group:
//!
//! | mix | 10 to 30 units | 120 to 180 units | 350 to 450 units |
//! |---|---|---|---|
//! | `baseline` | 80 % | 15 % | 5 % |
//! | `rubis` | 20 % | 75 % | 5 % |
//! | `tpcw` | 50 % | 25 % | 25 % |
//!
//! The lowest cost of a group is the most frequent. The exponent of the Zipf distribution is 0.99.
//!
//! Sources: Coelho's thesis "Study and optimization of the memory management in Memcached", 2018, section 5.3.1, which
//! follows Li and Cox, "GD-Wheel", EuroSys 2015. The thesis uses YCSB's distribution `zipfian`, which has this exponent
//! and this order.
//!
//! Invariant: the cost of a key depends only on the mix, the key and the seed. It does not depend on the popularity of
//! the key or on the length of its value.

use slabwise_base::Cost;
use slabwise_base::random::{mix, unit};
use std::ops::RangeInclusive;
use std::sync::LazyLock;

/// The range of the costs of each group, in units.
const GROUPS: [RangeInclusive<u32>; CostMix::GROUP_COUNT] = [10..=30, 120..=180, 350..=450];
/// The exponent of the Zipf distribution.
const SKEW: f64 = 0.99;
/// A number that is hashed with the key and the seed of a cost. The lengths are derived from the same key and seed
/// without this number, so costs and lengths are independent.
const SALT: u64 = 0x636f_7374_206d_6978;

/// One cumulative distribution per group: entry `i` is the probability that a cost is at most the lowest cost of the
/// group plus `i`.
static CUMULATIVE_SHARES: LazyLock<[Vec<f64>; CostMix::GROUP_COUNT]> = LazyLock::new(|| {
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

/// A distribution of costs over keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CostMix {
    /// Most keys have a low cost.
    Baseline,
    /// Most keys have a medium cost.
    Rubis,
    /// A quarter of the keys have a high cost.
    Tpcw,
}

impl CostMix {
    /// The number of cost groups.
    pub const GROUP_COUNT: usize = 3;

    #[cfg(test)]
    pub(crate) const ALL: [CostMix; 3] = [CostMix::Baseline, CostMix::Rubis, CostMix::Tpcw];

    /// Returns the name of the mix in the arguments of `slabwise replay` and in the files of experiments.
    pub fn name(self) -> &'static str {
        match self {
            CostMix::Baseline => "baseline",
            CostMix::Rubis => "rubis",
            CostMix::Tpcw => "tpcw",
        }
    }

    /// Returns the share of the keys in each group, in percent.
    pub fn shares_percent(self) -> [u32; CostMix::GROUP_COUNT] {
        match self {
            CostMix::Baseline => [80, 15, 5],
            CostMix::Rubis => [20, 75, 5],
            CostMix::Tpcw => [50, 25, 25],
        }
    }

    /// Returns the cost of a key. `key` is the number or the hash of the key.
    pub fn cost_of(self, key: u64, seed: u64) -> Cost {
        let hash = mix(key ^ mix(seed ^ SALT));
        let mut percent = unit(hash) * 100.0;
        let mut group = 0;
        for share in self.shares_percent().map(f64::from) {
            if percent < share || group == CostMix::GROUP_COUNT - 1 {
                break;
            }
            percent -= share;
            group += 1;
        }
        let shares = &CUMULATIVE_SHARES[group];
        let at = unit(mix(hash ^ SALT));
        let rank = shares.partition_point(|&end| end <= at).min(shares.len() - 1);
        Cost::from_units(GROUPS[group].start() + rank as u32)
    }

    /// Returns the group of a cost: 0 for low, 1 for medium, 2 for high. A cost between the ranges of two groups
    /// belongs to the lower group.
    pub fn group(cost: Cost) -> usize {
        let starts = GROUPS[1..].iter().map(|units| *units.start());
        starts.filter(|&start| cost.units() >= start).count()
    }
}

#[cfg(test)]
mod tests {
    use super::{CUMULATIVE_SHARES, CostMix, GROUPS};
    use slabwise_base::Cost;

    const KEYS: u64 = 200_000;

    #[test]
    fn groups_have_their_published_shares_of_keys() {
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
    fn the_costs_of_a_group_have_a_zipf_distribution() {
        let high = (0..KEYS).map(|key| CostMix::Tpcw.cost_of(key, 9).units()).filter(|&u| u >= 350);
        let high: Vec<u32> = high.collect();
        let share =
            |units| high.iter().filter(|&&drawn| drawn == units).count() as f64 / high.len() as f64;
        let lowest = CUMULATIVE_SHARES[2][0];
        assert!(
            (share(350) - lowest).abs() < 0.01,
            "seed 9: cost 350 has the share {}, expected {lowest}",
            share(350)
        );
        let tenth = lowest * 10f64.powf(-0.99);
        assert!(
            (share(359) - tenth).abs() < 0.005,
            "seed 9: cost 359 has the share {}, expected {tenth}",
            share(359)
        );
        assert!(high.contains(&450), "seed 9: a key has the highest cost 450");
    }

    #[test]
    fn a_cost_depends_on_key_and_seed() {
        let costs_of =
            |seed| (0..100).map(|key| CostMix::Rubis.cost_of(key, seed)).collect::<Vec<_>>();
        assert_eq!(costs_of(1), costs_of(1));
        assert_ne!(costs_of(1), costs_of(2));
    }

    #[test]
    fn a_cost_between_two_groups_belongs_to_the_lower_group() {
        for (units, group) in [(0, 0), (30, 0), (119, 0), (120, 1), (349, 1), (350, 2), (9_999, 2)]
        {
            assert_eq!(CostMix::group(Cost::from_units(units)), group, "{units} units");
        }
    }
}
