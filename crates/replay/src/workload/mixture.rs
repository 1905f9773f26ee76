//! Keys by Zipf's law, which `rand_distr` draws exactly and in constant time, and mixtures of several populations of keys.
//!
//! Of a mixture each part has its own Zipf law, and its share of the requests may change over the run:
//!
//! ```text
//!   share  1 |-------\                /-------     by part; between two stages of the run shares
//!          0 |        \______________/             change along a line
//!             stage      stage    stage
//! ```

use rand_core::TryRng;
use rand_distr::Distribution;
use slabwise_base::Random;
use std::convert::Infallible;

/// An endless stream of keys `0..keys`, key 0 the most popular.
#[derive(Debug)]
pub struct Zipf {
    law: rand_distr::Zipf<f64>,
    keys: u64,
    random: Lent,
}

impl Zipf {
    /// Draws from `keys` keys (at least 1) with the exponent `skew` (at least 0: uniform).
    ///
    /// # Panics
    /// Where `keys` is 0 or `skew` is negative or no number: the caller has checked its options.
    pub fn new(keys: u64, skew: f64, random: Random) -> Zipf {
        let law = rand_distr::Zipf::new(keys as f64, skew);
        let law = law.unwrap_or_else(|error| panic!("{keys} keys, skew {skew}: {error}"));
        Zipf { law, keys, random: Lent(random) }
    }

    /// The next key.
    pub fn next_key(&mut self) -> u64 {
        // The hull's last step may round up to one past the end.
        (self.law.sample(&mut self.random) as u64).clamp(1, self.keys) - 1
    }
}

/// Our generator behind the trait that `rand_distr` draws through.
#[derive(Debug)]
struct Lent(Random);

impl TryRng for Lent {
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

/// Where a key's bits tell the part that it belongs to.
const PART_SHIFT: u32 = 40;
/// Requests for which the shares stand still: few enough for every run, many enough to cost nothing.
const REQUESTS_A_SHARE: u64 = 64;

/// The part that a key belongs to, from 0.
pub fn part_of(key: u64) -> usize {
    (key >> PART_SHIFT) as usize
}

/// The key of this rank, from 0 for the hottest, in a part.
pub fn key_of(part: usize, rank: u64) -> u64 {
    (part as u64) << PART_SHIFT | rank
}

/// What the shares of all parts are at one point of the run.
#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    /// The share of the run that lies before it, from 0 to 1.
    pub position: f64,
    /// By part, each at least 0; only their proportions count.
    pub shares: Vec<f64>,
}

#[derive(Debug)]
pub struct Mixture {
    parts: Vec<Zipf>,
    stages: Vec<Stage>,
    requests: u64,
    made: u64,
    /// Ends of the parts' shares in `[0, 1]`, ascending.
    ends: Vec<f64>,
    random: Random,
}

impl Mixture {
    /// A run of `requests` requests over parts of so many keys and such a skew; behind the last stage its
    /// shares stay.
    ///
    /// # Panics
    /// Without a stage, or if a stage has no share for a part, or lies before the one before it.
    pub fn new(
        parts: &[(u64, f64)],
        stages: Vec<Stage>,
        requests: u64,
        mut random: Random,
    ) -> Mixture {
        assert!(!stages.is_empty(), "a mixture has shares");
        assert!(stages.iter().all(|stage| stage.shares.len() == parts.len()), "a share for a part");
        assert!(stages.is_sorted_by(|a, b| a.position <= b.position), "stages follow each other");
        let mut fork = || Random::new(random.next_u64());
        let parts = parts.iter().map(|&(keys, skew)| Zipf::new(keys, skew, fork())).collect();
        let random = fork();
        Mixture { parts, stages, requests: requests.max(1), made: 0, ends: Vec::new(), random }
    }

    pub fn next_key(&mut self) -> u64 {
        if self.made.is_multiple_of(REQUESTS_A_SHARE) {
            self.ends = self.ends_at(self.made as f64 / self.requests as f64);
        }
        self.made += 1;
        let at = self.random.unit();
        let part = self.ends.partition_point(|&end| end <= at).min(self.parts.len() - 1);
        key_of(part, self.parts[part].next_key())
    }

    fn ends_at(&self, position: f64) -> Vec<f64> {
        let next = self.stages.partition_point(|stage| stage.position <= position);
        let (from, to) = (next.saturating_sub(1), next.min(self.stages.len() - 1));
        let (from, to) = (&self.stages[from], &self.stages[to]);
        let width = to.position - from.position;
        let done = if width > 0.0 { (position - from.position) / width } else { 0.0 };
        let done = done.clamp(0.0, 1.0);
        let mut sum = 0.0;
        let sums = from.shares.iter().zip(&to.shares).map(|(from, to)| {
            sum += from + (to - from) * done;
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
    fn shares_change_along_a_line() {
        let stages = vec![
            stage(0.0, &[1.0, 0.0]),
            stage(0.5, &[1.0, 0.0]),
            stage(0.75, &[0.0, 3.0]),
            stage(1.0, &[0.0, 3.0]),
        ];
        let mut keys = Mixture::new(&[(10, 1.0), (20, 0.5)], stages, 40_000, Random::new(11));
        let mut second =
            |count| (0..count).filter(|_| part_of(keys.next_key()) == 1).count() as f64;
        assert_eq!(second(20_000), 0.0);
        // On the way the weights 1 - x and 3 x meet where x = 1 / 4.
        let (rising, late) = (second(5_000) / 5_000.0, second(5_000) / 5_000.0);
        assert!((0.45..0.70).contains(&rising), "seed 11: {rising}");
        assert!((0.85..1.0).contains(&late), "seed 11: {late}");
        assert_eq!(second(10_000), 10_000.0);
    }

    #[test]
    fn every_part_keeps_to_its_keys() {
        let stages = vec![stage(0.0, &[1.0, 1.0, 2.0])];
        let parts = [(3, 1.0), (1, 1.0), (50, 0.0)];
        let mut keys = Mixture::new(&parts, stages, 100, Random::new(5));
        let mut met = [0; 3];
        for _ in 0..10_000 {
            let key = keys.next_key();
            met[part_of(key)] += 1;
            assert!((key & 0xff) < parts[part_of(key)].0, "seed 5: {key:x}");
        }
        assert!((2_300..2_700).contains(&met[0]) && (4_700..5_300).contains(&met[2]), "{met:?}");
    }
}
