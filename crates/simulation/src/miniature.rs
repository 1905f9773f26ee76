//! Miniature simulation: computes the miss-ratio curve of any eviction kind.
//!
//! ```text
//!   keys --sampled with rate r--> for each size of c chunks: a cache of r * c chunks --> misses / r
//! ```
//!
//! Stack distances predict the hits of an LRU only. Miniature simulation works for every eviction kind: if the fraction
//! `r` of all keys is sampled, a cache of `r c` chunks has about the same miss ratio for the sampled keys as a cache of
//! `c` chunks for all keys.
//! Source: C. Waldspurger, T. Saemundsson, I. Ahmad, N. Park, "Cache Modeling and Optimization using Miniature
//! Simulations", ATC 2017.
//!
//! Invariants:
//! - At sampling rate 1 the misses are the misses of the full-size cache.
//! - The curve never rises. With some eviction kinds a larger cache can have more misses than a smaller one. Then the
//!   curve has the misses of the smaller cache at both sizes.

use super::cache::Simulation;
use slabwise_base::sampling::{is_sampled, rate_of, threshold_of};
use slabwise_profile::{Mrc, Point};

/// One small cache for each size of the curve.
pub struct MiniatureSimulation {
    /// The threshold on hashes that selects the sampled keys.
    threshold: u64,
    caches: Vec<Miniature>,
}

struct Miniature {
    /// Number of chunks of the full-size cache.
    chunks: u64,
    /// The small cache.
    cache: Box<dyn Simulation>,
    /// Misses of the small cache.
    misses: u64,
}

impl MiniatureSimulation {
    /// Creates an empty small cache for each of the full sizes `sizes`, which are numbers of chunks. `rate` is the
    /// sampling rate, above 0 and at most 1. `cache` creates a cache with a given number of chunks.
    ///
    /// # Panics
    /// If the sizes are not in ascending order, or if a small cache would have less than one chunk.
    pub fn new(
        sizes: &[u64],
        rate: f64,
        cache: impl Fn(u64) -> Box<dyn Simulation>,
    ) -> MiniatureSimulation {
        assert!(sizes.is_sorted_by(|a, b| a < b), "the sizes are in ascending order: {sizes:?}");
        let miniature = |&chunks: &u64| {
            let small = (chunks as f64 * rate).round() as u64;
            assert!(
                small > 0,
                "a size is at least 1 / rate chunks, not {chunks} chunks at rate {rate}"
            );
            Miniature { chunks, cache: cache(small), misses: 0 }
        };
        let caches = sizes.iter().map(miniature).collect();
        MiniatureSimulation { threshold: threshold_of(rate), caches }
    }

    /// Gets a key from all small caches if the sample contains the key. `hash` is the hash of the key.
    pub fn get(&mut self, key: u32, hash: u64) {
        if is_sampled(hash, self.threshold) {
            for Miniature { cache, misses, .. } in &mut self.caches {
                *misses += u64::from(!cache.get(key, 1, 0));
            }
        }
    }

    /// Returns the curve. `references` is the number of all references, sampled or not. The number of sampled
    /// references may differ from its expected value, rate times `references`; this difference counts as hits.
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
    use crate::cache::Simulation;
    use crate::queues::Lru;
    use crate::segmented::Segmented;
    use slabwise_base::Random;
    use slabwise_base::random::mix;
    use slabwise_profile::{Distances, Mrc, StackDistances};

    /// Returns `count` random keys with their hashes. Some of the keys are requested much more often than others.
    fn skewed(seed: u64, keys: u64, count: usize) -> Vec<(u32, u64)> {
        let mut random = Random::new(seed);
        let mut key = || random.below(keys).min(random.below(keys)).min(random.below(keys));
        (0..count).map(|_| key()).map(|key| (key as u32, mix(key ^ mix(seed)))).collect()
    }

    /// Returns the curve of exact stack distances.
    fn exact(keys: &[(u32, u64)]) -> Mrc {
        let (mut stack, mut distances) = (StackDistances::default(), Distances::default());
        keys.iter().for_each(|&(_, hash)| distances.record(stack.reference(hash)));
        distances.mrc(1)
    }

    #[test]
    fn at_rate_1_the_curve_of_an_lru_is_exact() {
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
    fn small_caches_have_about_the_miss_ratio_of_full_size_caches() {
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
                let error = small.miss_ratio(chunks) - full.miss_ratio(chunks);
                assert!(error.abs() < 0.03, "seed {seed}, {chunks} chunks: error {error}");
            }
        }
    }

    /// A cache with this number of chunks. Below 10 chunks all gets hit, from 10 chunks all gets miss.
    struct HitsIfSmall(u64);

    impl Simulation for HitsIfSmall {
        fn held_bytes(&self) -> u64 {
            0
        }

        fn get(&mut self, _key: u32, _size_bytes: u32, _number: usize) -> bool {
            self.0 < 10
        }

        fn remove(&mut self, _key: u32) {}
    }

    #[test]
    fn a_curve_never_rises() {
        let cache = |chunks| -> Box<dyn Simulation> { Box::new(HitsIfSmall(chunks)) };
        let mut simulation = MiniatureSimulation::new(&[5, 20], 1.0, cache);
        (0..8).for_each(|key| simulation.get(key, 0));
        let curve = simulation.mrc(8);
        assert_eq!([0, 5, 20].map(|chunks| curve.misses(chunks)), [8.0, 0.0, 0.0]);
        // The curve has at most one miss per reference, although the sample has 8 misses for 6 references.
        let mut simulation = MiniatureSimulation::new(&[20], 1.0, cache);
        (0..8).for_each(|key| simulation.get(key, 0));
        assert_eq!(simulation.mrc(6).misses(20), 6.0);
    }
}
