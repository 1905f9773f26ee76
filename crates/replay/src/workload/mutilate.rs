//! Facebook's ETC as the load generator mutilate makes it: `fb_key`, `fb_value`.
//!
//! ```text
//!   value  0 .:..:. 15 |--- generalised Pareto law ---------->    each of the shortest has its own share
//!   key        7 |----- generalised extreme value law ------->    ours have 17 bytes: what mutilate's
//!                      17 |- counted as value --------------->    have more is counted as value
//! ```
//!
//! Source: Atikoglu and others, "Workload Analysis of a Large-Scale Key-Value Store", SIGMETRICS 2012, whose model
//! mutilate's `createFacebookKey` and `createFacebookValue` draw from. mutilate draws a value's length anew at
//! each store; here a key keeps its length, as one that names an object does.

use super::etc::{EtcLengths, etc_pareto};
use super::sizes::salt;
use crate::key::KEY_SIZE_BYTES;
use slabwise_base::random::{mix, unit};

/// How long each key's value is, in bytes, with what its key would be longer.
#[derive(Clone, Debug)]
pub struct MutilateLengths {
    value_salt: u64,
    key_salt: u64,
}

impl MutilateLengths {
    /// The shares of values of 0, 1, 2, ... bytes.
    const SHORT_SHARES: [f64; 15] = [
        0.00536, 0.00047, 0.17820, 0.09239, 0.00018, 0.02740, 0.00065, 0.00606, 0.00023, 0.00837,
        0.00837, 0.08989, 0.00092, 0.00326, 0.01980,
    ];

    /// `seed` gives every key another length.
    pub fn new(seed: u64) -> MutilateLengths {
        let value_salt = salt(seed);
        MutilateLengths { value_salt, key_salt: mix(value_salt) }
    }

    /// The length of a key's value in bytes, at least 1.
    pub fn of(&self, key: u64) -> u32 {
        let value = value_at(unit(mix(key ^ self.value_salt)));
        let own_key = key_at(unit(mix(key ^ self.key_salt)));
        let more = own_key.saturating_sub(KEY_SIZE_BYTES as u32);
        (value.min(EtcLengths::LEN_MAX) as u32 + more).max(1)
    }
}

/// The length that a share `u`, in `[0, 1)`, of all values lies below.
fn value_at(u: f64) -> f64 {
    let mut below = 0.0;
    for (len, share) in (0u8..).zip(MutilateLengths::SHORT_SHARES) {
        below += share;
        if u < below {
            return f64::from(len);
        }
    }
    MutilateLengths::SHORT_SHARES.len() as f64 + etc_pareto((u - below) / (1.0 - below))
}

fn key_at(u: f64) -> u32 {
    const LOCATION: f64 = 30.7984;
    const SCALE: f64 = 8.20449;
    const SHAPE: f64 = 0.078688;
    /// The longest key that the protocol allows.
    const LEN_MAX: f64 = 250.0;
    // The law's inverse has no value at 0.
    let exponential = -u.max(f64::MIN_POSITIVE).ln();
    let len = LOCATION + SCALE * (exponential.powf(-SHAPE) - 1.0) / SHAPE;
    len.round().clamp(0.0, LEN_MAX) as u32
}

#[cfg(test)]
mod tests {
    use super::{MutilateLengths, key_at, value_at};

    const DRAWS: u32 = 1_000_000;

    fn mean(law: impl Fn(f64) -> f64) -> f64 {
        let shares = (0..DRAWS).map(|at| (f64::from(at) + 0.5) / f64::from(DRAWS));
        shares.map(law).sum::<f64>() / f64::from(DRAWS)
    }

    #[test]
    fn values_and_keys_have_the_means_of_their_laws() {
        let short: f64 = MutilateLengths::SHORT_SHARES.iter().sum();
        assert!((short - 0.44155).abs() < 1e-9, "the published share of short values: {short}");
        let sum = (0u8..).zip(MutilateLengths::SHORT_SHARES);
        let sum: f64 = sum.map(|(len, share)| f64::from(len) * share).sum();
        // A generalised Pareto law's mean is its location and scale / (1 - shape).
        let values = sum + (1.0 - short) * (15.0 + 214.476 / (1.0 - 0.348_238));
        assert!((mean(value_at) - values).abs() < 1.0, "{} and {values}", mean(value_at));
        // Of the other, location and scale (gamma(1 - shape) - 1) / shape, where the gamma function is 1.0520.
        let keys = 30.7984 + 8.20449 * (1.052_03 - 1.0) / 0.078_688;
        assert!((mean(|u| f64::from(key_at(u))) - keys).abs() < 0.2, "{keys}");
    }

    #[test]
    fn lengths_are_those_of_values_and_of_what_keys_are_longer() {
        let lengths = MutilateLengths::new(1);
        let of_short = (0..100_000).filter(|&key| lengths.of(key) < 15 + 30).count() as f64 / 1e5;
        // Short values with keys of up to 47 bytes, and few others.
        assert!((0.40..0.50).contains(&of_short), "seed 1: {of_short}");
        assert!((0..100_000).all(|key| lengths.of(key) >= 1));
    }
}
