//! Streams of keys with a Zipf distribution, and mixtures of several such streams.
//!
//! Each part of a mixture has its own keys and its own Zipf distribution. The share of the requests that are for a part
//! can change during the run. The stages of the mixture give the shares at some positions of the run, and between two
//! stages the shares change linearly. For example, the share of one part in a mixture with four stages:
//!
//! ```text
//!   share of   1 |-------.
//!   the part     |         `.                    .-------
//!              0 |            `----------------'
//!                      stage  stage        stage stage
//! ```

use rand_core::TryRng;
use rand_distr::Distribution;
use slabwise_base::Random;
use std::convert::Infallible;

/// An infinite stream of keys from 0 to `keys - 1` with a Zipf distribution. Key 0 is the most popular.
#[derive(Debug)]
pub struct Zipf {
    distribution: rand_distr::Zipf<f64>,
    keys: u64,
    random: RandomSource,
}

impl Zipf {
    /// Returns a stream of `keys` different keys. `skew` is the exponent of the Zipf distribution. With the exponent 0,
    /// all keys are equally popular.
    ///
    /// # Panics
    /// Panics if `keys` is 0, or if `skew` is negative or NaN.
    pub fn new(keys: u64, skew: f64, random: Random) -> Zipf {
        let distribution = rand_distr::Zipf::new(keys as f64, skew);
        let distribution = distribution.unwrap_or_else(|error| {
            panic!("a Zipf distribution of {keys} keys with skew {skew}: {error}")
        });
        Zipf { distribution, keys, random: RandomSource(random) }
    }

    /// Returns the next key.
    pub fn next_key(&mut self) -> u64 {
        // Because of rounding, the drawn rank can be above `keys`.
        (self.distribution.sample(&mut self.random) as u64).clamp(1, self.keys) - 1
    }
}

/// Implements the trait that `rand_distr` requires of a random number generator.
#[derive(Debug)]
struct RandomSource(Random);

impl TryRng for RandomSource {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok((self.0.next_u64() >> 32) as u32)
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(self.0.next_u64())
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        for piece in bytes.chunks_mut(8) {
            piece.copy_from_slice(&self.0.next_u64().to_le_bytes()[..piece.len()]);
        }
        Ok(())
    }
}

/// The bits of a key from this bit up are the number of its part.
const PART_SHIFT: u32 = 40;
/// The number of requests between two updates of the shares.
const SHARE_UPDATE_REQUESTS: u64 = 64;

/// Returns the number of the part that a key belongs to, from 0.
pub fn part_of(key: u64) -> usize {
    (key >> PART_SHIFT) as usize
}

/// Returns the key with this rank in a part. Rank 0 is the most popular key of the part.
pub fn key_of(part: usize, rank: u64) -> u64 {
    (part as u64) << PART_SHIFT | rank
}

/// The shares of the requests that all parts have at one position of the run.
#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    /// The position in the run, from 0 (the start) to 1 (the end).
    pub position: f64,
    /// The weight of each part, at least 0. The share of a part is its weight divided by the sum of all weights.
    pub shares: Vec<f64>,
}

/// A stream of keys of several parts.
#[derive(Debug)]
pub struct Mixture {
    parts: Vec<Zipf>,
    stages: Vec<Stage>,
    /// The number of requests of the run.
    requests: u64,
    /// The number of keys returned so far.
    made: u64,
    /// The cumulative shares of the parts: one entry per part, the last is 1.
    share_ends: Vec<f64>,
    random: Random,
}

impl Mixture {
    /// Returns the keys of a run of `requests` requests. `parts` contains the number of keys and the skew of each part.
    /// The shares are constant before the first stage and after the last stage.
    ///
    /// # Panics
    /// Panics if there are no stages, if their positions are not ascending, or if a stage does not have one share per
    /// part.
    pub fn new(
        parts: &[(u64, f64)],
        stages: Vec<Stage>,
        requests: u64,
        mut random: Random,
    ) -> Mixture {
        assert!(!stages.is_empty(), "a mixture needs at least one stage");
        assert!(
            stages.iter().all(|stage| stage.shares.len() == parts.len()),
            "each stage has one share per part"
        );
        assert!(
            stages.is_sorted_by(|a, b| a.position <= b.position),
            "the positions of the stages are ascending"
        );
        let mut fork = || Random::new(random.next_u64());
        let parts = parts.iter().map(|&(keys, skew)| Zipf::new(keys, skew, fork())).collect();
        let random = fork();
        Mixture {
            parts,
            stages,
            requests: requests.max(1),
            made: 0,
            share_ends: Vec::new(),
            random,
        }
    }

    /// Returns the next key.
    pub fn next_key(&mut self) -> u64 {
        if self.made.is_multiple_of(SHARE_UPDATE_REQUESTS) {
            self.share_ends = self.share_ends_at(self.made as f64 / self.requests as f64);
        }
        self.made += 1;
        let at = self.random.unit();
        let part = self.share_ends.partition_point(|&end| end <= at).min(self.parts.len() - 1);
        key_of(part, self.parts[part].next_key())
    }

    /// Returns the cumulative shares at a position of the run.
    fn share_ends_at(&self, position: f64) -> Vec<f64> {
        let next = self.stages.partition_point(|stage| stage.position <= position);
        let (from, to) = (next.saturating_sub(1), next.min(self.stages.len() - 1));
        let (from, to) = (&self.stages[from], &self.stages[to]);
        let width = to.position - from.position;
        let fraction = if width > 0.0 { (position - from.position) / width } else { 0.0 };
        let fraction = fraction.clamp(0.0, 1.0);
        let mut sum = 0.0;
        let sums = from.shares.iter().zip(&to.shares).map(|(from, to)| {
            sum += from + (to - from) * fraction;
            sum
        });
        let sums: Vec<f64> = sums.collect();
        sums.iter().map(|end| end / sum).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{Mixture, Stage, part_of};
    use slabwise_base::Random;

    fn stage(position: f64, shares: &[f64]) -> Stage {
        Stage { position, shares: shares.to_vec() }
    }

    #[test]
    fn shares_change_linearly_between_stages() {
        let stages = vec![
            stage(0.0, &[1.0, 0.0]),
            stage(0.5, &[1.0, 0.0]),
            stage(0.75, &[0.0, 3.0]),
            stage(1.0, &[0.0, 3.0]),
        ];
        let mut keys = Mixture::new(&[(10, 1.0), (20, 0.5)], stages, 40_000, Random::new(11));
        let mut second_part =
            |count| (0..count).filter(|_| part_of(keys.next_key()) == 1).count() as f64;
        assert_eq!(second_part(20_000), 0.0);
        // Between the second and the third stage the weights change from 1 and 0 to 0 and 3. The two weights are equal
        // after a quarter of this interval.
        let (rising, late) = (second_part(5_000) / 5_000.0, second_part(5_000) / 5_000.0);
        assert!((0.45..0.70).contains(&rising), "seed 11: {rising}");
        assert!((0.85..1.0).contains(&late), "seed 11: {late}");
        assert_eq!(second_part(10_000), 10_000.0);
    }

    #[test]
    fn every_part_has_its_own_keys_and_its_share() {
        let stages = vec![stage(0.0, &[1.0, 1.0, 2.0])];
        let parts = [(3, 1.0), (1, 1.0), (50, 0.0)];
        let mut keys = Mixture::new(&parts, stages, 100, Random::new(5));
        let mut counts = [0; 3];
        for _ in 0..10_000 {
            let key = keys.next_key();
            counts[part_of(key)] += 1;
            assert!((key & 0xff) < parts[part_of(key)].0, "seed 5: {key:x}");
        }
        let is_expected =
            (2_300..2_700).contains(&counts[0]) && (4_700..5_300).contains(&counts[2]);
        assert!(is_expected, "{counts:?}");
    }
}
