//! Keys by Zipf's law: the key of rank r (from 1) is asked for with probability proportional to
//! r to the power of -skew.
//!
//! `rand_distr` draws exactly (by rejection from a continuous hull, in constant time for any number
//! of keys); this file only lends it our seeded generator and numbers the keys from 0, the hottest.

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
