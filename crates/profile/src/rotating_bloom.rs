//! Which keys were seen lately, in a few bits a key: two Bloom filters in turn.
//!
//! ```text
//!   key --> young    full: it becomes the old one, whose keys are forgotten, and an empty one is young
//!           old
//! ```
//!
//! A key stored anew that either filter knows had been there before: its miss is due to its eviction, and not to
//! its being new. Source: D. Carra, P. Michiardi, "Cost-based Memory Partitioning and Management in Memcached",
//! IMDM 2015, which rotates the filters so that they do not saturate; a filter of `n` keys and `k` hashes errs
//! least with `n k / ln 2` bits (B. Bloom, "Space/Time Trade-offs in Hash Coding with Allowable Errors",
//! Communications of the ACM 1970).
//!
//! Laws: the `keys_max` different keys noted last are known; never more than twice as many are remembered; a
//! key that was not noted is taken for known with a chance of at most 2 `error_max`.

use slabwise_base::random::mix;

const WORD_BITS: usize = 64;

/// Two Bloom filters in turn.
#[derive(Clone, Debug)]
pub struct RotatingBloom {
    keys_max: usize,
    /// Bits a key in each filter.
    hashes: u32,
    young: Vec<u64>,
    old: Vec<u64>,
    young_keys: usize,
}

impl RotatingBloom {
    /// Filters for `keys_max` keys each, of which `error_max` is the share of strange keys taken for known.
    ///
    /// # Panics
    /// If `keys_max` is 0, or `error_max` not in (0, 1).
    pub fn new(keys_max: usize, error_max: f64) -> RotatingBloom {
        assert!(keys_max > 0, "a filter is for at least one key");
        assert!(error_max > 0.0 && error_max < 1.0, "{error_max} is no share of errors");
        let hashes = (-error_max.log2()).ceil().max(1.0);
        let bits = (keys_max as f64 * hashes / std::f64::consts::LN_2).ceil() as usize;
        let words = vec![0; bits.div_ceil(WORD_BITS)];
        RotatingBloom {
            keys_max,
            hashes: hashes as u32,
            young: words.clone(),
            old: words,
            young_keys: 0,
        }
    }

    /// Whether a key is known.
    pub fn contains(&self, hash: u64) -> bool {
        self.is_in(&self.young, hash) || self.is_in(&self.old, hash)
    }

    /// Notes a key; returns whether it was known.
    pub fn insert(&mut self, hash: u64) -> bool {
        if self.is_in(&self.young, hash) {
            return true;
        }
        let known = self.is_in(&self.old, hash);
        if self.young_keys == self.keys_max {
            self.rotate();
        }
        for bit in self.bits_of(hash) {
            self.young[bit / WORD_BITS] |= 1 << (bit % WORD_BITS);
        }
        self.young_keys += 1;
        known
    }

    /// Forgets the keys of the old filter, and lets the young one be old. Happens by itself when it is full.
    pub fn rotate(&mut self) {
        std::mem::swap(&mut self.young, &mut self.old);
        self.young.fill(0);
        self.young_keys = 0;
    }

    /// What it takes, in bytes.
    pub fn size_bytes(&self) -> usize {
        (self.young.capacity() + self.old.capacity()) * size_of::<u64>()
    }

    fn is_in(&self, filter: &[u64], hash: u64) -> bool {
        self.bits_of(hash).all(|bit| filter[bit / WORD_BITS] & (1 << (bit % WORD_BITS)) != 0)
    }

    /// Each hash is a multiple of a second one away from the first.
    fn bits_of(&self, hash: u64) -> impl Iterator<Item = usize> + use<> {
        let bits = (self.young.len() * WORD_BITS) as u128;
        let (first, second) = (mix(hash), mix(!hash) | 1);
        (0..u64::from(self.hashes)).map(move |number| {
            let at = first.wrapping_add(number.wrapping_mul(second));
            ((u128::from(at) * bits) >> 64) as usize
        })
    }
}

#[cfg(test)]
mod tests {
    use super::RotatingBloom;
    use slabwise_base::Random;

    #[test]
    fn the_keys_noted_last_are_known_and_old_ones_forgotten() {
        for seed in 0..10 {
            let mut random = Random::new(seed);
            let keys_max = 1 + random.below(500) as usize;
            let mut bloom = RotatingBloom::new(keys_max, 0.01);
            let keys: Vec<u64> = (0..3_000).map(|_| random.next_u64()).collect();
            for at in 0..keys.len() {
                bloom.insert(keys[at]);
                let last = &keys[(at + 1).saturating_sub(keys_max)..=at];
                let at_random = last[random.below(last.len() as u64) as usize];
                let known = [last[0], at_random, keys[at]].map(|key| bloom.contains(key));
                assert_eq!(known, [true; 3], "seed {seed}, key {at}, {keys_max} keys");
            }
            // What was noted before the last two filters is as strange as any other key.
            let old = &keys[..keys.len() - 2 * keys_max];
            let errors = old.iter().filter(|&&key| bloom.contains(key)).count() as f64;
            assert!(errors <= 0.03 * old.len() as f64 + 3.0, "seed {seed}: {errors} errors");
        }
    }

    #[test]
    fn strange_keys_are_rarely_taken_for_known() {
        for error_max in [0.1, 0.01, 0.001] {
            let mut random = Random::new(7);
            let mut bloom = RotatingBloom::new(10_000, error_max);
            let mut key = || random.next_u64();
            let taken = (0..20_000).filter(|_| bloom.insert(key())).count() as f64 / 20_000.0;
            let errors = (0..50_000).filter(|_| bloom.contains(key())).count() as f64 / 50_000.0;
            assert!(taken <= 2.0 * error_max, "{taken} of {error_max} noted anew");
            assert!(errors <= 2.2 * error_max, "{errors} of {error_max}");
            assert!(errors > 0.1 * error_max, "{errors} of {error_max}: larger than need be");
        }
    }

    #[test]
    fn a_key_that_comes_again_stays_known() {
        let mut bloom = RotatingBloom::new(100, 0.01);
        let mut random = Random::new(3);
        let hot = 42;
        bloom.insert(hot);
        for at in 0..5_000 {
            bloom.insert(random.next_u64());
            if at % 90 == 0 {
                assert!(bloom.insert(hot), "after {at} keys");
            }
        }
        bloom.insert(hot);
        bloom.rotate();
        assert!(bloom.contains(hot));
        bloom.rotate();
        assert!(!bloom.contains(hot));
    }
}
