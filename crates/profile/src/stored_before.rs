//! Detects stores of keys that were stored before, with two Bloom filters.
//!
//! ```text
//!   store of a key --> in the newer or the older filter?  yes: the key was stored before, so its item was evicted
//!                  '-> added to the newer filter
//!                          | full: it becomes the older filter, and the newer one starts empty
//! ```
//!
//! Source: D. Carra and P. Michiardi, "Cost-based Memory Partitioning and Management in Memcached", IMDM 2015. The paper
//! rotates the filters "periodically", without a period; here a filter is full when it has as many keys as the profiler
//! may sample. V. Coelho (thesis, 2018, section 2.6.3) describes a check of "both" filters; it is read as a search in
//! one and then the other, because a key whose item was evicted is usually only in the older filter.
//!
//! Invariant: a key that was stored is found until at least [`StoredBefore::keys_max`] other keys were stored later.
//! About one other key in a hundred is found by mistake.

use slabwise_base::random::mix;

/// The bits of a filter for each key that it may have.
const BITS_PER_KEY: usize = 10;
/// The number of bits that a key sets. With this number, the fewest keys are found by mistake.
const BITS_SET: u64 = 7;

/// A Bloom filter.
#[derive(Debug)]
struct Filter {
    words: Vec<u64>,
    /// The number of keys in the filter.
    keys: usize,
}

impl Filter {
    fn new(keys_max: usize) -> Filter {
        Filter { words: vec![0; (keys_max * BITS_PER_KEY).div_ceil(64).max(1)], keys: 0 }
    }

    /// Returns the word and the mask of each bit of a key.
    fn bits(&self, hash: u64) -> impl Iterator<Item = (usize, u64)> + use<> {
        let (first, step, count) = (mix(hash), mix(!hash) | 1, self.words.len() as u64 * 64);
        (0..BITS_SET).map(move |number| {
            let bit = first.wrapping_add(number.wrapping_mul(step)) % count;
            ((bit / 64) as usize, 1 << (bit % 64))
        })
    }

    fn has(&self, hash: u64) -> bool {
        self.bits(hash).all(|(word, mask)| self.words[word] & mask != 0)
    }

    fn add(&mut self, hash: u64) {
        self.bits(hash).for_each(|(word, mask)| self.words[word] |= mask);
        self.keys += 1;
    }

    fn clear(&mut self) {
        self.words.fill(0);
        self.keys = 0;
    }
}

/// The keys that were stored recently.
#[derive(Debug)]
pub struct StoredBefore {
    newer: Filter,
    older: Filter,
    /// The maximum number of keys in a filter.
    keys_max: usize,
}

impl StoredBefore {
    /// Creates filters without keys. `keys_max` is at least 1.
    pub fn new(keys_max: usize) -> StoredBefore {
        StoredBefore { newer: Filter::new(keys_max), older: Filter::new(keys_max), keys_max }
    }

    /// Returns the memory of both filters for this maximum number of keys, in bytes.
    pub fn size_bytes_of(keys_max: usize) -> usize {
        2 * (keys_max * BITS_PER_KEY).div_ceil(64).max(1) * size_of::<u64>()
    }

    /// Records a store of a key. Returns true if the key was stored before.
    pub fn store(&mut self, hash: u64) -> bool {
        let is_in_newer = self.newer.has(hash);
        let was_stored = is_in_newer || self.older.has(hash);
        if !is_in_newer {
            self.newer.add(hash);
            if self.newer.keys >= self.keys_max {
                std::mem::swap(&mut self.newer, &mut self.older);
                self.newer.clear();
            }
        }
        was_stored
    }
}

#[cfg(test)]
mod tests {
    use super::StoredBefore;
    use slabwise_base::Random;
    use std::collections::HashSet;

    #[test]
    fn stored_keys_are_found_and_few_others() {
        for seed in 0..5 {
            let mut random = Random::new(seed);
            let (mut filters, mut stored) = (StoredBefore::new(10_000), HashSet::new());
            let mut mistakes = 0;
            for _ in 0..9_000 {
                let hash = random.next_u64();
                mistakes += u32::from(filters.store(hash));
                stored.insert(hash);
            }
            assert!(mistakes < 90, "seed {seed}: {mistakes} new keys of 9,000 are found");
            assert!(stored.iter().all(|&hash| filters.store(hash)), "seed {seed}");
        }
    }

    #[test]
    fn a_key_is_forgotten_after_two_rotations_and_not_after_one() {
        let (mut random, mut filters) = (Random::new(7), StoredBefore::new(1_000));
        let mut others = |filters: &mut StoredBefore, count| {
            for _ in 0..count {
                filters.store(random.next_u64());
            }
        };
        assert!(!filters.store(42));
        others(&mut filters, 999);
        assert!(filters.store(42), "the key is in the older filter, and now in the newer one, too");
        others(&mut filters, 1_000);
        assert!(filters.store(42), "the key is in the older filter");
        others(&mut filters, 2_100);
        assert!(!filters.store(42), "both filters were rotated");
    }
}
