//! Derives the value length of each key from the key and the seed. The length does not depend on the popularity of the
//! key.
//!
//! The workload `etc` uses the generalised Pareto distribution of Atikoglu and others, "Workload Analysis of a
//! Large-Scale Key-Value Store", SIGMETRICS 2012, without the discrete distribution of the shortest values.
//!
//! The workload `etc-mutilate` uses the distributions of the load generator mutilate (`createFacebookKey`,
//! `createFacebookValue`), including the discrete distribution of the shortest values. It differs from mutilate in two
//! ways. First, all keys of the replay have 17 bytes, so the bytes by which a key of mutilate is longer are added to
//! the value. Second, a key keeps its length, whereas mutilate draws a new length at each store.

use super::mixture::part_of;
use super::tables::{Sizes, salt};
use crate::values::KEY_SIZE_BYTES;
use slabwise_base::random::{mix, unit};

/// The maximum value length of both ETC distributions in bytes. memcached stores a value of this length with its
/// default options.
const ETC_LEN_MAX: f64 = 500_000.0;
/// mutilate's discrete distribution: entry `i` is the share of the values that have `i` bytes.
const SHORT_SHARES: [f64; 15] = [
    0.00536, 0.00047, 0.17820, 0.09239, 0.00018, 0.02740, 0.00065, 0.00606, 0.00023, 0.00837,
    0.00837, 0.08989, 0.00092, 0.00326, 0.01980,
];

/// A distribution of value lengths over keys.
#[derive(Debug)]
pub enum Lengths {
    /// One length in bytes for all keys. It also replaces the lengths that a trace records.
    Fixed(u32),
    /// The lengths of a measured size table.
    Table(Sizes),
    /// The lengths of the workload `etc`.
    Etc {
        /// A number that is hashed with each key to draw the length of its value.
        salt: u64,
        /// The number of bytes that are added to each length.
        added_bytes: u32,
    },
    /// The lengths of the workload `etc-mutilate`.
    Mutilate {
        /// A number that is hashed with each key to draw the length of its value.
        value_salt: u64,
        /// A number that is hashed with each key to draw the length that the key has in mutilate.
        key_salt: u64,
    },
    /// The distributions of the parts of a mixture: one entry per part.
    ByPart(Vec<Lengths>),
}

impl Lengths {
    /// Returns the lengths of the workload `etc`, plus `added_bytes` each.
    pub fn etc(seed: u64, added_bytes: u32) -> Lengths {
        Lengths::Etc { salt: salt(seed), added_bytes }
    }

    /// Returns the lengths of the workload `etc-mutilate`.
    pub fn mutilate(seed: u64) -> Lengths {
        Lengths::Mutilate { value_salt: salt(seed), key_salt: mix(salt(seed)) }
    }

    /// Returns the length of a key's value in bytes, at least 1.
    pub fn value_len(&self, key: u64) -> u32 {
        match self {
            Lengths::Fixed(len) => *len,
            Lengths::Table(sizes) => sizes.value_len(key),
            Lengths::Etc { salt, added_bytes } => {
                etc_pareto_quantile(unit(mix(key ^ salt))).clamp(1.0, ETC_LEN_MAX) as u32
                    + added_bytes
            }
            Lengths::Mutilate { value_salt, key_salt } => {
                let value_len = value_len_quantile(unit(mix(key ^ value_salt)));
                let key_len = key_len_quantile(unit(mix(key ^ key_salt)));
                let added_bytes = key_len.saturating_sub(KEY_SIZE_BYTES as u32);
                (value_len.min(ETC_LEN_MAX) as u32 + added_bytes).max(1)
            }
            Lengths::ByPart(parts) => parts[part_of(key)].value_len(key),
        }
    }

    /// True if these lengths replace the lengths that a trace records.
    pub fn replaces_recorded_lengths(&self) -> bool {
        matches!(self, Lengths::Fixed(_))
    }
}

/// Returns the length in bytes below which the share `u` of ETC's generalised Pareto distribution lies. `u` is in
/// `[0, 1)`.
fn etc_pareto_quantile(u: f64) -> f64 {
    const SCALE: f64 = 214.476;
    const SHAPE: f64 = 0.348238;
    SCALE * ((1.0 - u).powf(-SHAPE) - 1.0) / SHAPE
}

/// Returns the length in bytes below which the share `u` of mutilate's value lengths lies. `u` is in `[0, 1)`.
fn value_len_quantile(u: f64) -> f64 {
    let mut below = 0.0;
    for (len, share) in (0u8..).zip(SHORT_SHARES) {
        below += share;
        if u < below {
            return f64::from(len);
        }
    }
    SHORT_SHARES.len() as f64 + etc_pareto_quantile((u - below) / (1.0 - below))
}

/// Returns the length in bytes below which the share `u` of mutilate's key lengths lies. `u` is in `[0, 1)`.
fn key_len_quantile(u: f64) -> u32 {
    const LOCATION: f64 = 30.7984;
    const SCALE: f64 = 8.20449;
    const SHAPE: f64 = 0.078688;
    /// The maximum length of a key of the protocol in bytes.
    const LEN_MAX: f64 = 250.0;
    // The logarithm of 0 is not finite.
    let exponential = -u.max(f64::MIN_POSITIVE).ln();
    let len = LOCATION + SCALE * (exponential.powf(-SHAPE) - 1.0) / SHAPE;
    len.round().clamp(0.0, LEN_MAX) as u32
}

#[cfg(test)]
mod tests {
    use super::{Lengths, SHORT_SHARES, key_len_quantile, value_len_quantile};

    const DRAWS: u32 = 1_000_000;

    /// Returns the mean of a distribution, given its quantile function.
    fn mean(quantile: impl Fn(f64) -> f64) -> f64 {
        let shares = (0..DRAWS).map(|at| (f64::from(at) + 0.5) / f64::from(DRAWS));
        shares.map(quantile).sum::<f64>() / f64::from(DRAWS)
    }

    #[test]
    fn values_and_keys_have_the_means_of_their_distributions() {
        let short: f64 = SHORT_SHARES.iter().sum();
        assert!((short - 0.44155).abs() < 1e-9, "short values have the published share: {short}");
        let sum = (0u8..).zip(SHORT_SHARES);
        let sum: f64 = sum.map(|(len, share)| f64::from(len) * share).sum();
        // The mean of a generalised Pareto distribution is location + scale / (1 - shape).
        let value_mean = sum + (1.0 - short) * (15.0 + 214.476 / (1.0 - 0.348_238));
        assert!(
            (mean(value_len_quantile) - value_mean).abs() < 1.0,
            "{} and {value_mean}",
            mean(value_len_quantile)
        );
        // The mean of a generalised extreme value distribution is location + scale * (gamma(1 - shape) - 1) / shape,
        // and gamma(1 - shape) is 1.0520.
        let key_mean = 30.7984 + 8.20449 * (1.052_03 - 1.0) / 0.078_688;
        let found = mean(|u| f64::from(key_len_quantile(u)));
        assert!((found - key_mean).abs() < 0.2, "{found} and {key_mean}");
    }

    #[test]
    fn the_lengths_of_etc_mutilate_include_the_extra_bytes_of_the_keys() {
        let lengths = Lengths::mutilate(1);
        let short_share =
            (0..100_000).filter(|&key| lengths.value_len(key) < 15 + 30).count() as f64 / 1e5;
        // Lengths below 45 bytes are mostly those of values below 15 bytes, to which a key of up to 47 bytes adds up to
        // 30.
        assert!((0.40..0.50).contains(&short_share), "seed 1: {short_share}");
        assert!((0..100_000).all(|key| lengths.value_len(key) >= 1));
    }
}
