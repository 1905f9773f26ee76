//! Small caches that stand for large ones: the curve of any kind of eviction.
//!
//! ```text
//!   keys --is_sampled, rate r--> caches of r * size chunks, one a size --> misses / r at each size
//! ```
//!
//! Where eviction is not that of an LRU, no distance tells whether a reference hits. But a cache of `r c` chunks
//! that sees a spatial sample of rate `r` misses the share of references that one of `c` chunks misses of all.
//! Source: C. Waldspurger, T. Saemundsson, I. Ahmad, N. Park, "Cache Modeling and Optimization using Miniature
//! Simulations", ATC 2017.
//!
//! Invariants: at rate 1 every count is that of the cache itself; the curve does not rise: where a larger cache
//! misses more, as some kinds of eviction can, it is given the misses of the next smaller one.

use super::cache::Simulation;
use slabwise_base::sampling::{is_sampled, rate_of, threshold_of};
use slabwise_profile::{Mrc, Point};

pub struct MiniatureSimulation {
    threshold: u64,
    caches: Vec<Miniature>,
}

struct Miniature {
    chunks: u64,
    cache: Box<dyn Simulation>,
    misses: u64,
}

impl MiniatureSimulation {
    /// Empty caches of these sizes in chunks, ascending, for a sample of this rate in (0, 1]; `cache` makes one of so
    /// many chunks.
    ///
    /// # Panics
    /// If a size is less than one chunk in miniature, or no larger than the one before.
    pub fn new(
        sizes: &[u64],
        rate: f64,
        cache: impl Fn(u64) -> Box<dyn Simulation>,
    ) -> MiniatureSimulation {
        assert!(sizes.is_sorted_by(|a, b| a < b), "sizes ascend, and these do not: {sizes:?}");
        let miniature = |&chunks: &u64| {
            let small = (chunks as f64 * rate).round() as u64;
            assert!(
                small > 0,
                "{chunks} chunks are none at rate {rate}: let sizes be 1 / rate or more"
            );
            Miniature { chunks, cache: cache(small), misses: 0 }
        };
        let caches = sizes.iter().map(miniature).collect();
        MiniatureSimulation { threshold: threshold_of(rate), caches }
    }

    /// A get of a key, whose hash says whether it is in the sample: where it misses, it is brought in.
    pub fn get(&mut self, key: u32, hash: u64) {
        if is_sampled(hash, self.threshold) {
            for Miniature { cache, misses, .. } in &mut self.caches {
                *misses += u64::from(!cache.get(key, 1, 0));
            }
        }
    }

    /// The curve. `references` are all of them, sampled or not: those that
    /// the sample has too few or too many of count as hits.
    pub fn mrc(&self, references: u64) -> Mrc {
        let rate = rate_of(self.threshold);
        let mut misses = references as f64;
        let mut points = vec![Point { chunks: 0, misses }];
        for miniature in &self.caches {
            misses = misses.min(miniature.misses as f64 / rate);
            points.push(Point { chunks: miniature.chunks, misses });
        }
        Mrc::new(points)
    }
}

#[cfg(test)]
mod tests {
    use super::MiniatureSimulation;
    use crate::simulation::cache::Simulation;
    use crate::simulation::queues::Lru;
    use crate::simulation::segmented::Segmented;
    use slabwise_base::Random;
    use slabwise_base::random::mix;
    use slabwise_profile::{Distances, Mrc, StackDistances};

    /// Keys, and their hashes.
    fn skewed(seed: u64, keys: u64, count: usize) -> Vec<(u32, u64)> {
        let mut random = Random::new(seed);
        let mut key = || random.below(keys).min(random.below(keys)).min(random.below(keys));
        (0..count).map(|_| key()).map(|key| (key as u32, mix(key ^ mix(seed)))).collect()
    }

    fn exact(keys: &[(u32, u64)]) -> Mrc {
        let (mut stack, mut distances) = (StackDistances::default(), Distances::default());
        keys.iter().for_each(|&(_, hash)| distances.record(stack.reference(hash)));
        distances.mrc(1)
    }

    #[test]
    fn at_rate_1_an_lru_has_the_misses_that_distances_tell() {
        for seed in 0..5 {
            let keys = skewed(seed, 400, 5_000);
            let sizes: Vec<u64> = (1..=420).step_by(13).collect();
            let mut simulation =
                MiniatureSimulation::new(&sizes, 1.0, |chunks| Box::new(Lru::new(400, chunks)));
            keys.iter().for_each(|&(key, hash)| simulation.get(key, hash));
            let (found, exact) = (simulation.mrc(5_000), exact(&keys));
            for chunks in sizes.into_iter().chain([0]) {
                assert_eq!(
                    found.misses(chunks),
                    exact.misses(chunks),
                    "seed {seed}, {chunks} chunks"
                );
            }
        }
    }

    #[test]
    fn in_miniature_caches_miss_as_in_full_size() {
        for seed in 0..3 {
            let keys = skewed(seed, 60_000, 150_000);
            let sizes = [1_000, 5_000, 10_000, 20_000, 40_000];
            let segmented =
                |chunks| -> Box<dyn Simulation> { Box::new(Segmented::new(60_000, chunks)) };
            let mut small = MiniatureSimulation::new(&sizes, 0.1, segmented);
            let mut full = MiniatureSimulation::new(&sizes, 1.0, segmented);
            for &(key, hash) in &keys {
                small.get(key, hash);
                full.get(key, hash);
            }
            let (small, full) = (small.mrc(150_000), full.mrc(150_000));
            for chunks in sizes {
                let off = small.miss_ratio(chunks) - full.miss_ratio(chunks);
                assert!(off.abs() < 0.03, "seed {seed}, {chunks} chunks: {off} off");
            }
        }
    }

    /// A kind of eviction that hits in small caches only.
    struct SmallIsBetter(u64);

    impl Simulation for SmallIsBetter {
        fn held_bytes(&self) -> u64 {
            0
        }

        fn get(&mut self, _key: u32, _size_bytes: u32, _number: usize) -> bool {
            self.0 < 10
        }

        fn remove(&mut self, _key: u32) {}
    }

    #[test]
    fn a_larger_cache_is_given_no_more_misses() {
        let cache = |chunks| -> Box<dyn Simulation> { Box::new(SmallIsBetter(chunks)) };
        let mut simulation = MiniatureSimulation::new(&[5, 20], 1.0, cache);
        (0..8).for_each(|key| simulation.get(key, 0));
        let curve = simulation.mrc(8);
        assert_eq!([0, 5, 20].map(|chunks| curve.misses(chunks)), [8.0, 0.0, 0.0]);
        // Nor has a sample more misses than there were gets.
        let mut simulation = MiniatureSimulation::new(&[20], 1.0, cache);
        (0..8).for_each(|key| simulation.get(key, 0));
        assert_eq!(simulation.mrc(6).misses(20), 6.0);
    }
}
