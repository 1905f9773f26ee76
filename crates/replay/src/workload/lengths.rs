//! The value length of each key: a function of the key and the seed, independent of popularity.
//!
//! `etc` has the generalised Pareto distribution of Atikoglu and others, "Workload Analysis of a Large-Scale Key-Value
//! Store", SIGMETRICS 2012, without the discrete part for the smallest values. `etc-mutilate` has the distributions of
//! the load generator mutilate (`createFacebookKey`, `createFacebookValue`), with a discrete part for the shortest values
//! and with variable key lengths. Keys have 17 bytes here, so the bytes by which mutilate's key is longer are added to
//! the value. mutilate draws a new length at each store; here a key keeps its length.

use super::mixture::part_of;
use super::tables::{Sizes, salt};
use crate::values::KEY_SIZE_BYTES;
use slabwise_base::random::{mix, unit};

/// The maximum value length of both ETC distributions, which memcached can store with default options.
const ETC_LEN_MAX: f64 = 500_000.0;
/// The shares of values of 0, 1, 2, ... bytes in mutilate.
const SHORT_SHARES: [f64; 15] = [
    0.00536, 0.00047, 0.17820, 0.09239, 0.00018, 0.02740, 0.00065, 0.00606, 0.00023, 0.00837,
    0.00837, 0.08989, 0.00092, 0.00326, 0.01980,
];

#[derive(Debug)]
pub enum Lengths {
    /// One length in bytes for all keys, which also overrides the lengths of a trace.
    Fixed(u32),
    /// A measured size table.
    Table(Sizes),
    Etc {
        salt: u64,
        more_bytes: u32,
    },
    Mutilate {
        value_salt: u64,
        key_salt: u64,
    },
    /// The lengths of each part of a mixture.
    ByPart(Vec<Lengths>),
}

impl Lengths {
    /// Returns the lengths of ETC, each `more_bytes` longer.
    pub fn etc(seed: u64, more_bytes: u32) -> Lengths {
        Lengths::Etc { salt: salt(seed), more_bytes }
    }

    pub fn mutilate(seed: u64) -> Lengths {
        Lengths::Mutilate { value_salt: salt(seed), key_salt: mix(salt(seed)) }
    }

    /// Returns the length of a key's value in bytes, at least 1.
    pub fn of(&self, key: u64) -> u32 {
        match self {
            Lengths::Fixed(len) => *len,
            Lengths::Table(sizes) => sizes.of(key),
            Lengths::Etc { salt, more_bytes } => {
                etc_pareto(unit(mix(key ^ salt))).clamp(1.0, ETC_LEN_MAX) as u32 + more_bytes
            }
            Lengths::Mutilate { value_salt, key_salt } => {
                let value = value_at(unit(mix(key ^ value_salt)));
                let own_key = key_at(unit(mix(key ^ key_salt)));
                let more = own_key.saturating_sub(KEY_SIZE_BYTES as u32);
                (value.min(ETC_LEN_MAX) as u32 + more).max(1)
            }
            Lengths::ByPart(parts) => parts[part_of(key)].of(key),
        }
    }

    /// True if these lengths override those of a trace.
    pub fn is_override(&self) -> bool {
        matches!(self, Lengths::Fixed(_))
    }
}

/// Returns the quantile `u`, in `[0, 1)`, of ETC's generalised Pareto distribution with location 0.
fn etc_pareto(u: f64) -> f64 {
    const SCALE: f64 = 214.476;
    const SHAPE: f64 = 0.348238;
    SCALE * ((1.0 - u).powf(-SHAPE) - 1.0) / SHAPE
}

/// Returns the quantile `u`, in `[0, 1)`, of the value lengths of mutilate.
fn value_at(u: f64) -> f64 {
    let mut below = 0.0;
    for (len, share) in (0u8..).zip(SHORT_SHARES) {
        below += share;
        if u < below {
            return f64::from(len);
        }
    }
    SHORT_SHARES.len() as f64 + etc_pareto((u - below) / (1.0 - below))
}

fn key_at(u: f64) -> u32 {
    const LOCATION: f64 = 30.7984;
    const SCALE: f64 = 8.20449;
    const SHAPE: f64 = 0.078688;
    /// The longest key that the protocol allows.
    const LEN_MAX: f64 = 250.0;
    // The quantile function is not defined at 0.
    let exponential = -u.max(f64::MIN_POSITIVE).ln();
    let len = LOCATION + SCALE * (exponential.powf(-SHAPE) - 1.0) / SHAPE;
    len.round().clamp(0.0, LEN_MAX) as u32
}

#[cfg(test)]
mod tests {
    use super::{Lengths, SHORT_SHARES, key_at, value_at};

    const DRAWS: u32 = 1_000_000;

    fn mean(quantile: impl Fn(f64) -> f64) -> f64 {
        let shares = (0..DRAWS).map(|at| (f64::from(at) + 0.5) / f64::from(DRAWS));
        shares.map(quantile).sum::<f64>() / f64::from(DRAWS)
    }

    #[test]
    fn values_and_keys_have_the_means_of_their_distributions() {
        let short: f64 = SHORT_SHARES.iter().sum();
        assert!((short - 0.44155).abs() < 1e-9, "the published share of short values: {short}");
        let sum = (0u8..).zip(SHORT_SHARES);
        let sum: f64 = sum.map(|(len, share)| f64::from(len) * share).sum();
        // The mean of a generalised Pareto distribution is location + scale / (1 - shape).
        let values = sum + (1.0 - short) * (15.0 + 214.476 / (1.0 - 0.348_238));
        assert!((mean(value_at) - values).abs() < 1.0, "{} and {values}", mean(value_at));
        // The mean of a generalised extreme value distribution is location + scale (gamma(1 - shape) - 1) / shape, with
        // a gamma function of 1.0520.
        let keys = 30.7984 + 8.20449 * (1.052_03 - 1.0) / 0.078_688;
        assert!((mean(|u| f64::from(key_at(u))) - keys).abs() < 0.2, "{keys}");
    }

    #[test]
    fn mutilate_lengths_include_the_longer_keys() {
        let lengths = Lengths::mutilate(1);
        let of_short = (0..100_000).filter(|&key| lengths.of(key) < 15 + 30).count() as f64 / 1e5;
        // These are mostly short values with keys of up to 47 bytes.
        assert!((0.40..0.50).contains(&of_short), "seed 1: {of_short}");
        assert!((0..100_000).all(|key| lengths.of(key) >= 1));
    }
}
