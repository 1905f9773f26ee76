//! How long each key's value is: a function of the key and the seed, independent of popularity.
//!
//! `etc` follows the generalised Pareto law of Atikoglu and others, "Workload Analysis of a Large-Scale Key-Value Store",
//! SIGMETRICS 2012, without the discrete part for the smallest values. `etc-mutilate` follows the load generator mutilate
//! (`createFacebookKey`, `createFacebookValue`), where the shortest values have shares of their own and keys vary, too:
//! ours have 17 bytes, and what mutilate's have more is counted as value. mutilate draws a length anew at each store;
//! here a key keeps its length, as one that names an object does.

use super::mixture::{TwoPhase, part_of};
use super::request::WorkloadError;
use crate::values::KEY_SIZE_BYTES;
use slabwise_base::random::{mix, unit};

/// How long each key's value is; a function of the key alone.
#[derive(Debug)]
pub enum Lengths {
    /// One length in bytes for all keys; asked for by hand, so it overrides a trace's records.
    Fixed(u32),
    /// By a measured size table.
    Table(Sizes),
    /// By Facebook's ETC law.
    Etc(EtcLengths),
    /// By the same law as the load generator mutilate has it.
    Mutilate(MutilateLengths),
    /// By the key's class in the two-phase workload.
    TwoPhase,
    /// By the part of a mixture that the key belongs to.
    ByPart(Vec<Lengths>),
}

impl Lengths {
    /// The length of a key's value in bytes, at least 1.
    pub fn of(&self, key: u64) -> u32 {
        match self {
            Lengths::Fixed(len) => *len,
            Lengths::Table(sizes) => sizes.of(key),
            Lengths::Etc(etc) => etc.of(key),
            Lengths::Mutilate(mutilate) => mutilate.of(key),
            Lengths::TwoPhase => TwoPhase::value_len(key),
            Lengths::ByPart(parts) => parts[part_of(key)].of(key),
        }
    }

    /// Whether these lengths stand above those that a trace records.
    pub fn is_override(&self) -> bool {
        matches!(self, Lengths::Fixed(_))
    }
}

/// One row of a size table: values of `size_lo..=size_hi` bytes, counted as `size_hi`.
#[derive(Clone, Copy, Debug, serde::Deserialize)]
struct Row {
    size_hi: u32,
    weight: u64,
}

/// A distribution of value lengths over keys.
#[derive(Clone, Debug)]
pub struct Sizes {
    /// Sum of the weights up to and with each row.
    weight_ends: Vec<u64>,
    /// The length of each row's values in bytes, already multiplied.
    lens: Vec<u32>,
    salt: u64,
}

impl Sizes {
    /// Reads a table (`size_lo,size_hi,weight`, a header line first; `size_lo` may be absent) and
    /// multiplies its lengths by `factor`. `table` names it in errors; `seed` moves every key to
    /// another row.
    pub fn from_csv(
        table: &str,
        text: impl std::io::Read,
        factor: f64,
        seed: u64,
    ) -> Result<Sizes, WorkloadError> {
        let refuse = |reason: String| WorkloadError::Table { table: table.to_owned(), reason };
        let (mut weight_ends, mut lens) = (Vec::new(), Vec::new());
        let mut weight_end = 0u64;
        for row in csv::Reader::from_reader(text).deserialize() {
            let row: Row = row.map_err(|error| {
                refuse(format!("{error}; expected columns: size_lo,size_hi,weight (whole numbers)"))
            })?;
            weight_end = weight_end
                .checked_add(row.weight)
                .ok_or_else(|| refuse("the weights add up to more than 2^64".to_owned()))?;
            weight_ends.push(weight_end);
            lens.push((f64::from(row.size_hi) * factor).round().max(1.0) as u32);
        }
        if weight_end == 0 {
            return Err(refuse("no rows with weight; expected size_lo,size_hi,weight".to_owned()));
        }
        Ok(Sizes { weight_ends, lens, salt: salt(seed) })
    }

    /// The length of a key's value in bytes, at least 1.
    pub fn of(&self, key: u64) -> u32 {
        let total = self.weight_ends.last().copied().unwrap_or(0);
        let at = (unit(mix(key ^ self.salt)) * total as f64) as u64;
        self.lens[self.weight_ends.partition_point(|&end| end <= at).min(self.lens.len() - 1)]
    }
}

/// What is mixed into a key before its length is drawn, so that lengths share nothing with the draw
/// of keys from the same seed.
pub(super) fn salt(seed: u64) -> u64 {
    const LENGTHS_STREAM: u64 = 0x6c65_6e67_7468_7321;
    mix(seed ^ LENGTHS_STREAM)
}

/// Value lengths of Facebook's ETC pool: a generalised Pareto law at location 0, clipped.
///
/// Source: Atikoglu and others, "Workload Analysis of a Large-Scale Key-Value Store", SIGMETRICS
/// 2012; the discrete part for the smallest values is left out ([`MutilateLengths`](super::lengths::MutilateLengths) has it).
#[derive(Clone, Debug)]
pub struct EtcLengths {
    salt: u64,
    more_bytes: u32,
}

impl EtcLengths {
    /// The longest value in bytes: it fits one item of a stock server.
    pub(super) const LEN_MAX: f64 = 500_000.0;

    /// `seed` gives every key another length.
    pub fn new(seed: u64) -> EtcLengths {
        EtcLengths::longer(seed, 0)
    }

    /// Every length is `more_bytes` longer than those of [`EtcLengths::new`].
    pub fn longer(seed: u64, more_bytes: u32) -> EtcLengths {
        EtcLengths { salt: salt(seed), more_bytes }
    }

    pub(super) fn of(&self, key: u64) -> u32 {
        let len = etc_pareto(unit(mix(key ^ self.salt)));
        len.clamp(1.0, Self::LEN_MAX) as u32 + self.more_bytes
    }
}

/// The length that a share `u`, in `[0, 1)`, of ETC's generalised Pareto law at location 0 lies below.
pub(super) fn etc_pareto(u: f64) -> f64 {
    const SCALE: f64 = 214.476;
    const SHAPE: f64 = 0.348238;
    SCALE * ((1.0 - u).powf(-SHAPE) - 1.0) / SHAPE
}

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
    use super::{MutilateLengths, Sizes, key_at, value_at};

    fn table(text: &str, factor: f64) -> Sizes {
        Sizes::from_csv("t", text.as_bytes(), factor, 5).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn lengths_follow_the_weights_and_the_factor() {
        let sizes = table("size_lo,size_hi,weight\n0,31,3\n32,63,1\n", 2.0);
        let small = (0..10_000).filter(|&key| sizes.of(key) == 62).count();
        assert!((7_350..7_650).contains(&small), "seed 5: {small} of 10,000");
        assert!((0..10_000).all(|key| [62, 126].contains(&sizes.of(key))));
    }

    #[test]
    fn no_value_is_empty_and_none_wraps() {
        assert_eq!(table("size_hi,weight\n0,1\n", 1.0).of(9), 1);
        assert_eq!(table("size_hi,weight\n4000000000,1\n", 100.0).of(9), u32::MAX);
    }

    #[test]
    fn a_wrong_table_is_refused() {
        let refused = |text: &str| Sizes::from_csv("t", text.as_bytes(), 1.0, 5).is_err();
        assert!(refused("size_lo,size_hi,weight\n"));
        assert!(refused("size_lo,size_hi,weight\n0,31,0\n"));
        assert!(refused("size_lo,size_hi,weight\n0,-1,4\n"));
        assert!(refused("size,weight\n31,4\n"));
    }

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
